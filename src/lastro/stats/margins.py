"""Test whether a ratio of means is beyond a margin; judge candidates by such tests (a gate), and the power of the gate.

Source: Sasabuchi, Biometrika 67 (1980) 429-439, and Hauschke, Kieser, Diletti and Burke, Statistics in Medicine 18
(1999) 93-105: b / a > r is tested as b - r a > 0, which is linear in the means, so that Student's t applies; variances
may differ, and the degrees of freedom are Satterthwaite's at r (Tamhane and Logan, J. Biopharm. Stat. 14 (2004)
843-856). Fieller's interval is the inversion of this test: the ratios r that the test does not reject.

The gate tests B - l A against zero with Student's t, where l is the limit, such as 1.05. If the true ratio of the means
is r, t has a noncentral distribution. The power is averaged over two unknowns: the true spread (a scaled inverse
chi-square distribution), and the ratio of the variances that A and B will show (an F distribution), on which Welch's
degrees of freedom depend. Without the second average, a true power of 60 % would be stated as 80 %, with three
trials and nine cells. On average over campaigns, the true power is the stated one or slightly more (84 % for 80 %, with
three trials of each); tests/known/test_gate_power.py simulates this.

Sources: Phillips, J. Pharmacokinetics and Biopharmaceutics 18 (1990) 137-144, for the power of such tests;
Spiegelhalter and Freedman, Statistics in Medicine 5 (1986) 1-13, for the average over an uncertain spread."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from lastro.stats.families import holm
from lastro.stats.intervals import satterthwaite
from lastro.stats.notes import Note
from lastro.stats.sampled_mean import SampledMean
from lastro.stats.student import Side, least_unpaired_p, t_p, without_rounding

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

TOO_FEW_TO_TEST = "n = {n}: a test needs 2 trials or more"
POWER = 0.8  # the power that a gate's sensitivity is stated for: Cohen's convention
_SPREADS, _SHARES = 8, 4  # the numbers of quantiles in the averages over the true spread and over the variance ratio
_LARGEST_LOSS = 1000.0  # where lower is better: the largest loss that is considered, as a multiple of A


@dataclass(frozen=True, slots=True)
class Precision:
    """The precision of the two means of a metric at a gate: of A, then of B.

    `errors` are the standard errors of the means, as fractions of the means, with degrees of freedom `df`; `n` are the
    numbers of values. If the errors are predicted from a pilot, `known_df` are the degrees of freedom of the pilot's
    spread; None if the errors are estimated from the values themselves."""

    errors: tuple[float, float]
    df: tuple[float, float]
    better: Literal["higher", "lower"]
    n: tuple[int, int]
    known_df: float | None = None

    def finds(self, loss: float, margin: float, alpha: float) -> float:
        """Return the probability that a one-sided test at level `alpha` finds a loss of more than the margin in B.

        `loss` is the true loss; it and `margin` are fractions of the mean of A."""
        return self._rejects(loss, margin, alpha, 1)

    def shows(self, loss: float, margin: float, alpha: float) -> float:
        """Return the probability that a one-sided test at level `alpha` shows a loss of less than the margin in B."""
        return self._rejects(loss, margin, alpha, -1)

    def least_found(self, margin: float, alpha: float, power: float = POWER) -> float | None:
        """Return the least true loss that is found with this power; None if a loss of any size may be missed."""
        most = 1.0 if self.better == "higher" else _LARGEST_LOSS
        if self.finds(most, margin, alpha) < power:
            return None
        if not any(self.errors):
            return margin
        from scipy.optimize import brentq

        low, high = margin, margin + math.hypot(*self.errors)
        while high < most and self.finds(high, margin, alpha) < power:
            low, high = high, margin + 2 * (high - margin)
        high = min(high, most)
        return float(brentq(lambda loss: self.finds(loss, margin, alpha) - power, low, high, xtol=1e-5))

    def _rejects(self, loss: float, margin: float, alpha: float, side: int) -> float:
        """Return the power of a test of the hypothesis that the loss equals the margin.

        The alternative is a larger loss if `side` is 1, and a smaller loss if it is -1. `loss` is the true loss."""
        sign = 1 if self.better == "lower" else -1
        ratio, limit = 1 + sign * loss, 1 + sign * margin
        parts = ((ratio * self.errors[1]) ** 2, (limit * self.errors[0]) ** 2)
        error, distance = math.sqrt(sum(parts)), side * (loss - margin)
        if error == 0:
            return float(distance > 0 and least_unpaired_p(self.n) / 2 <= alpha)
        import numpy as np
        from scipy.special import chdtri, fdtri, nctdtr, stdtrit

        df = satterthwaite(parts, self.df[::-1])
        df_b_a = np.array(self.df[::-1])
        known = df if self.known_df is None else self.known_df
        spread = np.sqrt(chdtri(known, _middles(_SPREADS)) / known)[:, None]
        shown = np.array(parts)[:, None] * (fdtri(*df_b_a, _middles(_SHARES)), np.ones(_SHARES))
        fraction = shown / shown.sum(axis=0)
        welch = 1 / (fraction**2 / df_b_a[:, None]).sum(axis=0)  # the degrees of freedom that the test will estimate
        below = nctdtr(df, distance / error * spread, stdtrit(welch, 1 - alpha))
        # Far from the critical value, SciPy returns NaN for some probabilities that are practically 0 or 1.
        return float(np.mean(1 - np.where(np.isnan(below), distance < 0, below)))


@dataclass(frozen=True, slots=True)
class RatioTest:
    """A test of a ratio of means against `limit`.

    If neither sample varies, `t` is infinite, or 0 if the ratio equals the limit."""

    limit: float
    side: Side
    t: float
    df: float
    p: float


@dataclass(frozen=True, slots=True)
class GateCandidate:
    """Two independent means of one metric, `mean` and `baseline`, and whether higher or lower values are better."""

    mean: SampledMean
    baseline: SampledMean
    better: Literal["higher", "lower"]

    @property
    def precision(self) -> Precision | None:
        """How precisely the two means are known; None unless both are above zero."""
        a, b = self.baseline, self.mean
        if min(a.value, b.value) <= 0:
            return None
        return Precision((a.error, b.error), (a.df, b.df), self.better, (a.n, b.n))


@dataclass(frozen=True)
class GateTest:
    """A candidate at the gate: its test against the margin, its p corrected for all candidates, and the decision.

    `alpha` is the level of the first step of Holm's correction, that is, the level of the gate divided by the number of
    candidates."""

    candidate: GateCandidate
    test: RatioTest
    p_adjusted: float
    regressed: bool
    margin: float
    alpha: float

    @cached_property
    def least_found(self) -> float:
        """The least true loss that would have been found with a power of 80 % (`POWER`).

        It is a fraction of the baseline; infinite if a loss of any size could have been missed. It takes 20 ms."""
        precision = self.candidate.precision
        loss = precision.least_found(self.margin, self.alpha) if precision else None
        return math.inf if loss is None else loss


def ratio_test(mean: SampledMean, baseline: SampledMean, limit: float, side: Side) -> RatioTest:
    """Test whether the ratio of two independent means is above, below, or on either side of `limit`.

    The test is of mean - limit * baseline against zero, so the baseline may be zero. With limit 1 and "either", it is
    Welch's test of no difference. A difference that rounding may have caused does not count. For constant samples, p is
    1 or the least p that this number of values can give (`student`).

    Raises: ValueError when a sample has fewer than two values."""
    n = (mean.n, baseline.n)
    if min(n) < 2:
        raise ValueError(Note(TOO_FEW_TO_TEST, n=min(n)))
    a, b = baseline.value, mean.value
    (distance,) = without_rounding([b - limit * a], max(abs(b), abs(limit * a)))
    moved = mean.bias + abs(limit) * baseline.bias
    distance = math.copysign(max(0.0, abs(distance) - moved), distance)
    parts = (mean.variance, limit**2 * baseline.variance)
    error, df = math.sqrt(sum(parts)), satterthwaite(parts, (mean.df, baseline.df))
    t = distance / error if error else math.copysign(math.inf, distance) if distance else 0.0
    return RatioTest(limit, side, t, df, t_p(distance, error, df, least_unpaired_p(n), side))


def worse_than(candidate: GateCandidate, margin: float) -> RatioTest:
    """Test whether the mean is worse than `baseline` by more than the margin (0.05: five per cent).

    If lower is better, worse is above (1 + margin) times the baseline; if higher is better, it is below (1 - margin)
    times the baseline. The margin is a fraction of the baseline's absolute value: its sign changes for a negative
    baseline, and any loss is more than the margin if the baseline is zero.

    Raises: ValueError unless 0 <= margin < 1, or as `ratio_test` does."""
    if not 0 <= margin < 1:
        raise ValueError(f"the margin {margin} does not lie between 0 and 1")
    signed = -margin if candidate.baseline.value < 0 else margin
    if candidate.better == "lower":
        return ratio_test(candidate.mean, candidate.baseline, 1 + signed, "above")
    return ratio_test(candidate.mean, candidate.baseline, 1 - signed, "below")


def gate(candidates: Sequence[GateCandidate], margins: float | Sequence[float], alpha: float) -> tuple[GateTest, ...]:
    """Judge which candidates are worse by more than their margin, corrected for their number (Holm).

    `margins` is the margin of all candidates, or one for each. If no candidate is truly worse by more than its margin,
    the probability of any regression in the result is at most `alpha`, however the candidates depend on each other. It
    is near `alpha` only if a true loss equals the margin; for two runs of the same software it is far lower.

    Raises: ValueError, as `worse_than` does."""
    margins = [margins] * len(candidates) if isinstance(margins, float) else margins
    tests = [worse_than(candidate, margin) for candidate, margin in zip(candidates, margins, strict=True)]
    adjusted = [p for p in holm([test.p for test in tests]) if p is not None]
    first_level = alpha / max(1, len(candidates))
    return tuple(
        GateTest(candidate, test, p, p <= alpha, margin, first_level)
        for candidate, test, p, margin in zip(candidates, tests, adjusted, margins, strict=True)
    )


def _middles(n: int) -> npt.NDArray[np.float64]:
    """Return the middles of n equal parts of the range from 0 to 1."""
    import numpy as np

    middles: npt.NDArray[np.float64] = (np.arange(n) + 0.5) / n
    return middles
