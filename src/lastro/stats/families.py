"""Simultaneous tests and intervals of a family of estimates, so that any of them may be reported.

Planned comparisons are judged by the largest of their |t|: this maximum exceeds the critical value with probability
alpha if no estimate truly differs from zero. The correlations of the estimates are taken into account: comparisons with
one reference get Dunnett's test, and all pairs get Tukey's. The estimates may differ in degrees of freedom: each has
the critical value that it would have if all others had the same degrees of freedom (Hasler and Hothorn).

A screening is judged by the false discovery rate: among the reported intervals, the expected fraction that misses the
truth is alpha (Benjamini and Yekutieli). In both cases, a corrected p is below alpha exactly if the interval excludes
zero.

Sources: Dunnett, J. Am. Stat. Assoc. 50 (1955) 1096-1121; Hothorn, Bretz and Westfall, Biometrical Journal 50 (2008)
346-363; Hasler and Hothorn, Biometrical Journal 50 (2008) 793-800; Benjamini and Yekutieli, J. Am. Stat. Assoc. 100
(2005) 71-81. Loads numpy where there is a family.

`holm` and `benjamini_hochberg` correct p-values whose correlations are not known. None stands for a test that could
not be made: it stays None, and does not count towards the family."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from lastro.stats.intervals import alpha_of, t_quantile
from lastro.stats.student import t_p

if TYPE_CHECKING:
    from lastro.stats._projections import Floats
    from lastro.stats.block_model import CellEstimate

MOST_PLANNED = 20  # a larger family of comparisons is a screening, not planned comparisons

_DIRECTIONS = 16_384  # random directions; they give the values of Tukey's tables to 0.1 %, and of Dunnett's to 0.4 %
_NODES = 128
_MANY = 512  # estimates; a basis of the errors of more would take seconds, and too much memory
_ALIASED = 1e-8
_DF_DIGITS = 3  # rounding down raises the critical values of a large family by a thousandth, and makes them few
_SEED = 1953


@dataclass(frozen=True, slots=True)
class EstimateTest:
    """The test of one estimate: its p, the p corrected for the family, and the critical value in standard errors.

    All three are None for an estimate without a standard error. For a standard error of 0, `critical` is 0 if the
    estimate is significant, and infinite if it is not."""

    p: float | None
    p_adjusted: float | None
    critical: float | None


def judge(estimates: Sequence[CellEstimate], confidence: float, *, planned: bool = True) -> tuple[EstimateTest, ...]:
    """Test each estimate against zero, corrected for the whole family, in the order of `estimates`.

    Planned comparisons are corrected by the largest |t|, others by the false discovery rate. Estimates without a
    standard error do not count towards the family."""
    tested = [estimate for estimate in estimates if estimate.error is not None]
    judged = iter((_judge_planned if planned else _judge_screening)(tested, confidence))
    untested = EstimateTest(None, None, None)
    return tuple(untested if estimate.error is None else next(judged) for estimate in estimates)


def _judge_planned(tested: Sequence[CellEstimate], confidence: float) -> list[EstimateTest]:
    """Test each estimate by the distribution of the largest |t| of all of them."""
    directions = (estimate.error_direction for estimate in tested if estimate.error)
    family = Family([direction for direction in directions if direction is not None])
    judged = []
    for estimate in tested:
        p = _p(estimate)
        if not estimate.error:
            judged.append(_without_spread(p, min(1.0, len(tested) * p), confidence))
            continue
        df = estimate.df
        if len(tested) > MOST_PLANNED:  # round down to `_DF_DIGITS` digits; whole numbers stay whole despite errors
            scale = 10.0 ** (_DF_DIGITS - 1 - math.floor(math.log10(df)))
            df = math.floor(df * scale + _ALIASED) / scale
        t = max(0.0, abs(estimate.value) - estimate.bias) / estimate.error
        p_adjusted = max(p, family.p(t, df))
        judged.append(EstimateTest(p, p_adjusted, family.critical(confidence, df)))
    return judged


def _judge_screening(tested: Sequence[CellEstimate], confidence: float) -> list[EstimateTest]:
    """Test each estimate by the false discovery rate."""
    alpha, ps = alpha_of(confidence), [_p(estimate) for estimate in tested]
    adjusted = [p for p in benjamini_hochberg(ps) if p is not None]
    significant = max(1, sum(p < alpha for p in adjusted)) / max(1, len(adjusted))  # fraction of the estimates
    judged = []
    for estimate, p, p_adjusted in zip(tested, ps, adjusted, strict=True):
        if estimate.error == 0:
            judged.append(_without_spread(p, p_adjusted, confidence))
        else:
            judged.append(EstimateTest(p, p_adjusted, t_quantile(1 - significant * alpha, estimate.df)))
    return judged


def _without_spread(p: float, p_adjusted: float, confidence: float) -> EstimateTest:
    """Return the test of an estimate whose standard error is 0."""
    return EstimateTest(p, p_adjusted, 0.0 if p_adjusted < alpha_of(confidence) else math.inf)


def _p(estimate: CellEstimate) -> float:
    """Return the p of one estimate alone, without what rounding may have added to its distance from zero."""
    assert estimate.error is not None
    return t_p(max(0.0, abs(estimate.value) - estimate.bias), estimate.error, estimate.df, estimate.least_p)


class Family:
    """The distribution of the largest |t| of a family of estimates, from the correlations of their errors.

    `errors` has the error of each estimate as a unit vector (`CellEstimate.error_direction`). If the errors span r
    dimensions, the noise is a random vector with r components. The largest |t| is a product: the norm of this vector,
    whose square has an F distribution, times the largest coordinate of its direction along any error. The coordinate is
    averaged over random directions."""

    def __init__(self, errors: Sequence[Floats]) -> None:
        self._errors = errors
        self.critical = cache(self._critical)

    @cached_property
    def _largest(self) -> tuple[int, Floats]:
        """The rank r of the errors, and quantiles (`_NODES`) of the largest coordinate of a random direction."""
        import numpy as np

        if len(self._errors) == 1:  # the most frequent case
            return 1, np.ones(1)
        loads = np.zeros((len(self._errors), max(map(len, self._errors))))  # vectors of fits without blocks are shorter
        for row, error in zip(loads, self._errors, strict=True):
            row[: len(error)] = error
        if len(loads) > _MANY:
            rank, largest = loads.shape[1], _largest_of_many(loads)
        else:
            coordinates = loads @ _basis(loads).T
            rank = coordinates.shape[1]
            if rank == 1:
                return 1, np.ones(1)
            largest = np.abs(_directions(rank) @ coordinates.T).max(axis=1)
        return rank, np.sort(largest).reshape(_NODES, -1).mean(axis=1)

    def p(self, t: float, df: float) -> float:
        """Return the probability that the largest |t| of the family exceeds `t` if all true differences are zero."""
        from scipy.special import fdtrc

        rank, largest = self._largest
        return float(fdtrc(rank, df, (t / largest) ** 2 / rank).mean())

    def _critical(self, confidence: float, df: float) -> float:
        """Return the value that the largest |t| exceeds with probability 1 - confidence."""
        uncorrected = t_quantile(confidence, df)
        rank, _ = self._largest
        if rank == 1:  # all |t| are equal, so the largest one is Student's t
            return uncorrected
        from scipy.optimize import brentq

        bonferroni = t_quantile(1 - alpha_of(confidence) / len(self._errors), df)
        # The value lies between these two; 10 % on either side covers the error of the quantiles in `_largest`.
        return float(brentq(lambda t: self.p(t, df) - alpha_of(confidence), 0.9 * uncorrected, 1.1 * bonferroni))


@lru_cache(maxsize=16)
def _directions(rank: int) -> Floats:
    """Return random unit vectors with `rank` components, as rows; they are the same in every process."""
    import numpy as np

    drawn = np.random.RandomState(_SEED).standard_normal((_DIRECTIONS, rank))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1)[:, None])


def _largest_of_many(loads: Floats) -> Floats:
    """Return the largest coordinate of each random direction, for more than `_MANY` estimates.

    The directions lie in the space of the noise of all cells. The error of an estimate has few components there, so
    scalar products are cheap, and no basis of independent directions is needed."""
    import numpy as np
    from scipy.sparse import csr_array

    draw, sparse, largest = np.random.RandomState(_SEED), csr_array(loads), []
    for _ in range(_NODES):
        drawn = draw.standard_normal((_DIRECTIONS // _NODES, loads.shape[1]))
        largest.append(np.abs(sparse @ drawn.T).max(axis=0) / np.linalg.norm(drawn, axis=1))
    return np.concatenate(largest)


def _basis(loads: Floats) -> Floats:
    """Return an orthonormal basis of the errors, as rows, by the method of Gram and Schmidt.

    The same data give the same basis on every processor. Singular vectors would not: a balanced design has equal
    singular values, whose vectors may be rotated arbitrarily, and the random directions would rotate with them.
    Source: Giraud and Langou, IMA J. Numer. Anal. 25 (2005) 1-21, for the second pass of each step."""
    import numpy as np

    basis = np.zeros((0, loads.shape[1]))
    for row in loads:
        rest = row
        for _ in range(2):
            rest = rest - (basis @ rest) @ basis
        if (length := np.linalg.norm(rest)) > _ALIASED * np.linalg.norm(row):
            basis = np.vstack([basis, rest / length])
    return basis


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Return p-values adjusted to bound the probability of any false rejection; for planned comparisons.

    Source: Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6 (1979) 65-70."""

    def step_down(ordered: list[float]) -> list[float]:
        m = len(ordered)
        return list(accumulate(((m - rank) * p for rank, p in enumerate(ordered)), max))

    return _adjust_in_order(ps, step_down)


def benjamini_hochberg(ps: Sequence[float | None]) -> list[float | None]:
    """Return p-values adjusted to bound the expected fraction of false rejections among all; for screening.

    Source: Benjamini and Hochberg, Controlling the false discovery rate, J. R. Stat. Soc. B 57 (1995) 289-300."""

    def step_up(ordered: list[float]) -> list[float]:
        m = len(ordered)
        # Not `scipy.stats.false_discovery_control`: importing it takes longer than any table.
        return list(accumulate((m / rank * ordered[rank - 1] for rank in range(m, 0, -1)), min))[::-1]

    return _adjust_in_order(ps, step_up)


def _adjust_in_order(ps: Sequence[float | None], step: Callable[[list[float]], list[float]]) -> list[float | None]:
    """Apply `step` to the existing p-values in ascending order, and return the results in the original order."""
    ascending = sorted((p, at) for at, p in enumerate(ps) if p is not None)
    adjusted: list[float | None] = [None] * len(ps)
    for (_, at), p in zip(ascending, step([p for p, _ in ascending]), strict=True):
        adjusted[at] = min(1.0, p)
    return adjusted
