"""How wide the intervals of a report will be, for many campaigns at a time: complete blocks, noise that may differ.

The same steps as in `block_model`, `families` and `contrasts`, for arrays of campaigns. A campaign is a row of mean
squares of the residuals of its cells. Widths agree with those of a report to about 1 %, rarely to 10 %: critical values
are interpolated, for the mean correlation of a family. Loads numpy."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from lastro.stats._block_columns import FEW_CELLS
from lastro.stats._projections import Floats
from lastro.stats.block_model import BlockModel
from lastro.stats.families import MOST_PLANNED, Family
from lastro.stats.intervals import alpha_of, t_quantile
from lastro.stats.moderation import LEAST_EXCESS, MOST_PRIOR_DF
from lastro.stats.resolution import equal_readings, rounding

_SHARES = np.linspace(0, 1, 6)  # of the baseline in the variance of a ratio
_ROOTS = np.linspace(0, 1, 13)  # of 1 / df, in which critical values are nearly linear
_FEW = 20  # readings that may be equal by chance are fewer
_WIDEST = 20.0  # of logarithms: larger half widths are not distinguished


class Intervals(Protocol):
    """The intervals of one metric in a campaign of complete blocks.

    `n` is a column, one number of blocks for each row of campaigns; arrays have a column for each cell."""

    @property
    def correlation(self) -> float:
        """The correlation of the mean squares of two equally noisy cells."""
        ...

    def expected(self, variances: Floats) -> Floats:
        """Return the expected mean squares for these variances of the values."""
        ...

    def half_widths(self, mean_squares: Floats, n: Floats) -> Floats:
        """Return half the width of each interval, as a fraction of its estimate: a column for each interval."""
        ...


@dataclass(frozen=True)
class MeanIntervals:
    """Student's interval of the mean of each cell, by its own values alone.

    `means` and `steps`, the resolution, are in the unit of the values."""

    means: Floats
    steps: Floats
    confidence: float
    correlation: float = 0.0

    def expected(self, variances: Floats) -> Floats:
        return variances

    def half_widths(self, mean_squares: Floats, n: Floats) -> Floats:
        from scipy.special import stdtrit

        sd = np.sqrt(mean_squares)
        half = stdtrit(n - 1, (1 + self.confidence) / 2) * sd / np.sqrt(n)
        # As `rounding_of_mean`: few equal readings say less.
        halves = np.array([equal_readings(at, self.confidence) for at in range(1, _FEW)])
        moved = rounding(sd, self.steps) * halves[np.minimum(n, _FEW - 1).astype(int) - 1]
        return np.asarray((half + moved) / np.abs(self.means))


@dataclass(frozen=True)
class RatioIntervals:
    """Intervals of ratios that hold together: of each of the cells `of` to the cell at the same place in `to`.

    `means` of the cells are in the unit of the residuals, with the variance `of_blocks` of the effects of blocks; None
    if the model is of logarithms. `steps` are the resolution of each cell, in the same unit. `found` is the fraction of
    comparisons that differ, in a screening."""

    of: Sequence[int]
    to: Sequence[int]
    means: Floats | None
    of_blocks: float
    steps: Floats
    confidence: float
    found: float = 0.0

    @classmethod
    def of_model(
        cls, model: BlockModel, pairs: Sequence[tuple[Hashable, Hashable]], confidence: float, found: float = 0.0
    ) -> RatioIntervals:
        """Return the ratios of pairs of cells in a campaign with the means and blocks of this model.

        Raises: KeyError for a cell without values."""
        fit = model.blocked
        of, to = ([fit.index[pair[side]] for pair in pairs] for side in (0, 1))
        of_blocks = fit.of_blocks * (fit.data.scale / model.unit) ** 2 * fit.n_blocks
        means = None if model.log else np.array(fit.all_means) / model.unit
        return cls(of, to, means, of_blocks, fit.steps / model.unit, confidence, found)

    @property
    def correlation(self) -> float:
        return 1 / (len(self.steps) - 1) ** 2

    def expected(self, variances: Floats) -> Floats:
        cells = variances.shape[-1]
        own = (1 - 2 / cells) * variances + variances.mean(axis=-1, keepdims=True) / cells
        return np.asarray(own / (1 - 1 / cells))

    def half_widths(self, mean_squares: Floats, n: Floats) -> Floats:
        variances, freedom = model_noise(mean_squares, n)
        a, b = variances[:, self.of] / n, variances[:, self.to] / n
        df = np.minimum(_satterthwaite(a, b, freedom), (n - 1) * (len(self.steps) - 1))
        share = _mean_product(np.sqrt(b / (a + b)))
        moved = rounding(np.sqrt(variances), self.steps)
        if self.means is None:
            half = self._critical(share, df) * np.sqrt(a + b) + moved[:, self.of] + moved[:, self.to]
            return np.asarray(np.sinh(np.minimum(half, _WIDEST)))
        of, to = self.means[self.of], self.means[self.to]
        a, b, blocks = a / of**2, b / to**2, self.of_blocks / n
        at_ratio = np.minimum(_satterthwaite(a, b, freedom), (n - 1) * (len(self.steps) - 1))
        across = blocks * (1 / of - 1 / to) ** 2
        at_ratio = (a + b + across) ** 2 / ((a + b) ** 2 / at_ratio + across**2 / (n - 1))
        critical = self._critical(share, np.minimum(df, at_ratio)) ** 2
        half = _fieller(a + blocks / of**2, b + blocks / to**2, blocks / (of * to), critical)
        moved = moved / np.abs(self.means)
        return half + moved[:, self.of] + moved[:, self.to]

    @cached_property
    def _table(self) -> Floats:
        """The logarithms of critical values for each of `_SHARES` and `_ROOTS`, as if cells were equally noisy."""
        dfs = [float(1 / max(root, 1e-3) ** 2) for root in _ROOTS]
        if len(self.of) > MOST_PLANNED:
            share = max(self.found, 1 / len(self.of))
            alone = [math.log(t_quantile(1 - share * alpha_of(self.confidence), df)) for df in dfs]
            return np.array([alone] * len(_SHARES))
        rows = np.arange(len(self.of))
        table = []
        for share in _SHARES:
            loads = np.zeros((len(self.of), len(self.steps)))
            loads[rows, self.of], loads[rows, self.to] = math.sqrt(1 - share), -math.sqrt(share)
            family = Family(list(loads))
            table.append([math.log(family.critical(self.confidence, df)) for df in dfs])
        return np.array(table)

    def _critical(self, share: Floats, df: Floats) -> Floats:
        row = np.broadcast_to(share, df.shape) * (len(_SHARES) - 1)
        column = np.sqrt(1 / df) * (len(_ROOTS) - 1)
        i, j = (np.minimum(at.astype(int), len(grid) - 2) for at, grid in ((row, _SHARES), (column, _ROOTS)))
        u, v = row - i, column - j
        low = (1 - v) * self._table[i, j] + v * self._table[i, j + 1]
        high = (1 - v) * self._table[i + 1, j] + v * self._table[i + 1, j + 1]
        return np.asarray(np.exp((1 - u) * low + u * high))


def _mean_product(values: Floats) -> Floats:
    """Return, as a column, the mean product of two values of each row."""
    k = values.shape[1]
    total = values.sum(axis=1, keepdims=True) ** 2 - (values**2).sum(axis=1, keepdims=True)
    return np.asarray(np.clip(total / max(1, k * (k - 1)), 0, 1))


def _satterthwaite(a: Floats, b: Floats, freedom: Floats) -> Floats:
    share = a / (a + b)  # squares of fractions do not underflow
    return np.asarray(freedom / (share**2 + (1 - share) ** 2))


def _fieller(a: Floats, b: Floats, both: Floats, critical: Floats) -> Floats:
    """Return half the width of Fieller's intervals, from relative variances and the covariance `both`.

    The `critical` values are squares. Infinite where an interval is unbounded."""
    bounded = 1 - critical * b
    inside = (1 - critical * both) ** 2 - bounded * (1 - critical * a)
    return np.where(bounded > 0, np.sqrt(np.maximum(0.0, inside)) / np.maximum(bounded, 1e-9), math.inf)


def model_noise(mean_squares: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Return the variances of the cells as `block_model` estimates them from complete blocks, with degrees of freedom.

    If the variances are very unequal, the prior degrees of freedom are accurate to 4 %."""
    from scipy.special import zeta

    cells = mean_squares.shape[1]
    free, taken = (n - 1) * (1 - 1 / cells), (n - 1) / cells
    excess = np.var(np.log(mean_squares), axis=1, ddof=1, keepdims=True) - zeta(2, free / 2)
    prior = MOST_PRIOR_DF / np.sqrt(np.maximum(excess, LEAST_EXCESS) - LEAST_EXCESS + 1)
    pooled = mean_squares.mean(axis=1, keepdims=True)
    drawn = (prior * pooled + free * mean_squares) / (prior + free)
    if 2 < cells <= FEW_CELLS:
        own, squares = free - taken, drawn * free
        shared = (n - 1) / cells**2
        alone = (squares - shared * squares.sum(axis=1, keepdims=True) / (own + cells * shared)) / own
        drawn = np.maximum(drawn, alone)
    return drawn, prior + free
