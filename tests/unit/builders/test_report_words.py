"""What a report says of campaigns whose truth is known, and what it holds back."""

from __future__ import annotations

import itertools
import random
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lastro.analysis import analyse
from lastro.analysis.build import build_report
from lastro.analysis.claims import judge
from lastro.analysis.claims.load import parse_claims
from lastro.app import contents
from lastro.builders.content import Content
from lastro.builders.data.results import document
from lastro.builders.page_figures import planned_figures
from lastro.builders.stat_tables import anova_table, comparisons_table, effects_table, tables_behind
from lastro.builders.statistics import (
    drift_sentence,
    metric_summary,
    noise_floor_sentence,
    statistics_sentences,
)
from lastro.figures import pictures
from lastro.results.read import load_campaign
from lastro.results.samples import Metric
from lastro.results.store import Store
from lastro.stats.noise_floor import FORMAT
from lastro.words.campaign import limitations
from lastro.words.claims import reason_text
from lastro.words.estimates import p_text
from lastro.words.key_findings import key_findings
from lastro.words.language import ENGLISH, language

from ...support.campaigns import METRICS, Levels, make_campaign, make_study
from ...support.documents import render_html, render_latex, render_markdown, render_terminal
from ...support.fates import CAMPAIGNS

SLOWER = """
[[claim]]
id = "slower"
says = "runc costs throughput"
compare = { metric = "throughput", of = { platform = "runc" }, to = { platform = "native" } }
direction = "lower"
"""
PLATFORMS = {"platform": ("native", "runc"), "isolation": ("none", "cgroups")}


def truth(levels: Levels, block: int, metric: str) -> float:
    """runc costs a fifth, isolation nothing; a little noise that is the same at every call."""
    wobble = 0.004 * ((block * 7 + len(str(levels["isolation"])) * 3 + len(str(levels["platform"]))) % 5 - 2)
    return 1000 * (0.8 if levels["platform"] == "runc" else 1.0) * (1 + wobble)


def content_of(directory: Path, noise_floor: dict[str, object] | None = None, code: str = "en") -> Content:
    with Store.open(directory, readonly=True) as store:
        report = build_report(load_campaign(store))
    report = replace(report, noise_floor=noise_floor or report.noise_floor)
    return Content(report, analyse(report), language(code))


def said_of(content: Content) -> str:
    """What the statistics say of the first metric."""
    return " ".join(statistics_sentences(content.analysis.metrics[0], content.say))


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    baseline = {"platform": "native", "isolation": "none"}
    study = make_study(PLATFORMS, replicates=8, metrics=METRICS[:1], baseline=baseline)
    return make_campaign(tmp_path_factory.mktemp("known") / "c", study, value=truth)


def test_the_answer_names_the_factor_the_effect_and_the_correction(known: Path) -> None:
    content = content_of(known)
    said = said_of(content)
    assert "platform explains most, 99." in said
    assert "platform = runc instead of native: ×0." in said and ", worse (p < 0.001" in said
    assert "after correction for 2 comparisons" in said
    assert "2 can be distinguished from it here and 1 cannot" in said
    assert "lastro noise-floor" in noise_floor_sentence(content.analysis, ENGLISH)


def test_without_a_difference_none_is_claimed(tmp_path: Path) -> None:
    study = make_study(PLATFORMS, replicates=8, metrics=METRICS[:1], baseline={"platform": "native"})

    def alike(levels: Levels, block: int, metric: str) -> float:
        return truth({**levels, "platform": "native"}, block * 3 + len(str(levels)), metric)

    directory = make_campaign(tmp_path, study, value=alike)
    content = content_of(directory)
    text = said_of(content)
    assert "The largest effect" not in text
    assert "No level of any factor differs significantly" in text and "0 can be distinguished from it" in text


@pytest.mark.usefixtures("undrawn")
def test_a_difference_below_the_noise_floor_is_different_with_that_remark(known: Path) -> None:
    floor = {"floor": 0.5, "n_pairs": 8, "ratio": None, "interval": None}
    kept = {"format": FORMAT, "blocks": 8, "metrics": {"throughput": floor}}
    without, content = content_of(known), content_of(known, kept)
    assert said_of(content) == said_of(without)
    text = noise_floor_sentence(content.analysis, ENGLISH)
    assert "rarely differ on this host by more than the noise floor: throughput 50.0\xa0%" in text
    assert len(content.under_floor) == 3
    rows = comparisons_table(content.analysis.metrics[0], ENGLISH).rows
    plain = comparisons_table(without.analysis.metrics[0], ENGLISH).rows
    assert [row[-1] for row in rows] == [f"{row[-1]}: below the noise floor" for row in plain]
    effects = effects_table(content.analysis.metrics[0], ENGLISH)
    assert all(row[3].endswith("(below the noise floor)") for row in effects.rows)
    assert "Noise floor: 50.0\xa0% for one treatment against another" in effects.note
    for page in (render_html(content), render_markdown(content)):
        assert page.count("below the noise floor") == 6 + len(effects.rows) and "▼ ×0.8" in page


def test_a_kept_noise_floor_reaches_the_report(known: Path, tmp_path: Path) -> None:
    campaign = Path(shutil.copytree(known, tmp_path / "with-floor"))
    floor = {"floor": 0.5, "treatment": "native", "n_pairs": 8, "ratio": None, "interval": None}
    kept = {"format": FORMAT, "blocks": 8, "metrics": {"throughput": floor}}
    with Store.open(campaign) as store:
        store.save_noise_floor(kept)
    found = contents.content_of([campaign], ENGLISH, all_metrics=False)
    assert found.analysis.metrics[0].floor == 0.5


def test_a_floor_made_for_other_blocks_is_scaled_and_the_tables_and_figures_say_so(known: Path) -> None:
    content = content_of(known)
    kept = {
        "format": FORMAT,
        "blocks": 4,
        "metrics": {"throughput": {"floor": 0.05, "treatment": "native"}},
    }
    metric = analyse(replace(content.report, noise_floor=kept)).metrics[0]
    assert metric.floor == pytest.approx(0.05 / 2**0.5)
    assert [effect.floor for effect in metric.effects] == [pytest.approx(metric.floor / 2**0.5)] * 2
    said = "The noise floor was measured for 4 blocks and scaled to the 8 of this campaign."
    assert said in effects_table(metric, ENGLISH).note
    assert "4 blocos e ajustado aos 8" in effects_table(metric, language("pt-BR")).note


def test_the_effects_table_says_what_its_p_rests_on(known: Path) -> None:
    table = effects_table(content_of(known).analysis.metrics[0], ENGLISH)
    assert table.columns[7:] == ("n (df)", "trials", "combinations")
    assert {row[7:] for row in table.rows} == {("8 blocks (21)", "16 / 16", "2 of 2")}


def test_tables_hold_raw_and_corrected_p_side_by_side(known: Path) -> None:
    metric = content_of(known).analysis.metrics[0]
    effects, comparisons = effects_table(metric, ENGLISH), comparisons_table(metric, ENGLISH)
    assert effects.columns[5:7] == ("p", "p corrected") and comparisons.columns[2:4] == ("p", "p (max-|t|)")
    assert all(len(row) == len(table.columns) for table in (effects, comparisons) for row in table.rows)
    variance = anova_table(metric, ENGLISH)
    assert [row[0] for row in variance.rows] == [
        "block", "platform", "isolation", "platform × isolation", "residual", "total",
    ]  # fmt: skip
    assert variance.rows[-1][-1] == "100.0\xa0%"


RATIO = re.compile(r"([▲▼≈]) (×[\d.]+ \[[\d.]+, [\d.]+\])")
COSTS = {"native": 0.0, "a": 0.0, "b": 0.5, "c": 1.4, "d": 1.6, "e": 1.8, "f": 3.0}


@pytest.mark.usefixtures("undrawn")
def test_a_ratio_has_one_corrected_mark_and_interval_in_terminal_page_files_and_json(tmp_path: Path) -> None:
    """Six platforms cost up to 3 % of a noise of 1 %: one of them differs alone, and not as one of six."""

    def value(levels: Levels, block: int, metric: str) -> float:
        own = random.Random(f"{levels['platform']}{block}0").gauss(0, 1)
        return 100 - COSTS[str(levels["platform"])] + own + random.Random(block).gauss(0, 3)

    study = make_study({"platform": tuple(COSTS)}, replicates=6, metrics=METRICS[:1], baseline={"platform": "native"})
    content = content_of(make_campaign(tmp_path, study, value=value))
    shown = "\n".join(line.plain for line in render_terminal(content.report, 200))
    said = RATIO.findall(shown)
    assert [mark for mark, _ in said] == ["≈", "≈", "≈", "≈", "▼", "▼"]
    legend = "corrected for the number of ratios of its metric: ▲ better, ▼ worse, ≈ not distinguishable."
    assert legend in " ".join(shown.split())
    assert "uncorrected" not in shown
    effects = effects_table(content.analysis.metrics[0], ENGLISH).rows
    assert [RATIO.fullmatch(row[3]).groups() for row in effects] == said  # type: ignore[union-attr]
    page = render_html(content)
    assert RATIO.findall(page[page.index('<h2 id="results">') :])[:6] == said
    rows = render_markdown(content).replace("\\", "").splitlines()
    assert [RATIO.findall(row)[0] for row in rows if re.match(r"\| [a-f] \| 6 \|.* ±", row)] == said
    signs = {r"\ensuremath{\approx} ": "≈ ", r"\ensuremath{\bigtriangledown} ": "▼ ", r"\ensuremath{\times}": "×"}
    latex = render_latex(content).replace("{[}", "[").replace("{]}", "]")
    for sign, mark in signs.items():
        latex = latex.replace(sign, mark)
    assert [RATIO.findall(row)[0] for row in latex.splitlines() if re.match(r"[a-f] & 6 &.*\\pm", row)] == said
    json = document(content.report)
    ratios = [row["metrics"]["throughput"]["ratio"] for row in json["treatments"][1:]]
    comparisons = json["analysis"]["throughput"]["comparisons"]
    for (mark, _), ratio, comparison in zip(said, ratios, comparisons, strict=True):
        assert {"≈": ("same", "same"), "▼": ("worse", "different")}[mark] == (ratio["verdict"], comparison["decision"])
        assert ratio["interval"] == comparison["ratio"]["interval"]
        low, high = (ratio["interval"][end] for end in ("low", "high"))
        assert (low <= 1 <= high) == (comparison["p_adjusted"] >= 0.05) == (mark == "≈")
    assert any(c["p"] < 0.05 and c["decision"] == "same" for c in comparisons), "else the correction decides nothing"


@pytest.mark.usefixtures("undrawn")
def test_equal_readings_have_an_interval_of_half_a_step_and_no_mark_everywhere(tmp_path: Path) -> None:
    """The tool prints two decimals; what it reads of runc is one step from what it reads of native."""
    readings = {"native": 42.0, "runc": 42.01, "kvm": 43.5}

    def value(levels: Levels, block: int, metric: str) -> float:
        return readings[str(levels["platform"])] + 0.1 * (levels["platform"] == "kvm") * (block % 3)

    def coarse(*platforms: str) -> Content:
        study = make_study({"platform": platforms}, metrics=METRICS[:1], baseline={"platform": "native"})
        return content_of(make_campaign(tmp_path / str(len(platforms)), study, value=value))

    content = coarse(*readings)
    shown = "\n".join(line.plain for line in render_terminal(content.report, 200))
    latex = render_latex(content).replace(r"\ensuremath{\pm}", "±")
    for text in (shown, render_html(content), render_markdown(content).replace("\\", ""), latex):
        assert "42.0000 ± 0.0050" in text and "42.0100 ± 0.0050" in text and "± 0.0000" not in text
    native, runc, _ = document(content.report)["treatments"]
    interval = native["metrics"]["throughput"]["interval"]
    assert (interval["low"], interval["high"]) == pytest.approx((41.995, 42.005))
    assert runc["metrics"]["throughput"]["ratio"]["verdict"] == "same"
    counts = make_campaign(tmp_path / "counts", value=lambda levels, block, metric: 42.0)
    assert "42.00 ± 0.50" in render_markdown(content_of(counts)).replace("\\", ""), "whole numbers have steps of 1"


@pytest.mark.usefixtures("undrawn")
def test_terminal_page_claims_and_json_give_one_verdict_whatever_the_noise_floor(tmp_path: Path) -> None:
    """Blocks vary by 5 %, trials within them by 1 %; runc costs 3 %, which pairs across blocks would not show."""
    rng = random.Random(8)
    of_block = [rng.gauss(1, 0.05) for _ in range(8)]

    def value(levels: Levels, block: int, metric: str) -> float:
        return 100 * of_block[block - 1] * (0.97 if levels["platform"] == "runc" else 1) * rng.gauss(1, 0.01)

    study = make_study(
        {"platform": ("native", "runc")}, replicates=8, metrics=METRICS[:1], baseline={"platform": "native"}
    )
    kept = {"format": FORMAT, "blocks": 8, "metrics": {"throughput": {"floor": 0.06, "n_pairs": 8}}}
    content = content_of(make_campaign(tmp_path, study, value=value), kept)
    ratio = content.report.rows[1].cells[0].ratio
    assert ratio is not None and ratio.interval is not None and ratio.interval.high < 0.99
    for page in (render_html(content), render_markdown(content)):
        assert "▼ ×0.97" in page and "(below the noise floor)" in page
    assert "▼ ×0.97" in "\n".join(line.plain for line in render_terminal(content.report, 200))
    (comparison,) = document(content.report)["analysis"]["throughput"]["comparisons"]
    assert (comparison["decision"], comparison["under_noise_floor"]) == ("different", True)
    (claim,) = judge(parse_claims(SLOWER, "claims.toml", study), content.report)
    assert claim.verdict == "reproduced"
    assert reason_text(claim).endswith("; the effect is smaller than the noise floor of this host")
    assert key_findings(content.report, ENGLISH)[0].endswith("native, less than the noise floor of this host.")


@pytest.mark.parametrize("make", CAMPAIGNS.values(), ids=CAMPAIGNS)
def test_every_campaign_has_an_answer_or_a_reason(make: Callable[[Path], Path], tmp_path: Path) -> None:
    content = content_of(make(tmp_path / "c"))
    for metric, say in itertools.product(content.analysis.metrics, (ENGLISH, language("pt-BR"))):
        said = " ".join(statistics_sentences(metric, say))
        assert said and "{" not in said.replace("{{ 7*7 }}", "")
        assert metric.anova is not None or metric.why_none is not None
        lines = drift_sentence(metric, content.analysis.alpha, say), metric_summary(metric, say)
        assert all("nan" not in line for line in lines)
        for table in tables_behind(metric, say):
            assert all(len(row) == len(table.columns) for row in table.rows)
            assert not any("nan" in cell or "None" in cell for row in table.rows for cell in row[1:])


@pytest.mark.parametrize(
    ("replicates", "hole", "said"),
    [
        (3, False, "; noise between trials makes up"),
        (3, True, "; the residual (noise and higher interactions) makes up"),
        (1, False, "; the residual (no replication: interactions and noise are not separable) makes up"),
    ],
)
def test_the_residual_is_called_noise_only_where_it_is_nothing_else(
    tmp_path: Path, replicates: int, hole: bool, said: str
) -> None:
    factors = {**PLATFORMS, "function": ("nat", "dpi")}
    metric = Metric("throughput", "Mbit/s", "higher", "")

    def value(levels: Levels, block: int, metric: str) -> float:
        return truth(levels, block, metric) * (1.1 if levels["function"] == "dpi" else 1)

    def lost(levels: Levels) -> tuple[str, None] | None:
        return ("no", None) if hole and set(levels.values()) == {"runc", "cgroups", "dpi"} else None

    study = make_study(factors, replicates=replicates, metrics=(metric,))
    content = content_of(make_campaign(tmp_path, study, value=value, unavailable=lost))
    assert said in said_of(content)


def test_shares_of_an_analysis_of_logarithms_say_so(tmp_path: Path) -> None:
    def value(levels: Levels, block: int, metric: str) -> float:
        return (100.0 if levels["platform"] == "runc" else 1.0) * (1 + ((7 * block + len(str(levels))) % 5) / 4)

    study = make_study(PLATFORMS, replicates=10, metrics=METRICS[:1])
    content = content_of(make_campaign(tmp_path, study, value=value))
    assert content.analysis.metrics[0].log
    assert "of the variation (of logarithms); " in said_of(content)


@pytest.mark.usefixtures("undrawn")
def test_one_replicate_tests_nothing_and_calls_nothing_unbounded(tmp_path: Path) -> None:
    content = content_of(CAMPAIGNS["one-replicate"](tmp_path))
    said = said_of(content)
    assert "Too few trials to test any difference" in said and "largest effect" not in said
    page = render_html(content)
    assert "no interval" in page and "unbounded" not in page


def drawn(content: Content) -> str:
    """Every figure of a report, in its wide version."""
    return "".join(each.svg() for each in pictures(planned_figures(content)))


def test_a_wide_range_has_plain_numbers_on_its_axis(tmp_path: Path) -> None:
    def value(levels: Levels, block: int, metric: str) -> float:
        return (100.0 if levels["platform"] == "runc" else 1.0) * (1 + block / 100)

    study = make_study(metrics=METRICS[:2], baseline={"isolation": "none"})
    assert "mathdefault" not in drawn(content_of(make_campaign(tmp_path, study, value=value)))


def test_axes_take_the_decimal_mark_of_the_language_however_many_panels_share_them(tmp_path: Path) -> None:
    factors = {"attachment": ("a", "b", "c"), "isolation": ("none", "cgroups"), "anomaly": ("none", "cpu", "io")}
    found = drawn(
        content_of(make_campaign(tmp_path, make_study(factors, replicates=2, metrics=METRICS[:2])), code="pt-BR")
    )
    assert re.search(r">0,\d+</text>", found) and not re.search(r">[0-9]+\.(?![0-9]{3}<)[0-9]+</text>", found)


def test_numbers_as_text() -> None:
    portuguese = language("pt-BR")
    assert p_text(0.0002, ENGLISH, sign=True) == "< 0.001" and p_text(0.0121, ENGLISH, sign=True) == "= 0.012"
    assert p_text(0.0121, portuguese) == "0,012" and p_text(None, ENGLISH) == ""


def test_trials_that_became_valid_later_are_a_limitation(known: Path) -> None:
    report = content_of(known).report
    later = tuple(replace(attempt, attempt=attempt.attempt + 3 * (attempt.trial <= 2)) for attempt in report.attempts)
    sentence = "Trials that were given up, but valid when repeated later: 2."
    assert any(said.startswith(sentence) for said in limitations(replace(report, attempts=later), ENGLISH))
    assert not any("given up" in said for said in limitations(report, ENGLISH))
