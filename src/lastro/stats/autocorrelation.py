"""The correlation between trials that follow each other, with treatment effects removed, and its effect on a mean.

The noise is taken to be a first-order autoregression: trials t and t + k have a correlation of lag1 to the power of k.
With residuals e of N trials in their true order, von Neumann's ratio

    r = 1 - (sum of (e[t + 1] - e[t])^2 / (N - 1)) / (2 sum of e^2 / N)

is compared with its expectation for independent noise, and `lag1` is the correlation at which r is as expected. Both
take into account that each residual is measured from the mean of its own treatment, which absorbs slow noise.

Sources: von Neumann, Ann. Math. Statist. 12 (1941) 367-395; Box, Jenkins and Reinsel, Time Series Analysis (4th ed.),
section 3.2."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING

from lastro.grouping import by_key
from lastro.stats.intervals import sample_mean

if TYPE_CHECKING:
    from lastro.stats._projections import Codes, Floats

LEAST_FACTOR = 1.1  # a smaller variance factor is not worth mentioning
LEAST = 8  # the fewest trials for an estimate
_MOST_LAG1 = 0.99
_STEPS = 20  # bisections, which give lag1 to six digits
_MOST_TERMS = 10_000_000  # entries of the arrays from which the expected ratio is computed
_MOST = 1000  # the most trials for `p_within_blocks`
_ALIASED = 1e-9


@dataclass(frozen=True, slots=True)
class Autocorrelation:
    """The correlation `lag1` of neighbours among `n` trials, from 0 to 0.99, and the one-sided p of no correlation."""

    lag1: float
    p: float
    n: int


def autocorrelation(values: Sequence[float], treatments: Sequence[Hashable]) -> Autocorrelation | None:
    """Return the autocorrelation of the trials, whose values and treatments are in the order of time.

    Treatments with one value have no residual and are left out. None if fewer than eight values remain, or if nothing
    varies. The p comes from a normal approximation: in simulated campaigns of independent noise, it is below 0.05 in 4
    to 7 % of the campaigns (tests/known/test_autocorrelation.py)."""
    counts = Counter(treatments)
    repeated = [(value, name) for value, name in zip(values, treatments, strict=True) if counts[name] > 1]
    places = by_key((name, at) for at, (_, name) in enumerate(repeated))
    means = {name: sample_mean([repeated[at][0] for at in its_places]) for name, its_places in places.items()}
    residuals = [value - means[name] for value, name in repeated]
    squares = math.fsum(e * e for e in residuals)
    if len(residuals) < LEAST or squares <= (1e-12 * max(abs(value) for value, _ in repeated)) ** 2:
        return None
    n = len(residuals)
    steps = math.fsum((b - a) ** 2 for a, b in pairwise(residuals))
    ratio = _von_neumann_ratio(steps, squares, n)
    expected = _expected_ratio([places[name] for _, name in repeated])
    p = 1 - NormalDist().cdf((ratio - expected(0.0)) * math.sqrt(n))
    low, high = 0.0, _MOST_LAG1
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if expected(middle) < ratio else (low, middle)
    return Autocorrelation(low, p, n)


def p_within_blocks(
    values: Sequence[float], treatments: Sequence[Hashable], blocks: Sequence[Hashable]
) -> float | None:
    """Return the one-sided p of the hypothesis that neighbouring trials do not correlate within treatments and blocks.

    The arguments have an entry for each trial, in the order of time. The effects of treatments and of blocks are
    subtracted: trials of one block are similar because they share the state of the host, but trials of one treatment
    are independent, since each is in another block. This costs power, above all with few treatments, because blocks
    also absorb slow noise. If each block has one trial, only treatments are subtracted. None with fewer than seven
    degrees of freedom, or if nothing varies. Only the first thousand trials count.

    Source: Durbin and Watson, Biometrika 37 (1950) 409-428, for the mean and the variance of the ratio."""
    import numpy as np

    from lastro.stats._projections import level_codes

    n = min(len(values), _MOST)
    factors = [treatments[:n], blocks[:n]] if len(set(blocks[:n])) < n else [treatments[:n]]
    # For each factor, the 0/1 matrix with a row for each trial and a column for each level.
    indicators = [np.eye(codes.max() + 1)[codes] for codes in map(level_codes, factors)]
    columns, *others = sorted(indicators, key=lambda matrix: -matrix.shape[1])
    basis = columns / np.sqrt(columns.sum(axis=0))
    for other in others:  # the matrix with fewer columns: singular vectors of both together would take seconds
        directions, sizes, _ = np.linalg.svd(other - basis @ (basis.T @ other), full_matrices=False)
        basis = np.hstack([basis, directions[:, sizes > _ALIASED * math.sqrt(n)]])
    y, df = np.array(values[:n]), n - basis.shape[1]
    y = y - y.mean()
    residuals = y - basis @ (basis.T @ y)
    squares = float(residuals @ residuals)
    if df < LEAST - 1 or squares <= (1e-12 * float(np.abs(values[:n]).max())) ** 2:
        return None
    rows = np.diff(basis, axis=0)
    steps = 2 * np.eye(n - 1) - np.eye(n - 1, k=1) - np.eye(n - 1, k=-1) - rows @ rows.T
    first, second = float(np.trace(steps)), float(np.sum(steps**2))
    sd = math.sqrt(2 * (df * second - first**2) / (df**2 * (df + 2)))
    return NormalDist().cdf((float(np.sum(np.diff(residuals) ** 2)) / squares - first / df) / sd)


def variance_factor(lag1: float, places: Sequence[int]) -> float:
    """Return the factor by which the variance of a mean exceeds s^2 / n, where s^2 is the variance of its n values.

    `places` are the positions of the values in the order of time. The factor is 1 for independent values. If c is the
    mean correlation of two of the values, the expectation of s^2 is (1 - c) times the variance of a value, and the
    variance of the mean is (1 + (n - 1) c) times the variance of a mean of independent values."""
    n = len(places)
    if n < 2:
        return 1.0
    c = math.fsum(lag1 ** abs(a - b) for a in places for b in places if a != b) / (n * (n - 1))
    return (1 + (n - 1) * c) / (1 - c)


def _von_neumann_ratio(steps: float, squares: float, n: int) -> float:
    """Return von Neumann's ratio r of this module, from the sums of squared steps and of squared residuals."""
    return 1 - (steps / (n - 1)) / (2 * squares / n)


def _expected_ratio(groups: Sequence[Sequence[int]]) -> Callable[[float], float]:
    """Return a function that gives the expected von Neumann's ratio for a lag1, from the expectations of its two sums.

    groups[t] has the positions, in the order of time, of all trials with the same treatment as trial t. With very many
    trials, the mean of a treatment absorbs no slow noise, and the expected ratio is lag1 itself."""
    n, most = len(groups), max(map(len, groups))
    if n * most**2 > _MOST_TERMS:
        return lambda lag1: lag1
    import numpy as np

    places = np.array([[*group, *[0] * (most - len(group))] for group in groups])
    weights = np.array([[1 / len(group)] * len(group) + [0.0] * (most - len(group)) for group in groups])
    trials = np.arange(n)[:, None]

    def powers(distances: Codes, factors: Floats) -> Floats:
        """Return the coefficients of the powers of lag1 in the sum of `factors` times lag1 to the `distances`."""
        sums = np.bincount(distances.ravel(), weights=factors.ravel(), minlength=n)
        return np.asarray(sums, dtype=np.float64)

    # Squared residuals: in the squared steps, those of the first and the last trial count once, and all others twice.
    ends = np.full((n, 1), 2.0)
    ends[[0, -1]] = 1.0
    pairs = weights[:, :, None] * weights[:, None, :]
    to_own, within = abs(trials - places), abs(places[:, :, None] - places[:, None, :])
    squares = powers(within, pairs) - 2 * powers(to_own, weights)
    steps = powers(within, ends[:, :, None] * pairs) - 2 * powers(to_own, ends * weights)
    # Products of two successive residuals.
    to_next, to_previous = abs(trials[:-1] - places[1:]), abs(trials[1:] - places[:-1])
    between = abs(places[:-1, :, None] - places[1:, None, :])
    steps -= 2 * powers(between, weights[:-1, :, None] * weights[1:, None, :])
    steps += 2 * powers(to_next, weights[1:]) + 2 * powers(to_previous, weights[:-1])
    squares[0] += n
    steps[:2] += 2 * (n - 1), -2 * (n - 1)

    def expected(lag1: float) -> float:
        at = lag1 ** np.arange(n)
        return _von_neumann_ratio(float(steps @ at), float(squares @ at), n)

    return expected
