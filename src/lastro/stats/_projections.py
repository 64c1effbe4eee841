"""Least squares on factors, by orthogonal projections: the arithmetic under `anova` and `effects`.

A module of its own, so that numpy is loaded only where a model is fitted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

# A column that keeps less than this of its length beside the others is aliased with them. R's `lm` uses 1e-7.
ALIASED = 1e-8
# Below this, for values of which the largest is about one, a number is rounding error.
ROUNDING = 20 * 2.0**-52


@dataclass(frozen=True, slots=True)
class CentredValues:
    """values = mean + scale * y: so that neither a large mean nor a large unit costs digits of a sum of squares."""

    y: Floats
    mean: float
    scale: float

    @classmethod
    def of(cls, values: Sequence[float]) -> CentredValues:
        data = np.asarray(values, dtype=float)
        mean = math.fsum(values) / len(values)
        y = data - mean
        # The first subtraction is exact where the mean is large; the second removes the rounding of that mean.
        rest = math.fsum(y) / len(values)
        y = y - rest
        largest = float(np.max(np.abs(y)))
        if data.min() == data.max() or largest == 0:
            return cls(np.zeros_like(data), float(values[0]), 1.0)
        scale = math.ldexp(1.0, math.frexp(largest)[1])  # a power of two divides exactly
        return cls(y / scale, mean + rest, scale)


def coded(levels: Sequence[object]) -> Codes:
    """Return the number of each level, in order of first appearance."""
    numbers: dict[object, int] = {}
    return np.fromiter((numbers.setdefault(level, len(numbers)) for level in levels), dtype=np.intp, count=len(levels))


def contrasts_of(codes: Codes) -> Floats:
    """Return Helmert's contrasts: orthonormal columns that sum to zero over the levels, one fewer than the levels."""
    from scipy.linalg import helmert

    return np.asarray(helmert(int(codes.max()) + 1).T[codes])


def products(first: Floats, second: Floats) -> Floats:
    """Return every column of one times every column of the other, row by row: the columns of an interaction."""
    return (first[:, :, None] * second[:, None, :]).reshape(len(first), -1)


def span(columns: Floats, lengths: Floats | None = None) -> Floats:
    """Return an orthonormal basis of the columns without aliased ones, judged by `lengths`, by default their own."""
    if columns.shape[1] == 0:
        return columns
    floor = aliasing_tolerance(columns if lengths is None else lengths)
    if columns.shape[1] <= columns.shape[0]:
        q, r = np.linalg.qr(columns)
        if np.min(np.abs(np.diag(r))) > floor:
            return q
    from scipy.linalg import qr

    q, r, _ = (np.asarray(part) for part in qr(columns, mode="economic", pivoting=True))
    return q[:, : int(np.count_nonzero(np.abs(np.diag(r)) > floor))]


def aliasing_tolerance(columns: Floats) -> float:
    """Return the tolerance for aliasing: a column is aliased if its part orthogonal to the others is no longer."""
    return ALIASED * math.sqrt(float(np.max(np.sum(columns**2, axis=0))))


def without(basis: Floats, columns: Floats) -> Floats:
    """Return the part of columns (or of a vector) orthogonal to the basis. Twice is enough (Kahan; Parlett 1980)."""
    for _ in range(2):
        columns = columns - basis @ (basis.T @ columns)
    return columns


def varying(left: Floats) -> float:
    """Return the residual sum of squares of a model of scaled values; 0 when that is rounding alone."""
    return sum_of_squares(left, len(left))


def sum_of_squares(part: Floats, n: int) -> float:
    """Return the sum of squares of a part of `n` scaled values; 0 when that is rounding alone."""
    found = float(part @ part)
    return found if found > n * ROUNDING**2 else 0.0


@dataclass(frozen=True, slots=True)
class Model:
    """Columns of each term, and the response, in coordinates of the space that all columns span.

    `fitted` is per value; `rank` is that of the whole model with its mean. `orthogonal`: every column is at right
    angles to all others, as in a design with every combination equally often."""

    terms: tuple[Floats, ...]
    intercept: Floats
    z: Floats
    fitted: Floats
    rank: int
    orthogonal: bool

    @classmethod
    def of(cls, y: Floats, factors: Sequence[Codes], terms: Sequence[Sequence[int]]) -> Model:
        """Return the model. `terms` are tuples of indices of factors; every factor has two levels or more."""
        first, rows, counts = _distinct(factors, len(y))
        # One row for each distinct combination, weighted by its number of values: nine rows for 18,000 values.
        root = np.sqrt(counts)
        coding = [contrasts_of(codes)[first] for codes in factors]
        parts = [root[:, None]]
        for term in terms:
            columns = root[:, None]
            for index in term:
                columns = products(columns, coding[index])
            parts.append(columns)
        stacked = np.hstack(parts)
        crossed = len(counts) == math.prod(int(codes.max()) + 1 for codes in factors) and np.ptp(counts) == 0
        if crossed:
            frame, inner = stacked / np.linalg.norm(stacked, axis=0), np.eye(stacked.shape[1])
        else:
            frame, inner = np.linalg.qr(stacked)
        intercept, *own = np.split(inner, np.cumsum([part.shape[1] for part in parts])[:-1], axis=1)
        z = frame.T @ (root * (np.bincount(rows, weights=y) / counts))
        basis = inner if crossed else span(inner)
        fitted = (frame @ (basis @ (basis.T @ z)) / root)[rows]
        return cls(tuple(own), intercept, z, fitted, basis.shape[1], crossed)

    def effect(self, term: int, given: Sequence[int]) -> tuple[int, float]:
        """Return the degrees of freedom and sum of squares that a term adds to the mean and the given terms.

        Rounding alone is 0, as for residuals: its size depends on the processor."""
        own = self.terms[term]
        if self.orthogonal:
            return own.shape[1], sum_of_squares(own.T @ self.z, len(self.fitted))
        others = np.hstack([self.intercept, *(self.terms[index] for index in given)])
        columns = np.hstack([others, own])
        first, last = others.shape[1], columns.shape[1]
        if last <= len(self.z):
            r = np.asarray(np.linalg.qr(np.column_stack([columns, self.z]), mode="r"))
            if np.min(np.abs(np.diag(r)[:last])) > aliasing_tolerance(columns):
                return last - first, sum_of_squares(r[first:last, last], len(self.fitted))
        basis = span(others)
        added = span(without(basis, own), own)
        return added.shape[1], sum_of_squares(added.T @ without(basis, self.z), len(self.fitted))


def _distinct(factors: Sequence[Codes], n: int) -> tuple[Codes, Codes, Codes]:
    """Return, for the distinct combinations of levels: first places, the combination of each value, and counts."""
    table = np.column_stack([*factors, np.zeros(n, dtype=np.intp)])
    _, first, rows, counts = np.unique(table, axis=0, return_index=True, return_inverse=True, return_counts=True)
    return first, rows.reshape(-1), counts
