"""Find a second mode: trials of a metric that lie apart from all other trials, as if the host were in another state.

One cell has too few trials to show two clusters, so all cells are fitted together:

    value = treatment + block + distance * (1 in the second mode, else 0) + noise

on logarithms if all values are above zero. Two steps alternate until nothing changes: a least-squares fit for the
current assignment of trials to modes, and an assignment of each trial to the nearer mode (Späth, Computing 22 (1979)
367-373). The first assignments cut the residuals of a median polish (Tukey, Exploratory Data Analysis, 1977) at several
quantiles on either side; the fit with the least sum of squares is kept. If most trials of a treatment or a block are in
the second mode, the treatment or block itself is low or high, so its trials are exchanged between the modes.

Any noise can be cut in two halves that lie apart: normal noise by 2.7 standard deviations. So the trials apart are a
mode only if

- the distance is more than `least_distance` standard deviations, both of all trials and of the treatments that have
  trials apart (Ashman, Bird and Zepf, Astron. J. 108 (1994) 2348-2361, for this measure);
- they are not a tail: they spread little more than the noise, and few trials are halfway between the modes;
- there are at least three of them, and they are at least 1 % away.

A second mode is found in at most 5 % of simulated campaigns with one mode (`benches/second_mode.py`,
`tests/known/test_modes.py`). Hartigan's dip test is not used because it lacks power, as it compares with the uniform
distribution: with 90 trials, of which 15 % are 6.7 standard deviations away, it finds the second mode in only 8 % of
cases, even with known effects of treatments and blocks. Loads numpy."""

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
_LEAST_SHARE = 0.01  # the least distance of a second mode that matters, as a fraction of the value
_MOST_WIDTH = 2.0  # of the second mode, in standard deviations of the noise
_CUTS = (0.07, 0.15, 0.3, 0.5)  # fractions of the trials, on either side, at which the first assignments cut
_FEWEST_TREATMENTS = 3  # in a block, so that its effect is distinguishable from trials apart
_LEAST_DF = 5
_NEAR = 0.2  # the distance up to which a trial is near a mode or the middle, as a fraction of that between the modes
_MOST_ROUNDS, _MOST_SWEEPS, _MOST_STARTS = 30, 10, 40
_ALIASED = 1e-9
_SEED = 1985


@dataclass(frozen=True, slots=True)
class SecondMode(Generic[K]):
    """The trials of a second mode, which lie apart from all others; at most half of all trials.

    `trials` are {cell: blocks of its trials in the second mode}, without cells that have none. `distance` is how far
    they are from other trials of the same treatment and block: a ratio if `relative` (0.8 is 20 % below), else a
    difference in the unit of the values. `sds` is the size of this distance in standard deviations of the noise."""

    trials: Mapping[K, frozenset[int]]
    distance: float
    relative: bool
    sds: float

    @property
    def n(self) -> int:
        """The number of trials that lie apart."""
        return sum(map(len, self.trials.values()))


def least_distance(df: float) -> float:
    """Return how many standard deviations two modes must be apart; `df` are the degrees of freedom of the noise.

    It is about the 95 % quantile of the distance between the two halves of noise with one mode, in simulated campaigns
    with the worst of ten kinds of noise."""
    return 4.3 + 23 / df


def second_mode(cells: Cells[K]) -> SecondMode[K] | None:
    """Return the second mode of the values, {cell: {block: value}}; None if there is none, or for too few values."""
    rows = list(cells)
    blocks = sorted({block for by_block in cells.values() for block in by_block})
    places = {block: at for at, block in enumerate(blocks)}
    values = np.full((len(rows), len(blocks)), np.nan)
    for at, by_block in enumerate(cells.values()):
        for block, value in by_block.items():
            values[at, places[block]] = value
    measured = ~np.isnan(values)
    blocked = len(rows) >= _FEWEST_TREATMENTS and len(blocks) > 1
    df = int(measured.sum()) - len(rows) - (len(blocks) - 1 if blocked else 0) - 1
    if df < _LEAST_DF:
        return None
    # Move each value at random within its step of rounding, so that steps do not look like clusters.
    step = _step(dict.fromkeys(values[measured].tolist()))
    values = values + step * np.random.RandomState(_SEED).uniform(-0.5, 0.5, values.shape)
    relative = bool(np.all(values[measured] > 0))
    grid = _ValueGrid.of(np.log(values) if relative else values, measured, blocked, df)
    split = grid.best_split()
    mode = grid.mode_of(split) if split else None
    if mode is None:
        return None
    in_second_mode, distance, sds = mode
    distance = math.exp(distance) if relative else distance
    if relative and abs(distance - 1) < _LEAST_SHARE:
        return None
    places_of = {row: np.flatnonzero(marks) for row, marks in zip(rows, in_second_mode, strict=True) if marks.any()}
    trials = {row: frozenset(blocks[at] for at in of_row) for row, of_row in places_of.items()}
    return SecondMode(trials, distance, relative, sds)


def _step(values: Collection[float]) -> float:
    """Return the largest step that divides all differences of the distinct values; 0 if they have too many digits."""
    unit = resolution([*values])
    if unit == 0:
        return 0.0
    first, *others = (round(value / unit) for value in values)
    return unit * math.gcd(*(other - first for other in others))


@dataclass(frozen=True, slots=True)
class _Split:
    """Trials in two modes, their distance, and the residual of each; arrays are by treatment and block."""

    in_second_mode: Marks
    distance: float
    noise: Floats


@dataclass(frozen=True, slots=True)
class _ValueGrid:
    """The values by treatment and block, NaN where not `measured`, and the degrees of freedom of a fit with two modes.

    `blocked` is True if means of blocks are fitted, too. Then, if some block lacks a treatment, `inverse` is the
    inverse of the normal equations of the blocks; else None."""

    values: Floats
    measured: Marks
    blocked: bool
    df: int
    inverse: Floats | None

    @classmethod
    def of(cls, values: Floats, measured: Marks, blocked: bool, df: int) -> _ValueGrid:
        if measured.all() or not blocked:
            return cls(values, measured, blocked, df, None)
        table = measured.astype(float)
        equations = np.diag(table.sum(axis=0)) - table.T @ (table / table.sum(axis=1, keepdims=True))
        return cls(values, measured, blocked, df, np.linalg.pinv(equations, hermitian=True))

    def best_split(self) -> _Split | None:
        """Return the split with the least sum of squared residuals; None where the values do not vary."""
        polished = self._median_polish()
        residuals = self._residuals(np.where(self.measured, self.values, 0.0))
        ends = np.quantile(polished[self.measured], (*_CUTS, *(1 - cut for cut in _CUTS)))
        with np.errstate(invalid="ignore"):
            starts = [polished < end for end in ends[: len(_CUTS)]] + [polished > end for end in ends[len(_CUTS) :]]
        splits = [split for start in starts if (split := self._refine(start, residuals))]
        return min(splits, key=lambda split: float(np.sum(split.noise**2)), default=None)

    def _refine(self, in_second_mode: Marks, residuals: Floats) -> _Split | None:
        """Fit the distance, and move trials to the nearer mode, until none moves; `residuals` are those of one mode."""
        split = None
        for _ in range(_MOST_ROUNDS):
            column = self._residuals(in_second_mode.astype(float))
            length = float(np.sum(column**2))
            distance = float(np.sum(column * residuals)) / length if length > _ALIASED else 0.0
            if distance == 0:
                break
            split = _Split(in_second_mode, distance, residuals - distance * column)
            nearer = self.measured & (split.noise / distance + in_second_mode > 0.5)
            if np.array_equal(nearer, in_second_mode):
                break
            in_second_mode = nearer
        return split

    def _residuals(self, values: Floats) -> Floats:
        """Subtract the effects of treatments and of blocks, by least squares; values are 0 where not measured."""
        residuals = self._subtract_treatment_means(values)
        if not self.blocked:
            return residuals
        of_blocks = residuals.sum(axis=0)
        effects = of_blocks / len(residuals) if self.inverse is None else self.inverse @ of_blocks
        return residuals - self._subtract_treatment_means(self.measured * effects)

    def _subtract_treatment_means(self, values: Floats) -> Floats:
        means = values.sum(axis=1, keepdims=True) / self.measured.sum(axis=1, keepdims=True)
        return np.asarray(values - self.measured * means)

    def _median_polish(self) -> Floats:
        """Subtract medians of treatments and blocks from the values, repeatedly; NaN where a trial has no value."""
        median = np.median if self.measured.all() else np.nanmedian
        residuals = self.values
        for _ in range(_MOST_SWEEPS if self.blocked else 1):
            residuals = residuals - median(residuals, axis=1, keepdims=True)
            residuals = residuals - median(residuals, axis=0) if self.blocked else residuals
        return residuals

    def _exchange_to_fewest(self, in_second_mode: Marks) -> Marks:
        """Exchange the modes of whole treatments and blocks, so that as few trials as possible are in the second mode.

        The fit stays the same: the mean of an exchanged treatment or block changes by the distance. The search has
        several starts. One is the given assignment. For each treatment, another one exchanges all blocks in which that
        treatment is in the second mode."""
        rows = range(min(len(in_second_mode), _MOST_STARTS)) if self.blocked else ()
        starts = (in_second_mode, *(self.measured & (in_second_mode ^ in_second_mode[row]) for row in rows))
        return min(map(self._exchange_majorities, starts), key=np.sum)

    def _exchange_majorities(self, in_second_mode: Marks) -> Marks:
        """Exchange the modes of treatments and blocks with most trials in the second mode, until there are none."""
        for _ in range(_MOST_SWEEPS):
            before = in_second_mode
            for axis in (1, 0) if self.blocked else (1,):
                most = 2 * in_second_mode.sum(axis=axis, keepdims=True) > self.measured.sum(axis=axis, keepdims=True)
                in_second_mode = self.measured & (in_second_mode ^ most)
            if np.array_equal(before, in_second_mode):
                break
        return in_second_mode

    def _variance(self, noise: Floats, weights: Floats) -> tuple[float, float]:
        """Return the variance of a trial's noise, as a weighted mean over treatments, and its degrees of freedom."""
        counts = self.measured.sum(axis=1)
        df = counts * self.df / counts.sum()
        fractions = weights / weights.sum()
        return float(np.sum(fractions * np.sum(noise**2, axis=1) / df)), float(1 / np.sum(fractions**2 / df))

    def mode_of(self, split: _Split) -> tuple[Marks, float, float] | None:
        """Return the trials in the second mode, their distance, and its size in standard deviations.

        None if they are not a mode. The docstring of the module has the criteria."""
        in_second_mode = self._exchange_to_fewest(split.in_second_mode)
        n, size = int(in_second_mode.sum()), abs(split.distance)
        if n < LEAST_TRIALS:
            return None
        numbers = (self.measured.sum(axis=1), in_second_mode.sum(axis=1))
        noises = [self._variance(split.noise, weights) for weights in numbers]
        if any(size <= least_distance(df) * math.sqrt(variance) for variance, df in noises):
            return None
        sd = math.sqrt(max(variance for variance, _ in noises))
        width = math.sqrt(float(np.sum(split.noise[in_second_mode] ** 2)) / (n - 1) * self.measured.sum() / self.df)
        offset = split.noise / split.distance  # from the mode of the trial, as a fraction of the way to the other mode
        inside = int(np.sum(np.abs(offset[in_second_mode]) < _NEAR))
        between = int(np.sum(np.abs(offset + split.in_second_mode - 0.5)[self.measured] < _NEAR))
        if width > _MOST_WIDTH * sd or 2 * between > inside:
            return None
        exchanged = 2 * int(np.sum(split.in_second_mode[in_second_mode])) < n
        return in_second_mode, -split.distance if exchanged else split.distance, size / sd if sd else math.inf
