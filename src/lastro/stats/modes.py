"""A second mode: some trials of a metric lie apart from all others, as if the host had been in another state.

A cell alone has too few trials to show two clumps, so all cells are fitted together:

    value = treatment + block + distance * (1 in the second mode, else 0) + noise

on logarithms where all values are above zero. Least squares for a given assignment, and each trial to the nearer mode,
alternate until nothing changes (Späth, Computing 22 (1979) 367-373). They start from the residuals of a median polish
(Tukey, Exploratory Data Analysis, 1977), cut at several quantiles on either side; the fit with the least sum of squares
is kept. A treatment or a block with most of its trials in the second mode is not one of many trials apart: it is itself
low or high, and its trials are exchanged.

Any noise can be cut in two, and its halves then lie apart: normal noise by 2.7 standard deviations. So it is a mode
only if

- the distance is more than `least_distance` standard deviations, both those of all trials and those of the treatments
  that have trials apart (Ashman, Bird and Zepf, Astron. J. 108 (1994) 2348-2361, for this measure);
- it is not a tail: not much wider than the noise, with fewer trials on the way to it than in it;
- it has three trials or more, and is 1 % away.

In simulated campaigns with one mode, 5 % or fewer are taken for two (`benches/second_mode.py`,
`tests/known/test_modes.py`). Hartigan's dip test is not used: of 90 trials, of which 15 % are 6.7 standard deviations
away, it finds a second mode in 8 % of cases even where treatments and blocks are known, since it compares with the
uniform distribution. Loads numpy."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from lastro.stats._projections import Floats
from lastro.stats.resolution import resolution

K = TypeVar("K", bound=Hashable)
Cells = Mapping[K, Mapping[int, float]]
Marks = NDArray[np.bool_]

LEAST_TRIALS = 3  # in the second mode
_LEAST_SHARE = 0.01  # of the value: a second mode that is nearer does not matter
_MOST_WIDTH = 2.0  # of the second mode, in standard deviations of the noise
_CUTS = (0.07, 0.15, 0.3, 0.5)  # fractions of the trials on either side, from which a fit starts
_FEWEST_TREATMENTS = 3  # with which a block shows which of its trials are apart
_LEAST_DF = 5
_NEAR = 0.2  # of the distance between the modes: how far from a place a trial counts as there
_MOST_ROUNDS, _MOST_SWEEPS, _MOST_STARTS = 30, 10, 40
_ALIASED = 1e-9
_SEED = 1985


@dataclass(frozen=True, slots=True)
class SecondMode(Generic[K]):
    """The trials that lie apart, as {cell: its blocks}; cells without any are absent. They are at most half of all.

    `distance` is that from the other trials of the same treatment and block: where `relative`, as a ratio (0.8 is 20 %
    below), else in the unit of the values. Where most trials of a treatment or a block are in the second mode, the few
    that are not lie apart, in the other direction. `sds` is its size in standard deviations of the noise."""

    trials: Mapping[K, frozenset[int]]
    distance: float
    relative: bool
    sds: float

    @property
    def n(self) -> int:
        return sum(map(len, self.trials.values()))


def least_distance(df: float) -> float:
    """Return the standard deviations that two modes must be apart, with these degrees of freedom of the noise.

    From simulated campaigns: about the 95 % quantile of cuts through the worst of ten kinds of noise with one mode."""
    return 4.3 + 23 / df


def second_mode(cells: Cells[K]) -> SecondMode[K] | None:
    """Return the second mode of the values {block: value} of each cell; None without one, and for too few values."""
    rows, blocks = list(cells), sorted({block for own in cells.values() for block in own})
    places = {block: at for at, block in enumerate(blocks)}
    values = np.full((len(rows), len(blocks)), np.nan)
    for at, own in enumerate(cells.values()):
        for block, value in own.items():
            values[at, places[block]] = value
    there = ~np.isnan(values)
    blocked = len(rows) >= _FEWEST_TREATMENTS and len(blocks) > 1
    df = int(there.sum()) - len(rows) - (len(blocks) - 1 if blocked else 0) - 1
    if df < _LEAST_DF:
        return None
    values = _without_ties(values, there)
    relative = bool(np.all(values[there] > 0))
    grid = _ValueGrid.of(np.log(values) if relative else values, there, blocked, df)
    split = grid.split()
    judged = grid.judged(split) if split else None
    if judged is None:
        return None
    apart, distance, sds = judged
    distance = math.exp(distance) if relative else distance
    if relative and abs(distance - 1) < _LEAST_SHARE:
        return None
    found = {row: frozenset(blocks[at] for at in np.flatnonzero(own)) for row, own in zip(rows, apart, strict=True)}
    return SecondMode({row: own for row, own in found.items() if own}, distance, relative, sds)


def _without_ties(values: Floats, there: Marks) -> Floats:
    """Return the values spread evenly over the step to which they were rounded, so that rounding makes no clumps."""
    step = _step(dict.fromkeys(values[there].tolist()))
    return values + step * np.random.RandomState(_SEED).uniform(-0.5, 0.5, values.shape)


def _step(values: Collection[float]) -> float:
    """Return the largest step of which all differences are multiples; 0 for values with too many digits."""
    unit = resolution([*values])
    if unit == 0:
        return 0.0
    first, *others = (round(value / unit) for value in values)
    return unit * math.gcd(*(other - first for other in others))


@dataclass(frozen=True, slots=True)
class _Split:
    """An assignment of trials to two modes: those `apart`, their distance, and the noise that is left of each trial."""

    apart: Marks
    distance: float
    noise: Floats

    @property
    def squares(self) -> float:
        return float(np.sum(self.noise**2))


@dataclass(frozen=True, slots=True)
class _ValueGrid:
    """The values by treatment and block, NaN where not `there`, and the degrees of freedom of a fit with two modes.

    `blocked`: means of blocks are fitted, beside those of treatments. Where some block lacks a treatment, `solved` is
    the inverse of their normal equations."""

    values: Floats
    there: Marks
    blocked: bool
    df: int
    solved: Floats | None

    @classmethod
    def of(cls, values: Floats, there: Marks, blocked: bool, df: int) -> _ValueGrid:
        if there.all() or not blocked:
            return cls(values, there, blocked, df, None)
        table = there.astype(float)
        equations = np.diag(table.sum(axis=0)) - table.T @ (table / table.sum(axis=1, keepdims=True))
        return cls(values, there, blocked, df, np.linalg.pinv(equations, hermitian=True))

    def split(self) -> _Split | None:
        """Return the split that fits best; None where the values do not vary."""
        polished, left = self._polished(), self._left(np.where(self.there, self.values, 0.0))
        ends = np.quantile(polished[self.there], (*_CUTS, *(1 - cut for cut in _CUTS)))
        with np.errstate(invalid="ignore"):
            starts = [polished < end for end in ends[: len(_CUTS)]] + [polished > end for end in ends[len(_CUTS) :]]
        found = [split for start in starts if (split := self._settled(start, left))]
        return min(found, key=lambda split: split.squares, default=None)

    def _settled(self, apart: Marks, left: Floats) -> _Split | None:
        """Return the split that this one becomes when trials join the nearer mode until none moves."""
        split = None
        for _ in range(_MOST_ROUNDS):
            column = self._left(apart.astype(float))
            length = float(np.sum(column**2))
            distance = float(np.sum(column * left)) / length if length > _ALIASED else 0.0
            if distance == 0:
                break
            split = _Split(apart, distance, left - distance * column)
            nearer = self.there & (split.noise / distance + apart > 0.5)
            if np.array_equal(nearer, apart):
                break
            apart = nearer
        return split

    def _left(self, values: Floats) -> Floats:
        """Subtract the means of treatments and of blocks from values, which are 0 where a trial has none."""
        left = self._less_means(values)
        if not self.blocked:
            return left
        of_blocks = left.sum(axis=0)
        effects = of_blocks / len(left) if self.solved is None else self.solved @ of_blocks
        return left - self._less_means(self.there * effects)

    def _less_means(self, values: Floats) -> Floats:
        means = values.sum(axis=1, keepdims=True) / self.there.sum(axis=1, keepdims=True)
        return np.asarray(values - self.there * means)

    def _polished(self) -> Floats:
        """Subtract medians of treatments and blocks from the values, repeatedly; NaN where a trial has no value."""
        median = np.median if self.there.all() else np.nanmedian
        left = self.values
        for _ in range(_MOST_SWEEPS if self.blocked else 1):
            left = left - median(left, axis=1, keepdims=True)
            left = left - median(left, axis=0) if self.blocked else left
        return left

    def fewest(self, apart: Marks) -> Marks:
        """Return the same split with treatments and blocks exchanged so that the fewest trials are apart.

        The fit stays the same: it is the mean of the treatment or of the block that takes up the distance. The search
        starts also from blocks that are exchanged so that a treatment has no trial apart."""
        rows = range(min(len(apart), _MOST_STARTS)) if self.blocked else ()
        starts = (apart, *(self.there & (apart ^ apart[row]) for row in rows))
        return min(map(self._fewer, starts), key=np.sum)

    def _fewer(self, apart: Marks) -> Marks:
        """Return a split after the exchange of treatments and blocks that have most of their trials apart."""
        for _ in range(_MOST_SWEEPS):
            before = apart
            for axis in (1, 0) if self.blocked else (1,):
                most = 2 * apart.sum(axis=axis, keepdims=True) > self.there.sum(axis=axis, keepdims=True)
                apart = self.there & (apart ^ most)
            if np.array_equal(before, apart):
                break
        return apart

    def variance(self, noise: Floats, weights: Floats) -> tuple[float, float]:
        """Return the variance of a trial, as a weighted mean over treatments, and its degrees of freedom."""
        counts = self.there.sum(axis=1)
        own = counts * self.df / counts.sum()
        shares = weights / weights.sum()
        return float(np.sum(shares * np.sum(noise**2, axis=1) / own)), float(1 / np.sum(shares**2 / own))

    def judged(self, split: _Split) -> tuple[Marks, float, float] | None:
        """Return the trials apart, their distance, and its size in standard deviations; None if they are not a mode."""
        apart = self.fewest(split.apart)
        n, size = int(apart.sum()), abs(split.distance)
        if n < LEAST_TRIALS:
            return None
        noises = [self.variance(split.noise, weights) for weights in (self.there.sum(axis=1), apart.sum(axis=1))]
        if any(size <= least_distance(df) * math.sqrt(variance) for variance, df in noises):
            return None
        sd = math.sqrt(max(variance for variance, _ in noises))
        width = math.sqrt(float(np.sum(split.noise[apart] ** 2)) / (n - 1) * self.there.sum() / self.df)
        way = split.noise / split.distance
        inside = int(np.sum(np.abs(way[apart]) < _NEAR))
        between = int(np.sum(np.abs(way + split.apart - 0.5)[self.there] < _NEAR))
        if width > _MOST_WIDTH * sd or 2 * between > inside:
            return None
        exchanged = 2 * int(np.sum(split.apart[apart])) < n
        return apart, -split.distance if exchanged else split.distance, size / sd if sd else math.inf
