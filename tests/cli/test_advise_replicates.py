"""`lastro advise-replicates`: enough blocks, said with the right certainty, and a split that follows the variances."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from lastro.analysis.advice import Advice, SeriesByAttempt, advise
from lastro.analysis.build import build_report
from lastro.analysis.campaign import Report
from lastro.results.read import load_campaign
from lastro.results.samples import Series
from lastro.results.store import Store
from lastro.stats.intervals import t_quantile
from lastro.stats.ratios import paired_ratio
from lastro.stats.replication import least_n
from lastro.stats.stopping import relative_half_width

from ..campaigns import METRICS, Levels, make_campaign, make_study
from .conftest import is_error, lastro

ONE = (METRICS[0],)


def report_of(directory: Path) -> Report:
    with Store.open(directory, readonly=True) as store:
        return build_report(load_campaign(store))


def noisy(sd: float) -> object:
    def value(levels: Levels, block: int, metric: str) -> float:
        return 100 + random.Random(f"{sorted(levels.items())}:{block}:{metric}").gauss(0, sd)

    return value


def pilot(home: Path, sd: float, replicates: int, levels: tuple[str, ...] = ("native", "runc")) -> Path:
    study = make_study({"platform": levels}, replicates=replicates, metrics=ONE, baseline={"platform": "native"})
    return make_campaign(home / "c", study, value=noisy(sd))  # type: ignore[arg-type]


def test_so_many_blocks_are_enough_as_often_as_it_says(tmp_path: Path) -> None:
    """From a pilot large enough to know the spread, 300 campaigns of the advised numbers of blocks."""
    found = advise(report_of(pilot(tmp_path, 10.0, 400)), 0.05, {})
    likely, sure = found.likely_blocks, found.sure_blocks
    assert likely is not None and sure is not None and 20 < likely < sure < 60
    rng = random.Random(1)

    def share_narrow(n: int) -> float:
        narrow = 0
        for _ in range(300):
            a, b = ([rng.gauss(100, 10) for _ in range(n)] for _ in "ab")
            ratio = paired_ratio(a, b, 0.95)
            narrow += relative_half_width(ratio.value, ratio.interval) <= 0.05
        return narrow / 300

    assert share_narrow(likely) == pytest.approx(0.5, abs=0.15)
    assert share_narrow(sure) == pytest.approx(0.8, abs=0.12)


def test_four_times_the_blocks_for_half_the_width(tmp_path: Path) -> None:
    report = report_of(pilot(tmp_path, 10.0, 50))
    wide, narrow = (advise(report, precision, {}).sure_blocks for precision in (0.02, 0.01))
    assert wide and narrow and narrow / wide == pytest.approx(4, rel=0.15)


def test_the_worst_of_many_alike_needs_hardly_more_than_any(tmp_path: Path) -> None:
    """40 treatments of one spread, from 5 blocks, against what a large pilot says of the same spread."""
    levels = ("native", *(f"p{at}" for at in range(40)))
    found = advise(report_of(pilot(tmp_path, 10.0, 5, levels)), 0.05, {}).metrics[0]
    right = advise(report_of(pilot(tmp_path / "large", 10.0, 300)), 0.05, {}).likely_blocks
    assert found.worst and found.worst.likely and right
    assert 0.5 * right < found.worst.likely < 1.4 * right
    assert least_n((found.worst.now / t_quantile(0.95, 4)) ** 2 * 5, 0.05, 0.95) > 2 * right, "by its own variance"


def test_a_treatment_that_is_truly_noisier_keeps_its_need(tmp_path: Path) -> None:
    def value(levels: Levels, block: int, metric: str) -> float:
        sd = {"native": 1, "a": 2, "b": 3, "docker": 20}[str(levels["platform"])]
        return 100 + random.Random(f"{levels['platform']}:{block}").gauss(0, sd)

    study = make_study(
        {"platform": ("native", "a", "b", "docker")}, replicates=20, metrics=ONE, baseline={"platform": "native"}
    )
    found = advise(report_of(make_campaign(tmp_path / "c", study, value=value)), 0.05, {}).metrics[0]
    assert found.worst and found.middle and found.worst.likely and found.middle.likely
    assert found.worst.treatment == "docker" and found.worst.likely > 10 * found.middle.likely


def test_the_time_is_that_of_this_campaigns_blocks(tmp_path: Path) -> None:
    found = advise(report_of(pilot(tmp_path, 10.0, 12)), 0.05, {})
    assert found.block_s == pytest.approx(2 * 19.5, rel=0.03)
    assert found.duration_s(10) == pytest.approx(10 * (found.block_s or 0))


def test_without_a_baseline_it_is_the_precision_of_means(tmp_path: Path) -> None:
    make_campaign(tmp_path, make_study(replicates=6))
    found = advise(report_of(tmp_path), 0.05, {})
    assert not found.of_ratio and len(found.metrics) == 4 and all(metric.worst for metric in found.metrics)


def split_of(home: Path, inside_sd: float, between_sd: float) -> Advice:
    """A campaign of which every trial has 15 samples, one a second, in 18.5 to 20.5 s."""
    rng, trials = random.Random(3), dict[str, list[float]]()

    def value(levels: Levels, block: int, metric: str) -> float:
        centre = rng.gauss(100, between_sd)
        trials[f"{levels['platform']}:{block}"] = [rng.gauss(centre, inside_sd) for _ in range(15)]
        return math.fsum(trials[f"{levels['platform']}:{block}"]) / 15

    study = make_study(
        {"platform": ("native", "runc")}, replicates=40, metrics=ONE, baseline={"platform": "native"},
        settings={"tcp_s": 15},
    )  # fmt: skip
    report = report_of(make_campaign(home / "c", study, value=value))
    series: SeriesByAttempt = {
        (point.trial, point.attempt): [
            Series("throughput", "Mbit/s", tuple(trials[f"{row.treatment.levels['platform']}:{point.block}"]))
        ]
        for row in report.rows
        for point in row.cells[0].points
    }
    return advise(report, 0.05, series)


def test_where_trials_agree_inside_and_differ_between_shorter_trials_and_more_blocks_pay(tmp_path: Path) -> None:
    split = split_of(tmp_path, inside_sd=1.0, between_sd=8.0).splits[0]
    assert split.setting == "tcp_s" and split.samples == 15
    assert split.inside < 0.05 and split.best_s is not None and split.best_s < 3


def test_where_samples_scatter_and_trials_agree_longer_trials_pay(tmp_path: Path) -> None:
    split = split_of(tmp_path, inside_sd=20.0, between_sd=1.0).splits[0]
    assert split.inside > 0.8 and (split.best_s is None or split.best_s > 15)


def test_series_that_are_not_under_the_metric_say_nothing(tmp_path: Path) -> None:
    """The synthetic campaigns keep a series of 1 and 2, of which no metric is the mean."""
    directory = pilot(tmp_path, 10.0, 5)
    assert lastro("advise-replicates", directory, "--json").json["splits"] == []


def test_what_it_prints(tmp_path: Path) -> None:
    directory = pilot(tmp_path, 10.0, 12, ("native", "runc", "docker"))
    done = lastro("advise-replicates", directory)
    assert done.code == 0 and "±5.0 % around the ratio to the baseline" in done.out
    assert (
        "worst: " in done.out and "median: " in done.out and "For every treatment and metric: replicates = " in done.out
    )
    found = lastro("advise-replicates", directory, "--precision", "0.1", "--json").json
    assert found["precision"] == 0.1 and found["blocks"]["likely"] <= found["blocks"]["sure"]
    assert found["duration_s"]["sure"] == pytest.approx(found["blocks"]["sure"] * found["block_s"])
    assert {need["treatment"] for need in (found["metrics"][0]["worst"], found["metrics"][0]["median"])} == {
        "runc", "docker",
    }  # fmt: skip


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
    if fate == "constant":
        assert "replicates = 2" in done.out
    else:
        assert "no treatment has two valid trials" in done.out and "No number of blocks can be recommended" in done.out
        assert lastro("advise-replicates", tmp_path, "--json").json["blocks"] == {"likely": None, "sure": None}


def test_a_metric_without_a_spread_does_not_spoil_the_advice_for_others(tmp_path: Path) -> None:
    study = make_study({"platform": ("native", "runc")}, replicates=6, baseline={"platform": "native"})
    make_campaign(tmp_path, study, value=lambda levels, block, metric: 0.0 if metric == "jitter" else 9.0 + block)
    done = lastro("advise-replicates", tmp_path)
    assert "For every treatment and metric except jitter: replicates = 2" in done.out
    assert "median: " not in done.out, "of one treatment"


def test_bad_arguments_are_one_error(tmp_path: Path) -> None:
    directory = pilot(tmp_path, 10.0, 3)
    for text in ("0", "0%", "5", "wide"):
        is_error(lastro("advise-replicates", directory, "--precision", text), 2, "--precision", "below 1")
    is_error(lastro("advise-replicates", tmp_path), 2, "holds no campaign")
