"""The correlation of neighbouring trials in time, apart from their treatments, and its effect on a mean.

The noise is taken to be a first-order autoregression: two trials that are k places apart correlate by lag1 to the power
of k. With residuals e of N trials in their true order, von Neumann's ratio

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
    from lastro.stats._projections import Floats

LEAST_FACTOR = 1.1  # of a variance that is worth mentioning
LEAST = 8  # trials in a row: with fewer, there is no estimate
_MOST_LAG1 = 0.99
_STEPS = 20  # bisections: lag1 to six digits
_MOST_TERMS = 10_000_000
_MOST = 1000  # trials
_ALIASED = 1e-9


@dataclass(frozen=True, slots=True)
class Autocorrelation:
    """The correlation of neighbouring trials, from 0 to 0.99, of `n` trials; `p` is one-sided, for none."""

    lag1: float
    p: float
    n: int


def autocorrelation(values: Sequence[float], treatments: Sequence[Hashable]) -> Autocorrelation | None:
    """Return the autocorrelation of values[i] of treatments[i], in the order of time.

    Treatments with one value have no residual and are left out. None with fewer than eight other values, or where
    nothing varies. The p is that of a normal approximation: of simulated campaigns of independent noise, 4 to 7 % have
    one below 0.05 (tests/known/test_autocorrelation.py)."""
    counts = Counter(treatments)
    repeated = [name for name in treatments if counts[name] > 1]
    places = by_key((name, at) for at, name in enumerate(repeated))
    own = [value for value, name in zip(values, treatments, strict=True) if counts[name] > 1]
    means = {name: sample_mean([own[at] for at in found]) for name, found in places.items()}
    left = [value - means[name] for value, name in zip(own, repeated, strict=True)]
    whole = math.fsum(e * e for e in left)
    if len(left) < LEAST or whole <= (1e-12 * max(map(abs, own))) ** 2:
        return None
    n = len(left)
    steps = math.fsum((b - a) ** 2 for a, b in pairwise(left))
    ratio = _ratio(steps, whole, n)
    expected = _expectation([places[name] for name in repeated])
    p = 1 - NormalDist().cdf((ratio - expected(0.0)) * math.sqrt(n))
    low, high = 0.0, _MOST_LAG1
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if expected(middle) < ratio else (low, middle)
    return Autocorrelation(low, p, n)


def p_within_blocks(
    values: Sequence[float], treatments: Sequence[Hashable], blocks: Sequence[Hashable]
) -> float | None:
    """Return the one-sided p for no correlation of neighbouring trials, apart from their treatments and blocks.

    Trials of one block share the state of the host. That makes them similar, but leaves the trials of one treatment
    independent, since each is in another block. The price is power, above all with few treatments: blocks absorb slow
    noise, too. Where each block has one trial, only treatments are subtracted. None with fewer than seven degrees of
    freedom, or where nothing varies. Only the first thousand trials count.

    Source: Durbin and Watson, Biometrika 37 (1950) 409-428, for mean and variance of the ratio of residuals."""
    import numpy as np

    n = min(len(values), _MOST)
    whole = [treatments[:n], blocks[:n]] if len(set(blocks[:n])) < n else [treatments[:n]]
    columns, *others = sorted(map(_indicators, whole), key=lambda each: -each.shape[1])
    basis = columns / np.sqrt(columns.sum(axis=0))
    for other in others:  # the fewer columns; the singular vectors of a matrix of all would take seconds
        more, sizes, _ = np.linalg.svd(other - basis @ (basis.T @ other), full_matrices=False)
        basis = np.hstack([basis, more[:, sizes > _ALIASED * math.sqrt(n)]])
    y, df = np.array(values[:n]), n - basis.shape[1]
    y = y - y.mean()
    left = y - basis @ (basis.T @ y)
    squares = float(left @ left)
    if df < LEAST - 1 or squares <= (1e-12 * float(np.abs(values[:n]).max())) ** 2:
        return None
    rows = np.diff(basis, axis=0)
    steps = 2 * np.eye(n - 1) - np.eye(n - 1, k=1) - np.eye(n - 1, k=-1) - rows @ rows.T
    first, second = float(np.trace(steps)), float(np.sum(steps**2))
    sd = math.sqrt(2 * (df * second - first**2) / (df**2 * (df + 2)))
    return NormalDist().cdf((float(np.sum(np.diff(left) ** 2)) / squares - first / df) / sd)


def _indicators(names: Sequence[Hashable]) -> Floats:
    """Return a column for each name, which is 1 where it stands and else 0."""
    import numpy as np

    codes = {name: at for at, name in enumerate(dict.fromkeys(names))}
    return np.eye(len(codes))[[codes[name] for name in names]]


def variance_factor(lag1: float, places: Sequence[int]) -> float:
    """Return by how much the variance of a mean exceeds s^2 / n, for values at these places in the order of time.

    It is 1 for independent values. With c the mean correlation of two of the values, s^2 is too small by 1 - c, and the
    variance of the mean is larger by 1 + (n - 1) c."""
    n = len(places)
    if n < 2:
        return 1.0
    c = math.fsum(lag1 ** abs(a - b) for a in places for b in places if a != b) / (n * (n - 1))
    return (1 + (n - 1) * c) / (1 - c)


def _ratio(steps: float, whole: float, n: int) -> float:
    return 1 - (steps / (n - 1)) / (2 * whole / n)


def _expectation(groups: Sequence[Sequence[int]]) -> Callable[[float], float]:
    """Return the function from lag1 to the ratio of the expected sums; groups[t] has the places of trial t's treatment.

    With very many trials, the mean of a treatment absorbs no slow noise, and the function returns lag1 itself."""
    n, most = len(groups), max(map(len, groups))
    if n * most**2 > _MOST_TERMS:
        return lambda lag1: lag1
    import numpy as np

    places = np.array([[*group, *[0] * (most - len(group))] for group in groups])
    weights = np.array([[1 / len(group)] * len(group) + [0.0] * (most - len(group)) for group in groups])
    trials = np.arange(n)[:, None]
    # How far apart: a trial from those of its own treatment, from those of its neighbours', and these from each other.
    own, after, before = (abs(at - of) for at, of in (
        (trials, places), (trials[:-1], places[1:]), (trials[1:], places[:-1])
    ))  # fmt: skip
    within, across = abs(places[:, :, None] - places[:, None, :]), abs(places[:-1, :, None] - places[1:, None, :])

    def expected(lag1: float) -> float:
        powers = lag1 ** np.arange(n)
        means = np.einsum("ti,tij,tj->t", weights, powers[within], weights)
        squares = 1 - 2 * np.einsum("ti,ti->t", weights, powers[own]) + means
        products = lag1 + np.einsum("ti,tij,tj->t", weights[:-1], powers[across], weights[1:])
        products -= np.einsum("ti,ti->t", weights[1:], powers[after])
        products -= np.einsum("ti,ti->t", weights[:-1], powers[before])
        steps = float(np.sum(squares[:-1] + squares[1:] - 2 * products))
        return _ratio(steps, float(np.sum(squares)), n)

    return expected
