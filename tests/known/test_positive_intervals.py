"""What cannot be negative has intervals that are not: means, ratios and predictions, in every part of an analysis."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastro.analysis import analyse
from lastro.analysis.build import build_report
from lastro.results.read import load_campaign
from lastro.results.store import Store
from lastro.stats.block_model import BlockModel
from lastro.stats.contrasts import compare, ratio_of_sums, sum_of_means
from lastro.stats.intervals import Estimate, Interval, Summary, describe
from lastro.words.numbers import mean_text

from ..support.campaigns import METRICS, Levels, make_campaign, make_study
from ..support.products import combinations

positive = st.floats(1e-3, 1e3).map(lambda value: round(value, 4))
tables = st.integers(2, 4).flatmap(
    lambda blocks: st.lists(st.lists(positive, min_size=blocks, max_size=blocks), min_size=2, max_size=4)
)


@given(tables)
@settings(deadline=None, max_examples=60)
def test_no_interval_of_positive_values_reaches_below_zero(rows: list[list[float]]) -> None:
    model = BlockModel.of({at: dict(enumerate(row)) for at, row in enumerate(rows)}, non_negative=True)
    assert model is not None
    first: Mapping[int, float] = {0: 1.0}
    others: list[Mapping[int, float]] = [{at: 1.0} for at in range(1, len(rows))]
    found = [one.ratio.interval for one in compare(model, [(other, first) for other in others], 0.95)]
    found += [ratio_of_sums(model, other, first, 0.95).interval for other in others]
    found += [sum_of_means(model, other, 0.95).interval for other in others]
    found += [describe(row, 0.95, non_negative=True).interval for row in rows]
    assert all(ends is None or 0 <= ends.low <= ends.high for ends in found)


def test_what_may_be_negative_keeps_its_interval() -> None:
    cells = {"a": {0: 1.0, 1: 6.0, 2: 2.0}, "b": {0: 2.0, 1: 2.2, 2: 2.1}}
    free, bounded = (BlockModel.of(cells, non_negative=each) for each in (False, True))
    assert free is not None and bounded is not None
    both = [sum_of_means(model, {"a": 1.0}, 0.95).interval for model in (free, bounded)]
    assert both[0] is not None and both[0].low < 0 and both[1] is not None and both[1].low == 0
    assert both[0].high == both[1].high
    difference = sum_of_means(bounded, {"a": 1.0, "b": -1.0}, 0.95).interval
    assert difference is not None and difference.low < 0


def test_a_mean_off_the_middle_of_its_interval_is_written_with_both_ends() -> None:
    assert mean_text(describe([5.0, 9.0], 0.95)) == "7 ± 25"
    assert mean_text(describe([5.0, 9.0], 0.95, non_negative=True)) == "7 [0, 32]"
    assert mean_text(Summary(3, 2e9, 1.0, Interval(1e9, 4e9, 0.95))) == "2.000e+09 [1.000e+09, 4.000e+09]"


def intervals(thing: object) -> Iterator[Interval]:
    """Every interval of a mean, of a ratio or of a prediction inside of data, but not those of differences."""
    if isinstance(thing, Summary | Estimate):
        if thing.interval is not None:
            yield thing.interval
    elif isinstance(thing, Mapping):
        for each in thing.values():
            yield from intervals(each)
    elif isinstance(thing, tuple | list):
        for each in thing:
            yield from intervals(each)
    elif is_dataclass(thing):
        for field in fields(thing):
            value = getattr(thing, field.name)
            if field.name != "difference":
                yield from intervals(value)


@pytest.mark.parametrize("seed", range(3))
def test_nor_does_any_in_the_analysis_of_a_campaign(seed: int, tmp_path: Path) -> None:
    """Every fifth trial of a starved treatment is lost, and noise is as large as values."""
    factors = {"anomaly": ("none", "cpu", "memory"), "platform": ("native", "runc")}
    study = make_study(factors, metrics=METRICS, replicates=3, baseline={"anomaly": "none", "platform": "native"})

    def value(levels: Levels, block: int, metric: str) -> float:
        rng = random.Random(f"{seed}{sorted(levels.items())}{block}{metric}")
        return (2.0 if levels["anomaly"] == "cpu" else 40.0) * math.exp(rng.gauss(0, 0.8)) + 20 * rng.random()

    make_campaign(tmp_path / "c", study, value=value)
    with Store.open(tmp_path / "c", readonly=True) as store:
        report = build_report(load_campaign(store))
    assert all(metric.non_negative for metric in report.metrics)
    found = [*intervals(report.rows), *intervals(analyse(report))]
    assert len(found) > 100 and min(each.low for each in found) >= 0


LOSSES = {"starved, 10 %": (0.1, 0.05), "starved, 30 %": (0.3, 0.05), "as all others, 50 %": (0.5, 1.0)}


def misses(cv: float, size: float, cells: int, blocks: int, campaigns: int) -> tuple[float, float, float]:
    """How often any ratio to the first cell misses, ends at zero, and is of logarithms; noise is log-normal."""
    rng, counts = np.random.default_rng([cells, blocks, int(100 * cv)]), np.zeros(3)
    sizes = np.where(np.arange(cells) == cells - 1, size, 1.0)
    for _ in range(campaigns):
        values = 100 * sizes[:, None] * np.exp(0.05 * rng.standard_normal(blocks))
        values = values * np.exp(math.sqrt(math.log1p(cv**2)) * rng.standard_normal((cells, blocks)))
        rows = values.tolist()
        model = BlockModel.of({at: dict(enumerate(row)) for at, row in enumerate(rows)}, non_negative=True)
        assert model is not None
        found = compare(model, [({at: 1.0}, {0: 1.0}) for at in range(1, cells)], 0.95)
        known = [(sizes[at], one.ratio.interval) for at, one in enumerate(found, 1) if one.ratio.interval is not None]
        assert all(ends.low >= 0 for _, ends in known)
        missed = any(not ends.holds(truth) for truth, ends in known)
        counts += missed, any(ends.low == 0 for _, ends in known), model.log
    return tuple((counts / campaigns).tolist())  # type: ignore[return-value]


@pytest.mark.parametrize(("noise", "cells", "blocks"), combinations(LOSSES, (2, 4, 12), (2, 3, 5)))
def test_they_hold_the_truth_as_often_as_they_say(noise: str, cells: int, blocks: int) -> None:
    missed, at_zero, _ = misses(*LOSSES[noise], cells, blocks, 150)
    assert missed <= 0.11  # of 150 campaigns; 0.05 is stated
    assert at_zero <= 0.15
