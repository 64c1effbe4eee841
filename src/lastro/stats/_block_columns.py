"""The columns of blocks in a model of cells and blocks, and the noise of each cell that the residuals show.

Sources: those of `block_model`. Loads numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lastro.stats._projections import ALIASED, Floats
from lastro.stats.moderation import drawn_to_pooled

_FEW_CELLS = 30  # with more, the part that residuals hold of the noise of other cells is negligible
_FEW_BLOCKS = 60


@dataclass(frozen=True, slots=True)
class BlockColumns:
    """The columns of the blocks, orthogonal to the cells, without a row for each value.

    The row of a value of cell c in block b is `whiten`[b] - `centre`[c]. `complete`: every block has all cells."""

    counts: Floats
    table: Floats
    whiten: Floats
    centre: Floats
    complete: bool

    @classmethod
    def of(cls, table: Floats) -> BlockColumns:
        """Return the columns of a table of counts: a row for each cell, a column for each block."""
        counts, complete = table.sum(axis=1), bool(np.all(table == table[0, 0]))
        share = table / counts[:, None]
        whiten = _helmert(table) if complete else _whiten(np.diag(table.sum(axis=0)) - table.T @ share)
        return cls(counts, table, whiten, share @ whiten, complete)

    def outer(self, weights: Floats) -> Floats:
        """Return the sum of the outer products of all rows, those of each cell with a weight."""
        whole = (self.whiten * (weights @ self.table)[:, None]).T @ self.whiten
        return np.asarray(whole - (self.centre * (weights * self.counts)[:, None]).T @ self.centre)

    def root(self, variances: Floats) -> Floats:
        """Return a matrix that, times its transpose, is the covariance of the block columns; empty if `complete`."""
        if self.complete:
            return np.zeros((0, 0))
        spread, directions = np.linalg.eigh(self.outer(variances))
        return np.asarray(directions * np.sqrt(np.maximum(spread, 0.0)))

    @property
    def taken(self) -> Floats:
        """The degrees of freedom that the blocks take from the residuals of each cell."""
        whole = self.table @ np.sum(self.whiten**2, axis=1)
        return np.asarray(np.maximum(0.0, whole - self.counts * np.sum(self.centre**2, axis=1)))

    def shared(self) -> Floats | None:
        """Return how much of the residuals of each cell any two have in common; None for too many cells or blocks."""
        n, k = len(self.counts), self.whiten.shape[1]
        if n > _FEW_CELLS or not k:
            return None
        if self.complete:  # no need for a matrix of each cell
            return np.full((n, n), k / n**2)
        if k > _FEW_BLOCKS:
            return None
        each = np.array([self.outer(np.eye(n)[at]).ravel() for at in range(n)])
        return np.asarray(each @ each.T)


def _whiten(blocks: Floats) -> Floats:
    """Return the columns of the blocks that are not aliased, of length one over all values."""
    sizes, vectors = np.linalg.eigh(blocks)
    kept = sizes > ALIASED * np.diag(blocks).max(initial=1.0)
    return np.asarray(vectors[:, kept] / np.sqrt(sizes[kept]))


def _helmert(table: Floats) -> Floats:
    """Return the same for blocks that all have every cell."""
    from scipy.linalg import helmert

    return np.asarray(helmert(table.shape[1]).T / np.sqrt(table[:, 0].sum()))


def noise_of_cells(squares: Floats, columns: BlockColumns) -> tuple[Floats, Floats, Floats]:
    """Return the variance of a value of each cell, its degrees of freedom, and those of its own residuals.

    `squares` are the sums of the squared residuals of each cell. They contain a part of the noise of all others, which
    the blocks pass on: M sigma^2 is what they are expected to be. Where solving for sigma^2 raises the variance of a
    cell, it is raised; with many cells that part is negligible."""
    n, taken = len(squares), columns.taken
    free = columns.counts - 1 - taken
    known = free > ALIASED
    variances, freedom = np.zeros(n), np.zeros(n)
    if not np.any(known):
        return variances, freedom, free
    moderated = drawn_to_pooled((squares[known] / free[known]).tolist(), free[known].tolist())
    variances[known], freedom[known] = moderated.variances, moderated.df
    if np.all(known) and (shared := columns.shared()) is not None:
        mixed = np.diag(free - taken) + shared
        if np.linalg.cond(mixed) < 1 / ALIASED:
            variances = np.maximum(variances, np.linalg.solve(mixed, variances * free))
    return variances, freedom, free
