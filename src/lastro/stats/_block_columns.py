"""The blocks beside the cells of a model, and the noise that they leave to each cell: the arithmetic of `block_model`.

Source: Grubbs, J. Am. Stat. Assoc. 43 (1948) 243-264, for a variance of each cell from residuals that all share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lastro.stats._projections import ALIASED, Floats
from lastro.stats.moderation import drawn_to_pooled

_FEW_CELLS, _FEW_BLOCKS = 30, 60


def whitened(blocks: Floats) -> Floats:
    """Return the columns of the blocks that are not aliased, of length one over all values."""
    sizes, vectors = np.linalg.eigh(blocks)
    kept = sizes > ALIASED * np.diag(blocks).max(initial=1.0)
    return np.asarray(vectors[:, kept] / np.sqrt(sizes[kept]))


def helmert_columns(table: Floats) -> Floats:
    """Return the same for blocks that all have every cell."""
    from scipy.linalg import helmert

    return np.asarray(helmert(table.shape[1]).T / np.sqrt(table[:, 0].sum()))


def root_of(covariance: Floats) -> Floats:
    spread, directions = np.linalg.eigh(covariance)
    return np.asarray(directions * np.sqrt(np.maximum(spread, 0.0)))


def spread_by_noise(whiten: Floats, of_noise: Floats) -> float:
    """Return the variance that the effects of blocks have by noise alone, from the covariance of their columns."""
    centred = whiten - whiten.mean(axis=0)
    return float(np.sum((centred @ of_noise) * centred)) / max(1, len(whiten) - 1)


@dataclass(frozen=True, slots=True)
class BlockColumns:
    """The columns of the blocks, orthogonal to the cells, without a row for each value.

    The row of a value of cell c in block b is `whiten`[b] - `centre`[c]."""

    counts: Floats
    table: Floats
    whiten: Floats
    centre: Floats

    def outer(self, weights: Floats) -> Floats:
        """Return the sum of the outer products of all rows, those of each cell with a weight."""
        whole = (self.whiten * (weights @ self.table)[:, None]).T @ self.whiten
        return np.asarray(whole - (self.centre * (weights * self.counts)[:, None]).T @ self.centre)

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
        if np.all(self.table == self.table[0, 0]):  # no need for a matrix of each cell
            return np.full((n, n), k / n**2)
        if k > _FEW_BLOCKS:
            return None
        each = np.array([self.outer(np.eye(n)[at]).ravel() for at in range(n)])
        return np.asarray(each @ each.T)


def noise_of(squares: Floats, design: BlockColumns) -> tuple[Floats, Floats, Floats]:
    """Return the variance of a value of each cell, its degrees of freedom, and those of its own residuals.

    `squares` are the sums of the squared residuals of each cell. They contain a part of the noise of all others, which
    the blocks pass on: M sigma^2 is what they are expected to be. Where solving for sigma^2 raises the variance of a
    cell, it is raised; with many cells that part is negligible."""
    n, taken = len(squares), design.taken
    free = design.counts - 1 - taken
    known = free > ALIASED
    variances, freedom = np.zeros(n), np.zeros(n)
    if not np.any(known):
        return variances, freedom, free
    moderated = drawn_to_pooled((squares[known] / free[known]).tolist(), free[known].tolist())
    variances[known], freedom[known] = moderated.variances, moderated.df
    if np.all(known) and (shared := design.shared()) is not None:
        mixed = np.diag(free - taken) + shared
        if np.linalg.cond(mixed) < 1 / ALIASED:
            variances = np.maximum(variances, np.linalg.solve(mixed, variances * free))
    return variances, freedom, free
