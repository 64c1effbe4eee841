"""What a scenario of a user's own adds to a report: it declares figures and sizes, and the report draws them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lastro import registry
from lastro.analysis import analyse
from lastro.builders.tables import growth_tables
from lastro.figures import plans
from lastro.results.samples import Metric
from lastro.words.language import ENGLISH

from ...support.campaigns import Levels, make_campaign, make_study
from ..figures.test_figures import report_of

PART = """
from lastro.results.additions import Milestones, SizedFactor
from lastro.scenarios.base import Scenario

class Mesh(Scenario):
    name = "mesh"
    summary = "for a test"
    figures = (Milestones("joins", "When nodes joined", "seconds since the start", ("joined", "elected")),)
    sized = SizedFactor("nodes", ("nodes",), ("with nodes",), "{factor}", "How to read.", lambda name: (int(name),))
"""
METRICS = tuple(Metric(name, "s", "lower", "for a test") for name in ("joined", "elected"))


@pytest.fixture
def own_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "mesh.py").write_text(PART)
    monkeypatch.setenv("LASTRO_PARTS", str(tmp_path))
    registry.scan.cache_clear()
    yield "mesh"
    registry.scan.cache_clear()


def seconds(levels: Levels, block: int, metric: str) -> float:
    return int(levels["nodes"]) * (1 + 0.01 * (block % 3)) + (metric == "elected")


def campaign(directory: Path, scenario: str) -> Path:
    study = make_study({"nodes": (2, 4, 8)}, metrics=METRICS, scenario=scenario)
    return make_campaign(directory / "c", study, value=seconds)


def test_the_report_draws_what_a_scenario_of_ones_own_declares(tmp_path: Path, own_scenario: str) -> None:
    report = report_of(campaign(tmp_path, own_scenario))
    (plan,) = (plan for plan in plans(report, analyse(report)) if plan.kind == "scenario")
    picture = plan.picture()
    assert picture is not None and (picture.name, picture.title) == ("joins", "When nodes joined")
    joined, _ = growth_tables(report, ENGLISH)
    assert joined.columns == ("treatment", "nodes", "growth", "with nodes") and joined.note == "How to read."
    assert joined.rows[0][1] == "2 (2); 4 (4); 8 (8)" and joined.rows[0][3].startswith("yes: consistent with a line")


def test_a_scenario_that_is_not_known_here_adds_nothing(tmp_path: Path) -> None:
    report = report_of(campaign(tmp_path, "mesh"))
    assert not [plan for plan in plans(report, analyse(report)) if plan.kind == "scenario"]
    assert growth_tables(report, ENGLISH) == ()
