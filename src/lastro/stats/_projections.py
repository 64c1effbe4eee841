"""Least squares on factors, by orthogonal projections: the arithmetic of `anova` and `block_model`.

It is a separate module so that numpy is loaded only when a model is fitted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

# A column is aliased with others if less than this fraction of its length is orthogonal to them. R's `lm` uses 1e-7.
ALIASED = 1e-8
# If the largest values are about one, a smaller number than this is a rounding error.
ROUNDING = 20 * 2.0**-52


@dataclass(frozen=True, slots=True)
class CentredValues:
    """Values as mean + scale * y, so that sums of squares lose no digits to a large mean or a large unit."""

    y: Floats
    mean: float
    scale: float

    @classmethod
    def of(cls, values: Sequence[float]) -> CentredValues:
        """Centre and scale the values: the largest |y| is between 0.5 and 1, or 0 if all values are equal."""
        data = np.asarray(values, dtype=float)
        mean = math.fsum(values) / len(values)
        y = data - mean
        # The first subtraction is exact if the mean is large; the second one removes the rounding error of the mean.
        rest = math.fsum(y) / len(values)
        y = y - rest
        largest = float(np.max(np.abs(y)))
        if data.min() == data.max() or largest == 0:
            return cls(np.zeros_like(data), float(values[0]), 1.0)
        scale = math.ldexp(1.0, math.frexp(largest)[1])  # a power of two divides exactly
        return cls(y / scale, mean + rest, scale)


def level_codes(levels: Sequence[object]) -> Codes:
    """Return a code for each entry of `levels`: 0 for the level that appears first, 1 for the next one, and so on."""
    numbers: dict[object, int] = {}
    return np.fromiter((numbers.setdefault(level, len(numbers)) for level in levels), dtype=np.intp, count=len(levels))


def orthonormal_basis(columns: Floats, original: Floats | None = None) -> Floats:
    """Return an orthonormal basis of the space that the columns span, without aliased directions.

    A direction is aliased if its Euclidean norm is negligible compared with the `original` columns. These are the
    columns before anything was subtracted from them; by default, `columns`."""
    if columns.shape[1] == 0:
        return columns
    floor = aliasing_tolerance(columns if original is None else original)
    if columns.shape[1] <= columns.shape[0]:
        q, r = np.linalg.qr(columns)
        if np.min(np.abs(np.diag(r))) > floor:
            return q
    from scipy.linalg import qr

    q, r, _ = (np.asarray(part) for part in qr(columns, mode="economic", pivoting=True))
    return q[:, : int(np.count_nonzero(np.abs(np.diag(r)) > floor))]


def aliasing_tolerance(columns: Floats) -> float:
    """Return the norm below which a column is aliased with the columns before it.

    It is compared with the Euclidean norm of the column's part that is orthogonal to these columns."""
    return ALIASED * math.sqrt(float(np.max(np.sum(columns**2, axis=0))))


def project_out(basis: Floats, columns: Floats) -> Floats:
    """Return the part of columns (or of a vector) that is orthogonal to the basis."""
    for _ in range(2):  # one pass leaves rounding errors; two passes are enough (Kahan; Parlett 1980)
        columns = columns - basis @ (basis.T @ columns)
    return columns


def sum_of_squares(part: Floats, n: int) -> float:
    """Return the sum of squares of a component of `n` scaled values, such as residuals; 0 if only rounding error."""
    total = float(part @ part)
    return total if total > n * ROUNDING**2 else 0.0


@dataclass(frozen=True, slots=True)
class LinearModel:
    """A fitted linear model, with coordinates in the space of all columns."""

    terms: tuple[Floats, ...]  # the columns of each term, as coordinates
    intercept: Floats
    z: Floats  # the response, as coordinates
    fitted: Floats  # the fitted response of each value
    rank: int  # of the whole model, including the mean
    orthogonal: bool  # whether each column is orthogonal to all others, as in a balanced design

    @classmethod
    def of(cls, y: Floats, factors: Sequence[Codes], terms: Sequence[Sequence[int]]) -> LinearModel:
        """Fit the model to `y`. Each term is a tuple of indices into `factors`; each factor has two levels or more."""
        from scipy.linalg import helmert

        # One row for each distinct combination, weighted by its number of values: nine rows for 18,000 values. `first`
        # has the index of the first value of each combination, and `rows` the combination of each value.
        table = np.column_stack([*factors, np.zeros(len(y), dtype=np.intp)])
        _, first, rows, counts = np.unique(table, axis=0, return_index=True, return_inverse=True, return_counts=True)
        rows, weights = rows.reshape(-1), np.sqrt(counts)
        # Helmert's contrasts: over the levels of a factor, the columns are orthonormal and sum to zero.
        contrasts = [helmert(int(codes.max()) + 1).T[codes[first]] for codes in factors]
        parts = [weights[:, None]]
        for term in terms:
            columns = weights[:, None]
            for index in term:
                columns = (columns[:, :, None] * contrasts[index][:, None, :]).reshape(len(first), -1)
            parts.append(columns)
        stacked = np.hstack(parts)
        # `frame` is an orthonormal basis of the space of all columns, and `inner` has the columns in this basis.
        crossed = len(counts) == math.prod(int(codes.max()) + 1 for codes in factors) and np.ptp(counts) == 0
        if crossed:
            frame, inner = stacked / np.linalg.norm(stacked, axis=0), np.eye(stacked.shape[1])
        else:
            frame, inner = np.linalg.qr(stacked)
        intercept, *of_terms = np.split(inner, np.cumsum([part.shape[1] for part in parts])[:-1], axis=1)
        z = frame.T @ (weights * (np.bincount(rows, weights=y) / counts))
        basis = inner if crossed else orthonormal_basis(inner)
        fitted = (frame @ (basis @ (basis.T @ z)) / weights)[rows]
        return cls(tuple(of_terms), intercept, z, fitted, basis.shape[1], crossed)

    def effect(self, term: int, adjusted_for: Sequence[int]) -> tuple[int, float]:
        """Return the degrees of freedom and the sum of squares of a term, adjusted for the mean and for other terms.

        `term` and `adjusted_for` are indices into `terms`. A sum of squares that is only rounding error is set to 0,
        since its size depends on the processor."""
        of_term = self.terms[term]
        if self.orthogonal:
            return of_term.shape[1], sum_of_squares(of_term.T @ self.z, len(self.fitted))
        others = np.hstack([self.intercept, *(self.terms[index] for index in adjusted_for)])
        columns = np.hstack([others, of_term])
        first, last = others.shape[1], columns.shape[1]
        if last <= len(self.z):
            r = np.asarray(np.linalg.qr(np.column_stack([columns, self.z]), mode="r"))
            if np.min(np.abs(np.diag(r)[:last])) > aliasing_tolerance(columns):
                return last - first, sum_of_squares(r[first:last, last], len(self.fitted))
        basis = orthonormal_basis(others)
        new_directions = orthonormal_basis(project_out(basis, of_term), of_term)
        return new_directions.shape[1], sum_of_squares(new_directions.T @ project_out(basis, self.z), len(self.fitted))
