"""Pool the effects that several hosts measured: their mean, how much they differ, and what to expect on a new host.

Each host has an effect with a standard error. The true effects of the hosts differ, with a variance tau squared (random
effects), which is estimated by restricted maximum likelihood, or by the method of Paule and Mandel.

The interval of the mean is the one of Hartung and Knapp, and of Sidik and Jonkman, by Student's t with one degree of
freedom fewer than hosts. The variance of the mean is at least the usual variance for the estimated tau squared (Röver
and others): otherwise the interval would be too narrow if hosts happen to agree.

The interval of tau squared is the one of the Q profile: the values at which Cochran's generalised Q is not extreme. For
this interval, a standard error that is estimated from few trials is enlarged: the normal interval of the effect becomes
as wide as its interval by Student's t. Otherwise equal hosts would seem to differ.

Sources: Hartung and Knapp, Statist. Med. 20 (2001) 1771-1782; Sidik and Jonkman, Statist. Med. 21 (2002) 3153-3159;
Röver, Knapp and Friede, BMC Med. Res. Methodol. 15 (2015) 99; Viechtbauer, Statist. Med. 26 (2007) 37-52, for the Q
profile; Paule and Mandel, J. Res. Natl. Bur. Stand. 87 (1982) 377-385; Nagashima, Noma and Furukawa, Stat. Methods Med.
Res. 28 (2019) 1689-1702, for the interval of a new host, here with the confidence distribution of the Q profile. Loads
numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from lastro.stats._projections import Floats
from lastro.stats.intervals import Estimate, Interval, t_quantile
from lastro.stats.student import t_p

FEWEST = 3  # hosts; the single difference between two hosts cannot show how much hosts differ
Estimator = Literal["reml", "paule-mandel"]
_TAUS, _MEANS = 64, 64  # quantiles of tau squared, and of the mean with each of them
_SMOOTH = 5  # the standard error of the mean, divided by this, smooths the steps between its quantiles
_HALVINGS = 80
_STEPS = 240  # of the search for the largest likelihood, which may have more than one peak
_LEAST = 1e-9  # the first of these steps, as a fraction of the largest possible tau squared


class MeasuredEffect(NamedTuple):
    """The estimated effect on one host, its standard error (above zero), and the degrees of freedom of the error."""

    value: float
    error: float
    df: float


@dataclass(frozen=True, slots=True)
class PooledMean:
    """The mean of the true effects over hosts like these, in the unit of the effects."""

    estimate: Estimate  # the mean; its `n` is the number of hosts
    error: float  # standard error of the mean
    df: int  # degrees of freedom of `error`
    tau: Estimate  # standard deviation of the true effects between hosts
    q: float  # Cochran's Q
    q_p: float  # the p of no difference between hosts
    prediction: Interval  # interval for the true effect on a new host


def pool(effects: Sequence[MeasuredEffect], confidence: float, estimator: Estimator = "reml") -> PooledMean:
    """Pool the effects of three hosts or more.

    Raises: ValueError for fewer hosts, or for an error that is not above zero."""
    from scipy.special import chdtrc

    if len(effects) < FEWEST:
        raise ValueError(f"{len(effects)} hosts cannot show how hosts differ: at least {FEWEST} are needed")
    sample, widened = _Sample.of(effects), _Sample.of(effects, confidence)
    tau2 = sample.restricted_likelihood() if estimator == "reml" else sample.paule_mandel()
    n = len(effects)
    value, error = sample.mean(tau2)
    interval = Interval.around(value, t_quantile(confidence, n - 1) * error, confidence)
    return PooledMean(
        estimate=Estimate(value, interval, n, p=t_p(value, error, n - 1, 0.0), df=n - 1),
        error=error,
        df=n - 1,
        tau=Estimate(math.sqrt(tau2), widened.profile(confidence), n),
        q=widened.cochran,
        q_p=float(chdtrc(n - 1, widened.cochran)),
        prediction=sample.prediction(confidence),
    )


@dataclass(frozen=True, slots=True)
class _Sample:
    """The effects `y`, and the variances `v` of their errors; errors are treated as normal, and variances as known."""

    y: Floats
    v: Floats

    @classmethod
    def of(cls, effects: Sequence[MeasuredEffect], confidence: float | None = None) -> _Sample:
        """Return the sample of these effects.

        With a `confidence`, each standard error is enlarged so that its normal interval is as wide as its interval by
        Student's t."""
        from scipy.special import ndtri

        if any(not effect.error > 0 for effect in effects):
            raise ValueError("an effect whose standard error is not above zero cannot be weighted")
        errors = np.array([effect.error for effect in effects])
        if confidence is not None:
            errors *= [t_quantile(confidence, effect.df) / ndtri((1 + confidence) / 2) for effect in effects]
        return cls(np.array([effect.value for effect in effects]), np.square(errors))

    @property
    def most(self) -> float:
        """An upper bound for estimates of tau squared; 0 if all effects are equal."""
        return 2 * len(self.y) * float(np.ptp(self.y)) ** 2

    @property
    def cochran(self) -> float:
        """Cochran's Q under the hypothesis that hosts do not differ (tau squared is 0)."""
        return float(self._q(np.zeros(1))[0])

    def mean(self, tau2: float) -> tuple[float, float]:
        """Return the weighted mean and its standard error."""
        values, errors = self._means(np.array([tau2]))
        return float(values[0]), float(errors[0])

    def _means(self, tau2: Floats) -> tuple[Floats, Floats]:
        """Return the weighted means and their standard errors, one for each tau squared."""
        w, residuals = self._weighted(tau2)
        hartung_knapp = (w * residuals**2).sum(axis=1) / (len(self.y) - 1)
        means = self.y[0] - residuals[:, 0]
        return means, np.sqrt(np.maximum(1.0, hartung_knapp) / w.sum(axis=1))  # never below the usual standard error

    def _q(self, tau2: Floats) -> Floats:
        """Return Cochran's Q for each tau squared: the sum of the squared standardized distances from the mean."""
        w, residuals = self._weighted(tau2)
        return np.asarray((w * residuals**2).sum(axis=1))

    def tau2_at(self, q: Floats) -> Floats:
        """Return for each value of Q the tau squared at which Q has this value; 0 if Q is never that large."""
        high = np.full(len(q), self.most or 1.0)
        while np.any(beyond := self._q(high) > q):
            high[beyond] *= 4
        low = np.zeros(len(q))
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            above = self._q(middle) > q
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return np.where(self._q(np.zeros(len(q))) > q, (low + high) / 2, 0.0)

    def paule_mandel(self) -> float:
        """Return the estimate of tau squared by Paule and Mandel: the one at which Q equals its expectation."""
        return float(self.tau2_at(np.array([len(self.y) - 1.0]))[0])

    def profile(self, confidence: float) -> Interval:
        """Return the interval of tau by the Q profile. It is [0, 0] for hosts that agree better than chance allows."""
        low, high = np.sqrt(self.quantiles(np.array([1 - confidence, 1 + confidence]) / 2))
        return Interval(float(low), float(high), confidence)

    def quantiles(self, shares: Floats) -> Floats:
        """Return quantiles of the confidence distribution of tau squared; the Q profile is its central part."""
        from scipy.special import chdtri

        return self.tau2_at(np.asarray(chdtri(len(self.y) - 1, shares)))

    def prediction(self, confidence: float) -> Interval:
        """Return the interval of the true effect on a new host, which allows for the uncertainty of tau squared.

        The distribution is a mixture over the confidence distribution of tau squared. For each tau squared, the mean
        has a Student's t distribution, and the new host a normal distribution around the mean."""
        from scipy.optimize import brentq
        from scipy.special import ndtr, stdtrit

        tau2 = self.quantiles((np.arange(_TAUS) + 0.5) / _TAUS)
        means, errors = self._means(tau2)
        centres = means[:, None] + errors[:, None] * stdtrit(len(self.y) - 1, (np.arange(_MEANS) + 0.5) / _MEANS)
        spreads = np.maximum(np.sqrt(tau2), errors / _SMOOTH)[:, None]

        reach = 10 * float(spreads.max())
        ends = float(centres.min()) - reach, float(centres.max()) + reach

        def quantile(q: float) -> float:
            return float(brentq(lambda value: float(ndtr((value - centres) / spreads).mean()) - q, *ends, rtol=1e-9))

        return Interval(quantile((1 - confidence) / 2), quantile((1 + confidence) / 2), confidence)

    def restricted_likelihood(self) -> float:
        """Return the tau squared with the largest restricted likelihood."""
        from scipy.optimize import brentq

        if not self.most:
            return 0.0
        steps = np.concatenate([[0.0], self.most * np.geomspace(_LEAST, 1, _STEPS)])
        slopes = self._slope(steps)
        falls = np.flatnonzero((slopes[:-1] > 0) & (slopes[1:] <= 0))
        peaks = [] if slopes[0] > 0 else [0.0]
        for at in falls:
            ends = steps[at], steps[at + 1]
            peaks.append(brentq(lambda tau2: self._slope(np.array([tau2]))[0], *ends, xtol=1e-14 * self.most))
        return peaks[int(np.argmax(self._likelihood(np.array(peaks))))]

    def _likelihood(self, tau2: Floats) -> Floats:
        """Return the logarithms of the restricted likelihood, up to a constant."""
        w, residuals = self._weighted(tau2)
        return np.asarray((np.log(w).sum(axis=1) - np.log(w.sum(axis=1)) - (w * residuals**2).sum(axis=1)) / 2)

    def _slope(self, tau2: Floats) -> Floats:
        """Return the derivatives of `_likelihood`."""
        w, residuals = self._weighted(tau2)
        return np.asarray(((w * residuals) ** 2).sum(axis=1) - w.sum(axis=1) + (w**2).sum(axis=1) / w.sum(axis=1)) / 2

    def _weighted(self, tau2: Floats) -> tuple[Floats, Floats]:
        """Return the weights, and the distances from the weighted mean, a row for each tau squared."""
        w = 1 / (self.v + tau2[:, None])
        means = (w @ self.y) / w.sum(axis=1)
        return np.asarray(w), np.asarray(self.y - means[:, None])
