"""The bootstrap interval, for statistics that have no interval of their own.

Source: Efron, Better bootstrap confidence intervals, J. Am. Stat. Assoc. 82 (1987) 171-185; Efron and Tibshirani, An
Introduction to the Bootstrap (1993), section 14.3."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING

from lastro.stats.intervals import Interval
from lastro.stats.notes import Note
from lastro.stats.order import Estimate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Statistic = Callable[[NDArray[np.float64]], NDArray[np.float64]]

LEAST_N = 30
TOO_FEW_TO_RESAMPLE = "n = {n}: a bootstrap interval needs {needed} trials or more"
# The number of values held at a time, 32 MB of doubles.
_CHUNK = 4_000_000


def bca_interval(
    values: Sequence[float], statistic: Statistic, confidence: float, *, seed: int, resamples: int = 4000
) -> Estimate:
    """Return the bias-corrected and accelerated interval of `statistic`.

    `statistic` takes an array of samples, one in each row, and returns one number for each: `lambda rows:
    np.median(rows, axis=-1)`. Only for n >= 30: resamples of fewer values are too similar, and the interval is too
    narrow. The same seed gives the same interval. Source: Efron (1987).

    Raises: ValueError when there are no values."""
    import numpy as np

    if not len(values):
        raise ValueError("no values, no estimate")
    sample = np.asarray(values, dtype=float)
    n = len(sample)
    value = float(statistic(sample[None, :])[0])
    if n < LEAST_N:
        return Estimate(value, None, n, Note(TOO_FEW_TO_RESAMPLE, n=n, needed=LEAST_N))
    rng = np.random.default_rng(seed)
    rows = max(1, _CHUNK // n)
    sizes = [min(rows, resamples - start) for start in range(0, resamples, rows)]
    draws = np.sort(np.concatenate([statistic(sample[rng.integers(0, n, (size, n))]) for size in sizes]))
    if draws[0] == draws[-1]:
        return Estimate(value, Interval(float(draws[0]), float(draws[0]), confidence), n)
    low, high = np.quantile(draws, _levels(draws, value, _acceleration(sample, statistic), confidence))
    return Estimate(value, Interval(float(low), float(high), confidence), n)


def _levels(draws: NDArray[np.float64], value: float, acceleration: float, confidence: float) -> list[float]:
    """Return the quantiles of the draws at which the interval ends. Draws equal to the value count as half below it."""
    import numpy as np

    normal = NormalDist()
    below = (np.searchsorted(draws, value, "left") + np.searchsorted(draws, value, "right")) / (2 * len(draws))
    bias = normal.inv_cdf(min(max(float(below), 1e-9), 1 - 1e-9))
    ends = (bias + normal.inv_cdf((1 + sign * confidence) / 2) for sign in (-1, 1))
    return [normal.cdf(bias + end / (1 - acceleration * end)) for end in ends]


def _acceleration(sample: NDArray[np.float64], statistic: Statistic) -> float:
    """Return a sixth of the skewness of the jackknife values, with the sign reversed."""
    import numpy as np

    n = len(sample)
    rows = max(1, _CHUNK // n)
    kept = np.arange(n - 1)
    jackknife = np.concatenate(
        [
            statistic(sample[kept[None, :] + (kept[None, :] >= np.arange(start, min(start + rows, n))[:, None])])
            for start in range(0, n, rows)
        ]
    )
    deviation = jackknife.mean() - jackknife
    spread = float((deviation**2).sum())
    return float((deviation**3).sum()) / (6 * spread**1.5) if spread else 0.0
