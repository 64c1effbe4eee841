"""The figures of the scenario `load`, drawn from a synthetic campaign: loss, latency against load, and percentiles."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lastro.analysis import analyse
from lastro.analysis.campaign import CampaignResults
from lastro.analysis.histograms import pooled_histograms
from lastro.figures import NARROW_IN, WIDE_IN, FigurePlan, plans
from lastro.figures.quantiles import nines
from lastro.results import hdr
from lastro.results.samples import AT_LEAST, GENERATOR_DELAY, REMARKS, Metric, Outcome, PackedHistogram, Series
from lastro.scenarios.load.loads import loads_of
from lastro.scenarios.load.measuring import record
from lastro.scenarios.load.search import REACHED, Probe, SearchResult
from lastro.stats.histograms import Histogram
from lastro.study.model import Study
from lastro.words.language import ENGLISH, language

from ...support.campaigns import Levels, make_campaign, make_study
from .test_figures import report_of, texts

AT = "50%, 20kpps"
HALF, FIXED = loads_of(AT)
LOADS = tuple(Metric(load.load_metric, "1/s", "neither", "a load") for load in (HALF, FIXED))
METRICS = (Metric("pdr", "1/s", "higher", "a rate"), *LOADS)
PDR = {"native": 100_000.0, "runc": 80_000.0}


def study(factors: dict[str, tuple[str, ...]]) -> Study:
    return make_study(factors, metrics=METRICS, scenario="load", settings={"at": AT}, replicates=3)


def value(levels: Levels, block: int, metric: str) -> float:
    pdr = PDR[str(levels["platform"])] * (1 + 0.01 * block)
    return {"pdr": pdr, HALF.load_metric: pdr / 2}.get(metric, 20_000.0)


def round_trips(name: str, ns: float, rng: np.random.Generator, lost: int = 0) -> PackedHistogram:
    return PackedHistogram(
        name, "ns", hdr.to_bytes(Histogram.of(rng.lognormal(np.log(ns), 0.5, 5000).astype(int), lost))
    )


def histograms(levels: Levels, block: int) -> list[PackedHistogram]:
    rng = np.random.default_rng(block)
    lost = 200 if levels.get("anomaly") == "cpu" else 0
    times = {HALF.histogram: 40_000, FIXED.histogram: 30_000, HALF.own_histogram: 9_000, FIXED.own_histogram: 8_000}
    return [round_trips(name, ns, rng, lost) for name, ns in times.items()]


def probes(levels: Levels, block: int) -> list[Series]:
    rng, pdr = random.Random(block), value(levels, block, "pdr")
    rates = tuple(pdr * rng.uniform(0.5, 2) for _ in range(10))
    return [
        Series("probe sent", "1/s", (*rates, 0.0)),
        Series("probe reached", "1", (*(1.0 for _ in rates[:-1]), 0.0, 0.0)),
        Series("probe loss", "%", (*(max(0.0, 100 * (1 - pdr / rate)) for rate in rates), 100.0)),
    ]


def bounds(levels: Levels, block: int) -> dict[str, object]:
    """The rates of runc alone are those of the generator."""
    bounded = levels["platform"] == "runc" and levels.get("anomaly") == "none"
    return {REMARKS: [{"kind": AT_LEAST, "text": "its limit", "metrics": ["pdr"]}] if bounded else []}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> CampaignResults:
    factors = {"platform": ("native", "runc"), "anomaly": ("none", "cpu")}
    directory = tmp_path_factory.mktemp("load") / "c"
    made = {"value": value, "histograms": histograms, "series": probes, "notes": bounds}
    return report_of(make_campaign(directory, study(factors), **made))  # type: ignore[arg-type]


def added(report: CampaignResults, code: str = "en") -> dict[str, FigurePlan]:
    say = ENGLISH if code == "en" else language(code)
    return {plan.name: plan for plan in plans(report, analyse(report), say) if plan.kind == "scenario"}


def test_histograms_of_trials_are_added_up(report: CampaignResults) -> None:
    found = [
        named[HALF.histogram].histogram for _, named in sorted(pooled_histograms(report, {HALF.histogram}).items())
    ]
    assert [(each.n, each.lost) for each in found] == [(15_000, 0), (15_000, 600), (15_000, 0), (15_000, 600)]
    pool = pooled_histograms(report, {FIXED.histogram, "never"})[0][FIXED.histogram]
    assert pool.mean(FIXED.load_metric) == 20_000 and pool.mean("never") is None and len(pool.attempts) == 3


@pytest.mark.parametrize(("width_in", "code"), [(WIDE_IN, "en"), (NARROW_IN, "pt-BR")])
def test_each_figure_is_drawn(report: CampaignResults, width_in: float, code: str) -> None:
    figures = added(report, code)
    assert list(figures) == ["loss", "latency-load", "latency-50pct", "latency-20kpps"]
    for plan in figures.values():
        picture = plan.picture(width_in)
        assert picture is not None and "n = 3" in texts(picture.svg()), plan.name


def test_each_figure_says_what_it_shows(report: CampaignResults) -> None:
    shown = {name: texts(plan.picture().svg()) for name, plan in added(report).items()}  # type: ignore[union-attr]
    assert (
        "goal: 0.5 %" in shown["loss"]
        and "one probe whose rate the generator did not reach" in shown["loss"]
        and "pdr: mean and its interval" in shown["loss"]
    )
    assert "pdr: mean, only a lower bound" in shown["loss"], "of runc without a neighbour"
    assert "p99.9" in shown["latency-load"]
    curves = shown["latency-50pct"]
    assert (
        "Latency at 50% of the PDR" in curves and "the generator alone" in curves and "no answer to the rest" in curves
    )
    assert "99.9\xa0%" in curves, "15,000 packets have 15 beyond"
    assert "Latency at 20kpps" in shown["latency-20kpps"]


def hollow(report: CampaignResults) -> dict[bool, int]:
    """The number of solid and of hollow points of a treatment in the figure of loss."""
    picture = added(report)["loss"].picture()
    assert picture is not None
    points = [line for axes in picture.figure.axes for line in axes.get_lines() if line.get_marker() == "o"]
    return {str(line.get_markerfacecolor()) == "none": len(line.get_xdata()) for line in points}


def test_probes_that_the_generator_did_not_reach_are_hollow(report: CampaignResults) -> None:
    assert hollow(report) == {False: 27, True: 3}, "of three trials with ten probes that sent something"


def test_a_probe_is_hollow_where_the_search_takes_it_for_the_generator_s_limit(tmp_path: Path) -> None:
    """The sum of two directions is within the limit, but one of them sent less than its share."""
    whole = Probe(100_000, 1, 99_600, 99_600, 1.0, {})
    short = Probe(100_000, 1, 99_600, 99_600, 1.0, {}, least_part=0.992)
    assert whole.sent_fps == short.sent_fps >= REACHED * short.rate_fps
    assert (whole.reached, short.reached) == (True, False)

    def recorded(levels: Levels, block: int) -> list[Series]:
        outcome = Outcome()
        record(SearchResult((), (whole, whole, short), 100_000, False), outcome)
        return outcome.series

    one = study({"platform": ("native", "runc")})
    assert hollow(report_of(make_campaign(tmp_path / "c", one, value=value, series=recorded))) == {False: 6, True: 3}


def drawn_by_load(directory: Path, **made: Any) -> list[dict[str, list[float]]]:
    """{quantile: its loads in thousands} of each panel of latency against the load."""
    one = study({"platform": ("native", "runc")})
    given: dict[str, Any] = {"value": value, "histograms": histograms, **made}
    picture = added(report_of(make_campaign(directory / "c", one, **given)))["latency-load"].picture()
    quantiles = ("p50", "p90", "p99", "p99.9")
    return [
        {name: [float(x) for x in line.get_xdata()] for name, line in zip(quantiles, axes.get_lines(), strict=True)}
        for axes in (picture.figure.axes if picture else [])
    ]


def test_a_percentile_that_tables_drop_is_not_drawn(tmp_path: Path) -> None:
    def dropped(levels: Levels, block: int) -> dict[str, object]:
        mark = {"kind": GENERATOR_DELAY, "text": "its own", "metrics": [HALF.metric("p99")]}
        return {REMARKS: [mark] if levels["platform"] == "runc" and block == 1 else []}

    native, runc = drawn_by_load(tmp_path, notes=dropped)
    assert native == {name: [20.0, pytest.approx(51)] for name in ("p50", "p90", "p99", "p99.9")}
    assert runc["p99"] == [20.0] and len(runc["p90"]) == 2


def test_a_percentile_that_is_the_generator_s_by_all_trials_is_not_drawn(tmp_path: Path) -> None:
    def busy(levels: Levels, block: int) -> list[PackedHistogram]:
        rng = np.random.default_rng(block)
        times = {HALF.histogram: 40_000, FIXED.histogram: 30_000, FIXED.own_histogram: 16_000}
        times |= {HALF.own_histogram: 9_000} if levels["platform"] == "native" else {FIXED.own_histogram: 8_000}
        return [round_trips(name, ns, rng) for name, ns in times.items()]

    native, runc = drawn_by_load(tmp_path, histograms=busy)
    assert native["p50"] == [pytest.approx(51)], "16 of 30 µs at the other load"
    assert runc["p50"] == [20.0], "nor is one of a generator whose own delay is not known"


def test_each_treatment_has_a_line_of_its_own_generator(tmp_path: Path) -> None:
    """Merged, the slow one of a platform would hide how good the other one is."""

    def slow(levels: Levels, block: int) -> list[PackedHistogram]:
        own_ns = 400_000 if levels["platform"] == "runc" else 9_000
        times = {HALF.histogram: 500_000, HALF.own_histogram: own_ns}
        return [round_trips(name, ns, np.random.default_rng(block)) for name, ns in times.items()]

    given: dict[str, Any] = {"value": value, "histograms": slow}
    picture = added(report_of(make_campaign(tmp_path / "c", study({"platform": ("native", "runc")}), **given)))[
        "latency-50pct"
    ].picture()
    assert picture is not None
    (axes,) = picture.figure.axes
    lines = [line for line in axes.get_lines() if len(line.get_xdata()) > 9]
    medians = [float(np.interp(nines([0.5])[0], line.get_xdata(), line.get_ydata())) for line in lines]
    assert medians == [pytest.approx(each, rel=0.1) for each in (500, 9, 500, 400)]
    native, its_own, runc, own_of_runc = (line.get_color() for line in lines)
    assert native == its_own != runc == own_of_runc


def test_a_curve_says_of_how_many_trials_it_is(tmp_path: Path) -> None:
    def late(levels: Levels, block: int) -> list[PackedHistogram]:
        return [each for each in histograms(levels, block) if block < 3 or levels["platform"] == "native"]

    given: dict[str, Any] = {"value": value, "histograms": late}
    report = report_of(make_campaign(tmp_path / "c", study({"platform": ("native", "runc")}), **given))
    picture = added(report)["latency-50pct"].picture()
    assert picture is not None
    said = " ".join(texts(picture.svg()).split())
    assert "n = 2–3 valid trials" in said and "without the trials in which the generator was late" in said


def test_the_load_is_that_of_the_trials_whose_histograms_are_drawn(tmp_path: Path) -> None:
    def late(levels: Levels, block: int) -> list[PackedHistogram]:
        return [each for each in histograms(levels, block) if block < 3 or each.name != HALF.histogram]

    native, _ = drawn_by_load(tmp_path, histograms=late)
    assert native["p50"] == [20.0, pytest.approx(50.75)], "of the blocks 1 and 2: 50,500 and 51,000 packets a second"


def test_without_data_nothing_is_drawn(tmp_path: Path) -> None:
    report = report_of(make_campaign(tmp_path / "c", study({"platform": ("native", "runc")}), value=value))
    assert {name: plan.picture() for name, plan in added(report).items()} == dict.fromkeys(added(report))


def test_a_single_treatment_has_one_line(tmp_path: Path) -> None:
    directory = make_campaign(tmp_path / "c", study({"platform": ("native",)}), value=value, histograms=histograms)
    picture = added(report_of(directory))["latency-50pct"].picture()
    assert picture is not None and "the only treatment" in texts(picture.svg())


def test_nines() -> None:
    assert nines([0.0, 0.9, 0.99, 0.999]).tolist() == pytest.approx([0, 1, 2, 3])


def test_a_curve_of_thousands_of_buckets_has_as_many_points_as_can_be_seen(report: CampaignResults) -> None:
    picture = added(report)["latency-50pct"].picture()
    assert picture is not None
    lines = [line for axes in picture.figure.axes for line in axes.get_lines() if len(line.get_xdata()) > 9]
    ends = [float(np.max(line.get_xdata())) for line in lines]
    assert ends and max(ends) > 2.9, "up to the last quantile with ten packets beyond it"
    assert all(50 < len(line.get_xdata()) < 100 * end + 3 for line, end in zip(lines, ends, strict=True))
