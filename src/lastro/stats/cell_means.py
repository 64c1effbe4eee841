"""What trials in blocks say of the means of cells (candidates in conditions), of several metrics at once: as draws.

Each metric is modelled by itself: a mean for each cell, effects of blocks that are random, and noise of each cell of
its own, drawn towards the pooled one (`moderation`); on logarithms where all values are above zero, so that a mean is
geometric. What is left over in one trial is correlated between metrics. The posterior of all means is drawn under a
flat prior. Blocks may be incomplete: a cell may have ended before others, so what the effects of blocks leave unknown
of its mean, and how many degrees of freedom its noise has, follow from least squares. Loads numpy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lastro.stats._projections import Floats
from lastro.stats.moderation import drawn_to_pooled
from lastro.stats.resolution import resolution

DRAWS = 8000
_SEED = 2010
# Of the pooled variance, for that of a cell. More than elsewhere: with few blocks, decisions need it, and where one
# candidate is five times noisier, violators remain as rare (benches/decision_promises.py).
_MOST_PRIOR_DF = 4.0
Booleans = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class MetricTrials:
    """The values of one metric: {(candidate, condition): {block: value}}, both by their numbers.

    Of the cells in `floors`, only lower bounds are known: they prove that a value is large enough, and nothing else."""

    cells: Mapping[tuple[int, int], Mapping[int, float]]
    floors: frozenset[tuple[int, int]] = frozenset()


class MeanDraws:
    """Draws from the posterior of all means, and of one more trial in each cell: (draw, candidate, condition).

    A cell without values is NaN in all draws."""

    def __init__(self, metrics: Sequence[MetricTrials], size: tuple[int, int, int], seed: int = _SEED) -> None:
        self._rng = np.random.default_rng(seed)
        _, n_candidates, n_conditions = size
        self._fits = [_FittedMetric.of(metric, n_candidates, n_conditions) for metric in metrics]
        mixing = np.linalg.cholesky(_correlations(self._fits))
        # What is left over in a trial is correlated between metrics: so is the error of their means.
        plain = self._rng.standard_normal((len(metrics), *size))
        self._errors = np.einsum("ij,jabc->iabc", mixing, plain)
        self._drawn: dict[int, tuple[Floats, Floats]] = {}

    def of(self, metric: int) -> tuple[Floats, Floats]:
        if metric not in self._drawn:
            self._drawn[metric] = self._fits[metric].drawn(self._errors[metric], self._rng)
        return self._drawn[metric]

    def missing(self, candidate: int, metrics: set[int]) -> tuple[int, ...]:
        return tuple(sorted(at for at in metrics if np.isnan(self._fits[at].means[candidate]).any()))


def drawn_means(metric: MetricTrials, n_candidates: int, n_conditions: int, seed: int = _SEED) -> Floats:
    """Return draws of the means of one metric: (draw, candidate, condition), NaN in all where there is no value."""
    return MeanDraws([metric], (DRAWS, n_candidates, n_conditions), seed).of(0)[0]


@dataclass(frozen=True, slots=True)
class _FittedMetric:
    """Means by candidate and condition (NaN without a value), and what a mean is uncertain by.

    `noise` and `df` are of each cell; `error` is the variance of its mean for a noise of 1. `between` is the variance
    of the effects of `n_blocks` blocks. `inner` is the part of it that is noise of the cells, also for a noise of 1.
    `residuals` are {(candidate, condition, block): value}."""

    log: bool
    means: Floats
    noise: Floats
    df: Floats
    error: Floats
    between: float
    inner: float
    n_blocks: int
    residuals: Mapping[tuple[int, int, int], float]

    @classmethod
    def of(cls, metric: MetricTrials, n_candidates: int, n_conditions: int) -> _FittedMetric:
        blocks = sorted({block for own in metric.cells.values() for block in own})
        grid = np.full((n_candidates, n_conditions, max(1, len(blocks))), np.nan)
        for (candidate, condition), own in metric.cells.items():
            for block, value in own.items():
                grid[candidate, condition, blocks.index(block)] = value
        there = ~np.isnan(grid)
        log = bool((grid[there] > 0).all())
        grid = np.log(grid) if log else grid
        blocked = _BlockFit.of(grid, there)
        left, n = grid - blocked.effects, there.sum(axis=2)
        means = np.where(n > 0, np.nansum(left, axis=2) / np.maximum(n, 1), np.nan)
        residuals = np.where(there, left - means[:, :, None], 0.0)
        noise, df = _moderated((residuals**2).sum(axis=2), blocked.df)
        step = resolution([value for own in metric.cells.values() for value in own.values()])
        noise = noise + (step / np.exp(means) if log else step) ** 2 / 12  # equal values are equal to the resolution
        between = float(blocked.effects.var(ddof=1)) if len(blocks) > 1 else 0.0
        found = {(int(a), int(b), int(c)): float(residuals[a, b, c]) for a, b, c in np.argwhere(there)}
        return cls(log, means, noise, df, blocked.error, between, blocked.inner, grid.shape[2], found)

    def drawn(self, errors: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return draws of all means, and of one more trial each, by standard normal errors of the cells."""
        size = errors.shape
        noise = self.noise * self.df / rng.chisquare(np.maximum(self.df, 0.5), size)
        df = max(self.n_blocks - 1, 1)
        between = self.between * df / rng.chisquare(df, (size[0], 1, 1))
        shift = rng.standard_normal((size[0], 1, 1))
        known = self.noise[~np.isnan(self.noise)]
        # The noise of few cells moves the effects of blocks, too.
        share = float(known.mean()) * self.inner if known.size else 0.0
        own = np.maximum(self.error - self.inner / self.n_blocks, 0.0)
        means = self._near_additive(errors * np.sqrt(own * noise), noise, rng)
        means = means + shift * np.sqrt(np.maximum(between, share) / self.n_blocks)
        ahead = rng.standard_normal((size[0], 1, 1)) * np.sqrt(np.maximum(between - share, 0.0))
        nexts = means + ahead + rng.standard_normal(size) * np.sqrt(noise)
        return (_exp(means), _exp(nexts)) if self.log else (means, nexts)

    def _near_additive(self, errors: Floats, noise: Floats, rng: np.random.Generator) -> Floats:
        """Return means of which those of candidates and conditions have a flat prior, and interactions a normal one.

        How far interactions scatter is estimated from them, and as uncertain as few of them leave it. With a flat prior
        on these, too, the worst of many conditions would look worse than it is."""
        df = (self.means.shape[0] - 1) * (self.means.shape[1] - 1)
        if not df or np.isnan(self.means).any():
            return self.means + errors
        error = noise * self.error
        apart = self.means - _additive(self.means)
        scatter = (apart**2).sum() / rng.chisquare(df, (len(errors), 1, 1)) - error.mean(axis=(1, 2), keepdims=True)
        kept = np.maximum(scatter, 0.0) / (np.maximum(scatter, 0.0) + error)
        common = _additive(errors)
        return np.asarray(_additive(self.means) + common + kept * apart + np.sqrt(kept) * (errors - common))


def _exp(logs: Floats) -> Floats:
    return np.asarray(np.exp(np.clip(logs, -600, 600)))  # two blocks may leave almost anything possible


def _additive(values: Floats) -> Floats:
    """Return the sum of the means over the last two axes that fits best."""
    rows, columns = values.mean(axis=-1, keepdims=True), values.mean(axis=-2, keepdims=True)
    return np.asarray(rows + columns - values.mean(axis=(-2, -1), keepdims=True))


@dataclass(frozen=True, slots=True)
class _BlockFit:
    """The effects of blocks by least squares, which sum to zero, and what they leave to each cell.

    `df` are the degrees of freedom of the residuals of a cell, and `error` the variance of its mean over all blocks.
    `inner` is the variance that noise of the cells gives to an effect. All are for a noise of 1."""

    effects: Floats
    df: Floats
    error: Floats
    inner: float

    @classmethod
    def of(cls, grid: Floats, there: Booleans) -> _BlockFit:
        shape, n_blocks = grid.shape[:2], grid.shape[2]
        own = there.reshape(-1, n_blocks).astype(float)
        n, in_block = own.sum(axis=1), own.sum(axis=0)
        one = 1 / np.maximum(n, 1)
        if (n > 0).sum() < 2:  # nothing tells a block from a value
            return cls(np.zeros(n_blocks), np.maximum(n - 1, 0).reshape(shape), one.reshape(shape), 0.0)
        values = np.where(there, grid, 0.0).reshape(-1, n_blocks)
        inverse = np.linalg.pinv(np.diag(in_block) - own.T @ (own * one[:, None]), rcond=1e-10, hermitian=True)
        effects = inverse @ (values.sum(axis=0) - own.T @ (values.sum(axis=1) * one))
        through = own @ inverse * one[:, None]  # how the noise of effects enters the mean of a cell
        of_mean = one + (through * own).sum(axis=1) * one
        leverage = of_mean[:, None] + np.diag(inverse) - 2 * through
        df = (own * (1 - leverage)).sum(axis=1)
        df = np.where(df > 1e-9, df, 0.0)  # a single value has none
        return cls(effects, df.reshape(shape), of_mean.reshape(shape), float(np.mean(1 / in_block)))


def _moderated(squares: Floats, df: Floats) -> tuple[Floats, Floats]:
    """Return the variance of each cell, drawn towards the pooled one, and its degrees of freedom.

    A cell with one value or none has the pooled variance alone."""
    known = df > 0
    if not known.any():
        return np.full(df.shape, np.nan), np.ones(df.shape)
    own = squares[known] / df[known]
    moderated = drawn_to_pooled(own.tolist(), df[known].tolist(), _MOST_PRIOR_DF)
    pooled = float(squares[known].sum() / df[known].sum())
    noise, freedom = np.full(df.shape, pooled), np.ones(df.shape)
    noise[known], freedom[known] = moderated.variances, moderated.df
    return noise, freedom


def _correlations(fits: Sequence[_FittedMetric]) -> Floats:
    """Return the correlations of what is left over in the same trials, over all cells; drawn towards none."""
    n = len(fits)
    found = np.eye(n)
    for a in range(n):
        for b in range(a):
            shared = [key for key in fits[a].residuals if key in fits[b].residuals]
            x, y = (np.array([_standard(fit, key) for key in shared]) for fit in (fits[a], fits[b]))
            scale = math.sqrt(float((x**2).sum() * (y**2).sum())) if shared else 0.0
            if scale > 0:
                r = float((x * y).sum()) / scale
                found[a, b] = found[b, a] = r * len(shared) / (len(shared) + 10)
    values, vectors = np.linalg.eigh(found)
    found = (vectors * np.maximum(values, 1e-6)) @ vectors.T
    sizes = np.sqrt(np.diag(found))
    return np.asarray(found / np.outer(sizes, sizes))


def _standard(fit: _FittedMetric, key: tuple[int, int, int]) -> float:
    noise = float(fit.noise[key[0], key[1]])
    return fit.residuals[key] / math.sqrt(noise) if noise > 0 else 0.0
