"""The power of a gate: how large a loss it finds, and how often it shows that there is none.

The gate (`margins`) tests B - l A against zero with Student's t, where l is the limit, such as 1.05. If the true ratio
of the means is r, t has a noncentral distribution. Power is an average over two things: the spread, as uncertain as its
degrees of freedom leave it (a scaled inverse chi-square distribution), and how the campaigns will share it between A
and B (an F distribution), since Welch's degrees of freedom follow from that: to ignore it would state 80 % where three
trials and nine cells give 60 %. So the stated power is the true one on average over campaigns, or a little less (80 %
where it is 84 %, with three trials of each); tests/known/test_gate_power.py simulates that.

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
_SPREADS, _SHARES = 8, 4  # the numbers of quantiles over which the two averages are taken
_LARGEST_LOSS = 1000.0  # where lower is better: the largest loss, as a multiple of A, that is looked for


@dataclass(frozen=True, slots=True)
class Precision:
    """How precisely a gate knows the two means of a metric, A's first.

    `errors` are the standard errors of the means, as fractions of the means, with degrees of freedom `df`; `n` counts
    the values behind each. `known_df` are the degrees of freedom of the spread in another campaign that the errors come
    from; None if they come from these values."""

    errors: tuple[float, float]
    df: tuple[float, float]
    better: Literal["higher", "lower"]
    n: tuple[int, int]
    known_df: float | None = None

    def finds(self, loss: float, margin: float, alpha: float) -> float:
        """Return the probability that a one-sided test at level `alpha` finds that B lost more than the margin.

        `loss` is the true one; both are fractions of the mean of A."""
        return self._rejects(loss, margin, alpha, 1)

    def shows(self, loss: float, margin: float, alpha: float) -> float:
        """Return the probability that a one-sided test at level `alpha` shows that B lost less than the margin."""
        return self._rejects(loss, margin, alpha, -1)

    def least_found(self, margin: float, alpha: float, power: float = POWER) -> float | None:
        """Return the least loss that is found with this power; None if a loss of any size may be missed."""
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
        sign = 1 if self.better == "lower" else -1
        ratio, limit = 1 + sign * loss, 1 + sign * margin
        parts = ((ratio * self.errors[1]) ** 2, (limit * self.errors[0]) ** 2)
        error, distance = math.sqrt(sum(parts)), side * (loss - margin)
        if error == 0:
            return float(distance > 0 and least_unpaired_p(self.n) / 2 <= alpha)
        import numpy as np
        from scipy.special import chdtri, fdtri, nctdtr, stdtrit

        df = satterthwaite(parts, self.df[::-1])
        own = np.array(self.df[::-1])
        known = df if self.known_df is None else self.known_df
        spread = np.sqrt(chdtri(known, _middles(_SPREADS)) / known)[:, None]
        seen = np.array(parts)[:, None] * (fdtri(*own, _middles(_SHARES)), np.ones(_SHARES))
        share = seen / seen.sum(axis=0)
        welch = 1 / (share**2 / own[:, None]).sum(axis=0)  # the degrees of freedom that the test itself will see
        below = nctdtr(df, distance / error * spread, stdtrit(welch, 1 - alpha))
        # Far from the critical value, SciPy has no number for some probabilities that are practically 0 or 1.
        return float(np.mean(1 - np.where(np.isnan(below), distance < 0, below)))


def _middles(n: int) -> npt.NDArray[np.float64]:
    """Return the probabilities in the middle of n equal parts."""
    import numpy as np

    middles: npt.NDArray[np.float64] = (np.arange(n) + 0.5) / n
    return middles
