"""A mean for each cell and additive blocks, by least squares: the arithmetic under `effects`. Loads numpy.

With D the counts of the cells, B those of the blocks and N their table, the blocks are solved first, from the matrix
S = B - N' D^-1 N: as many equations as blocks, however many cells. Source: Searle, Linear Models for Unbalanced Data
(1987), section 9.3."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lastro.stats._projections import ALIASED, ROUNDING, Centred, Codes, Floats, coded, varying


@dataclass(frozen=True, slots=True)
class Estimate:
    """A weighted sum of cell means; its standard error and degrees of freedom, None where there is no error.

    `apart` says that the cells share no blocks: the value then holds differences between blocks."""

    value: float
    error: float | None = None
    df: float | None = None
    apart: bool = False


@dataclass(frozen=True, slots=True)
class CellFit:
    """The fit, in units of the centred values. Of each value: its cell, its block, and what the fit leaves of it.

    `blocks` holds for each value its row of the block columns, made orthogonal to the cells and of length one over all
    values, so that with the cells they are the projection that fits."""

    index: dict[Hashable, int]
    means: Floats
    counts: Floats
    table: Floats
    whiten: Floats
    cell: Codes
    blocks: Floats
    left: Floats
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
        return cls(index, means, counts, table, whiten, rows, own, left, df, data)

    def pooled(self, weights: Mapping[Any, float]) -> Estimate:
        """With one residual variance for all cells."""
        w, value, apart = self._value(weights)
        if apart or self.df == 0:
            return Estimate(value, apart=apart)
        by_block = self.whiten.T @ (self.table.T @ (w / self.counts))
        spread = float(w @ (w / self.counts) + by_block @ by_block) * varying(self.left) / self.df
        return Estimate(value, math.sqrt(spread) * self.data.scale, self.df)

    def separate(self, weights: Mapping[Any, float]) -> Estimate:
        """With a variance of its own for each value, from its residual; without blocks it is Welch's.

        Source: the HC2 estimator of MacKinnon and White, J. Econometrics 29 (1985) 305-325. Degrees of freedom are
        Satterthwaite's, where each cell brings the sum of what its residuals are free: with two cells in n complete
        blocks that is the paired t test with n - 1."""
        w, value, apart = self._value(weights)
        if apart:
            return Estimate(value, apart=True)
        weight = (w / self.counts)[self.cell]
        weight -= self.blocks @ (self.whiten.T @ (self.table.T @ (w / self.counts)))
        free = 1 - 1 / self.counts[self.cell] - np.sum(self.blocks**2, axis=1)
        counted = np.abs(weight) > ALIASED * float(np.max(np.abs(weight)))
        if np.any(free[counted] < ALIASED):
            return Estimate(value)
        q = np.where(counted, weight**2 / np.where(counted, free, 1), 0)
        left = self.left if varying(self.left) else np.zeros_like(self.left)
        parts = np.bincount(self.cell, weights=q * left**2, minlength=len(self.counts))
        spread = float(parts.sum())
        # Without any spread, that of equal variances.
        shares = np.bincount(self.cell, weights=q * free, minlength=len(self.counts)) if spread == 0 else parts
        freedom = np.bincount(self.cell, weights=free, minlength=len(self.counts))
        used = shares > 0
        df = float(shares.sum()) ** 2 / float(np.sum(shares[used] ** 2 / freedom[used]))
        return Estimate(value, math.sqrt(spread) * self.data.scale, df)

    def _value(self, weights: Mapping[Any, float]) -> tuple[Floats, float, bool]:
        """Weights in the order of the cells, the sum with them, and whether blocks keep its cells apart."""
        w = np.zeros(len(self.index))
        for cell, weight in weights.items():
            w[self.index[cell]] += weight
        size, total = float(np.abs(w).sum()), float(w.sum())
        value = float(w @ self.means)
        value = 0.0 if abs(value) <= ROUNDING * size else value * self.data.scale
        if abs(total) > ROUNDING * size:
            value += total * self.data.mean
        by_block = self.table.T @ (w / self.counts)
        # What differences between blocks do not reach is the same in every block, unless the blocks fall into parts.
        effects = self.whiten @ (self.whiten.T @ by_block)
        reached = self.table.sum(axis=0) * effects - self.table.T @ ((self.table @ effects) / self.counts)
        return w, value, float(np.ptp(by_block - reached)) > ALIASED * size
