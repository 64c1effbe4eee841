"""`lastro advise-replicates`: enough blocks for all ratios."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest

from lastro.analysis.advice import BlocksAdvice, advise
from lastro.analysis.build import build_report
from lastro.analysis.campaign import CampaignResults
from lastro.builders.advice import advice_blocks
from lastro.render.terminal import terminal_lines
from lastro.results.read import load_campaign
from lastro.results.store import Store
from lastro.stats.stopping import relative_half_width
from lastro.words.language import ENGLISH

from ..support.campaigns import METRICS, Levels, make_campaign, make_study, plausible_value
from .conftest import is_error, lastro

ONE = (METRICS[0],)


def report_of(directory: Path) -> CampaignResults:
    with Store.open(directory, readonly=True) as store:
        return build_report(load_campaign(store))


def pilot(home: Path, sd: float, replicates: int, levels: tuple[str, ...] = ("native", "runc"), seed: int = 0) -> Path:
    def value(levels: Levels, block: int, metric: str) -> float:
        return 100 + random.Random(f"{sorted(levels.items())}:{block}:{metric}:{seed}").gauss(0, sd)

    study = make_study({"platform": levels}, replicates=replicates, metrics=ONE, baseline={"platform": "native"})
    return make_campaign(home / "c", study, value=value)


def test_the_number_is_that_of_the_intervals_that_a_report_prints(tmp_path: Path) -> None:
    """From a pilot that knows the spread, campaigns of the advised numbers of blocks of three treatments."""
    levels = ("native", "runc", "docker", "lxc")
    found = advise(report_of(pilot(tmp_path, 10.0, 200, levels)), 0.05)
    assert found.likely_blocks and found.sure_blocks and 40 < found.likely_blocks < found.sure_blocks < 70
    blocks = found.metrics[0].blocks
    assert blocks and blocks.intervals == 3 and not blocks.vague

    def narrow(n: int) -> int:
        reports = [report_of(pilot(tmp_path / f"{n}-{at}", 10.0, n, levels, seed=at + 1)) for at in range(10)]
        ratios = [[row.cells[0].ratio for row in report.rows if not row.is_baseline] for report in reports]
        return sum(all(r and relative_half_width(r.value, r.interval) <= 0.05 for r in each) for each in ratios)

    # A fifth of the blocks is about what chance in the spread of one campaign does.
    assert narrow(round(0.8 * found.likely_blocks)) <= 2 and narrow(round(1.2 * found.sure_blocks)) >= 8


def test_four_times_the_blocks_for_half_the_width(tmp_path: Path) -> None:
    report = report_of(pilot(tmp_path, 10.0, 50))
    wide, narrow = (advise(report, precision).sure_blocks for precision in (0.02, 0.01))
    assert wide and narrow and narrow / wide == pytest.approx(4, rel=0.15)


def test_many_treatments_alike_need_not_what_the_noisiest_seems_to(tmp_path: Path) -> None:
    """40 treatments of one spread, from 5 blocks, against what a large pilot says of the same treatments."""
    levels = ("native", *(f"p{at}" for at in range(40)))
    found = advise(report_of(pilot(tmp_path, 10.0, 5, levels)), 0.05).metrics[0].blocks
    right = advise(report_of(pilot(tmp_path / "large", 10.0, 100, levels)), 0.05).likely_blocks
    assert found and found.likely.blocks and right
    assert right <= found.likely.blocks < (found.half_width / 0.05) ** 2 * 5 and found.likely.blocks < 2.5 * right


def test_a_treatment_that_is_truly_noisier_decides(tmp_path: Path) -> None:
    def value(levels: Levels, block: int, metric: str) -> float:
        sd = {"native": 1, "a": 2, "b": 3, "docker": 20}[str(levels["platform"])]
        return 100 + random.Random(f"{levels['platform']}:{block}").gauss(0, sd)

    def likely(home: Path, *others: str) -> BlocksAdvice:
        study = make_study(
            {"platform": ("native", *others)}, replicates=20, metrics=ONE, baseline={"platform": "native"}
        )
        found = advise(report_of(make_campaign(home, study, value=value)), 0.05).metrics[0].blocks
        assert found is not None
        return found

    noisy, quiet = likely(tmp_path / "noisy", "a", "b", "docker"), likely(tmp_path / "quiet", "a", "b")
    assert noisy.widest == "docker" and noisy.likely.blocks and quiet.likely.blocks
    assert noisy.likely.blocks > 10 * quiet.likely.blocks


def test_a_small_pilot_is_said_to_be_small(tmp_path: Path) -> None:
    small, large = (pilot(tmp_path / str(n), 10.0, n) for n in (2, 30))
    assert "too small to know the number for throughput" in lastro("advise-replicates", small).out
    assert "too small" not in lastro("advise-replicates", large).out
    widths = {n: advise(report_of(home), 0.05).metrics[0].blocks for n, home in ((2, small), (30, large))}
    assert widths[2] and widths[30] and widths[2].vague and widths[30].low and widths[30].high
    assert widths[30].low < (widths[30].likely.blocks or 0) < widths[30].high


def test_a_lost_trial_costs_little(tmp_path: Path) -> None:
    """One invalid trial, in a pilot whose blocks differ: its block still counts for all others."""
    study = make_study(
        {"platform": ("native", "runc", "docker")}, replicates=6, metrics=ONE, baseline={"platform": "native"}
    )

    def value(levels: Levels, block: int, metric: str) -> float:
        return 80 + 10 * block + random.Random(f"{levels['platform']}:{block}").gauss(0, 3)

    def found(home: Path, lost: int) -> BlocksAdvice:
        def doubts(levels: Levels, block: int, attempt: int) -> list[str]:
            return ["no traffic"] if block == lost and levels["platform"] == "runc" else []

        blocks = advise(report_of(make_campaign(home, study, value=value, doubts=doubts)), 0.05).metrics[0].blocks
        assert blocks and blocks.likely.blocks
        return blocks

    whole, lacking = found(tmp_path / "whole", 0), found(tmp_path / "lacking", 2)
    assert lacking.intervals == 2 and lacking.likely.blocks == pytest.approx(whole.likely.blocks, rel=0.5)


def test_the_time_is_that_of_this_campaigns_blocks(tmp_path: Path) -> None:
    found = advise(report_of(pilot(tmp_path, 10.0, 12)), 0.05)
    assert found.block_s == pytest.approx(2 * 19.5, rel=0.03)
    assert found.duration_s(10) == pytest.approx(10 * (found.block_s or 0))


def test_without_a_baseline_it_is_the_precision_of_means(tmp_path: Path) -> None:
    make_campaign(tmp_path, make_study(replicates=6))
    found = advise(report_of(tmp_path), 0.05)
    assert not found.of_ratio and len(found.metrics) == 4
    assert all(metric.blocks and metric.blocks.intervals == 6 for metric in found.metrics)


def test_what_it_prints(tmp_path: Path) -> None:
    directory = pilot(tmp_path, 10.0, 12, ("native", "runc", "docker"))
    done = lastro("advise-replicates", directory)
    assert done.code == 0 and "at most ±5.0 % around the ratios to the baseline" in done.out
    assert "For each metric, with a probability of 80 % each: replicates = " in done.out
    found = lastro("advise-replicates", directory, "--precision", "0.1", "--json").json
    assert found["precision"] == 0.1 and found["blocks"]["likely"] <= found["blocks"]["sure"]
    assert found["duration_s"]["sure"] == pytest.approx(found["blocks"]["sure"] * found["block_s"])
    assert found["assurance"] == {"likely": 0.5, "sure": 0.8}
    blocks = found["metrics"][0]["blocks"]
    assert blocks["intervals"] == 2 and blocks["n"] == 12 and blocks["widest"] in ("runc", "docker")
    assert blocks["low"] <= blocks["likely"]["blocks"] <= blocks["sure"]["blocks"] == found["blocks"]["sure"]
    assert blocks["sure"]["reached"] >= blocks["sure"]["assurance"] == 0.8


def test_the_margin_of_a_metric_is_its_precision(tmp_path: Path) -> None:
    report = report_of(pilot(tmp_path, 10.0, 12))
    with_margin = replace(report, study=replace(report.study, margins={METRICS[0].name: 0.1}))
    found = {
        "10%": advise(report, 0.1),
        "margin": advise(with_margin),
        "5%": advise(report),
        "2%": advise(with_margin, 0.02),
    }
    assert found["margin"].sure_blocks == found["10%"].sure_blocks < found["5%"].sure_blocks < found["2%"].sure_blocks
    said = [" ".join(terminal_lines(advice_blocks(each, ENGLISH), 100, ENGLISH)) for each in found.values()]
    assert ["at most ±10 % around" in text for text in said] == [True, True, False, False]


@pytest.mark.parametrize("fate", ["one replicate", "nothing run", "all invalid", "constant", "zero"])
def test_a_campaign_that_knows_no_spread_is_told_so(tmp_path: Path, fate: str) -> None:
    study = make_study(replicates=1 if fate == "one replicate" else 4, baseline={"isolation": "none"})
    make_campaign(
        tmp_path,
        study,
        value=lambda levels, block, metric: 0.0 if fate == "zero" else 3.0,
        doubts=lambda levels, block, attempt: ["no traffic"] if fate == "all invalid" else [],
        stop_after=0 if fate == "nothing run" else None,
    )
    done = lastro("advise-replicates", tmp_path)
    assert done.code == 0
    why = "nothing varied between blocks" if fate == "constant" else "no treatment has two valid trials"
    assert why in done.out and "No number of blocks can be recommended" in done.out
    assert lastro("advise-replicates", tmp_path, "--json").json["blocks"] == {"likely": None, "sure": None}


def test_a_metric_without_a_spread_does_not_spoil_the_advice_for_others(tmp_path: Path) -> None:
    study = make_study({"platform": ("native", "runc")}, replicates=6, baseline={"platform": "native"})
    make_campaign(tmp_path, study, value=plausible_but_for_jitter)
    done = lastro("advise-replicates", tmp_path)
    assert "For each metric except jitter, with a probability of 80 % each: replicates = " in done.out


def plausible_but_for_jitter(levels: Levels, block: int, metric: str) -> float:
    return 0.0 if metric == "jitter" else plausible_value(levels, block, metric)


def test_bad_arguments_are_one_error(tmp_path: Path) -> None:
    directory = pilot(tmp_path, 10.0, 3)
    for text in ("0", "0%", "5", "wide"):
        is_error(lastro("advise-replicates", directory, "--precision", text), 2, "--precision", "below 1")
    is_error(lastro("advise-replicates", tmp_path), 2, "holds no campaign")


def test_a_study_with_service_levels_is_advised_for_its_question(tmp_path: Path) -> None:
    """Of two cheaper candidates, one is surely too slow and one undecided: only that one is worth more blocks."""
    rates = {"native": 150, "runc": 101, "lxc": 60}

    def value(levels: Levels, block: int, metric: str) -> float:
        name = str(levels["platform"])
        if metric == "jitter":
            return 10.0 if name == "native" else 5.0
        return rates[name] * (1 + 0.05 * math.sin(7 * block + len(name)))

    def study(limit: str) -> Path:
        made = make_study(
            {"platform": tuple(rates)}, replicates=6, metrics=METRICS[:2], baseline={"platform": "native"}
        )
        made = replace(made, sla={"throughput": limit}, cost={METRICS[1].name: 1.0})
        return make_campaign(tmp_path / limit.split()[1], made, value=value)

    directory = study(">= 100")
    found = lastro("advise-replicates", directory, "--json").json
    assert (found["format"], found["verdict"]) == ("lastro-decision-advice/1", "recommended")
    assert [each["label"] for each in found["open"]] == ["runc"]
    assert 1 <= found["open"][0]["likely"] < found["open"][0]["sure"] and found["block_s"] > 0
    text = lastro("advise-replicates", directory).out
    assert "runc" in text and "more blocks, 50" in text and "lxc" not in text.split("candidate")[-1]
    assert "No more blocks are needed" in lastro("advise-replicates", study(">= 140")).out
    assert found["cost_blocks"] is None
    assert lastro("advise-replicates", directory, "--precision", "5%", "--json").json["format"] == "lastro-advice/1"


def test_costs_that_are_alike_are_worth_more_blocks_of_these_alone(tmp_path: Path) -> None:
    """All three surely hold the level; the costs of two lie within each other's noise."""
    costs = {"native": 9.0, "runc": 5.0, "lxc": 5.1}

    def value(levels: Levels, block: int, metric: str) -> float:
        name = str(levels["platform"])
        noise = 1 + 0.02 * math.sin(7 * block + 3 * len(name) + len(metric))
        return (costs[name] if metric == "jitter" else 150.0) * noise

    study = make_study({"platform": tuple(costs)}, replicates=6, metrics=METRICS[:2], baseline={"platform": "native"})
    priced = replace(study, sla={"throughput": ">= 100"}, cost={METRICS[1].name: 1.0})
    directory = make_campaign(tmp_path / "c", priced, value=value)
    likely, sure = lastro("decide", directory, "--json").json["cost_blocks"]
    assert 1 <= likely < sure
    sentence = f"lxc may cost no more. About {sure} more blocks of these two would decide with a probability of 80 %."
    assert sentence in " ".join(lastro("decide", directory).out.split())
    text = " ".join(lastro("advise-replicates", directory).out.split())
    assert sentence in text and "more blocks would only show which of those of like cost costs less" in text
    assert lastro("advise-replicates", directory, "--json").json["cost_blocks"] == [likely, sure]
