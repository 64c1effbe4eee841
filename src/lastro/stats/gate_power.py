"""The power of a gate: how large a loss it detects, and how often it shows that there is none.

The gate (`margins`) tests B - l A against zero with Student's t, where l is the limit, such as 1.05. If the true ratio
of the means is r, t has a noncentral distribution. The power is averaged over two unknowns: the true spread (a scaled
inverse chi-square distribution), and the ratio of the variances that A and B will show (an F distribution), on which
Welch's degrees of freedom depend. Without the second average, a true power of 60 % would be stated as 80 %, with three
trials and nine cells. On average over campaigns, the true power is the stated one or slightly more (84 % for 80 %, with
three trials of each); tests/known/test_gate_power.py simulates this.

Sources: Phillips, J. Pharmacokinetics and Biopharmaceutics 18 (1990) 137-144, for the power of such tests;
Spiegelhalter and Freedman, Statistics in Medicine 5 (1986) 1-13, for the average over an uncertain spread."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lastro.stats.intervals import satterthwaite
from lastro.stats.student import least_unpaired_p

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

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


def _middles(n: int) -> npt.NDArray[np.float64]:
    """Return the middles of n equal parts of the range from 0 to 1."""
    import numpy as np

    middles: npt.NDArray[np.float64] = (np.arange(n) + 0.5) / n
    return middles
