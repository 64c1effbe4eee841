"""Histograms of whole numbers with a relative resolution, so that one histogram covers nanoseconds to minutes.

The buckets are those of HdrHistogram with three significant digits: every number below 2048 has a bucket, and above it
each power of two is divided into 1024 buckets, so that a bucket is at most 0.1 % wide. Histograms of several trials are
added bucket by bucket, which loses nothing; percentiles of trials must never be averaged.
Source: Tene, HdrHistogram (2012), https://hdrhistogram.org"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

DIGITS = 3
MOST = 3_600_000_000_000  # an hour in nanoseconds
LEAST_BEYOND = 10  # events beyond a quantile; with fewer, the quantile depends on chance
_EXACT_BITS = 11  # 2048: numbers below it have a bucket each
_HALF = 1 << (_EXACT_BITS - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """The number of values in each bucket, from the bucket of 0 to the last one that is not empty.

    `lost` is the number of events without a value, such as packets without an answer. They count as the largest."""

    counts: NDArray[np.int64]
    lost: int = 0

    @classmethod
    def of(cls, values: ArrayLike, lost: int = 0) -> Histogram:
        """Count whole numbers from 0 to MOST. Raises: ValueError for numbers outside of this range."""
        numbers = np.asarray(values, dtype=np.int64)
        if numbers.size and not 0 <= int(numbers.min()) <= int(numbers.max()) <= MOST:
            raise ValueError(f"a histogram holds numbers from 0 to {MOST}, not {numbers.min()} to {numbers.max()}")
        return cls(np.bincount(_buckets(numbers)) if numbers.size else np.zeros(0, np.int64), lost)

    @classmethod
    def merged(cls, histograms: Iterable[Histogram]) -> Histogram:
        """Return the sum of histograms, as if all their values had been counted in one."""
        parts = list(histograms)
        total = np.zeros(max((len(part.counts) for part in parts), default=0), np.int64)
        for part in parts:
            total[: len(part.counts)] += part.counts
        return cls(total, sum(part.lost for part in parts))

    @property
    def n(self) -> int:
        """The number of values, without the lost ones."""
        return int(self.counts.sum())

    @property
    def n_events(self) -> int:
        """The number of events, with and without a value."""
        return self.n + self.lost

    @property
    def maximum(self) -> float:
        """The upper end of the last bucket with a value; 0 without values. Lost events do not count."""
        return float(upper_ends(np.int64(len(self.counts) - 1))) if len(self.counts) else 0.0

    def is_estimable(self, q: float) -> bool:
        """Return whether at least LEAST_BEYOND events lie beyond the q-quantile."""
        return round(self.n_events * (1 - q), 6) >= LEAST_BEYOND

    def quantile(self, q: float) -> float:
        """Return the least value that at least a fraction `q` of all events do not exceed; `q` = 1 gives the maximum.

        It is the upper end of a bucket, and so at most 0.1 % too large. It is infinite if the quantile is among the
        lost events.
        Raises: ValueError without events, or unless 0 < q <= 1."""
        if not 0 < q <= 1 or not self.n_events:
            raise ValueError(f"no quantile {q} of {self.n_events} events")
        rank = max(1, math.ceil(q * self.n_events - 1e-6))
        if rank > self.n:
            return math.inf
        return float(upper_ends(np.searchsorted(np.cumsum(self.counts), rank)))


def bucket_of(value: int) -> int:
    return int(_buckets(np.asarray([value]))[0])


def _buckets(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the index of the bucket of each value."""
    _, bits = np.frexp(values.astype(np.float64))  # the length of a number in bits; doubles are exact below 2**53
    shift = np.maximum(0, bits.astype(np.int64) - _EXACT_BITS)
    buckets: NDArray[np.int64] = shift * _HALF + (values >> shift)
    return buckets


def upper_ends(buckets: NDArray[np.int64] | np.int64) -> NDArray[np.int64]:
    """Return the largest value that belongs to each of these buckets, which are given by index."""
    shift = np.maximum(0, buckets // _HALF - 1)
    return ((buckets - shift * _HALF + 1) << shift) - 1
