"""A metric against a number: which numbers a study varies, what has a line, and that figure and table show it all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastro.analysis import analyse
from lastro.analysis.campaign import CampaignResults
from lastro.analysis.curves import curves, number_of
from lastro.builders.tables import curve_tables
from lastro.figures import FigurePlan, plans
from lastro.study.model import Level
from lastro.words.language import ENGLISH, language

from ...support.campaigns import METRICS, Levels, make_campaign, make_study
from ..figures.test_figures import DOT, report_of, texts

THREADS = {"platform": ("lxc", "native", "kvm", "virtualbox"), "instrument.threads": (1, 1000, 2000, 4000)}


def value(levels: Levels, block: int, metric: str) -> float:
    slow = {"native": 1.0, "lxc": 1.1, "kvm": 1.5}.get(str(levels["platform"]), 1.0)
    return slow * (10 + float(levels.get("instrument.threads", 1)) / 1000) + 0.1 * (block % 3)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> CampaignResults:
    """Four platforms by four numbers of threads: one cannot run, one lost its trials with 4,000 threads."""
    study = make_study(THREADS, metrics=METRICS[:1], replicates=4, baseline={"platform": "native"})
    return report_of(
        make_campaign(
            tmp_path_factory.mktemp("sweep") / "c", study, value=value,
            unavailable=lambda levels: ("not installed", None) if levels["platform"] == "virtualbox" else None,
            doubts=lambda levels, block, attempt:
                ["disturbed"] if levels["platform"] == "kvm" and levels["instrument.threads"] == 4000 else [],
        )
    )  # fmt: skip


def of(tmp_path: Path, factors: dict[str, tuple[Level, ...]], **more: object) -> CampaignResults:
    study = make_study(factors, metrics=METRICS[:1], replicates=2, **more)  # type: ignore[arg-type]
    return report_of(make_campaign(tmp_path / "c", study, value=lambda levels, block, metric: 1.0 + block))


def drawn(report: CampaignResults, kind: str, code: str = "en") -> list[FigurePlan]:
    say = ENGLISH if code == "en" else language(code)
    return [plan for plan in plans(report, analyse(report), say) if plan.kind == kind]


def test_the_baseline_leads_and_what_cannot_run_stands_last(sweep: CampaignResults) -> None:
    (curve,) = curves(sweep)
    assert (curve.factor, curve.lines, curve.others) == ("instrument.threads", "platform", ())
    assert curve.line_names == ("native", "lxc", "kvm", "virtualbox")
    assert [line.name for line in curve.panels[0].lines if line.is_baseline] == ["native"]


@pytest.mark.parametrize("code", ["en", "pt-BR"])
def test_every_valid_trial_is_a_point_and_what_is_missing_is_named(sweep: CampaignResults, code: str) -> None:
    (plan,) = drawn(sweep, "curve", code)
    picture = plan.picture()
    assert picture is not None and picture.name == "curve-throughput-instrument.threads"
    svg, n_trials = picture.svg(), sum(len(row.cells[0].points) for row in sweep.rows)
    assert len(DOT.findall(svg)) == n_trials == 4 * 11
    words = texts(svg)
    for said in {
        "en": ("native (baseline)", "n = 4 unless noted", "✕ virtualbox: unavailable", "✕ kvm at 4,000: invalid"),
        "pt-BR": ("native (linha de base)", "n = 4 salvo", "✕ virtualbox: indisponível", "✕ kvm em 4.000: inválido"),
    }[code]:
        assert said in words


def test_trials_that_a_curve_shows_are_not_drawn_again(sweep: CampaignResults, tmp_path: Path) -> None:
    assert not drawn(sweep, "distribution")
    some = of(tmp_path, {"platform": ("native",), "instrument": ("pi:digits=10", "pi:digits=99", "mbw")})
    assert drawn(some, "curve") and drawn(some, "distribution")


def test_the_table_has_every_mean_with_its_interval_and_every_hole(sweep: CampaignResults) -> None:
    (table,) = curve_tables(sweep, ENGLISH).values()
    assert table.columns == ("platform", "1", "1,000", "2,000", "4,000")
    rows = {row[0]: row[1:] for row in table.rows}
    assert list(rows) == ["native", "lxc", "kvm", "virtualbox"]
    assert all(re.fullmatch(r"1\d\.\d+ ± 0\.\d+", text) for text in rows["native"] + rows["lxc"])
    assert rows["kvm"][3] == "invalid" and set(rows["virtualbox"]) == {"unavailable"}
    assert "95" in table.note and "higher is better" in table.note


def test_the_shorter_side_of_the_table_is_across(tmp_path: Path) -> None:
    report = of(tmp_path, {"platform": ("native", "runc"), "proxies": (1, 2, 4, 8)})
    (table,) = curve_tables(report, ENGLISH).values()
    assert table.columns == ("proxies", "native", "runc") and [row[0] for row in table.rows] == ["1", "2", "4", "8"]


def test_an_axis_is_logarithmic_beyond_a_decade_and_every_level_has_a_tick(
    sweep: CampaignResults, tmp_path: Path
) -> None:
    narrow = of(tmp_path, {"platform": ("native",), "instrument.files": (25, 50, 100)})
    for report, scale, ticks in ((sweep, "log", [1, 1000, 2000, 4000]), (narrow, "linear", [25, 50, 100])):
        figure = drawn(report, "curve")[0].draw()
        assert figure is not None
        axes = figure.axes[0]
        assert axes.get_xscale() == scale and list(axes.get_xticks()) == pytest.approx(ticks)
        assert [label.get_text().replace(",", "").strip() for label in axes.get_xticklabels()] == list(map(str, ticks))


def test_numbers_within_levels_are_an_axis_of_what_has_them(tmp_path: Path) -> None:
    levels = ("pi:digits=1M,threads=2", "pi:digits=10M,threads=2", "sysbench-cpu:primes=100", "sysbench-cpu:primes=200")
    report = of(tmp_path, {"platform": ("native", "runc"), "instrument": levels})
    digits, primes = curves(report)
    assert (digits.factor, digits.labels, digits.numbers) == ("instrument.digits", ("1M", "10M"), (1e6, 1e7))
    assert digits.others == ("instrument",) and digits.panels[0].levels == ("pi:threads=2",)
    assert primes.labels == (100, 200) and primes.panels[0].levels == ("sysbench-cpu",)
    words = texts(drawn(report, "curve")[0].picture().svg())  # type: ignore[union-attr]
    assert "instrument = pi:threads=2" in words
    table, _ = curve_tables(report, ENGLISH).values()
    assert table.columns == ("platform", "1M", "10M") and table.note.startswith("pi:threads=2 — mean ±")


def test_a_size_that_is_left_to_the_part_lies_nowhere_on_the_axis(tmp_path: Path) -> None:
    sizes = tuple(f"sysbench-memory:block={size}" for size in ("0", "16K", "1M"))
    (curve,) = curves(of(tmp_path, {"platform": ("native", "lxc"), "instrument": sizes}))
    assert curve.labels == ("16K", "1M")


def test_options_of_a_platform_that_are_factors_are_told_with_it(tmp_path: Path) -> None:
    report = of(tmp_path, {"platform": ("docker", "podman"), "platform.storage": ("vfs", "overlay2"), "n": (1, 2)})
    (curve,) = curves(report)
    assert curve.lines == "platform" and not curve.others
    assert "docker:storage=vfs" in curve.line_names and len(curve.line_names) == 4


def test_other_factors_are_panels_and_a_campaign_without_numbers_has_no_curve(tmp_path: Path) -> None:
    report = of(tmp_path, {"platform": ("native", "runc"), "cache": ("on", "off"), "clients": (6, 256)})
    (curve,) = curves(report)
    assert curve.others == ("cache",) and [panel.levels for panel in curve.panels] == [("on",), ("off",)]
    words = texts(drawn(report, "curve")[0].picture().svg())  # type: ignore[union-attr]
    assert "cache = on" in words and "cache = off" in words
    assert not curves(of(tmp_path / "none", {"platform": ("native", "runc"), "cache": ("on", "off")}))


def test_a_baseline_among_the_numbers_emphasises_no_line(tmp_path: Path) -> None:
    report = of(tmp_path, {"platform": ("native", "runc"), "proxies": (1, 2)}, baseline={"proxies": 1})
    assert not any(line.is_baseline for line in curves(report)[0].panels[0].lines)


def test_values_over_decades_and_none_but_zeros_can_be_drawn(tmp_path: Path) -> None:
    study = make_study({"digits": (1, 10, 1000)}, metrics=METRICS[:2], replicates=2)
    campaign = make_campaign(
        tmp_path / "c", study,
        value=lambda levels, block, metric: float(levels["digits"]) ** 2 if metric == "throughput" else 0.0,
    )  # fmt: skip
    figures = [plan.draw() for plan in drawn(report_of(campaign), "curve")]
    assert [figure.axes[0].get_yscale() for figure in figures if figure] == ["log", "linear"]


@given(st.text(max_size=12) | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_a_level_is_a_number_or_none(level: Level) -> None:
    number = number_of(level)
    assert number is None or isinstance(number, float)
    if isinstance(level, bool):
        assert number is None


def test_rates_and_sizes_are_numbers_with_a_prefix() -> None:
    assert [number_of(text) for text in ("300M", "1G", "16K", "1.5g", "10", "4KiB")] == [3e8, 1e9, 16e3, 1.5e9, 10, 4e3]
    assert [number_of(text) for text in ("", "native", "1x", "M", "-1", True)] == [None] * 6


def test_what_holds_for_several_panels_is_said_once(tmp_path: Path) -> None:
    """The intervals of both panels extend beyond the axis; those of throughput end at 0, and so are not cut there."""
    factors: dict[str, tuple[Level, ...]] = {"platform": ("native", "runc"), "mode": ("far", "near")}
    factors["instrument.threads"] = (1, 2)
    study = make_study(factors, metrics=METRICS[:1], replicates=2)
    report = report_of(
        make_campaign(
            tmp_path / "c", study,
            value=lambda levels, block, metric: (100.0 if levels["mode"] == "far" else 1.0) + block,
        )
    )  # fmt: skip
    (plan,) = drawn(report, "curve")
    picture = plan.picture()
    assert picture is not None
    said = texts(picture.svg())
    assert said.count("arrow: the interval") == 1 and "cut at 0" not in said
