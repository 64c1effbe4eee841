"""Posterior draws of the means of cells, of several metrics together. A cell is a candidate in a condition.

Each metric has a model: a mean for each cell, random effects of blocks, and a variance of the noise of each cell, drawn
towards the pooled one (`moderation`). Where all values are above zero, their logarithms are modelled, so that means are
geometric. The residuals of a trial are correlated between metrics. The prior of the means is flat. Blocks may be
incomplete, since a candidate may have been dropped before others: the uncertainty of its means, and the degrees of
freedom of its noise, follow from least squares. Loads numpy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lastro.stats._block_columns import BlockColumns, noise_of_cells
from lastro.stats._projections import Floats
from lastro.stats.resolution import resolution

DRAWS = 8000
SEED = 2010
# The most degrees of freedom that the pooled variance counts as. More than elsewhere: with few blocks, decisions need
# it, and where one candidate is five times noisier, violators remain as rare (benches/decision_promises.py).
_MOST_PRIOR_DF = 4.0
# With block effects, the residuals of two cells are equal: their noises would not be distinguishable. So each of two
# cells has no block effects, and its own variance alone.
_FEWEST_TOGETHER = 3
Booleans = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class MetricTrials:
    """The values of one metric: {(index of the candidate, index of the condition): {block: value}}.

    The values of the cells in `floors` are only lower bounds: they can prove only that the true value is large
    enough. `log` says whether the logarithms are modelled, and `step` is the resolution of the values; if they are
    None, the values show both."""

    cells: Mapping[tuple[int, int], Mapping[int, float]]
    floors: frozenset[tuple[int, int]] = frozenset()
    log: bool | None = None
    step: float | None = None


class MeanDraws:
    """Draws from the posterior of all means, and of the value of one more trial in each cell.

    `size` is the shape of the draws of a metric: (draw, candidate, condition). A cell without values is NaN."""

    def __init__(self, metrics: Sequence[MetricTrials], size: tuple[int, int, int], seed: int = SEED) -> None:
        self._rng = np.random.default_rng(seed)
        _, n_candidates, n_conditions = size
        self._fits = [_FittedMetric.of(metric, n_candidates, n_conditions) for metric in metrics]
        mixing = np.linalg.cholesky(_correlations(self._fits))
        # The residuals of a trial are correlated between metrics, and so are the errors of their means.
        plain = self._rng.standard_normal((len(metrics), *size))
        self._errors = np.einsum("ij,jabc->iabc", mixing, plain)
        self._drawn: dict[int, tuple[Floats, Floats]] = {}

    def of(self, metric: int) -> tuple[Floats, Floats]:
        """Return the draws of the means of the metric with this index, and those of one more trial."""
        if metric not in self._drawn:
            self._drawn[metric] = self.draw(metric)
        return self._drawn[metric]

    def draw(self, metric: int) -> tuple[Floats, Floats]:
        """Draw what `of` returns."""
        return self._fits[metric].draw(self._errors[metric], self._rng)

    def missing(self, candidate: int, metrics: set[int]) -> tuple[int, ...]:
        """Return the indices of those `metrics` that have no value of the candidate in at least one condition."""
        return tuple(sorted(at for at in metrics if np.isnan(self._fits[at].means[candidate]).any()))


@dataclass(frozen=True, slots=True)
class _FittedMetric:
    """The fitted model of one metric; arrays are by candidate and condition, and NaN without a value."""

    log: bool
    means: Floats
    noise: Floats  # variance of a value of a cell
    df: Floats  # degrees of freedom of `noise`
    error: Floats  # variance of the cell's mean if `noise` were 1
    between: float  # variance of the effects of the `n_blocks` blocks
    inner: float  # variance that these effects would have from the noise of the cells alone, if `noise` were 1
    n_blocks: int
    residuals: Mapping[tuple[int, int, int], float]  # {(candidate, condition, block): value}

    @classmethod
    def of(cls, metric: MetricTrials, n_candidates: int, n_conditions: int) -> _FittedMetric:
        blocks = sorted({block for by_block in metric.cells.values() for block in by_block})
        grid = np.full((n_candidates, n_conditions, max(1, len(blocks))), np.nan)
        for (candidate, condition), by_block in metric.cells.items():
            for block, value in by_block.items():
                grid[candidate, condition, blocks.index(block)] = value
        measured = ~np.isnan(grid)
        log = bool((grid[measured] > 0).all()) if metric.log is None else metric.log
        grid = np.log(grid) if log else grid
        n = measured.sum(axis=2)
        columns, effects = _fit_blocks(grid[n > 0], measured[n > 0])
        unblocked = grid - effects
        means = np.where(n > 0, np.nansum(unblocked, axis=2) / np.maximum(n, 1), np.nan)
        residuals = np.where(measured, unblocked - means[:, :, None], 0.0)
        noise, df, error = np.full(n.shape, np.nan), np.ones(n.shape), np.full(n.shape, np.nan)
        noise[n > 0], df[n > 0] = _noise((residuals[n > 0] ** 2).sum(axis=1), columns)
        error[n > 0] = columns.errors
        step = metric.step
        if step is None:
            step = resolution([value for by_block in metric.cells.values() for value in by_block.values()])
        noise = noise + (step / np.exp(means) if log else step) ** 2 / 12  # equal readings may differ by rounding
        between = float(effects.var(ddof=1)) if len(blocks) > 1 else 0.0
        inner = float((columns.whiten**2).sum()) / max(len(blocks) - 1, 1)
        by_trial = {(int(a), int(b), int(c)): float(residuals[a, b, c]) for a, b, c in np.argwhere(measured)}
        return cls(log, means, noise, df, error, between, inner, grid.shape[2], by_trial)

    def standardized(self, trial: tuple[int, int, int]) -> float:
        noise = float(self.noise[trial[:2]])
        return self.residuals[trial] / math.sqrt(noise) if noise > 0 else 0.0

    def draw(self, errors: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return draws of all means, and of one more trial in each cell: (draw, candidate, condition).

        `errors` are standard normal, of the same shape, and become the errors of the means."""
        size = errors.shape
        noise = self.noise * self.df / rng.chisquare(np.maximum(self.df, 0.5), size)
        df = max(self.n_blocks - 1, 1)
        between = self.between * df / rng.chisquare(df, (size[0], 1, 1))
        known = self.noise[~np.isnan(self.noise)]
        # The noise of few cells moves the effects of blocks, too.
        from_noise = float(known.mean()) * self.inner if known.size else 0.0
        of_blocks = np.sqrt(np.maximum(between - from_noise, 0.0))
        means = self._near_additive(errors * np.sqrt(self.error * noise), noise, rng)
        means = means + rng.standard_normal((size[0], 1, 1)) * of_blocks / math.sqrt(self.n_blocks)
        next_block = rng.standard_normal((size[0], 1, 1)) * of_blocks
        nexts = means + next_block + rng.standard_normal(size) * np.sqrt(noise)
        return (_exp(means), _exp(nexts)) if self.log else (means, nexts)

    def _near_additive(self, errors: Floats, noise: Floats, rng: np.random.Generator) -> Floats:
        """Return draws of the means, with a flat prior for main effects, and a normal one for interactions.

        Main effects are those of candidates and of conditions. The variance of the interactions is estimated from the
        interactions, with the uncertainty of its degrees of freedom. With a flat prior for interactions, too, the worst
        of many conditions would look worse than it is."""
        df = (self.means.shape[0] - 1) * (self.means.shape[1] - 1)
        if not df or np.isnan(self.means).any():
            return self.means + errors
        error = noise * self.error
        interactions = self.means - _additive_fit(self.means)
        squares = (interactions**2).sum()
        scatter = squares / rng.chisquare(df, (len(errors), 1, 1)) - error.mean(axis=(1, 2), keepdims=True)
        shrinkage = np.maximum(scatter, 0.0) / (np.maximum(scatter, 0.0) + error)
        main = _additive_fit(errors)
        drawn = shrinkage * interactions + np.sqrt(shrinkage) * (errors - main)
        return np.asarray(_additive_fit(self.means) + main + drawn)


def _exp(logs: Floats) -> Floats:
    return np.asarray(np.exp(np.clip(logs, -600, 600)))  # draws from two blocks may exceed the range of a float


def _additive_fit(values: Floats) -> Floats:
    """Return the least-squares fit of the values by a main effect of each of the last two axes."""
    rows, columns = values.mean(axis=-1, keepdims=True), values.mean(axis=-2, keepdims=True)
    return np.asarray(rows + columns - values.mean(axis=(-2, -1), keepdims=True))


def _fit_blocks(grid: Floats, measured: Booleans) -> tuple[BlockColumns, Floats]:
    """Fit block effects by least squares to values of a grid (cell, block), where they are `measured`.

    Return the block columns, and the effects. With fewer than `_FEWEST_TOGETHER` cells, all blocks are one."""
    table = measured.astype(float)
    if len(table) < _FEWEST_TOGETHER:
        return BlockColumns.of(table.sum(axis=1, keepdims=True)), np.zeros(table.shape[1])
    columns, values = BlockColumns.of(table), np.where(measured, grid, 0.0)
    of_blocks = values.sum(axis=0) - table.T @ (values.sum(axis=1) / columns.counts)
    return columns, columns.whiten @ (columns.whiten.T @ of_blocks)


def _noise(squares: Floats, columns: BlockColumns) -> tuple[Floats, Floats]:
    """Return the variance of a value of each cell, and its degrees of freedom; NaN and 1 if no noise is known.

    `squares` are the sums of squared residuals. A cell with one value has the pooled variance, with one degree."""
    most_prior_df = _MOST_PRIOR_DF if len(squares) >= _FEWEST_TOGETHER else 0.0
    variances, df, residual_df = noise_of_cells(squares, columns, most_prior_df)
    known = df > 0
    pooled = float(squares[known].sum() / residual_df[known].sum()) if known.any() else math.nan
    return np.where(known, variances, pooled), np.where(known, df, 1.0)


def _correlations(fits: Sequence[_FittedMetric]) -> Floats:
    """Return the correlations of the residuals of two metrics in the same trials, as a matrix, shrunk towards zero."""
    n = len(fits)
    correlations = np.eye(n)
    for a in range(n):
        for b in range(a):
            shared = [key for key in fits[a].residuals if key in fits[b].residuals]
            x, y = (np.array([fit.standardized(key) for key in shared]) for fit in (fits[a], fits[b]))
            scale = math.sqrt(float((x**2).sum() * (y**2).sum())) if shared else 0.0
            if scale > 0:
                r = float((x * y).sum()) / scale
                correlations[a, b] = correlations[b, a] = r * len(shared) / (len(shared) + 10)
    values, vectors = np.linalg.eigh(correlations)
    definite = (vectors * np.maximum(values, 1e-6)) @ vectors.T  # correlations estimated in pairs may be inconsistent
    sizes = np.sqrt(np.diag(definite))
    return np.asarray(definite / np.outer(sizes, sizes))
