"""What trials remark on their numbers: marks beside them wherever they stand, and the section on what was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lastro.analysis import analyse
from lastro.analysis.campaign import CampaignResults
from lastro.analysis.remarks import in_order
from lastro.builders.conditions import really_table, remarks_table
from lastro.builders.content import Content
from lastro.builders.data.results import document
from lastro.builders.stat_tables import effects_table
from lastro.builders.tables import curve_tables, results_table
from lastro.render.latex import escape
from lastro.results.samples import Outcome, Reading, Remark
from lastro.words.language import ENGLISH, language
from lastro.words.remarks import KINDS, meaning, sign, signs_of

from ...support.campaigns import METRICS, Levels, make_campaign, make_study
from ...support.documents import render_html, render_markdown
from ..analysis.test_curves import drawn
from ..figures.test_figures import report_of, texts

PLATFORMS = {"platform": ("native", "docker:storage=vfs", "docker:place=volume", "kvm"), "instrument.files": (25, 50)}


def told(levels: Levels, block: int) -> dict[str, Any]:
    """As a disk workload tells it: the cache hides Docker's disk, and KVM's clock was dropped or nobody's."""
    outcome, platform = Outcome(), str(levels["platform"])
    outcome.add_condition({"file system": "overlay on ext4" if platform == "docker:storage=vfs" else "ext4"})
    if platform.startswith("docker"):
        outcome.add_caveat(Remark("through a cache", "1.0 GiB of files, and 1.0 GiB of memory", ("throughput",)))
    if platform == "kvm":
        outcome.add_caveat(Remark("wrong clock", "it ran -2 %", ("jitter",)))
        outcome.add_caveat(Remark("odd", "as it never was"))
    return outcome.notes


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> CampaignResults:
    def value(levels: Levels, block: int, metric: str) -> float | None:
        return (
            None if metric == "jitter" and levels["platform"] == "kvm" else 100.0 + block + levels["instrument.files"]
        )  # type: ignore[operator]

    study = make_study(PLATFORMS, metrics=METRICS[:2], replicates=3, baseline={"platform": "native"})
    return report_of(make_campaign(tmp_path_factory.mktemp("remarks") / "c", study, value=value, notes=told))


def content(report: CampaignResults, code: str = "en") -> Content:
    return Content(report, analyse(report), ENGLISH if code == "en" else language(code))


def test_an_outcome_keeps_what_a_reading_remarks_and_tells() -> None:
    outcome = Outcome()
    outcome.add_condition({"clock": "the host's"})
    outcome.add(Reading({"x": 1.0}, remarks=(Remark("odd", "why", ("x",)),), really={"page cache": "in use"}))
    assert outcome.notes == {
        "really": {"clock": "the host's", "page cache": "in use"},
        "remarks": [{"kind": "odd", "text": "why", "metrics": ["x"]}],
    }
    assert outcome.valid and not Outcome().notes


def test_marks_are_counted_on_the_metric_that_they_are_about(report: CampaignResults) -> None:
    found = {row.treatment.levels["platform"]: row.cells for row in report.rows}
    docker, kvm = found["docker:storage=vfs"], found["kvm"]
    assert [[(mark.kind, mark.n) for mark in cell.marks] for cell in docker] == [[("through a cache", 3)], []]
    assert [mark.kind for mark in kvm[0].marks] == ["odd"], "what names no metric is about all that was measured"
    assert [mark.kind for mark in kvm[1].marks] == ["wrong clock"], "a dropped value says why it is missing"
    assert not any(cell.marks for cell in found["native"])
    assert report.kinds_of_marks == ("through a cache", "wrong clock", "odd")


def test_tables_carry_the_marks_and_say_what_they_mean(report: CampaignResults) -> None:
    throughput, jitter = (results_table(content(report), view) for view in report.views[:2])
    assert {row[0] for row in throughput.rows if "‡" in row[3]} == {"docker:storage=vfs", "docker:place=volume"}
    assert "‡ a cache may hide what is measured" in throughput.note and "* odd" in throughput.note
    assert {row[3] for row in jitter.rows if row[0] == "kvm"} == {"not measured §"}
    (curve, _) = curve_tables(report, ENGLISH).values()
    assert all("‡" in text for row in curve.rows if row[0].startswith("docker") for text in row[1:])
    effects = effects_table(analyse(report).metrics[0], ENGLISH)
    assert ["‡" in row[3] for row in effects.rows if row[0] == "platform"] == [True, True, False]
    assert "‡ a cache may hide" in effects.note


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(("code", "words"), [("en", "a cache may hide"), ("pt-BR", "um cache pode esconder")])
def test_figures_carry_the_marks_with_a_legend(report: CampaignResults, code: str, words: str) -> None:
    for kind in ("curve", "effects"):
        picture = drawn(report, kind, code)[0].picture()
        assert picture is not None
        said = texts(picture.svg())
        assert words in said.replace("\n", " ") and "‡" in said, kind


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("code", ["en", "pt-BR"])
def test_the_page_says_by_what_numbers_came_about(report: CampaignResults, code: str) -> None:
    page, text = render_html(content(report, code)), render_markdown(content(report, code))
    heading = {"en": "What was really measured", "pt-BR": "O que foi medido de fato"}[code]
    for shown in (page, text):
        assert heading in shown and "overlay on ext4" in shown and "GiB of files" in shown
    assert 'href="#really"' in page and 'title="1.0 GiB of files, and 1.0 GiB of memory' in page


def test_levels_of_one_platform_have_rows_and_columns_of_their_own(report: CampaignResults) -> None:
    table = really_table(report)
    assert table.columns == ("platform", "file system")
    assert dict(table.rows) == {
        "native": "ext4", "docker:storage=vfs": "overlay on ext4", "docker:place=volume": "ext4", "kvm": "ext4",
    }  # fmt: skip
    rows = [row[:3] for row in remarks_table(report, ENGLISH).rows]
    assert ("‡ through a cache", "docker:storage=vfs", "6") in rows and ("* odd", "kvm", "6") in rows


def test_options_that_are_factors_part_the_columns_of_properties(tmp_path: Path) -> None:
    factors = {"platform": ("docker", "podman"), "platform.storage": ("overlay2", "vfs")}
    study = make_study(factors, metrics=METRICS[:1], replicates=1)  # type: ignore[arg-type]
    notes = lambda levels, block: {"residuals": {"storage": str(levels["platform.storage"])}}  # noqa: E731
    ledger = report_of(make_campaign(tmp_path / "c", study, notes=notes)).residuals
    assert ledger.columns == (
        "docker:storage=overlay2", "docker:storage=vfs", "podman:storage=overlay2", "podman:storage=vfs",
    )  # fmt: skip
    assert ledger.rows[0].values == ("overlay2", "vfs", "overlay2", "vfs") and ledger.rows[0].differs


def test_the_document_has_marks_facts_and_curves(report: CampaignResults) -> None:
    found = json.loads(json.dumps(document(report), allow_nan=False))
    marks = found["treatments"][2]["metrics"]["throughput"]["marks"]
    assert marks == [{"kind": "through a cache", "trials": 3, "text": "1.0 GiB of files, and 1.0 GiB of memory"}]
    assert found["really"]["docker:storage=vfs"] == {"file system": "overlay on ext4"}
    lines = [(curve["line"], curve["is_baseline"], len(curve["points"])) for curve in found["curves"]]
    assert lines == [
        ("native", True, 2), ("docker:storage=vfs", False, 2), ("docker:place=volume", False, 2), ("kvm", False, 2),
    ]  # fmt: skip
    effects = found["analysis"]["throughput"]["effects"]
    assert [effect["marks"] for effect in effects][:2] == [["through a cache"], ["through a cache"]]


@pytest.mark.parametrize(
    "notes",
    [
        {"remarks": 3, "really": 4}, {"remarks": [{}, 7, {"kind": 5}, {"kind": ""}, {"kind": "a", "metrics": 9}]},
        {"remarks": [{"kind": "<b>", "text": None, "metrics": [None, 3]}], "really": {"<i>": "<u>"}},
        {"generator_limited": True, "ceiling": 3, "remarks": {"kind": "a"}},
    ],
)  # fmt: skip
@pytest.mark.usefixtures("undrawn")
def test_remarks_of_any_shape_do_no_harm(tmp_path: Path, notes: dict[str, object]) -> None:
    report = report_of(make_campaign(tmp_path / "c", make_study(replicates=2), notes=lambda levels, block: notes))
    page = render_html(content(report))
    assert "<u>" not in page and "<b>&" not in page


def test_every_known_kind_has_a_sign_and_a_meaning() -> None:
    known = in_order(["odd", "wrong clock", "through a cache", "odd"])
    assert known == ("through a cache", "wrong clock", "odd")
    assert [sign(kind) for kind in known] == ["‡", "§", "*"] and signs_of(known) == " ‡§*" and not signs_of([])
    assert meaning("odd", ENGLISH) == "a remark of the scenario."
    assert not [kind for kind in KINDS if "U+" in escape(sign(kind))], "LaTeX has it, too"


@pytest.mark.parametrize(
    ("kind", "by_size"),
    [
        ("too short to time", True), ("among lost packets", True), ("generator delay", True),
        ("too few packets", True), ("wrong clock", False),
    ],
)  # fmt: skip
def test_what_is_left_of_a_treatment_that_lost_values_by_their_size_is_no_mean(
    kind: str, by_size: bool, tmp_path: Path
) -> None:
    """The trials that kept it are long, or short, or have the higher rate. A wrong clock chooses none by its value."""

    def value(levels: Levels, block: int, metric: str) -> float | None:
        return None if lost(levels, block, metric) else 100.0 + block

    def lost(levels: Levels, block: int, metric: str) -> bool:
        return metric == "jitter" and levels["platform"] == "kvm" and block == 1

    def notes(levels: Levels, block: int) -> dict[str, Any]:
        outcome = Outcome()
        if lost(levels, block, "jitter"):
            outcome.add_caveat(Remark(kind, "why", ("jitter", "throughput")))
        return outcome.notes

    study = make_study({"platform": ("native", "kvm")}, metrics=METRICS[:2], replicates=4)
    report = report_of(make_campaign(tmp_path / "c", study, value=value, notes=notes))
    throughput, jitter = next(row.cells for row in report.rows if row.treatment.levels["platform"] == "kvm")
    lost_too = [] if by_size else ["lost trials"]
    assert [mark.kind for mark in jitter.marks] == [kind, *lost_too]
    assert throughput.summary is not None and throughput.missing == 0, "it has a value in each trial"
    if by_size:
        assert jitter.summary is None and jitter.missing == 4
    else:
        assert jitter.summary is not None and (jitter.summary.n, jitter.missing) == (3, 1)


def test_a_ratio_over_fewer_blocks_than_its_mean_is_marked(tmp_path: Path) -> None:
    def lost(levels: Levels, block: int, attempt: int) -> list[str]:
        return ["disturbed"] if levels["platform"] == "native" and block <= 2 else []

    study = make_study(
        {"platform": ("native", "runc")}, metrics=METRICS[:1], replicates=6, baseline={"platform": "native"}
    )
    whole = report_of(make_campaign(tmp_path / "whole", study))
    assert not [row for row in whole.rows if row.cells[0].marks]
    report = report_of(make_campaign(tmp_path / "partly", study, doubts=lost))
    native, runc = (row.cells[0] for row in report.rows)
    assert [(mark.kind, mark.n) for mark in native.marks] == [("lost trials", 2)]
    assert native.summary and native.summary.n == 4
    (mark,) = runc.marks
    assert (mark.kind, mark.n) == ("fewer blocks", 4) and runc.summary and runc.summary.n == 6
    assert runc.ratio and runc.ratio.sides == (4, 4)
    text = render_markdown(content(report))
    assert " ∩" in text and "so the ratio is over fewer blocks than the mean" in text
    assert document(report)["treatments"][1]["metrics"]["throughput"]["marks"][0]["trials"] == 4
