"""What the analysis says of campaigns whose truth is known, and that no campaign makes it fail."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lastro.analysis import analyse
from lastro.analysis.build import build_report
from lastro.analysis.model import Analysis, MetricAnalysis
from lastro.results.read import load_campaign
from lastro.results.store import Store
from lastro.stats.contrasts import MeanComparison
from lastro.stats.noise_floor import FORMAT

from ...support.campaigns import METRICS, Levels, make_campaign, make_study
from ...support.fates import CAMPAIGNS

FACTORS = {"isolation": ("none", "cgroups", "apparmor"), "anomaly": ("none", "memory", "disk")}
BASELINE = {"isolation": "none", "anomaly": "none"}


def analysis_of(directory: Path) -> Analysis:
    with Store.open(directory, readonly=True) as store:
        return analyse(build_report(load_campaign(store)))


def made(
    directory: Path, value: Callable[[Levels, random.Random], float], replicates: int = 12, **more: object
) -> MetricAnalysis:
    """A campaign of one metric: 3 levels of isolation by 3 of anomaly."""
    study = make_study(FACTORS, replicates=replicates, baseline=BASELINE, metrics=METRICS[:1])

    def seeded(levels: Levels, block: int, metric: str) -> float:
        return value(levels, random.Random(f"{sorted(levels.items())}{block}"))

    make_campaign(directory, study, value=seeded, **more)  # type: ignore[arg-type]
    return analysis_of(directory).metrics[0]


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_every_campaign_is_analysed_and_what_is_missing_has_a_reason(name: str, tmp_path: Path) -> None:
    for metric in analysis_of(CAMPAIGNS[name](tmp_path / name)).metrics:
        assert (metric.anova is None) == (metric.why_none is not None)
        decided = metric.headline.different + metric.headline.same + metric.headline.unknown
        assert decided == len(metric.comparisons)
        for comparison in metric.comparisons:
            assert (comparison.p is None) == (comparison.decision == "unknown")


def test_main_effects_are_near_the_truth(tmp_path: Path) -> None:
    truth = {"memory": 0.8, "disk": 0.97, "cgroups": 0.95, "apparmor": 1.0}

    def value(levels: Levels, rng: random.Random) -> float:
        return 1000 * truth.get(levels["isolation"], 1) * truth.get(levels["anomaly"], 1) * (1 + rng.gauss(0, 0.01))

    metric = made(tmp_path / "c", value)
    for effect in metric.effects:
        assert effect.reference == "none" and effect.n == (36, 36) and (effect.cells, effect.all_cells) == (3, 3)
        assert effect.ratio.value is not None and effect.ratio.interval is not None
        assert abs(effect.ratio.value - truth[effect.level]) < 2 * effect.ratio.interval.half_width < 0.02, effect
        assert effect.decision == ("same" if truth[effect.level] == 1 else "different"), effect
    assert metric.headline.factor == "anomaly" and metric.headline.widest is not None
    assert metric.headline.widest.level == "memory"
    assert metric.interactions == ()


def test_an_interaction_that_matters_is_found_and_shown_by_simple_effects(tmp_path: Path) -> None:
    false_alarms = 0
    for seed in range(20):

        def value(levels: Levels, rng: random.Random, seed: int = seed) -> float:
            hurt = 0.7 if levels["anomaly"] == "memory" and levels["isolation"] != "cgroups" else 1.0
            return 1000 * hurt * (1 + random.Random(f"{seed}{rng.random()}").gauss(0, 0.01))

        (found,) = made(tmp_path / str(seed), value).interactions
        assert (found.given, found.shown) == ("isolation", "anomaly") and found.explained > 0.1
        shown = {(effect.given[0][1], effect.level): effect for effect in found.effects}
        assert len(shown) == 6
        hurt = {("none", "memory"), ("apparmor", "memory")}
        for levels, effect in shown.items():
            assert effect.ratio.value == pytest.approx(0.7 if levels in hurt else 1, abs=0.02)
        different = {levels for levels, effect in shown.items() if effect.decision == "different"}
        assert hurt <= different
        false_alarms += different > hurt
    assert false_alarms <= 4, "20 families at 5 %: more than four has a chance below 0.3 %"


def test_missing_cells_lower_the_order_and_are_counted(tmp_path: Path) -> None:
    def value(levels: Levels, rng: random.Random) -> float:
        return 100 + rng.gauss(0, 1)

    def lost(levels: Levels) -> tuple[str, None] | None:
        return ("no", None) if (levels["isolation"], levels["anomaly"]) == ("cgroups", "disk") else None

    metric = made(tmp_path / "c", value, unavailable=lost)
    cgroups = next(effect for effect in metric.effects if effect.level == "cgroups")
    assert (cgroups.cells, cgroups.all_cells) == (2, 3) and cgroups.n == (24, 24)


def test_without_true_differences_corrected_comparisons_rarely_cry_wolf(tmp_path: Path) -> None:
    false_alarms = 0
    for seed in range(20):

        def value(levels: Levels, rng: random.Random, seed: int = seed) -> float:
            return 100 + random.Random(f"{seed}{rng.random()}").gauss(0, 1)

        false_alarms += made(tmp_path / str(seed), value, replicates=5).headline.different > 0
    assert false_alarms <= 4, "20 families at 5 %: more than four has a chance below 0.3 %"


def agree(comparison: MeanComparison) -> bool:
    """Whether the intervals of the ratio and of the difference and the corrected p give one answer."""
    ratio, difference, p = comparison.ratio.interval, comparison.difference.interval, comparison.p_adjusted
    assert ratio is not None and difference is not None and p is not None and comparison.p is not None
    assert comparison.p <= p
    return (ratio.low <= 1 <= ratio.high) == (difference.low <= 0 <= difference.high) == (p >= 0.05)


@pytest.mark.parametrize("multiplies", [False, True], ids=["added", "multiplied"])
@pytest.mark.parametrize("lost", [0.0, 0.2], ids=["all trials", "lost trials"])
@pytest.mark.parametrize("treatments", [8, 24])
def test_intervals_and_corrected_tests_agree_in_every_family(
    treatments: int, lost: float, multiplies: bool, tmp_path: Path
) -> None:
    """Effects from none to several times the noise: up to 20 comparisons are judged together, more are a screening."""
    rng = random.Random(f"{treatments}{lost}{multiplies}")
    factors = {"isolation": ["i0", "i1"], "anomaly": [f"a{n}" for n in range(treatments // 2)]}
    costs = {level: 0.02 * n for levels in factors.values() for n, level in enumerate(levels)}

    def value(levels: Levels, block: int, metric: str) -> float | None:
        if rng.random() < lost:
            return None
        off = sum(costs[str(level)] for level in levels.values()) + rng.gauss(0, 0.02)
        return 1000 * math.exp(40 * off) if multiplies else 1000 * (1 + off)

    study = make_study(factors, replicates=6, baseline={"isolation": "i0", "anomaly": "a0"}, metrics=METRICS[:1])
    make_campaign(tmp_path / "c", study, value=value)
    with Store.open(tmp_path / "c", readonly=True) as store:
        report = build_report(load_campaign(store))
    metric = analyse(report).metrics[0]
    assert metric.log == multiplies
    assert metric.correction == ("max-t" if treatments == 8 else "benjamini-hochberg")
    cells = [cell for cell in report.views[0].cells if cell.comparison is not None]
    assert len(cells) == len(metric.comparisons) == treatments - 1
    for cell, found in zip(cells, metric.comparisons, strict=True):
        assert cell.comparison is not None and agree(cell.comparison)
        assert cell.ratio == found.ratio and cell.ratio is not None
        assert cell.ratio.interval == cell.comparison.ratio.interval
        assert cell.decision == found.decision == ("different" if cell.comparison.differs(0.05) else "same")
    assert {cell.decision for cell in cells} == {"different", "same"}, "else nothing is shown to agree"
    for effect in metric.effects:
        assert agree(effect.comparison)
        assert effect.decision == ("different" if effect.comparison.differs(0.05) else "same")
    for factor in metric.pairs:
        assert all(agree(pair.comparison) for pair in factor.pairs.values())


def test_a_noise_floor_changes_no_decision(tmp_path: Path) -> None:
    def value(levels: Levels, rng: random.Random) -> float:
        return 1000 * (0.98 if levels["isolation"] == "cgroups" else 1) * (1 + rng.gauss(0, 0.001))

    headline = made(tmp_path / "c", value).headline
    assert headline.different > 0
    with Store.open(tmp_path / "c", readonly=True) as store:
        report = build_report(load_campaign(store))
    kept = {"format": FORMAT, "blocks": 12, "metrics": {"throughput": {"floor": 0.03}}}
    metric = analyse(replace(report, noise_floor=kept)).metrics[0]
    assert metric.headline.different == headline.different
    assert all(comparison.under_floor for comparison in metric.comparisons)


def test_effects_that_multiply_are_analysed_on_logarithms(tmp_path: Path) -> None:
    def value(levels: Levels, rng: random.Random) -> float:
        scale = {"none": 1, "memory": 10, "disk": 100}[str(levels["anomaly"])]
        return scale * float(rng.lognormvariate(0, 0.3))

    def plain(levels: Levels, rng: random.Random) -> float:
        return {"none": 100, "memory": 110, "disk": 120}[str(levels["anomaly"])] + rng.gauss(0, 3)

    assert made(tmp_path / "a", value).log
    assert not made(tmp_path / "b", plain).log


@pytest.mark.parametrize("blocks", [2, 3, 4, 12])
def test_the_ratio_of_spreads_is_said_and_that_few_blocks_show_nothing_of_the_noise(
    blocks: int, tmp_path: Path
) -> None:
    def value(levels: Levels, rng: random.Random) -> float:
        return 1000 * (1 + rng.gauss(0, 0.05 if levels["isolation"] == "cgroups" else 0.01))

    (found,) = [note for note in made(tmp_path / "c", value, replicates=blocks).notes if "largest spread" in note]
    assert ("show nothing of how noisy" in found) == (blocks < 4)
    if blocks < 4:
        assert found.values["blocks"] == blocks and found.values["rate"] == {2: "11", 3: "6"}[blocks]
    assert float(str(found.values["ratio"])) > (5 if blocks == 12 else 1)


@pytest.mark.slow
def test_where_nothing_has_an_effect_a_page_has_a_false_statement_as_often_as_it_says(tmp_path: Path) -> None:
    """17 % by the words above the statistics: each family of a metric keeps its 5 %, and their rates add up."""
    rng, false = random.Random(8), 0
    for seed in range(150):
        study = make_study(FACTORS, replicates=5, baseline=BASELINE, metrics=METRICS[:2])
        make_campaign(tmp_path / str(seed), study, value=lambda *at: rng.gauss(100, 2))
        for metric in analysis_of(tmp_path / str(seed)).metrics:
            pairs = [pair for factor in metric.pairs for pair in factor.pairs.values()]
            false += (
                any(effect.decision == "different" for effect in metric.effects)
                or any(pair.differs for pair in pairs)
                or metric.headline.different > 0
                or bool(metric.interactions)
                or (metric.drift is not None and (metric.drift.slope_per_hour.p or 1) < 0.05)
                or (metric.serial is not None and metric.serial.p < 0.05 and metric.serial.matters)
            )
    assert 0.11 < false / 300 < 0.24, false
