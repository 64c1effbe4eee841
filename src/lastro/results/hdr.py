"""Histograms as bytes: the compressed encoding V2 of HdrHistogram, which tools for histograms of any language read.

The decoder is ours because a campaign may come from anywhere: it limits the amount of data, and checks every count.
Source: HdrHistogram's `AbstractHistogram.encodeIntoCompressedByteBuffer` and ENCODING.rst."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from lastro.results.columns import HISTOGRAM
from lastro.shapes import MisshapenData
from lastro.stats.histograms import DIGITS, MOST, Histogram, bucket_of

_LOST = struct.Struct(">Q")
_OUTER = struct.Struct(">4sI")
_INNER = struct.Struct(">4sIIIQQd")  # cookie, bytes of counts, offset, digits, least, most, ratio
_INNER_COOKIE = b"\x1c\x84\x93\x13"
_MOST_BUCKETS = bucket_of(MOST) + 1
_MOST_COUNT = 2**53
_LAST_BYTE = 8  # index of the last possible byte of a number, which has eight bits of it instead of seven


@dataclass(frozen=True, slots=True)
class NamedHistogram:
    """A histogram of a trial. Its values are whole numbers of `unit`."""

    name: str
    unit: str
    histogram: Histogram


def to_bytes(histogram: Histogram) -> bytes:
    """Return the encoded counts, followed by the number of lost events in eight bytes."""
    return encode(histogram) + _LOST.pack(histogram.lost)


def from_bytes(data: bytes, unpack: Callable[[bytes], bytes] = zlib.decompress) -> Histogram:
    """Return the histogram from bytes that `to_bytes` returned. Raises: ValueError for other bytes.

    `unpack` decompresses its argument, and may limit the amount of data."""
    encoded, end = data[: -_LOST.size], data[-_LOST.size :]
    if len(end) < _LOST.size or (lost := _LOST.unpack(end)[0]) > _MOST_COUNT:
        raise MisshapenData("is a histogram without a count of lost events")
    return replace(decode(encoded, unpack), lost=lost)


def encode(histogram: Histogram) -> bytes:
    """Encode the counts of a histogram; the format has no field for lost events."""
    counts = b"".join(_word(number) for number in _runs(histogram.counts.tolist()))
    inner = _INNER.pack(_INNER_COOKIE, len(counts), 0, DIGITS, 1, MOST, 1.0) + counts
    packed = zlib.compress(inner)
    return _OUTER.pack(HISTOGRAM, len(packed)) + packed


def decode(data: bytes, unpack: Callable[[bytes], bytes] = zlib.decompress) -> Histogram:
    """Return the histogram from bytes that `encode` returned; `unpack` decompresses its argument.

    Raises: ValueError for other bytes, also for a histogram whose buckets are not those of `stats.histograms`."""
    if len(data) < _OUTER.size or _OUTER.unpack_from(data) != (HISTOGRAM, len(data) - _OUTER.size):
        raise MisshapenData("is not a compressed histogram, or is cut off")
    inner = unpack(data[_OUTER.size :])
    if len(inner) < _INNER.size:
        raise MisshapenData("is a histogram that is cut off")
    cookie, length, offset, digits, least, _, ratio = _INNER.unpack_from(inner)
    if cookie != _INNER_COOKIE or length != len(inner) - _INNER.size:
        raise MisshapenData("is a histogram that is cut off, or has another encoding")
    if (offset, digits, least, ratio) != (0, DIGITS, 1, 1.0):
        raise MisshapenData("is a histogram with buckets that Lastro does not use")
    counts, end = np.zeros(_MOST_BUCKETS, np.int64), 0
    for number in _words(inner[_INNER.size :]):
        end += max(1, -number)
        if end > _MOST_BUCKETS or number > _MOST_COUNT:
            raise MisshapenData("is a histogram with a value or a count that is too large")
        if number > 0:
            counts[end - 1] = number
    return Histogram(counts[:end].copy())


def _runs(counts: list[int]) -> Iterator[int]:
    """Yield the counts in order, with each run of empty buckets replaced by its negative length."""
    empty = 0
    for count in counts:
        if not count:
            empty += 1
            continue
        if empty:
            yield -empty
        empty = 0
        yield count


def _word(number: int) -> bytes:
    """Encode a number: its sign in the lowest bit (ZigZag), then seven bits in each byte (LEB128)."""
    remaining = number << 1 if number >= 0 else (-number << 1) - 1
    encoded = bytearray()
    while remaining > 0x7F:
        encoded.append(remaining & 0x7F | 0x80)
        remaining >>= 7
    return bytes([*encoded, remaining])


def _words(data: bytes) -> Iterator[int]:
    """Decode numbers that `_word` encoded, one after the other. Raises: ValueError at an incomplete number."""
    value = shift = index = 0
    for byte in data:
        is_last = index == _LAST_BYTE
        value |= (byte if is_last else byte & 0x7F) << shift
        if is_last or byte < 0x80:
            yield value >> 1 if not value & 1 else -(value + 1 >> 1)
            value = shift = index = 0
        else:
            shift, index = shift + 7, index + 1
    if index:
        raise MisshapenData("is a histogram that ends within a number")
