"""Tests and intervals of a family of estimates that hold together, so that any of them may be reported.

Planned comparisons are judged by the largest of their |t|: the critical value is the one that the largest exceeds with
probability alpha when no estimate differs from zero. This takes the correlations of the estimates into account: it is
Dunnett's test for comparisons with one reference, and Tukey's for all pairs. The estimates may have degrees of freedom
of their own: each then has the critical value that it would have if all others had the same (Hasler and Hothorn).

A screening is judged by the false discovery rate, with intervals whose average rate of misses among the reported ones
is alpha (Benjamini and Yekutieli). In both cases a corrected p below alpha and an interval without zero are the same.

Sources: Dunnett, J. Am. Stat. Assoc. 50 (1955) 1096-1121; Hothorn, Bretz and Westfall, Biometrical Journal 50 (2008)
346-363; Hasler and Hothorn, Biometrical Journal 50 (2008) 793-800; Benjamini and Yekutieli, J. Am. Stat. Assoc. 100
(2005) 71-81. Loads numpy where there is a family."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING

from lastro.stats.adjust import benjamini_hochberg
from lastro.stats.intervals import alpha_of, t_quantile
from lastro.stats.student import t_p

if TYPE_CHECKING:
    from lastro.stats._projections import Floats
    from lastro.stats.block_model import CellEstimate

MOST_PLANNED = 20  # a larger family of comparisons is a screening, not planned comparisons

_DIRECTIONS = 16_384  # at random on the sphere: the critical values of Tukey's tables to 0.1 %, of Dunnett's to 0.4 %
_NODES = 128
_MANY = 512  # estimates: independent directions of more would take seconds to find, and more memory than a reader has
_ALIASED = 1e-8
_DF_DIGITS = 3  # of a large family, which needs few critical values then: larger by a thousandth, the safe side
_SEED = 1953


@dataclass(frozen=True, slots=True)
class JudgedEstimate:
    """The test of one estimate: its p alone and in its family, and the critical value in standard errors.

    All are None for an estimate without a standard error. Without any spread, the critical value is infinite unless
    this number of blocks can reach significance at all."""

    p: float | None
    p_adjusted: float | None
    critical: float | None


def judge(estimates: Sequence[CellEstimate], confidence: float, *, planned: bool = True) -> tuple[JudgedEstimate, ...]:
    """Test each estimate against zero, corrected for all; those without a standard error do not count."""
    alpha = alpha_of(confidence)
    tested = [one for one in estimates if one.error is not None]
    ps = [_p(one) for one in tested]
    if planned:
        family = Family([one.loads for one in tested if one.error and one.loads is not None])
        freedom = [one.df if len(tested) <= MOST_PLANNED else _in_few_digits(one.df) for one in tested]
        found = [
            _without_spread(p, min(1.0, len(tested) * p), alpha)
            if one.error == 0
            else JudgedEstimate(p, max(p, family.p(_t(one), df)), family.critical(confidence, df))
            for one, p, df in zip(tested, ps, freedom, strict=True)
        ]
    else:
        adjusted = [p for p in benjamini_hochberg(ps) if p is not None]
        share = max(1, sum(p < alpha for p in adjusted)) / max(1, len(adjusted))
        found = [
            _without_spread(p, corrected, alpha)
            if one.error == 0
            else JudgedEstimate(p, corrected, t_quantile(1 - share * alpha, one.df))
            for one, p, corrected in zip(tested, ps, adjusted, strict=True)
        ]
    left = iter(found)
    return tuple(JudgedEstimate(None, None, None) if one.error is None else next(left) for one in estimates)


def _without_spread(p: float, corrected: float, alpha: float) -> JudgedEstimate:
    return JudgedEstimate(p, corrected, 0.0 if corrected < alpha else math.inf)


def _t(estimate: CellEstimate) -> float:
    """Return the distance from zero in standard errors, less what rounding may have added."""
    assert estimate.error
    return max(0.0, abs(estimate.value) - estimate.bias) / estimate.error


def _p(estimate: CellEstimate) -> float:
    """Return the p of one estimate alone."""
    assert estimate.error is not None
    return t_p(max(0.0, abs(estimate.value) - estimate.bias), estimate.error, estimate.df, estimate.least)


def _in_few_digits(df: float) -> float:
    """Return degrees of freedom rounded down; whole numbers stay, whatever rounding has made of their last digits."""
    scale = 10.0 ** (_DF_DIGITS - 1 - math.floor(math.log10(df)))
    return math.floor(df * scale + _ALIASED) / scale


class Family:
    """Estimates with noise, by the correlations of their errors, each given as a vector (`CellEstimate.loads`).

    The largest |t| of r independent directions of noise is the product of its length, with an F distribution, and the
    largest coordinate of its direction, which is averaged over directions at random."""

    def __init__(self, errors: Sequence[Floats]) -> None:
        self._errors = errors
        self.critical = cache(self._critical)

    @cached_property
    def _largest(self) -> tuple[int, Floats]:
        """The rank r of the correlations, and the largest coordinate of each direction."""
        import numpy as np

        if len(self._errors) == 1:  # as are most families
            return 1, np.ones(1)
        loads = np.zeros((len(self._errors), max(map(len, self._errors))))  # those of fits without blocks are shorter
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
        """Return the probability that the largest |t| of the family exceeds this one, if nothing differs."""
        from scipy.special import fdtrc

        rank, largest = self._largest
        return float(fdtrc(rank, df, (t / largest) ** 2 / rank).mean())

    def _critical(self, confidence: float, df: float) -> float:
        """Return the value that the largest |t| exceeds with probability 1 - confidence."""
        alone = t_quantile(confidence, df)
        if self._largest[0] == 1:
            return alone
        from scipy.optimize import brentq

        bonferroni = t_quantile(1 - alpha_of(confidence) / len(self._errors), df)
        return float(brentq(lambda t: self.p(t, df) - alpha_of(confidence), 0.9 * alone, 1.1 * bonferroni))


@lru_cache(maxsize=16)
def _directions(rank: int) -> Floats:
    """Return directions at random in so many dimensions, as rows: the same in every process."""
    import numpy as np

    drawn = np.random.RandomState(_SEED).standard_normal((_DIRECTIONS, rank))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1)[:, None])


def _largest_of_many(loads: Floats) -> Floats:
    """Return the same for very many estimates: the largest coordinate of each random direction.

    The directions lie in the space of the noise of all cells. Each estimate has the noise of few cells, so its scalar
    products are cheap there, and no independent directions are needed."""
    import numpy as np
    from scipy.sparse import csr_array

    draw, sparse, largest = np.random.RandomState(_SEED), csr_array(loads), []
    for _ in range(_NODES):
        drawn = draw.standard_normal((_DIRECTIONS // _NODES, loads.shape[1]))
        largest.append(np.abs(sparse @ drawn.T).max(axis=0) / np.linalg.norm(drawn, axis=1))
    return np.concatenate(largest)


def _basis(loads: Floats) -> Floats:
    """Return independent directions of noise, as rows: the first estimate's, then what each later one adds.

    The same data give the same directions on every processor. Singular vectors would not: those of equal singular
    values, as a balanced design has them, may be rotated arbitrarily, and the random directions would rotate with them.
    Source: Gram-Schmidt, twice for accuracy (Giraud and Langou, IMA J. Numer. Anal. 25 (2005) 1-21)."""
    import numpy as np

    basis = np.zeros((0, loads.shape[1]))
    for row in loads:
        rest = row
        for _ in range(2):
            rest = rest - (basis @ rest) @ basis
        if (length := np.linalg.norm(rest)) > _ALIASED * np.linalg.norm(row):
            basis = np.vstack([basis, rest / length])
    return basis
