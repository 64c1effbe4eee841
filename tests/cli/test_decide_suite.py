"""`lastro decide` on a suite: what is the best over its studies, and what its source recommends."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro import papers
from lastro.app.contents import report_of
from lastro.builders.suite import StudySection, suite_blocks
from lastro.campaign import suite as suites
from lastro.render.markdown import markdown
from lastro.scenarios.base import schemas
from lastro.study.load import load
from lastro.words.language import ENGLISH

from ..support.campaigns import Levels, make_campaign
from .conftest import is_error, lastro

NAMES = ("cpu", "memory", "disk", "gzip")
SPEED = {"native": 1.0, "docker": 0.97, "lxd": 0.9, "incus": 0.88}


def mendes(home: Path, replicates: int = 5, slow_disk: float = 1.0) -> Path:
    """The suite mendes2019, on a host where Docker is faster than LXD except that its disk is `slow_disk` as fast."""
    folder = papers.folder("mendes2019")
    assert folder is not None
    studies = [load(folder / f"{name}.toml", schemas()) for name in NAMES]
    suites.create(home / "out", suites.read_folder(folder), "mendes2019", studies, papers.claims)
    for name, study in zip(NAMES, studies, strict=True):
        better = {metric.name: metric.better for metric in study.metrics}

        def value(
            levels: Levels, block: int, metric: str, name: str = name, better: Mapping[str, str] = better
        ) -> float:
            platform = str(levels["platform"]).partition(":")[0]
            noise = 1 + 0.02 * math.sin(7 * block + 3 * len(platform) + 5 * len(metric)) + 0.01 * block
            speed = SPEED[platform] * (slow_disk if (name, platform) == ("disk", "docker") else 1.0)
            return 100 * noise * (1 / speed if better[metric] == "lower" else speed)

        few = replace(study, design=replace(study.design, replicates=replicates))
        make_campaign(home / "out" / name, few, value=value)
    return home / "out"


def test_the_best_over_all_studies_and_what_the_paper_chose(tmp_path: Path) -> None:
    place = mendes(tmp_path)
    done = lastro("decide", place)
    assert done.code == 0, done.err
    text = " ".join(done.out.split())
    assert "Over 4 studies, docker is the best beside native with a probability of > 99 %: 0.97" in text
    assert "The source recommends docker (conclusion): it is easier to install and has more images" in text
    assert "This host says so, too, with a probability of > 99 %." in text
    found = lastro("decide", place, "--json").json
    assert (found["format"], found["reference"], found["leader"]) == ("lastro-suite-decision/1", "native", "docker")
    assert [each["name"] for each in found["studies"]] == list(NAMES)
    for study in found["studies"]:
        middle, low, high = study["goodness"]["lxd"]
        assert low < middle < high and middle == pytest.approx(0.9, abs=0.03)
        assert study["goodness"]["native"] == [1.0, 1.0, 1.0] and study["levels"] is None
    assert "melhor ao lado de native" in " ".join(lastro("decide", place, "--lang", "pt-BR").out.split())


def test_the_page_of_the_suite_has_the_choice_before_its_studies(tmp_path: Path) -> None:
    place, names = mendes(tmp_path), ("cpu", "gzip")
    contents: dict[str, Any] = {name: SimpleNamespace(report=report_of(place / name), judgements=()) for name in names}
    sections = [StudySection(name, "", content, None, False, "") for name, content in contents.items()]
    blocks = suite_blocks("s", "", sections, ENGLISH, "paper:mendes2019")
    first = list(takewhile(lambda block: getattr(block, "anchor", "") != "study-cpu", blocks))
    text = markdown(first, ENGLISH)
    assert "## Which platform?" in text and "Over 2 studies, docker is the best beside native" in text
    assert "This host says so, too" in text and "| is the best |" in text


def test_weights_change_what_is_the_best(tmp_path: Path) -> None:
    place = mendes(tmp_path, slow_disk=0.3)
    assert "By speed alone, this host says otherwise" in " ".join(lastro("decide", place).out.split())
    without = lastro("decide", place, "--weights", "disk=0", "--json").json
    assert without["leader"] == "docker" and {each["name"]: each["weight"] for each in without["studies"]}["disk"] == 0
    assert "weight 20" in lastro("decide", place, "--weights", "cpu=20").out
    is_error(lastro("decide", place, "--weights", "dsk=2"), 2, "did you mean 'disk'?")
    is_error(lastro("decide", place, "--weights", "disk"), 2, "is not STUDY=WEIGHT")
    is_error(lastro("decide", place, "--weights", ",".join(f"{name}=0" for name in NAMES)), 2, "above 0")
    is_error(lastro("decide", place, "--cost", "cpu"), 2, "--cost takes one of them")
    is_error(lastro("decide", place / "cpu", "--weights", "cpu=2"), 2, "is for campaigns of several studies")


def test_service_levels_hold_in_every_study_that_has_their_metric(tmp_path: Path) -> None:
    place = mendes(tmp_path)
    metric = lastro("decide", place, "--json").json["studies"][0]["metric"]
    for level, kept, verdict, code in (
        ("80", ["native", "docker", "lxd", "incus"], "kept", 0),
        ("94", ["native", "docker"], "kept", 0),
        ("103", [], "undecided", 8),
        ("400", [], "none", 4),
    ):
        args = ("decide", place, "--sla", f"{metric} >= {level}", "--require", "95%")
        found = lastro(*args, "--json")
        assert (found.code, found.json["verdict"]) == (code, verdict), found.err
        assert [each["label"] for each in found.json["candidates"] if each["keeps_all_levels"]] == kept
    text = " ".join(lastro(*args).out.split())
    assert "Each candidate that was measured surely breaks a level of some study." in text
    assert "✕ does not hold: " in text and " (< 1 %)" in text
    every = {each["metric"] for each in lastro("decide", place, "--json").json["studies"]}
    is_error(lastro("decide", place, "--sla", "speed > 3"), 2, "no metric is named 'speed'", *every)


def test_a_service_level_on_a_study_that_does_not_count_names_it_and_says_why(tmp_path: Path) -> None:
    place = mendes(tmp_path)
    shutil.rmtree(place / "cpu")
    folder = papers.folder("mendes2019")
    assert folder is not None
    study = load(folder / "cpu.toml", schemas())
    make_campaign(place / "cpu", replace(study, design=replace(study.design, replicates=1)))
    others = {metric.name for name in NAMES[1:] for metric in load(folder / f"{name}.toml", schemas()).metrics}
    metric = next(metric.name for metric in study.metrics if metric.name not in others)
    why = f"{metric}, and it does not count here: it has fewer than two blocks"
    is_error(
        lastro("decide", place, "--sla", f"{metric} >= 80"), 2, why, "only ", f"decide on {place / 'cpu'} by itself"
    )
    is_error(lastro("decide", place, "--sla", "speed > 3"), 2, "no metric is named 'speed'", metric)


@pytest.mark.parametrize("n", [1])
def test_a_study_with_one_block_does_not_count(tmp_path: Path, n: int) -> None:
    is_error(lastro("decide", mendes(tmp_path, replicates=n)), 2, "compares platforms", "two blocks")
