"""The levels of several looks at growing data, such that all looks together err no more often than a single test.

This holds if the noise is known. With that of a few blocks, which is estimated, they err in 6.1 % instead of 5 %
(benches/decision_looks.py).

When a fraction t of the data is available, alpha * ln(1 + (e - 1) t) of the error probability has been spent. This is
close to equal levels at all looks (Pocock's), since early decisions save most. The level of a look follows from the
error probability that it spends, and from the correlation of its estimate with the estimates of earlier looks, whose
data it contains. The estimates are a random walk, whose density below the boundaries of all earlier looks is integrated
numerically. Looks need not be planned: only their fractions count.

Sources: Lan and DeMets, Biometrika 70 (1983) 659-663, for the spending; Armitage, McPherson and Rowe, J. R. Stat. Soc.
A 132 (1969) 235-244, for the integration; Maurer and Bretz, Stat. Biopharm. Res. 5 (2013) 311-320, for Holm's method
with looks, each level of which is spent in this way. Loads scipy."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise

import numpy as np

from lastro.stats._projections import Floats

_POINTS = 600  # at which a density is evaluated
_FAR = 8.0  # standard deviations, beyond which the density is negligible


def spent(fraction: float, alpha: float) -> float:
    """Return how much of the error probability `alpha` is spent once a `fraction` (0 to 1) of the data exists."""
    return alpha * math.log(1 + (math.e - 1) * min(fraction, 1.0))


@lru_cache(maxsize=1024)
def nominal_level(fractions: tuple[float, ...], alpha: float) -> float:
    """Return the one-sided level of the last of several looks, each at a fraction of the data, in ascending order.

    Raises: ValueError unless the fractions grow from above 0 to 1 at most, and alpha is between 0 and 1."""
    from scipy.special import ndtr

    if not all(a < b for a, b in pairwise((0.0, *fractions, 1.0 + 1e-9))) or not 0 < alpha < 1:
        raise ValueError("fractions of the data that grow to 1 at most, and an alpha between 0 and 1")
    walk, mass = np.zeros(1), np.ones(1)  # points of the walk, with their probability
    before, boundary = 0.0, math.inf
    for fraction in fractions:
        size, step = math.sqrt(fraction), math.sqrt(fraction - before)
        boundary = _boundary(walk, mass, size, step, spent(fraction, alpha) - spent(before, alpha))
        points = np.linspace(-_FAR, boundary, _POINTS) * size
        edges = np.concatenate(([-math.inf], (points[:-1] + points[1:]) / 2, points[-1:]))
        mass = mass @ np.diff(ndtr((edges - walk[:, None]) / step), axis=1)
        walk, before = points, fraction
    return float(ndtr(-boundary))


def _boundary(walk: Floats, mass: Floats, size: float, step: float, due: float) -> float:
    """Return the z-score that the random walk exceeds after its next step with probability `due`.

    `walk` are the points where it may be before the step, and `mass` the probabilities of these points. `step` is the
    standard deviation of the step, and `size` the standard deviation of the walk after the step."""
    from scipy.optimize import brentq
    from scipy.special import ndtr

    return float(brentq(lambda z: float(mass @ ndtr((walk - z * size) / step)) - due, -_FAR, _FAR))
