"""How many instances a host carries, as a report tells it: a limit and what broke there, or only a lower bound."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lastro.analysis import analyse
from lastro.analysis.campaign import CampaignResults, Cell
from lastro.analysis.claims import Judgement, judge
from lastro.analysis.claims.load import parse_claims
from lastro.analysis.compare import compare
from lastro.analysis.noise_floor import noise_floors
from lastro.analysis.searches import searches
from lastro.builders.claims import JudgedClaims
from lastro.builders.content import Content
from lastro.builders.data.claims import claims_document
from lastro.builders.data.results import document
from lastro.builders.statistics import statistics_sentences
from lastro.builders.tables import results_table, searches_table
from lastro.campaign.sequential import half_widths
from lastro.figures import plans
from lastro.plain import json_text
from lastro.results.export import to_csv
from lastro.results.read import load_campaign
from lastro.results.samples import AT_LEAST, Metric, Outcome, Remark
from lastro.results.store import Store
from lastro.words.claims import measured_text, reason_text
from lastro.words.comparison import not_compared
from lastro.words.language import ENGLISH, language

from ...support.campaigns import Levels, make_campaign, make_study
from ...support.documents import render_html, render_latex, render_markdown, render_terminal
from ..figures.test_figures import report_of

CAPACITY = Metric("capacity", "1", "higher", "most proxies that all answered")
TIME = Metric("request_time", "ms", "lower", "mean time of a request")
PLATFORMS = {"platform": ("native", "docker", "runc", "kvm")}
ROUTE = "no route to host: proxy-{n} at 198.18.0.{n} did not answer"
ENOUGH = "enough for this study: max_proxies = 64"
TRUTH = {"native": 37, "docker": 60, "runc": 64, "kvm": 12}  # runc: at least


def is_bound(levels: Levels, block: int) -> bool:
    return levels["platform"] == "runc" or (levels["platform"] == "docker" and block == 3)


def value(levels: Levels, block: int, metric: str) -> float:
    platform = str(levels["platform"])
    if metric == "request_time":
        return 20.0 + block + TRUTH[platform] / 100
    return 64.0 if is_bound(levels, block) else float(TRUTH[platform] + (block + len(platform)) % 2)


def ended(levels: Levels, block: int) -> dict[str, Any]:
    """As `host_memory.record_capacity` and its callers store it."""
    outcome = Outcome()
    text = ENOUGH if is_bound(levels, block) else ROUTE.format(n=block + 40)
    if levels["platform"] == "kvm" and block == 2:
        text = "the host has 900 MiB of memory left, under 10% of its total"
    if is_bound(levels, block):
        outcome.add_caveat(Remark(AT_LEAST, text, ("capacity",)))
    outcome.notes["capacity"] = {"proxies": 1, "stopped_by": text, "steps": []}
    return outcome.notes


def campaign(directory: Path, factors: Mapping[str, Any] = PLATFORMS, **others: Any) -> CampaignResults:
    study = make_study(factors, metrics=(CAPACITY, TIME), replicates=4, baseline={"platform": "native"})
    return report_of(make_campaign(directory / "c", study, **({"value": value, "notes": ended} | others)))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> CampaignResults:
    return campaign(tmp_path_factory.mktemp("searches"))


def content(report: CampaignResults, code: str = "en") -> Content:
    return Content(report, analyse(report), ENGLISH if code == "en" else language(code))


def cells(report: CampaignResults, metric: int = 0) -> dict[str, Cell]:
    return {str(row.treatment.levels["platform"]): row.cells[metric] for row in report.rows}


def test_each_treatment_tells_what_ended_its_searches_and_in_how_many_trials(report: CampaignResults) -> None:
    (search,) = searches(report)
    assert search.metric == CAPACITY, "no other metric is searched for"
    (table,) = (searches_table(report, search, ENGLISH) for search in searches(report))
    first = {row[0]: row[-1] for row in reversed(table.rows)}
    assert [row[:4] for row in table.rows] == [
        ("native", "37 to 38", "limit found", "4 of 4"),
        ("docker", "60 to 61", "limit found", "3 of 4"),
        ("docker", "≥ 64", "lower bound", "1 of 4"),
        ("runc", "≥ 64", "lower bound", "4 of 4"),
        ("kvm", "12 to 13", "limit found", "3 of 4"),
        ("kvm", "13", "limit found", "1 of 4"),
    ]
    assert re.fullmatch(r"no route to host: proxy-4\d at 198.18.0.4\d did not answer", first["native"])
    assert first["runc"] == ENOUGH and "MiB of memory" in table.rows[-1][-1]


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("code", ["en", "pt-BR"])
def test_every_form_of_the_report_says_what_broke(report: CampaignResults, code: str) -> None:
    heading = {"en": "What bounds the number: capacity", "pt-BR": "O que limita o número: capacity"}[code]
    shown = content(report, code)
    for text in (render_html(shown), render_markdown(shown), render_latex(shown)):
        assert heading in text and "no route to host" in text and "memory left" in text and "enough for this" in text
    page = render_html(shown)
    assert page.index('id="results"') < page.index(heading) < page.index('id="missing"')


def test_the_terminal_says_it_too(report: CampaignResults) -> None:
    said = "\n".join(line.plain for line in render_terminal(report, 100))
    assert "What bounds the number: capacity" in said
    assert re.search(r"^native +37 to 38  limit found  4 of 4  no route to host", said, re.MULTILINE)
    assert re.search(r"^runc +≥ 64  lower bound  4 of 4  enough for this study", said, re.MULTILINE)
    assert "≥ 64 ⁺" in said and "64.000" not in said and "no interval: a lower bound in 4 of 4 trials" in said


def test_the_document_says_it_for_programs(report: CampaignResults) -> None:
    found = {each["levels"]["platform"]: each["metrics"] for each in document(report)["treatments"]}
    docker, runc = found["docker"]["capacity"], found["runc"]["capacity"]
    assert [(each["limit"], each["trials"], each["least"], each["greatest"]) for each in docker["ended"]] == [
        (True, 3, 60, 61), (False, 1, 64, 64),
    ]  # fmt: skip
    assert docker["bounded"] == 1 and docker["interval"] is None and docker["sd"] is None and docker["mean"]
    assert sum(each["at_least"] for each in docker["values"]) == 1
    assert runc["ratio"]["bound"] == ">=" and runc["ratio"]["interval"] is None and runc["ratio"]["verdict"] is None
    assert found["native"]["capacity"]["bounded"] == 0 and found["native"]["capacity"]["interval"]
    assert found["native"]["request_time"]["ended"] == []
    json_text(document(report))


def test_a_mean_with_a_bound_is_a_lower_bound_without_an_interval(report: CampaignResults) -> None:
    table = results_table(content(report), report.views[0])
    texts = {row[0]: row[2:] for row in table.rows}
    assert texts["runc"][0] == "≥ 64 ⁺ (no interval: a lower bound in 4 of 4 trials)"
    assert texts["runc"][1].startswith("≥ ×1.7") and "[" not in texts["runc"][1]
    assert texts["docker"][0].startswith("≥ 61.") and "in 1 of 4 trials" in texts["docker"][0]
    assert "±" in texts["native"][0] and "[" in texts["kvm"][1]
    times = results_table(content(report), report.views[1])
    assert not any("≥" in cell for row in times.rows for cell in row), "of another metric nothing is bounded"


def test_what_is_only_a_bound_stays_out_of_every_test(report: CampaignResults) -> None:
    capacity, times = analyse(report).metrics
    assert (capacity.bounded, times.bounded) == (2, 0)
    assert {one.treatment.levels["platform"] for one in capacity.comparisons} == {"kvm"}
    assert {effect.level for effect in capacity.effects} == {"kvm"} and len(times.comparisons) == 3
    said = " ".join(statistics_sentences(capacity, ENGLISH))
    assert "Left out of effects and comparisons, because only a lower bound is known: 2 treatments" in said
    ratio = cells(report)["runc"].ratio
    assert ratio is not None and not ratio.differs
    for plan in plans(report, analyse(report), ENGLISH):
        plan.picture()  # none fails on a mean without an interval


def test_a_ratio_to_a_bound_is_one_from_above_and_of_two_is_none(tmp_path: Path) -> None:
    study = make_study(PLATFORMS, metrics=(CAPACITY,), replicates=4, baseline={"platform": "runc"})
    found = cells(report_of(make_campaign(tmp_path / "c", study, value=value, notes=ended)))
    native, docker = found["native"].ratio, found["docker"].ratio
    assert native is not None and native.bound == "≤" and native.interval is None
    assert docker is not None and docker.value is None and docker.absent_because is not None


def test_where_all_is_bounded_the_analysis_says_why_there_is_none(tmp_path: Path) -> None:
    def all_ended(levels: Levels, block: int) -> dict[str, Any]:
        return ended({"platform": "runc"}, block)

    report = campaign(tmp_path, value=lambda levels, block, metric: 64.0, notes=all_ended)
    capacity = analyse(report).metrics[0]
    assert capacity.anova is None and capacity.why_none == "only a lower bound is known for every treatment"
    assert not capacity.effects and not capacity.comparisons and capacity.headline.same == 0


def test_a_floor_is_not_drawn_from_bounds(tmp_path: Path) -> None:
    def notes(levels: Levels, block: int) -> dict[str, Any]:
        return ended({"platform": "runc"}, block)

    alone = make_study({"clients": (4,)}, metrics=(CAPACITY,), replicates=4)
    aa = report_of(make_campaign(tmp_path / "aa", alone, value=lambda levels, block, _: 64.0, notes=notes))
    assert noise_floors([aa], alone).metrics[0].floor.floor is None, (
        "that all were ended at 64 says nothing of the noise"
    )


def test_campaigns_are_not_compared_by_bounds(report: CampaignResults, tmp_path: Path) -> None:
    found = compare(report, replace(campaign(tmp_path), attempts=()))  # with its times, it would be a copy
    untested = {dict(c.levels)["platform"]: not_compared(c) for c in found.cells if c.test is None}
    assert untested == {
        "docker": "A: only a lower bound in 1 of 4 trials; B: only a lower bound in 1 of 4 trials",
        "runc": "A: only a lower bound in 4 of 4 trials; B: only a lower bound in 4 of 4 trials",
    }


@pytest.mark.usefixtures("undrawn")
def test_notes_of_any_shape_do_no_harm(tmp_path: Path) -> None:
    odd: list[Any] = [None, "broke", {"stopped_by": 7}, {"proxies": 3}]
    report = campaign(tmp_path, notes=lambda levels, block: {"capacity": odd[block % 4]})
    assert searches(report) == () and render_html(content(report))


def test_a_bound_without_a_note_of_its_end_has_the_words_of_the_remark(tmp_path: Path) -> None:
    def notes(levels: Levels, block: int) -> dict[str, Any]:
        outcome = Outcome()
        outcome.add_caveat(Remark(AT_LEAST, "time was up"))  # of all that was measured
        return outcome.notes

    report = campaign(tmp_path, notes=notes)
    assert {each.text for search in searches(report) for _, ends in search.rows for each in ends} == {"time was up"}
    assert {search.metric.name for search in searches(report)} == {"capacity", "request_time"}


# Claims


CLAIM = '[[claim]]\nid = "c"\nsays = "it"\n'


def judged(report: CampaignResults, statement: str) -> Judgement:
    (one,) = judge(parse_claims(CLAIM + statement, "claims.toml", report.study), report)
    return one


def compared(of: str, to: str, direction: str, more: str = "") -> str:
    sides = f'of = {{ platform = "{of}" }}, to = {{ platform = "{to}" }}'
    return f'compare = {{ metric = "capacity", {sides} }}\ndirection = "{direction}"\n{more}'


def falling(*levels: str) -> str:
    return f'order = {{ metric = "capacity", factor = "platform", falling = {json.dumps(levels)} }}'


@pytest.mark.parametrize(
    ("statement", "verdict"),
    [
        (compared("native", "kvm", "higher"), "reproduced"),  # both exact
        (compared("runc", "native", "higher"), "reproduced"),  # 64 or more against 37: more can only confirm it
        (compared("native", "runc", "lower"), "reproduced"),
        (compared("runc", "native", "lower"), "contradicted"),
        (compared("native", "runc", "higher"), "contradicted"),
        (compared("runc", "docker", "higher"), "untestable here"),  # both are bounds: docker may carry more
        (compared("runc", "docker", "lower"), "untestable here"),
        (compared("runc", "native", "alike", "margin = 0.9"), "untestable here"),
        (compared("native", "runc", "higher", "published = { ratio = 2.0, tolerance = 0.1 }"), "contradicted"),
        (
            compared("runc", "native", "higher", "published = { ratio = 1.7, tolerance = 0.5 }"),
            "same direction, too imprecise",
        ),
        (falling("runc", "native", "kvm"), "reproduced"),
        (falling("native", "runc", "kvm"), "contradicted"),
        (falling("runc", "docker", "kvm"), "untestable here"),
        (
            'alike = { metric = "capacity", factor = "platform", levels = ["runc", "docker"] }\nmargin = 0.5',
            "untestable here",
        ),
        (
            'recovery = { metric = "capacity", ideal = { platform = "runc" }, without = { platform = "kvm" }, '
            'protected = { platform = "native" } }',
            "untestable here",
        ),
    ],
)  # fmt: skip
def test_a_claim_is_judged_only_where_no_bound_could_change_the_verdict(
    report: CampaignResults, statement: str, verdict: str
) -> None:
    one = judged(report, statement)
    assert one.verdict == verdict, reason_text(one)
    if verdict == "untestable here":
        assert "only a lower bound is known" in reason_text(one) and "could change the verdict" in reason_text(one)
        assert one.p is not None and one.part is None and measured_text(one) == ""


def test_a_bound_that_lies_lower_speaks_neither_for_nor_against(tmp_path: Path) -> None:
    """The study ended the search at 20, where the other carries 37: nobody knows which carries more."""

    def low(levels: Levels, block: int, metric: str) -> float:
        return 20.0 if levels["platform"] == "runc" else value(levels, block, metric)

    report = campaign(tmp_path, value=low)
    for direction in ("higher", "lower"):
        assert judged(report, compared("runc", "native", direction)).verdict == "untestable here"
    alike = judged(campaign(tmp_path / "alike", value=lambda *of: value({"platform": "native"}, *of[1:])),
                   compared("runc", "native", "higher"))  # fmt: skip
    assert alike.verdict == "untestable here", "what is not told apart might be, with what lies beyond"


def test_what_is_shown_of_a_claim_on_a_bound_is_a_bound(report: CampaignResults) -> None:
    one = judged(report, compared("runc", "native", "higher"))
    assert one.part is not None and one.part.effect.interval is None
    assert re.fullmatch(r"≥ ×1\.7\d, ≥ \+26\.\d+ 1", measured_text(one))
    assert measured_text(judged(report, compared("native", "runc", "lower"))).startswith("≤ ×0.5")
    told = judged(report, compared("runc", "native", "higher", "published = { ratio = 1.7, tolerance = 0.5 }"))
    assert "only a bound on the magnitude is known" in reason_text(told)
    claims = parse_claims(CLAIM + compared("runc", "native", "higher"), "claims.toml", report.study)
    (part,) = claims_document(JudgedClaims(claims, (one,), report))["claims"][0]["parts"]
    assert part["bound"] == ">=" and part["effect"]["interval"] is None and part["difference"]["p"] < 0.05
    drawn = plans(report, analyse(report), ENGLISH, (one,))
    assert any(plan.kind == "claims" and plan.picture() for plan in drawn)


# Whatever else reads values


def test_exported_values_tell_which_are_bounds(tmp_path: Path) -> None:
    campaign(tmp_path)
    with Store.open(tmp_path / "c", readonly=True) as store:
        rows = list(csv.DictReader(io.StringIO(to_csv(load_campaign(store)))))
    bounds = {(row["platform"], row["metric"]) for row in rows if row["at_least"] == "true"}
    assert bounds == {("runc", "capacity"), ("docker", "capacity")}
    assert sum(row["at_least"] == "true" for row in rows) == 5, "one of four trials on docker, all of them on runc"


def test_a_sequential_campaign_does_not_stop_for_what_is_alike_only_as_a_bound(tmp_path: Path) -> None:
    campaign(tmp_path)
    with Store.open(tmp_path / "c", readonly=True) as store:
        found = half_widths(store.study, [row.treatment for row in store.treatments()], store.attempts())
    assert {name.partition(" of ")[0] for name in found} == {"capacity", "request_time"}
    assert [name for name in found if name.startswith("capacity")] == ["capacity of kvm"]
