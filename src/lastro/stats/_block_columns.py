"""The columns of the blocks in a model of cells and blocks, and the noise of each cell, estimated from its residuals.

Sources: those of `block_model`. Loads numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lastro.stats._projections import ALIASED, Floats
from lastro.stats.moderation import MOST_PRIOR_DF, moderated_variances

# With more cells, the noise that residuals of one cell contain of other cells is negligible.
_FEW_CELLS = 30
_FEW_BLOCKS = 60


@dataclass(frozen=True, slots=True)
class BlockColumns:
    """The columns of the blocks in the design matrix, made orthogonal to the cells.

    The matrix has a row for each value, which is not stored: the row of a value of cell c in block b is `whiten`[b] -
    `centre`[c]. `counts` has the number of values of each cell, and `table` the number of values of each (cell, block).
    `complete` is True if every block has all cells."""

    counts: Floats
    table: Floats
    whiten: Floats
    centre: Floats
    complete: bool

    @classmethod
    def of(cls, table: Floats) -> BlockColumns:
        """Return the block columns for a design; `table` has the number of values of each (cell, block)."""
        counts, complete = table.sum(axis=1), bool(np.all(table == table[:1, :1]))
        fractions = table / counts[:, None]
        if complete:  # the same columns as by `_whiten`, without solving equations
            from scipy.linalg import helmert

            whiten = np.asarray(helmert(table.shape[1]).T / np.sqrt(table[:, 0].sum()))
        else:
            whiten = _whiten(np.diag(table.sum(axis=0)) - table.T @ fractions)
        return cls(counts, table, whiten, fractions @ whiten, complete)

    def outer(self, weights: Floats) -> Floats:
        """Return the weighted sum of the outer products of each value's row with itself; one weight per cell."""
        uncentred = (self.whiten * (weights @ self.table)[:, None]).T @ self.whiten
        return np.asarray(uncentred - (self.centre * (weights * self.counts)[:, None]).T @ self.centre)

    def root(self, variances: Floats) -> Floats:
        """Return a matrix whose product with its transpose is the covariance of the block columns.

        `variances` has for each cell the variance of one value. The matrix is empty if `complete`."""
        if self.complete:
            return np.zeros((0, 0))
        spread, directions = np.linalg.eigh(self.outer(variances))
        return np.asarray(directions * np.sqrt(np.maximum(spread, 0.0)))

    @property
    def errors(self) -> Floats:
        """The variance of each cell's mean over all blocks, if every value had variance 1."""
        return np.asarray(1 / self.counts + np.sum(self.centre**2, axis=1))

    @property
    def df_of_blocks(self) -> Floats:
        """The degrees of freedom that the blocks take from the residuals of each cell."""
        uncentred = self.table @ np.sum(self.whiten**2, axis=1)
        return np.asarray(np.maximum(0.0, uncentred - self.counts * np.sum(self.centre**2, axis=1)))

    def shared_noise(self) -> Floats | None:
        """Return the matrix of how much noise of one cell (column) enters the squared residuals of another (row).

        The effects of blocks carry this noise. None for too many cells or blocks, or without blocks."""
        n, k = len(self.counts), self.whiten.shape[1]
        if n > _FEW_CELLS or not k:
            return None
        if self.complete:  # the same for every pair of cells
            return np.full((n, n), k / n**2)
        if k > _FEW_BLOCKS:
            return None
        projections = np.array([self.outer(np.eye(n)[cell]).ravel() for cell in range(n)])
        return np.asarray(projections @ projections.T)


def _whiten(blocks: Floats) -> Floats:
    """Return the block columns that are not aliased, with a row for each block and a norm of 1 over all values.

    `blocks` is the matrix of the normal equations of the blocks, after elimination of the cells."""
    sizes, vectors = np.linalg.eigh(blocks)
    independent = sizes > ALIASED * np.diag(blocks).max(initial=1.0)
    return np.asarray(vectors[:, independent] / np.sqrt(sizes[independent]))


def noise_of_cells(
    squares: Floats, columns: BlockColumns, most_prior_df: float = MOST_PRIOR_DF
) -> tuple[Floats, Floats, Floats]:
    """Return three arrays over cells: variance of a value, its degrees of freedom, and those of the cell's residuals.

    `squares` has for each cell the sum of its squared residuals. The variance is shrunk towards the pooled variance
    (`moderation`), and so has up to `most_prior_df` more degrees of freedom than the residuals of the cell. The
    variance and its degrees of freedom are 0 for a cell whose residuals have no degrees of freedom.

    Through the effects of blocks, the residuals of each cell contain a part of the noise of all other cells: the
    expectation of `squares` is M sigma^2. The variance of a cell is raised to the solution for sigma^2 if that is
    larger. With many cells, this part is negligible."""
    n, df_of_blocks = len(squares), columns.df_of_blocks
    residual_df = columns.counts - 1 - df_of_blocks
    known = residual_df > ALIASED
    variances, df = np.zeros(n), np.zeros(n)
    if not np.any(known):
        return variances, df, residual_df
    own_variances = (squares[known] / residual_df[known]).tolist()
    variances[known], df[known] = moderated_variances(own_variances, residual_df[known].tolist(), most_prior_df)
    shared_noise = columns.shared_noise() if np.all(known) else None
    if shared_noise is not None:
        mixing = np.diag(residual_df - df_of_blocks) + shared_noise
        if np.linalg.cond(mixing) < 1 / ALIASED:
            variances = np.maximum(variances, np.linalg.solve(mixing, variances * residual_df))
    return variances, df, residual_df
