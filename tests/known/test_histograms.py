"""Histograms of latencies: their buckets and bytes are those of HdrHistogram, their quantiles those of the samples."""

from __future__ import annotations

import base64
import json
import math
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastro.results import hdr
from lastro.shapes import MisshapenData
from lastro.stats.histograms import LEAST_BEYOND, MOST, Histogram

EDGES = [0, 1, 2047, 2048, 2049, 4095, 4096, MOST]
RECORDED = json.loads((Path(__file__).parents[1] / "data" / "hdrhistogram.json").read_text())["encoded"]
VALUES: dict[str, list[int]] = {
    "edges": EDGES,
    "single gaps": [1, 3, 5, 6, 9, 2048, 2052],
    "cubes": [(i**3 * 7919) % MOST for i in range(600)],
    "powers": [2**k for k in range(41)] + [2**k - 1 for k in range(42) if 2**k - 1 <= MOST],
    "many": [50_000] * 10_000 + [60_000] * 300 + [1_000_000_000],
    "nothing": [],
}


@pytest.mark.parametrize("name", VALUES)
def test_bytes_are_those_of_the_library(name: str) -> None:
    """As the library HdrHistogram_py encoded the same values: in base64, as logs have them."""
    found = Histogram.of(VALUES[name])
    encoded = base64.b64encode(hdr.encode(found)).decode()
    # zlib may pack in other ways elsewhere: what it packs must be the same.
    assert unpacked(encoded) == unpacked(RECORDED[name]) and encoded.startswith("HISTFAAA")
    assert hdr.decode(base64.b64decode(RECORDED[name])).counts.tolist() == found.counts.tolist()


def unpacked(encoded: str) -> bytes:
    return zlib.decompress(base64.b64decode(encoded)[8:])


@given(st.lists(st.integers(0, MOST), max_size=200))
@settings(max_examples=30, deadline=None)
def test_what_was_encoded_is_decoded(values: list[int]) -> None:
    found = Histogram.of(values)
    assert hdr.decode(hdr.encode(found)).counts.tolist() == found.counts.tolist()
    assert found.n == len(values)


def test_nothing_is_a_histogram_too() -> None:
    assert hdr.from_bytes(hdr.to_bytes(Histogram.of([], lost=3))).n_events == 3


@pytest.mark.parametrize("lost", [0, 40, 2**40])
def test_what_was_lost_is_kept(lost: int) -> None:
    found = hdr.from_bytes(hdr.to_bytes(Histogram.of([5, 70_000], lost)))
    assert (found.n, found.lost, found.quantile(1) if not lost else None) == (2, lost, None if lost else 70_015)


@given(st.binary(max_size=60), st.integers(0, 200))
@settings(max_examples=200, deadline=None)
def test_damage_is_an_error_or_a_histogram(noise: bytes, at: int) -> None:
    """Whoever wrote the campaign: no other exception, and no more buckets than ours."""
    whole = hdr.to_bytes(Histogram.of([1, 2, 3, 5_000, 10**9]))
    for data in (noise, whole[: at % len(whole)], whole[: at % len(whole)] + noise):
        try:
            assert len(hdr.from_bytes(data).counts) < 50_000
        except (ValueError, zlib.error):
            continue


def test_counts_beyond_the_buckets_are_refused() -> None:
    """A run of 2**50 empty buckets must not be made."""
    for number in (-(2**50), 2**54):
        counts = hdr._word(number)
        inner = hdr._INNER.pack(hdr._INNER_COOKIE, len(counts), 0, 3, 1, 2**60, 1.0) + counts
        packed = zlib.compress(inner)
        with pytest.raises(MisshapenData, match="too large"):
            hdr.decode(hdr._OUTER.pack(hdr.HISTOGRAM, len(packed)) + packed)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("q", [0.5, 0.9, 0.99, 0.999, 1])
def test_quantiles_are_those_of_the_raw_samples(seed: int, q: float) -> None:
    """Within 0.1 %, of trials that are merged, for latencies with a heavy tail and a pause of 200 ms."""
    rng = np.random.default_rng(seed)
    trials = [rng.lognormal(10 + rng.normal(0, 0.3), 1, 20_000).astype(int) for _ in range(5)]
    trials.append(np.linspace(0, 200_000_000, 2_000).astype(int))
    merged = Histogram.merged(map(Histogram.of, trials))
    raw = float(np.quantile(np.concatenate(trials), q, method="inverted_cdf"))
    assert raw <= merged.quantile(q) <= 1.001 * raw


def test_the_mean_of_percentiles_would_be_wrong() -> None:
    """Why histograms are merged: a rare pause in one trial of ten."""
    calm, paused = np.full(10_000, 50_000), np.concatenate([np.full(9_700, 50_000), np.full(300, 10**8)])
    trials = [Histogram.of(calm)] * 9 + [Histogram.of(paused)]
    assert np.mean([trial.quantile(0.99) for trial in trials]) > 10**7
    assert Histogram.merged(trials).quantile(0.99) == pytest.approx(50_000, rel=1e-3)


def test_lost_packets_are_later_than_all_others() -> None:
    found = Histogram.of(range(1, 981), lost=20)
    assert (found.quantile(0.5), found.quantile(0.98), found.quantile(0.981)) == (500, 980, math.inf)
    assert Histogram.merged([found, found]).lost == 40


@pytest.mark.parametrize(
    ("n", "q", "enough"),
    [
        (20, 0.5, True), (19, 0.5, False), (100, 0.9, True), (999, 0.99, False), (1000, 0.99, True),
        (9_999, 0.999, False), (10_000, 0.999, True),
    ],
)  # fmt: skip
def test_a_quantile_needs_ten_samples_beyond(n: int, q: float, enough: bool) -> None:
    assert LEAST_BEYOND == 10
    assert Histogram.of([1] * n).is_estimable(q) is enough
    assert Histogram.of([1] * (n - 5), lost=5).is_estimable(q) is enough


@pytest.mark.parametrize("value", [-1, MOST + 1])
def test_values_out_of_range_are_refused(value: int) -> None:
    with pytest.raises(ValueError, match="a histogram holds"):
        Histogram.of([5, value])
