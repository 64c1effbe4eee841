"""The line that compares platforms at the end of a terminal: what it says, and when it has nothing to add."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from lastro.results.samples import GENERATOR_LIMITED, Metric, Outcome, Remark
from lastro.study.model import Level
from lastro.words.language import language
from lastro.words.platform_line import platform_line

from .test_key_findings import report_of

PLATFORMS: dict[str, tuple[Level, ...]] = {
    "platform": ("runc", "docker", "lxc", "qemu-tcg"),
    "attachment": ("veth-bridge", "macvlan-bridge"),
}
COSTS = {"lxc": 1.2, "docker": 1.205, "qemu-tcg": 0.05}


def said(
    directory: Path, *, code: str = "en", factors: dict[str, tuple[Level, ...]] = PLATFORMS, **options: Any
) -> str:
    report = report_of(directory, factors, **{"costs": COSTS, **options})
    return platform_line(report, language(code)).replace("\xa0", " ")


def test_the_worst_comes_first_and_what_is_alike_has_a_limit(tmp_path: Path) -> None:
    """The reference is the best, which is not the first level."""
    assert re.fullmatch(
        r"Against docker, throughput on average: qemu-tcg 2\d\.?\d* times \[2\d\.?\d*, 2\d\.?\d*\] worse; "
        r"runc 1\d\.?\d* % \[1\d\.?\d*, 1\d\.?\d*\] worse; lxc within [2-5] %\.",
        text := said(tmp_path / "en"),
    ), text
    assert re.fullmatch(
        r"Em relação a docker, throughput em média: qemu-tcg 24,\d+ vezes \[.*\] pior; runc .* pior; "
        r"lxc: diferença de menos de [2-5] %\.",
        text := said(tmp_path / "pt", code="pt-BR"),
    ), text


def test_the_margin_of_the_study_says_what_is_alike(tmp_path: Path) -> None:
    assert "lxc within" not in said(tmp_path, margins={"throughput": 0.01})


def test_what_so_few_blocks_leave_open_has_no_estimate(tmp_path: Path) -> None:
    text = said(tmp_path, noise={"throughput": 0.25}, replicates=3, costs={"qemu-tcg": 0.05})
    assert re.fullmatch(
        r"Against \w+, throughput on average: qemu-tcg \d+ times \[\d+, \d+\] worse; "
        r"[\w, ]+ and \w+ not distinguishable\.",
        text,
    ), text


def test_it_has_three_clauses_at_most_and_counts_the_rest(tmp_path: Path) -> None:
    names = ("native", "runc", "docker", "lxc", "podman", "gvisor")
    costs = {name: 1 / (1 + at) for at, name in enumerate(names)}
    text = said(tmp_path, factors={**PLATFORMS, "platform": names}, costs=costs)
    assert re.fullmatch(
        r"Against native, throughput on average: gvisor 6[^;]* worse; podman 5[^;]* worse; lxc 4[^;]* worse, "
        r"and 2 more\.",
        text,
    ), text


@pytest.mark.parametrize("better", ["lower", "neither"])
def test_its_direction_is_that_of_the_metric(better: Any, tmp_path: Path) -> None:
    metric = Metric("memory", "MiB", better, "")
    expected = {
        "lower": r"Against qemu-tcg, memory on average: lxc 2\d.* times .* worse; docker .* worse; runc .* worse\.",
        "neither": r"Against runc, memory on average: qemu-tcg .* times .* lower; lxc 2.* higher; docker .* higher\.",
    }
    assert re.match(expected[better], text := said(tmp_path, metrics=(metric,))), text


def test_a_mark_follows_its_level_or_what_all_levels_have_the_metric(tmp_path: Path) -> None:
    limited = Outcome()
    limited.add_caveat(Remark(GENERATOR_LIMITED, "as fast as without it", ("throughput",)))
    some = said(tmp_path / "some", notes=lambda levels, block: limited.notes if levels["platform"] == "lxc" else {})
    assert some.startswith("Against docker, throughput on average: ") and "lxc † within" in some
    every = said(tmp_path / "every", notes=lambda levels, block: limited.notes)
    assert every.startswith("Against docker, throughput † on average: ") and every.count("†") == 1


@pytest.mark.parametrize(
    ("factors", "replicates"),
    [
        ({"platform": PLATFORMS["platform"]}, 4),
        ({**PLATFORMS, "platform": ("runc", "qemu-tcg")}, 4),
        ({"function": ("none", "nat", "dpi"), "attachment": ("veth-bridge",), "anomaly": ("none", "cpu")}, 4),
        (PLATFORMS, 1),
    ],
    ids=["one-factor", "two-levels", "no-platform", "one-block"],
)
def test_where_the_findings_say_it_or_nothing_is_known_there_is_no_line(
    factors: dict[str, tuple[Level, ...]], replicates: int, tmp_path: Path
) -> None:
    assert said(tmp_path, factors=factors, replicates=replicates) == ""
