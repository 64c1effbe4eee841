"""A mean for each cell and additive blocks, by least squares: the arithmetic under `contrasts`. Loads numpy.

With D the counts of the cells, B those of the blocks and N their table, the blocks are solved first, from the matrix S
= B - N' D^-1 N: as many equations as blocks, however many cells. Source: Searle, Linear Models for Unbalanced Data
(1987), section 9.3."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lastro.stats._projections import ALIASED, ROUNDING, Centred, Codes, Floats, coded, varying
from lastro.stats.ratios import Moments


@dataclass(frozen=True, slots=True)
class CellEstimate:
    """A weighted sum of cell means; its standard error and degrees of freedom, None where there is no error.

    `apart`: the cells share no blocks, so that the value includes differences between blocks."""

    value: float
    error: float | None = None
    df: float | None = None
    apart: bool = False


@dataclass(frozen=True, slots=True)
class CellFit:
    """The fit, in units of the centred values; `effects` are those of the blocks, around their mean.

    `cell` holds for each value its cell, `left` its residual, and `blocks` its row of the block columns, made
    orthogonal to the cells and of length one over all values, so that with the cells they are the projection that
    fits."""

    index: dict[Hashable, int]
    means: Floats
    counts: Floats
    table: Floats
    whiten: Floats
    cell: Codes
    blocks: Floats
    left: Floats
    effects: Floats
    df: int
    data: Centred

    @classmethod
    def of(cls, values: Sequence[float], cells: Sequence[Hashable], blocks: Sequence[Hashable]) -> CellFit:
        data = Centred.of(values)
        index = {cell: number for number, cell in enumerate(dict.fromkeys(cells))}
        rows, columns = coded(cells), coded(blocks)
        table = np.zeros((len(index), int(columns.max()) + 1))
        np.add.at(table, (rows, columns), 1)
        counts, of_block = table.sum(axis=1), table.sum(axis=0)
        share = table / counts[:, None]
        sizes, vectors = np.linalg.eigh(np.diag(of_block) - table.T @ share)
        kept = sizes > ALIASED * of_block.max()
        whiten = vectors[:, kept] / np.sqrt(sizes[kept])
        sums = np.bincount(rows, weights=data.y)
        effects = whiten @ (whiten.T @ (np.bincount(columns, weights=data.y) - share.T @ sums))
        means = (sums - table @ effects) / counts
        left = data.y - means[rows] - effects[columns]
        own = whiten[columns] - (share @ whiten)[rows]
        df = len(values) - len(index) - whiten.shape[1]
        return cls(index, means, counts, table, whiten, rows, own, left, effects, df, data)

    @property
    def n_blocks(self) -> int:
        return len(self.effects)

    def separate(self, weights: Mapping[Any, float]) -> CellEstimate:
        """Estimate a weighted sum with a variance of each value, from its residual; without blocks it is Welch's.

        Blocks are treated as a sample: unless the weights sum to zero, their differences add to the error. Source: the
        HC2 estimator of MacKinnon and White, J. Econometrics 29 (1985) 305-325. Degrees of freedom are Satterthwaite's,
        where each cell contributes the sum of the degrees of freedom of its residuals: with two cells in n complete
        blocks that is the paired t test with n - 1."""
        own = self._sum(weights)
        if own.apart or not self._known(own):
            return CellEstimate(own.value, apart=own.apart)
        return CellEstimate(own.value, math.sqrt(self._covariance(own, own)), self._freedom(own.weight, own.total))

    def ratio(self, numerator: Mapping[Any, float], denominator: Mapping[Any, float]) -> Moments | None:
        """Return both sums and their covariances, as in `separate`; None where one has no error or the second is 0."""
        a, b = self._sum(numerator), self._sum(denominator)
        if a.apart or b.apart or b.value == 0 or not (self._known(a) and self._known(b)):
            return None
        df = self._freedom(a.weight - a.value / b.value * b.weight, a.total - a.value / b.value * b.total)
        var_a, var_b, cov = (self._covariance(x, y) for x, y in ((a, a), (b, b), (a, b)))
        return Moments(a.value, b.value, var_a, var_b, cov, df)

    def _sum(self, weights: Mapping[Any, float]) -> _Sum:
        w = np.zeros(len(self.index))
        for cell, weight in weights.items():
            w[self.index[cell]] += weight
        size, total = float(np.abs(w).sum()), float(w.sum())
        total = total if abs(total) > ROUNDING * size else 0.0
        value = float(w @ self.means)
        value = 0.0 if abs(value) <= ROUNDING * size else value * self.data.scale
        by_block = self.table.T @ (w / self.counts)
        effects = self.whiten @ (self.whiten.T @ by_block)
        # The part that block differences do not reach is the same in every block, unless the blocks fall into parts.
        reached = self.table.sum(axis=0) * effects - self.table.T @ ((self.table @ effects) / self.counts)
        apart = float(np.ptp(by_block - reached)) > ALIASED * size
        of_value = (w / self.counts)[self.cell] - self.blocks @ (self.whiten.T @ by_block)
        of_value[np.abs(of_value) <= ALIASED * size / len(of_value)] = 0
        return _Sum(value + total * self.data.mean, of_value, total, apart)

    @property
    def _free(self) -> Floats:
        """The fraction that each residual keeps of its value's error: 0 for a value that is fitted exactly."""
        return np.asarray(1 - 1 / self.counts[self.cell] - np.sum(self.blocks**2, axis=1))

    def _known(self, own: _Sum) -> bool:
        """Return whether every value with a weight leaves a residual, from which its variance is estimated."""
        return not np.any(self._free[own.weight != 0] < ALIASED)

    def _variances(self) -> Floats:
        free = self._free
        if varying(self.left) == 0:
            return np.zeros_like(free)
        return np.where(free < ALIASED, 0, self.left**2 / np.where(free < ALIASED, 1, free))

    def _of_blocks(self) -> float:
        """Return the variance of the mean of the blocks."""
        return float(np.var(self.effects, ddof=1)) / len(self.effects) if len(self.effects) > 1 else 0.0

    def _covariance(self, a: _Sum, b: _Sum) -> float:
        within = float(np.sum(a.weight * b.weight * self._variances()))
        return (within + a.total * b.total * self._of_blocks()) * self.data.scale**2

    def _freedom(self, weight: Floats, total: float) -> float:
        variances = self._variances()
        if not np.any(variances):
            variances = np.ones_like(variances)  # without any spread, the degrees of freedom of equal variances
        free = np.append(np.bincount(self.cell, weights=self._free), len(self.effects) - 1)
        parts = np.append(np.bincount(self.cell, weights=weight**2 * variances), total**2 * self._of_blocks())
        used = parts > 0
        return float(parts.sum() ** 2 / np.sum(parts[used] ** 2 / free[used])) if np.any(used) else float(self.df)


@dataclass(frozen=True, slots=True)
class _Sum:
    """A weighted sum of cell means: its value, the weight of each value, the total weight of the cells.

    `apart`: blocks keep its cells apart."""

    value: float
    weight: Floats
    total: float
    apart: bool
