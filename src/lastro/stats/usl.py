"""Throughput under load: the Universal Scalability Law, X(N) = lambda N / (1 + sigma (N-1) + kappa N (N-1)).

lambda is the throughput at N = 1, sigma the contention, kappa the coherency. All three are fitted, by least squares of
the throughput; lambda is not taken from a measurement at N = 1, whose error would affect everything. None may be
negative, and sigma is at most 1. Source: Gunther, Guerrilla Capacity Planning (2007), chapters 4 to 6; with lambda
free: Gunther, Puglia and Tomasette, Hadoop superlinear scalability, Comm. ACM 58 (2015) 46-55."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from lastro.stats.intervals import Interval, t_quantile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# The upper bounds of lambda, sigma and kappa; the lower bounds are 0.
_TOP = (math.inf, 1.0, math.inf)
NoPeak = Literal["coherency may be zero", "beyond the measured range"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A fitted parameter. `at_bound`: it lies on its bound, where the theory of the interval does not hold.

    `interval` and `standard_error` are then None, as they are where no degrees of freedom are left."""

    value: float
    standard_error: float | None
    interval: Interval | None
    at_bound: bool = False


@dataclass(frozen=True, slots=True)
class Peak:
    """The load with the greatest throughput: sqrt((1 - sigma) / kappa), in the unit of N, and the throughput there.

    `interval` is of n, by the delta method on its logarithm; it may reach beyond the measured range."""

    n: float
    throughput: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class Usl:
    """A fit over `n` points. `lambda_` is in the unit of throughput per unit of N; sigma and kappa are dimensionless.

    `peak` is None, with the reason, unless it lies between the measured loads and kappa's interval excludes zero.
    `residual_sd`, and `covariance`, that of the three estimates, are None where no degrees of freedom are left (n =
    3)."""

    n: int
    lambda_: Parameter
    sigma: Parameter
    kappa: Parameter
    residuals: tuple[float, ...]
    residual_sd: float | None
    peak: Peak | None
    no_peak_because: NoPeak | None = None
    covariance: tuple[tuple[float, ...], ...] | None = None

    def throughput(self, load: float) -> float:
        """Return the fitted throughput at this load."""
        below = 1 + self.sigma.value * (load - 1) + self.kappa.value * load * (load - 1)
        return self.lambda_.value * load / below

    def interval(self, load: float, confidence: float) -> Interval | None:
        """Return the interval of the mean throughput at this load; None without degrees of freedom.

        By the delta method, as for the parameters."""
        if self.covariance is None:
            return None
        below = 1 + self.sigma.value * (load - 1) + self.kappa.value * load * (load - 1)
        by_below = -self.lambda_.value * load / below**2
        slopes = (load / below, by_below * (load - 1), by_below * load * (load - 1))
        pairs = itertools.product(range(3), repeat=2)
        variance = math.fsum(slopes[a] * slopes[b] * self.covariance[a][b] for a, b in pairs)
        half = t_quantile(confidence, self.n - 3) * math.sqrt(max(0.0, variance))
        at = self.throughput(load)
        return Interval(at - half, at + half, confidence)


def fit_usl(load: Sequence[float], throughput: Sequence[float], confidence: float) -> Usl | None:
    """Fit the law to throughput[i] at load[i]; None without some throughput at three different loads, all above zero.

    Intervals by Student's t with n - 3 degrees of freedom from the curvature at the fit, cut at the bounds of the
    parameters. Source: Gunther (2007), chapter 5; Seber and Wild, Nonlinear Regression (1989).

    Raises: ValueError when the samples differ in length."""
    if len(load) != len(throughput):
        raise ValueError(f"{len(load)} loads and {len(throughput)} throughputs")
    if len(set(load)) < 3 or min(load) <= 0 or max(throughput) <= 0:
        return None
    import numpy as np
    from scipy.optimize import least_squares

    x, y = np.asarray(load, dtype=float), np.asarray(throughput, dtype=float)
    # lambda is scaled by the throughput and kappa by the load, so that all parameters are of order one.
    unit = np.array([float(np.max(y / x)), 1.0, 1.0 / float(np.max(x))])

    def misfit(p: NDArray[np.float64]) -> NDArray[np.float64]:
        scaled: NDArray[np.float64] = (_law(x, *(p * unit)) - y) / np.max(y)
        return scaled

    bounds = ((1e-12, 0.0, 0.0), _TOP)
    fits = [
        least_squares(misfit, start, bounds=bounds, x_scale="jac", xtol=1e-14, ftol=1e-14, gtol=1e-14)
        for start in ([1, 0.02, 0.02], [1, 0.5, 0.001], [2, 0.5, 0.5])
    ]
    best = min(fits, key=lambda fit: float(fit.cost))
    values = best.x * unit
    residuals = y - _law(x, *values)
    return _described(values, _slopes(x, *values), residuals, (float(x.min()), float(x.max())), confidence)


def _law(x: NDArray[np.float64], lambda_: float, sigma: float, kappa: float) -> NDArray[np.float64]:
    return lambda_ * x / (1 + sigma * (x - 1) + kappa * x * (x - 1))


def _slopes(x: NDArray[np.float64], lambda_: float, sigma: float, kappa: float) -> NDArray[np.float64]:
    """Return the derivatives of the law by its parameters, one column each."""
    import numpy as np

    below = 1 + sigma * (x - 1) + kappa * x * (x - 1)
    by_below = -lambda_ * x / below**2
    return np.stack([x / below, by_below * (x - 1), by_below * x * (x - 1)], axis=1)


def _described(
    values: NDArray[np.float64],
    slopes: NDArray[np.float64],
    residuals: NDArray[np.float64],
    measured: tuple[float, float],
    confidence: float,
) -> Usl:
    """Return a fit with intervals and peak. A parameter on its bound is taken as known when the others are judged."""
    import numpy as np

    n, df = len(residuals), len(residuals) - 3
    sd = math.sqrt(float(residuals @ residuals) / df) if df else None
    bound = [at > 0 and _at_bound(values, slopes, at) for at in range(3)]
    covariance = _covariance(slopes, [at for at in range(3) if not bound[at]], sd)
    lambda_, sigma, kappa = (
        _parameter(float(values[at]), math.sqrt(covariance[at, at]), bound[at], _TOP[at], df, confidence)
        for at in range(3)
    )
    known = tuple(map(tuple, covariance.tolist())) if df else None
    fit = Usl(n, lambda_, sigma, kappa, tuple(residuals.tolist()), sd, None, covariance=known)
    if kappa.interval is None or kappa.interval.low <= 0:
        return replace(fit, no_peak_because="coherency may be zero")
    at_load = math.sqrt((1 - sigma.value) / kappa.value)
    if not measured[0] <= at_load <= measured[1]:
        return replace(fit, no_peak_because="beyond the measured range")
    by_parameter = -np.array([0.0, 1 / (1 - sigma.value), 1 / kappa.value]) / 2
    spread = math.exp(t_quantile(confidence, df) * math.sqrt(float(by_parameter @ covariance @ by_parameter)))
    interval = Interval(at_load / spread, at_load * spread, confidence)
    return replace(fit, peak=Peak(at_load, fit.throughput(at_load), interval))


def _at_bound(values: NDArray[np.float64], slopes: NDArray[np.float64], at: int) -> bool:
    """Return whether sigma or kappa lies on its bound, which the search only approaches.

    A parameter that moves no fitted value by a millionth of lambda counts as zero."""
    effect = float(abs(slopes[:, at]).max()) / float(values[0])
    return bool(effect * values[at] < 1e-6 or values[at] > _TOP[at] - 1e-6)


def _covariance(slopes: NDArray[np.float64], free: list[int], sd: float | None) -> NDArray[np.float64]:
    """Return the covariance of the estimates: zeros for those that are not free, and where the spread is unknown."""
    import numpy as np

    covariance = np.zeros((3, 3))
    if sd is not None:
        # By QR, since squaring the slopes first would cost half of the digits.
        inverse = np.linalg.inv(np.linalg.qr(slopes[:, free], mode="r"))
        covariance[np.ix_(free, free)] = sd**2 * inverse @ inverse.T
    return covariance


def _parameter(value: float, error: float, at_bound: bool, top: float, df: int, confidence: float) -> Parameter:
    if at_bound:
        return Parameter(0.0 if value < top / 2 else top, None, None, at_bound=True)
    if df == 0:
        return Parameter(value, None, None)
    half = t_quantile(confidence, df) * error
    return Parameter(value, error, Interval(max(0.0, value - half), min(top, value + half), confidence))
