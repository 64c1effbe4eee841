"""`lastro decide` on several campaigns: of one study, on several days, and of different studies."""

from __future__ import annotations

import copy
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ..support.campaigns import METRICS, PROVENANCE, Levels, make_campaign, make_study, plausible_value
from .conftest import is_error, lastro

SLA = ("--sla", "throughput >= 15 Gbit/s")
RATES = {"native": 21_000.0, "runc": 16_000.0, "lxc": 12_000.0}


def campaign(place: Path, day: str = "2026-11-02", speed: float = 1.0, name: str = "small", **changes: Any) -> Path:
    """A campaign of one day, on which the whole host is so many times as fast."""

    def value(levels: Levels, block: int, metric: str) -> float:
        noise = plausible_value(levels, block, metric) / plausible_value(levels, 1, metric)
        return RATES[str(levels["platform"])] * noise**0.2 * speed

    provenance = changes.pop("provenance", None)
    study = make_study({"platform": tuple(RATES), **changes.pop("more", {})}, metrics=METRICS[:1], **changes)
    return make_campaign(place, replace(study, name=name), value=value, day=day, provenance=provenance)


@pytest.fixture
def days(tmp_path: Path) -> list[Path]:
    return [campaign(tmp_path / f"d{at}", f"2026-11-0{at}", speed) for at, speed in ((2, 1.0), (3, 1.08), (4, 0.95))]


def test_what_days_differ_in_is_in_the_answer(days: list[Path]) -> None:
    """On each day, runc surely holds a level that it would not hold on some other day."""
    one, several = (lastro("decide", *each, *SLA, "--json").json for each in (days[:1], days))
    verdicts = [{each["label"]: each["verdict"] for each in found["candidates"]} for found in (one, several)]
    assert verdicts[0] == {"native": "holds", "runc": "holds", "lxc": "does not hold"}
    assert verdicts[1] == {"native": "holds", "runc": "undecided", "lxc": "does not hold"}
    assert (one["campaigns"], several["campaigns"], several["more_blocks"]) == (1, 3, None)
    widths = [
        {each["label"]: each["limits"][0]["high"] - each["limits"][0]["low"] for each in found["candidates"]}
        for found in (one, several)
    ]
    assert widths[1]["runc"] > 3 * widths[0]["runc"]
    text = " ".join(lastro("decide", *days, *SLA).out.split())
    assert "The numbers are of 3 campaigns:" in text and "means over campaigns like these 3" in text
    assert "another day, or another host, is not in them" not in text
    page = days[0].parent / "page.html"
    assert lastro("decide", *days, *SLA, "--format", "html", "-o", page, "--lang", "pt-BR").code == 0
    assert "campanhas como estas 3" in page.read_text(encoding="utf-8")


def test_an_answer_over_days_that_is_open_asks_for_more_campaigns(days: list[Path]) -> None:
    text = " ".join(lastro("decide", *days, "--sla", "throughput >= 21.1 Gbit/s").out.split())
    assert text.startswith("Undecided:") and "More campaigns may decide" in text and "would decide with" not in text


def test_campaigns_that_no_level_is_held_by_are_refused(tmp_path: Path, days: list[Path]) -> None:
    other = copy.deepcopy(PROVENANCE)
    other["host"]["hostname"] = "edge-8"
    elsewhere = campaign(tmp_path / "elsewhere", "2026-11-05", provenance=other)
    is_error(lastro("decide", days[0], elsewhere, *SLA), 2, "different machines (host: edge-7 and edge-8)", "pool")
    assert lastro("results", days[0], elsewhere).code == 0
    changed = campaign(tmp_path / "changed", "2026-11-06", settings={"tcp_s": 3, "anomaly": "none", "platform": "runc"})
    is_error(
        lastro("decide", days[0], changed, *SLA), 2, "are not campaigns of one study: the setting tcp_s is 15 and 3"
    )
    is_error(lastro("decide", days[0], tmp_path / "none", *SLA), 2, "holds no campaign")
    is_error(lastro("decide", days[0], days[0], *SLA), 2, "is given twice")
    shutil.copytree(days[0], tmp_path / "copy")
    is_error(lastro("decide", *days, tmp_path / "copy", *SLA), 2, f"copy is a copy of {days[0]}")


def test_campaigns_of_different_studies_are_compared_by_platform(tmp_path: Path, days: list[Path]) -> None:
    """A column for each study; campaigns of one of them count together."""
    load = campaign(tmp_path / "load", name="load", more={"length": (1, 2)})
    found = lastro("decide", *days, load, *SLA, "--json").json
    assert found["format"] == "lastro-suite-decision/1" and found["leader"] == "runc"
    assert [(each["name"], each["levels"]["campaigns"]) for each in found["studies"]] == [("small", 3), ("load", 1)]
    alone = lastro("decide", days[0], load, *SLA, "--json").json
    widths = [each["studies"][0]["levels"]["candidates"][0]["limits"][0] for each in (alone, found)]
    assert widths[1]["high"] - widths[1]["low"] > 3 * (widths[0]["high"] - widths[0]["low"])
    text = " ".join(lastro("decide", days[0], load, *SLA, "--weights", "load=2").out.split())
    assert text.startswith("Over 2 studies, runc is the best beside native")
    is_error(lastro("decide", days[0], load, *SLA, "--cost", "throughput"), 2, "--cost takes campaigns of one study")
    is_error(lastro("decide", days[0], load, "--weights", "lod=2"), 2, "there is no study 'lod'")
    is_error(lastro("decide", *days, "--weights", "load=2"), 2, "--weights is for campaigns of several studies")


def test_campaigns_without_treatments_in_common_are_left_out_of_a_suite(tmp_path: Path, days: list[Path]) -> None:
    load = campaign(tmp_path / "load", name="load", more={"length": (1, 2)})
    parts = [
        make_campaign(
            tmp_path / platform,
            replace(make_study({"platform": tuple(RATES)}, metrics=METRICS[:1]), name="small"),
            value=lambda levels, block, metric: 20_000.0 + block,
            day=day,
            unavailable=lambda levels, platform=platform: (
                None if levels["platform"] == platform else ("it is not here", None)
            ),
        )
        for platform, day in (("native", "2026-11-08"), ("runc", "2026-11-09"))
    ]
    text = " ".join(lastro("decide", *parts, load, *SLA).out.split())
    assert "its campaigns have fewer than two treatments in common" in text
