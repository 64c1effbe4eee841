"""What a paper printed, with a campaign beside it: where a campaign follows the paper, both are the same numbers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lastro import papers
from lastro.analysis.as_published import MatchedBars, MatchedLines, MatchedPublication
from lastro.analysis.claims.load import load_claims, parse_claims
from lastro.app.contents import content_of
from lastro.builders.content import Content
from lastro.builders.data import published as published_document
from lastro.builders.data.results import document
from lastro.builders.published_tables import bars_table, printed_table
from lastro.errors import StudyError
from lastro.figures import NARROW_IN, WIDE_IN, FigurePlan, plans
from lastro.results.additions import AlignedSeries
from lastro.results.samples import Series
from lastro.scenarios.base import schemas
from lastro.scenarios.routing.additions import FIGURES
from lastro.study.load import load
from lastro.study.model import Study
from lastro.words.language import ENGLISH, language

from ...support import kagami_truth
from ...support.campaigns import KAGAMI, METRICS, Levels, make_campaign, make_study
from ...support.documents import render_html, render_latex, render_markdown
from ..builders.test_encoder import keys
from ..figures.test_figure_layout import collisions
from ..papers import test_correa2011, test_eiras2018, test_papers

FIRST_S = {"lxc": 50, "openvz": 39, "xen": 130}
NOT_HERE = ("not on this host", "find another host")


def counted(levels: Levels, block: int) -> list[Series]:
    """A CPU that is busy until the first packet, and a burst of updates after it."""
    first = FIRST_S.get(str(levels["platform"]), 45)
    seconds = range(first + 20)
    busy = tuple(100.0 if at < first else 1.0 for at in seconds)
    updates = tuple(float(first <= at < first + 5) for at in seconds)
    other = ("hello", "database description", "link-state request", "link-state acknowledgement")
    silent = [Series(f"{kind} packets", "1/s", (0.0,) * len(seconds)) for kind in other]
    return [Series("host CPU", "%", busy), Series("link-state update packets", "1/s", updates), *silent]


def marked(levels: Levels, block: int) -> dict[str, Any]:
    return {"timeline_s": {"begin": 0.0, "converged": FIRST_S.get(str(levels["platform"]), 45) + 19.0}}


def content(member: str, directory: Path, value: Callable[..., float | None], code: str = "en", **more: Any) -> Content:
    """The content of a report of a campaign of two blocks that measured what the paper did, and analysed one metric."""
    study = load(papers.find(member), schemas()).with_profile("published")
    small = replace(study, design=replace(study.design, replicates=2), metrics=study.metrics[:1])
    own: dict[str, Any] = {"notes": lambda levels, block: {}} | more
    make_campaign(directory / "c", small, value=value, measured=study.metrics, **own)
    return content_of([directory / "c"], language(code), all_metrics=False)


def printed(found: Content) -> MatchedPublication:
    assert found.published is not None
    return found.published


def routing(directory: Path, **more: Any) -> Content:
    own: dict[str, Any] = {"series": counted, "notes": marked} | more
    return content("correa2011", directory, test_correa2011.published_value, **own)


@pytest.fixture(scope="module")
def correa(tmp_path_factory: pytest.TempPathFactory) -> Content:
    return routing(tmp_path_factory.mktemp("correa"))


def study_of_kagami(replicates: int) -> Study:
    """It analyses one metric, and its scenario measures four."""
    own: dict[str, Any] = {"metrics": METRICS[:1], "all_metrics": METRICS, "baseline": {"isolation": "none"}}
    return replace(make_study(KAGAMI, replicates=replicates, **own), name="kagami2017")


@pytest.fixture(scope="module")
def kagami(tmp_path_factory: pytest.TempPathFactory) -> Content:
    directory = tmp_path_factory.mktemp("kagami") / "c"
    own: dict[str, Any] = {"value": kagami_truth.published_value, "measured": METRICS}
    make_campaign(directory, study_of_kagami(3), notes=lambda levels, block: {}, **own)
    return content_of([directory], ENGLISH, all_metrics=False)


# Numbers


def cells_of(found: Content) -> dict[str, list[tuple[float, float]]]:
    """(As printed, measured) of every cell that is a number, by the id of its table."""
    return {
        table.table.id: [
            (cell.value, here.mean.value)
            for row, heres in zip(table.table.rows, table.rows, strict=True)
            for cell, here in zip(row.cells, heres, strict=True)
            if cell.value is not None and here.mean is not None and here.mean.value is not None
        ]
        for table in printed(found).tables
    }


def test_where_a_campaign_follows_the_tables_of_correa_both_are_the_same(correa: Content) -> None:
    cells = cells_of(correa)
    assert {name: len(found) for name, found in cells.items()} == {"boot": 8, "memory": 24, "first-packet": 2}
    for found in cells.values():
        assert [here for _, here in found] == pytest.approx([there for there, _ in found], rel=2e-3)


@pytest.mark.parametrize(
    ("member", "value", "n"),
    [
        ("mendes2019/disk", test_papers.published_value, 8),
        ("eiras2018/resources", test_eiras2018.published_value, 4),
        ("trindade2018/uplink", test_papers.published_value, 5),
    ],
)
def test_where_a_campaign_follows_the_table_of_a_paper_both_are_the_same(
    member: str, value: Callable[..., float | None], n: int, tmp_path: Path
) -> None:
    (found,) = cells_of(content(member, tmp_path, value)).values()
    assert len(found) == n
    assert [here for _, here in found] == pytest.approx([there for there, _ in found], rel=3e-3)


def test_where_a_campaign_follows_kagami_each_mark_is_at_its_bar(kagami: Content) -> None:
    marks = {
        each.mark.claim.id: (each.mark.value, each.here.mean.value)
        for figure in printed(kagami).figures
        if isinstance(figure, MatchedBars)
        for panel in figure.panels
        for each in panel.bars
        if each.mark is not None and each.here.mean is not None and each.here.mean.value is not None
    }
    assert set(marks) == {
        "direct-over-bridge", "macvlan-over-direct", "memory-throughput", "memory-peaks", "memory-recovered",
        "anomalies-throughput", "anomalies-peaks", "cgroups-recover-throughput", "cgroups-recover-peaks",
    }  # fmt: skip
    for name, (mark, here) in marks.items():
        assert here == pytest.approx(mark, rel=0.03), name


def test_bars_are_over_the_conditions_in_which_all_were_measured(tmp_path: Path) -> None:
    """A bar that lacks the fast function alone would seem to be slower; so the others do without it, too."""

    def value(levels: Levels, block: int, metric: str) -> float:
        return (300.0 if levels["function"] == "nat" else 100.0) + 1e-3 * block

    def gone(levels: Levels) -> tuple[str, str] | None:
        return NOT_HERE if levels["isolation"] == "cgroups" and levels["function"] == "nat" else None

    own: dict[str, Any] = {"value": value, "unavailable": gone, "measured": METRICS}
    make_campaign(tmp_path / "c", study_of_kagami(2), notes=lambda levels, block: {}, **own)
    found = content_of([tmp_path / "c"], ENGLISH, all_metrics=False)
    for figure in printed(found).figures:
        assert isinstance(figure, MatchedBars)
        bars = [each.here for each in figure.panels[0].bars if each.bar is not None]
        assert [here.mean.value for here in bars if here.mean] == pytest.approx([100.0] * len(bars), rel=1e-4)
        assert {3 * here.strata == 2 * here.all_strata for here in bars} == {True}
        table = bars_table(figure, 0.95, ENGLISH)
        assert " of " in table.rows[0][2] and "n of the m conditions of the design" in table.note


# What is missing


def test_levels_that_a_host_lacks_are_missing_with_the_reason(tmp_path: Path) -> None:
    found = routing(tmp_path, unavailable=lambda levels: NOT_HERE if levels["platform"] == "xen" else None)
    boot = printed_table(printed(found).tables[0], 0.9, ENGLISH)
    assert [row[-1] for row in boot.rows if row[0] == "xen"] == ["missing", "missing"]
    assert [row[-2] for row in boot.rows if row[0] == "xen"] == ["43", "78"], "what was published stays"
    assert "missing" not in str([row for row in boot.rows if row[0] != "xen"])
    assert "Missing: platform = xen is unavailable: not on this host." in boot.note
    drawn = [picture.figure for plan in published_plans(found) if (picture := plan.picture())]
    said = [text.get_text() for figure in drawn for text in figure.texts]
    assert len(drawn) == 3 and sum("missing: xen" in text for text in said) == 2


def test_a_stand_in_is_named_beside_its_number(tmp_path: Path) -> None:
    study = load(papers.find("mendes2019/disk"), schemas())
    small = replace(study, design=replace(study.design, replicates=2))
    gone = ("docker:storage=devicemapper", "lxd", "incus")
    make_campaign(
        tmp_path / "c", small, value=test_papers.published_value, notes=lambda levels, block: {},
        unavailable=lambda levels: NOT_HERE if str(levels["platform"]).startswith(gone) else None,
    )  # fmt: skip
    (table,) = printed(content_of([tmp_path / "c"], ENGLISH, all_metrics=False)).tables
    first = printed_table(table, 0.95, ENGLISH).rows[0]
    assert first[2].endswith("(stand-in: docker:storage=overlay2)") and first[4] == "missing"


def test_a_campaign_without_claims_has_no_such_section(tmp_path: Path, undrawn: None) -> None:
    make_campaign(tmp_path / "c")
    found = content_of([tmp_path / "c"], ENGLISH, all_metrics=False)
    assert found.published is None and "As published" not in render_html(found) + render_markdown(found)


# Pages and figures


def published_plans(found: Content) -> list[FigurePlan]:
    made = plans(found.report, found.analysis, found.say, found.judgements, found.published)
    return [plan for plan in made if plan.kind == "published"]


def test_figure_2_has_its_lines_over_each_other_and_figure_3_all_panels(correa: Content) -> None:
    cpu, convergence, _ = (picture.figure for plan in published_plans(correa) if (picture := plan.picture()))
    assert [axes.get_title(loc="left") for axes in cpu.axes] == ["3x3\nn = 6", "4x4\nn = 6"]
    for axes in cpu.axes:
        ends = [max(x for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True) if y == 100.0)
                for line in axes.lines[:3]]  # fmt: skip
        assert ends == [49, 38, 129], "LXC, OpenVZ and Xen in one panel"
    assert len([axes for axes in convergence.axes if axes.lines]) == 6
    upright = [[line.get_xdata()[0] for line in axes.lines[3:]] for axes in convergence.axes]
    assert upright == [[50, 130]] * 3 + [[]] * 3, "the text has times of the smaller grid alone"


@pytest.mark.parametrize("width_in", [WIDE_IN, NARROW_IN])
def test_no_label_of_these_figures_touches_another(width_in: float, correa: Content, kagami: Content) -> None:
    drawn = {
        plan.name: picture.figure
        for found in (correa, kagami)
        for plan in published_plans(found)
        if (picture := plan.picture(width_in))
    }
    assert len(drawn) == 5
    assert {name: found for name, figure in drawn.items() if (found := collisions(figure))} == {}


def test_every_document_has_the_section(correa: Content, kagami: Content, tmp_path: Path, undrawn: None) -> None:
    page = render_html(content("eiras2018/scaling", tmp_path, test_eiras2018.published_value))
    text, tex = render_markdown(correa), render_latex(kagami)
    assert '<a href="#published">As published</a>' in page and page.count("by the number of proxies (figure 3)") == 3
    assert "## As published" in text and "| xen | any | 4x4 | 78 | 78" in text
    assert "% lastro: published-figure-anomalies" in tex


def test_the_json_document_has_the_tables_and_figures_and_describes_their_keys(
    correa: Content, kagami: Content
) -> None:
    found = document(correa.report, correa.published, correa.analysis)["as_published"]
    boot = found["tables"][0]
    assert boot["where"] == "table 1" and boot["columns"][0]["metric"] == "boot"
    first = boot["rows"][0]["cells"][0]
    assert first["value"] == pytest.approx(first["here"]["mean"]["value"], rel=2e-3) and first["here"]["strata"]
    document_of_kagami = document(kagami.report, kagami.published, kagami.analysis)
    bars = document_of_kagami["as_published"]["figures"][0]["panels"][0]["bars"]
    marks = [bar["mark"] for bar in bars if bar["mark"]]
    assert marks and marks[0]["claim"] and marks[0]["relative"] and "%" in marks[0]["printed"]
    json.dumps(found, allow_nan=False)
    described = set(re.findall(r"\w+", str(published_document.__doc__)))
    factors = {factor.name for factor in (*correa.report.varying, *kagami.report.varying)}
    assert set(keys([found, bars])) - described - factors == set()
    assert document(kagami.report, None, kagami.analysis)["as_published"] is None


def test_the_page_in_portuguese_is_in_portuguese(tmp_path: Path) -> None:
    found = content("eiras2018/resources", tmp_path, test_eiras2018.published_value, "pt-BR")
    text = render_markdown(found)
    section = text[text.index("## Como publicado") : text.index("## Resultados")]
    assert "dut_cpus: publicado (%)" in section and "O artigo não diz" in section and "Aqui: média" in section


def test_papers_have_titles_and_notes_in_portuguese_and_series_that_exist() -> None:
    series = {each.name: each.lines for each in FIGURES if isinstance(each, AlignedSeries)}
    ids = set()
    for name in papers.names():
        if file := papers.claims(name.replace("/", "-")):
            claims = load_claims(file, load(papers.find(name), schemas()))
            for each in (*claims.tables, *claims.figures):
                passage = getattr(each, "passage", each)
                ids.add((name, passage.where))
                assert passage.title("pt-BR") != passage.title("en"), passage.id
                assert passage.notes("pt-BR") != passage.notes("en"), passage.id
                if hasattr(each, "series"):
                    assert each.line in series[each.series], passage.id
    assert {name for name, _ in ids} == {
        "correa2011", "eiras2018/platforms", "eiras2018/resources", "eiras2018/scaling", "kagami2017",
        "mendes2019/cpu", "mendes2019/disk", "mendes2019/memory", "trindade2018/application", "trindade2018/cpu",
        "trindade2018/cpu-size", "trindade2018/disk", "trindade2018/memory", "trindade2018/uplink",
    }  # fmt: skip
    assert MatchedLines is not MatchedBars


# Files

STUDY = make_study(KAGAMI)
CLAIM = """
[[claim]]
id = "x"
says = "s"
compare = { metric = "jitter", of = { anomaly = "cpu" }, to = { anomaly = "none" } }
direction = "higher"
published = { table = "t" }
"""
TABLE = """
[[table]]
id = "t"
says = "s"
where = "table 1"
columns = [{ metric = "jitter", unit = "ms" }]
rows = [{ at = { anomaly = "cpu" }, printed = ["1,5"] }, { at = { anomaly = "none" }, printed = ["1.2 ± 0,1"] }]
"""
FIGURE = """
[[figure]]
id = "f"
says = "s"
where = "figure 1"
metrics = ["jitter"]
groups = [{ anomaly = "cpu" }]
bars = [{ isolation = "none" }]
marks = ["x"]
"""


def test_a_claim_reads_its_figure_from_a_table() -> None:
    (claim,) = parse_claims(CLAIM + TABLE + FIGURE, "c.toml", STUDY).claims
    found = claim.published
    assert found is not None
    assert (found.ratio, found.tolerance, found.difference) == (1.25, 0.125, pytest.approx(0.3))
    assert found.printed == "1,5 ms; 1.2 ± 0,1 ms"


WRONG = {
    CLAIM: "claim[0].published: there is no table 't'",
    CLAIM.replace('"t" }', '"t", ratio = 2, tolerance = 1 }') + TABLE: "claim[0].published: has a figure and a table",
    CLAIM + TABLE.replace('"1,5"', '"many"'): "no ratio follows from 'many' and '1.2 ± 0,1'",
    CLAIM + TABLE.replace('"cpu"', '"io"'): "table 't' has no single cell of jitter at anomaly = cpu",
    CLAIM + TABLE.replace('["1,5"]', '["1,5", "2"]'): "table[0].rows[0].printed: has 2 cells for 1 columns",
    CLAIM + TABLE.replace('"jitter"', '"jiter"'): "table[0].columns[0].metric: study small has no metric 'jiter'",
    CLAIM + TABLE.replace("anomaly = ", "anomoly = "): "table[0].rows[0].at.anomoly: study small has no factor",
    CLAIM + TABLE + TABLE: "table[1].id: 't' is already the id of a table above",
    CLAIM + TABLE + FIGURE.replace('["x"]', '["y"]'): "figure[0].marks: 'y' is not in this file",
    CLAIM + TABLE + FIGURE.replace("bars", "panels"): "figure[0]: must have exactly one of two forms",
    CLAIM.replace("direction", "# ").replace("higher", "") + TABLE: "claim[0].direction: is missing",
    "tables_from = '../t.toml'" + CLAIM + TABLE: "tables_from",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_with_a_table_is_told_with_its_place(text: str) -> None:
    with pytest.raises(StudyError) as caught:
        parse_claims(text, "c.toml", STUDY)
    assert WRONG[text] in f"{caught.value.message} {caught.value.hint}"


def test_claims_read_the_tables_of_a_file_beside_theirs(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text(CLAIM + TABLE)
    (tmp_path / "c.toml").write_text('tables_from = "other.toml"' + CLAIM)
    found = load_claims(tmp_path / "c.toml", STUDY)
    assert found.claims[0].published is not None and found.claims[0].published.ratio == 1.25
    assert found.tables == (), "a table is shown where it is written"
    (tmp_path / "other.toml").unlink()
    with pytest.raises(StudyError, match="there is no such file"):
        load_claims(tmp_path / "c.toml", STUDY)
    assert not math.isnan(found.claims[0].published.ratio)
