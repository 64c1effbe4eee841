"""How a metric grows with a network: what two sizes can tell and what they cannot, lines through three, in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.growth import Growth, Verdict, _ratio_verdict
from lastro.builders.data.results import document
from lastro.builders.tables import growth_tables
from lastro.cli import main
from lastro.figures.scenario import growth_of
from lastro.results.samples import Metric
from lastro.scenarios.routing.additions import TOPOLOGIES
from lastro.stats.intervals import Interval
from lastro.study.model import Level
from lastro.units import significant
from lastro.words.language import ENGLISH, language

from ...support.campaigns import Levels, make_campaign, make_study
from ...support.documents import render_terminal
from ..figures.test_figures import report_of

SIZES = {"3x3": (9, 12), "4x4": (16, 24), "5x5": (25, 40), "ring.toml": (6, 6)}
METRICS = tuple(Metric(name, "MiB", "lower", "for a test") for name in ("nodes", "square", "each", "noise", "negative"))


def value(levels: Levels, block: int, metric: str) -> float | None:
    """`nodes` in proportion to routers, `square` to their square, `each` the same for all, `noise` nothing but."""
    routers, _ = SIZES[str(levels["topology"])]
    wobble = ((block * 7 + routers * 3) % 5 - 2) / 2  # -1 to 1
    if levels["platform"] == "lxc" and routers > 9:
        return None
    return {
        "nodes": 10 * routers * (1 + 0.01 * wobble), "square": routers**2 * (1 + 0.01 * wobble),
        "each": 5 + 0.02 * wobble, "noise": 5 + 6 * wobble, "negative": -3.0 * routers + wobble,
    }[metric]  # fmt: skip


def told(levels: Levels, block: int) -> dict[str, Any]:
    routers, links = SIZES[str(levels["topology"])]
    return {"network": {"routers": routers, "links": links, "router": "frr"}}


def campaign(directory: Path, topologies: tuple[Level, ...], notes: Any = told, replicates: int = 5) -> Path:
    factors = {"platform": ("native", "lxc", "xen"), "topology": topologies}
    study = make_study(factors, metrics=METRICS, replicates=replicates, scenario="routing")
    return make_campaign(
        directory / "c", study, value=value, notes=notes,
        unavailable=lambda levels: ("no Xen", None) if levels["platform"] == "xen" else None,
    )  # fmt: skip


def native(report: CampaignResults) -> dict[str, Growth]:
    growths = growth_of(report)
    assert growths is not None
    row = next(row for row in growths.rows if row.levels == ("native",))
    return {metric.name: found for metric, found in zip(METRICS, row.metrics, strict=True) if found is not None}


def verdicts(growth: Growth) -> list[str]:
    return [against.verdict for against in growth.against.values()]


def test_two_sizes_are_compared_with_the_ratios_of_routers_and_of_links(tmp_path: Path) -> None:
    found = native(report_of(campaign(tmp_path, ("4x4", "3x3"))))  # the study's order is not that of the sizes
    nodes = found["nodes"]
    assert dict(nodes.sizes) == {"3x3": {"routers": 9, "links": 12}, "4x4": {"routers": 16, "links": 24}}
    assert list(nodes.sizes) == ["3x3", "4x4"]
    assert nodes.ratio is not None and nodes.ratio.interval is not None and nodes.ratio.pairing == "paired"
    assert nodes.ratio.interval.holds(16 / 9) and not nodes.ratio.interval.holds(2)
    assert [against.ratio for against in nodes.against.values()] == [pytest.approx(16 / 9), 2]
    assert verdicts(nodes) == ["in proportion", "slower"]
    assert verdicts(found["square"]) == ["faster", "faster"]
    assert verdicts(found["each"]) == ["slower or not", "slower or not"]
    assert verdicts(found["noise"]) == ["unknown", "unknown"]
    assert all(against.line is None for growth in found.values() for against in growth.against.values())


def test_a_mean_below_zero_has_no_multiple(tmp_path: Path) -> None:
    negative = native(report_of(campaign(tmp_path, ("3x3", "4x4"))))["negative"]
    assert negative.ratio is None and verdicts(negative) == ["unknown", "unknown"]


def test_one_block_tells_nothing(tmp_path: Path) -> None:
    nodes = native(report_of(campaign(tmp_path, ("3x3", "4x4"), replicates=1)))["nodes"]
    assert nodes.ratio is not None and nodes.ratio.interval is None and verdicts(nodes) == ["unknown", "unknown"]


@pytest.mark.parametrize(
    ("low", "high", "ratio", "verdict"),
    [
        (1.7, 1.9, 16 / 9, "in proportion"), (1.5, 2.1, 2.0, "in proportion"), (1.1, 1.5, 2.0, "slower"),
        (0.9, 1.5, 2.0, "slower or not"), (0.5, 0.9, 2.0, "shrinks"), (2.1, 9.0, 2.0, "faster"),
        (0.9, 2.1, 2.0, "unknown"), (1.5, 4.5, 2.0, "unknown"), (0.9, 1.1, 1.0, "unknown"),
    ],
)  # fmt: skip
def test_yes_is_said_only_where_neither_no_growth_nor_the_square_is_left(
    low: float, high: float, ratio: float, verdict: Verdict
) -> None:
    assert _ratio_verdict(Interval(low, high, 0.9), ratio) == verdict


def test_three_sizes_have_a_line_with_intervals_and_are_asked_for_a_bend(tmp_path: Path) -> None:
    found = native(report_of(campaign(tmp_path, ("3x3", "4x4", "5x5", "ring.toml"))))
    routers, links = found["nodes"].against.values()
    assert list(found["nodes"].sizes) == ["ring.toml", "3x3", "4x4", "5x5"] and found["nodes"].ratio is None
    assert routers.line is not None and links.line is not None and routers.verdict == "line"
    for found_here, truth in ((routers.line.slope, 10), (routers.line.intercept, 0), (routers.line.bend, 0)):
        assert found_here.interval is not None and found_here.interval.holds(truth)
    assert verdicts(found["square"]) == ["bends up", "bends up"]
    assert verdicts(found["noise"]) == ["unknown", "unknown"]


def test_a_file_has_the_size_that_its_trials_told_and_a_changed_one_none(tmp_path: Path) -> None:
    changed = iter(range(6, 10**6))
    report = report_of(
        campaign(
            tmp_path, ("3x3", "ring.toml"), lambda levels, block: {"network": {"routers": next(changed), "links": 6}}
        )
    )
    assert not growth_of(report)


@pytest.mark.parametrize("notes", [{}, {"network": "nine"}, {"network": {"routers": True, "links": -1}}])
def test_a_grid_has_its_size_by_its_name_where_no_trial_told_it(tmp_path: Path, notes: dict[str, Any]) -> None:
    nodes = native(report_of(campaign(tmp_path, ("3x3", "4x4"), lambda levels, block: notes)))["nodes"]
    assert dict(nodes.sizes) == {"3x3": {"routers": 9, "links": 12}, "4x4": {"routers": 16, "links": 24}}


def test_what_is_missing_stands_in_the_table(tmp_path: Path) -> None:
    nodes, *others = growth_tables(report_of(campaign(tmp_path, ("3x3", "4x4"))), ENGLISH)
    by_platform = {row[0]: row[1:] for row in nodes.rows}
    assert by_platform["native"][0] == "3x3 (9, 12); 4x4 (16, 24)" and by_platform["native"][1].startswith("×1.7")
    assert by_platform["native"][2:] == ("yes: in proportion, ×1.78", "no: more slowly than ×2.00")
    assert by_platform["lxc"] == ("3x3 (9, 12)", "—", "undecided", "undecided")
    assert by_platform["xen"] == ("not measured", "—", "—", "—")
    assert nodes.note == TOPOLOGIES.explanation and not any(table.note for table in others)


def shown(report: CampaignResults, width: int) -> str:
    lines = [line.plain for line in render_terminal(report, width)]
    assert all(cell_len(line) <= width for line in lines)
    return "\n".join(lines)


@pytest.mark.parametrize("width", [60, 100, 200])
def test_the_terminal_says_it_too(tmp_path: Path, width: int) -> None:
    text = shown(report_of(campaign(tmp_path, ("3x3", "4x4"))), width)
    found = [" ".join(part.split()) for part in text.split("\nGrowth of ")[1:]]
    assert len(found) == len(METRICS), "a table for each metric"
    nodes = found[0]
    assert "3x3 (9, 12)" in nodes and "×1.778 [1.753, 1.803]" in nodes and "with the routers" in nodes
    assert all(word in nodes for word in ("proportion,", "×1.78", "slowly", "×2.00", "not measured", "xen", "lxc"))
    assert " ".join(text.split()).count("a line fits any two points") == 1


def test_the_interval_of_a_bend_is_told_with_the_line(tmp_path: Path) -> None:
    report = report_of(campaign(tmp_path, ("3x3", "4x4", "5x5")))
    text = " ".join(shown(report, 60).split())
    assert "yes: consistent with a line" in text and "it bends upwards" in text and "; bend [" in text
    line = native(report)["nodes"].against["routers"].line
    assert line is not None and (bend := line.bend.interval) is not None
    (row,) = (row for row in growth_tables(report, ENGLISH)[0].rows if row[0] == "native")
    assert row[3].endswith(f"; bend [{significant(bend.low, 5)}, {significant(bend.high, 5)}]".replace("-", "−"))


def test_the_terminal_of_another_study_has_no_growth(tmp_path: Path) -> None:
    assert "Growth" not in shown(report_of(make_campaign(tmp_path / "none")), 100)


def test_a_study_of_one_topology_or_none_has_no_growth(tmp_path: Path) -> None:
    assert not growth_of(report_of(make_campaign(tmp_path / "none")))
    assert not growth_tables(report_of(campaign(tmp_path, ("3x3",))), ENGLISH)


def test_the_document_is_json_with_every_interval(tmp_path: Path) -> None:
    found = json.loads(json.dumps(document(report_of(campaign(tmp_path, ("3x3", "4x4", "5x5")))), allow_nan=False))[
        "growth"
    ]
    assert [row["levels"] for row in found] == [{"platform": name} for name in ("native", "lxc", "xen")]
    nodes = found[0]["metrics"]["nodes"]
    assert nodes["sizes"]["5x5"] == {"routers": 25, "links": 40} and nodes["ratio"] is None
    assert nodes["routers"]["verdict"] == "line" and nodes["links"]["line"]["slope"]["interval"]["confidence"] > 0.5
    bend = nodes["routers"]["line"]["bend"]["interval"]
    assert bend["low"] < 0 < bend["high"]
    assert found[2]["metrics"]["nodes"] is None


@pytest.mark.usefixtures("undrawn")
def test_every_format_shows_it_in_both_languages(tmp_path: Path, capsys: Any) -> None:
    directory = campaign(tmp_path, ("3x3", "4x4"))
    for code, said in (("en", "yes: in proportion, ×1.78"), ("pt-BR", "sim: em proporção, ×1,78")):
        for form, file in (("html", "report.html"), ("md", "report.md")):
            full = ["--full"] if form == "md" else []
            assert main(["report", str(directory), "--format", form, *full, "--lang", code]) == 0
            text = (directory / file).read_text(encoding="utf-8")
            assert said in text and text.count(language(code)(TOPOLOGIES.explanation)) == 1
        assert ('<h2 id="growth">') in (directory / "report.html").read_text(encoding="utf-8")
        assert main(["report", str(directory), "--format", "latex", "--lang", code]) == 0
