"""`lastro compare` on real databases: what is matched, what is said of the rest, and the gate."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from lastro.analysis.host_facts import changed_facts, differing_facts, named_facts, unnamed_facts
from lastro.results.samples import Metric
from lastro.study.aa_study import aa_study

from ..support.campaigns import METRICS, SMALL, Levels, make_campaign, make_study
from .conftest import Bench, Finished, is_error, lastro

HOST = {
    "host": {"hostname": "edge-7", "kernel": "6.1.0", "cpu_model": "AMD EPYC", "cpus": 2},
    "root_filesystem": {"sha256": "7c" * 32},
    "lastro": {"version": "0.1.0"},
}
Value = Callable[[Levels, int, str], float | None]


MORE = {
    **HOST,
    "host": {**HOST["host"], "governor": "performance", "microcode": "0x1", "memory_bytes": 16 << 30},
    "kernel": {
        "command_line": "BOOT_IMAGE=/vmlinuz root=UUID=1234-5678 ro quiet",
        "clock_source": "tsc",
        "mitigations": dict.fromkeys(("retbleed", "spectre_v1", "spectre_v2", "srso", "tsx"), "Mitigation"),
    },
    "network": {"ipv4.tcp_congestion_control": "cubic", "core.default_qdisc": "fq_codel"},
    "isolation": {"cgroup_version": 2, "seccomp_actions": "kill"},
    "tools": {
        name: {"version": f"{name} 1.0", "path": f"/usr/bin/{name}", "sha256": "ab" * 32} for name in ("runc", "nft")
    },
    "image_tools": {"iperf3": "iperf 3.12"},
    "offloads": {"veth-bridge": {"scatter-gather": "on"}},
    "controller": {"hostname": "desk", "machine": "0123"},
    "machines": ["0123"],
}


def leaves(data: dict[str, Any], *above: str) -> list[tuple[str, ...]]:
    """Return the path of every single fact."""
    return [
        path
        for key, value in data.items()
        for path in (leaves(value, *above, key) if isinstance(value, dict) else [(*above, key)])
    ]


def with_fact(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    changed = json.loads(json.dumps(MORE))
    chapter = changed
    for key in path[:-1]:
        chapter = chapter[key]
    chapter[path[-1]] = value
    return changed


def steady(seed: str, *, slow: str = "", factor: float = 1.0) -> Value:
    """Values of 2 % spread; `factor` times as much at the level `slow`."""

    def value(levels: Levels, block: int, metric: str) -> float:
        noise = random.Random(f"{seed}:{sorted(levels.items())}:{block}:{metric}").gauss(0, 0.02)
        return 100 * (1 + noise) * (factor if slow in levels.values() else 1)

    return value


def pair(home: Path, *, b: Value | None = None, study_b: Any = None, **others: Any) -> tuple[Path, Path]:
    study = make_study(replicates=8, baseline={"isolation": "none"})
    one = make_campaign(home / "a", study, value=steady("a"), provenance=HOST)
    return one, make_campaign(home / "b", study_b or study, value=b or steady("b"), **{"provenance": HOST, **others})


def compared(*words: object) -> Any:
    done = lastro("compare", *words, "--json")
    assert done.code in (0, 4) and done.err == ""
    return done.json


def wide(*words: object) -> Finished:
    return lastro("compare", *words, env={"COLUMNS": "200"})


def test_two_runs_of_the_same_thing_are_not_told_apart(tmp_path: Path) -> None:
    a, b = pair(tmp_path)
    found = compared(a, b, "--fail-over", "5%")
    assert found["tests"] == len(found["cells"]) == 24 and found["gate"]["regressions"] == 0
    assert {cell["verdict"] for cell in found["cells"]} == {"same"}
    assert found["differences"] == found["only_in"] == found["notes"] == []
    assert all(cell["p_adjusted"] >= cell["p"] for cell in found["cells"])
    done = wide(a, b, "--fail-over", "0.05")
    assert done.code == 0 and "no regression of more than 5 % was found (24 tests; smaller" in done.out
    allowed = found["gate"]["most_allowed"]
    assert 0.01 < allowed["loss"] < 0.1 and "The intervals allow one of up to" in done.out
    assert f"{allowed['metric']} of {' · '.join(allowed['levels'].values())}." in done.out


def test_a_gate_says_which_loss_it_could_have_seen(tmp_path: Path) -> None:
    a, b = pair(tmp_path)
    found = compared(a, b, "--fail-over", "5%")
    least = sorted(cell["gate"]["least_found"] for cell in found["cells"])
    assert 0.05 < least[0] < least[-1] < 0.15
    noisiest = max(found["cells"], key=lambda cell: cell["gate"]["least_found"])
    where = f"{noisiest['metric']} of {' · '.join(noisiest['levels'].values())}"
    sentence = (
        f"With 80 % power, it could have seen a loss of {100 * least[-1]:.2g} % or more in any one cell ({where}), "
        f"and one of {100 * least[11]:.2g} % in the median cell."
    )
    assert sentence in " ".join(wide(a, b, "--fail-over", "5%").out.split())
    (one,) = compared(a, b, "--fail-over", "5%", "--metric", "throughput")["cells"][:1]
    assert one["gate"]["least_found"] < noisiest["gate"]["least_found"], "fewer cells, a smaller correction"


def slow(seed: str) -> Value:
    """Values of 2 % spread, of which each takes over nearly all of the one before it in time."""
    rng, last = random.Random(seed), [0.0]

    def value(levels: Levels, block: int, metric: str) -> float:
        last[0] = 0.97 * last[0] + rng.gauss(0, 0.005)
        return 100 * (1 + last[0])

    return value


def test_trials_that_resemble_their_neighbours_widen_every_interval(tmp_path: Path) -> None:
    study = make_study({"platform": ("native", "runc", "lxc")}, replicates=8, metrics=METRICS[:1])
    for name in "ab":
        make_campaign(tmp_path / name, study, value=slow(name), provenance=HOST)
    found = compared(tmp_path / "a", tmp_path / "b")
    factors = [cell[side]["variance_factor"] for cell in found["cells"] for side in "ab"]
    assert min(factors) > 1.5
    (note,) = found["notes"]
    assert note.startswith("Trials that are close in time are correlated (throughput in A and B): intervals")
    assert f"up to {max(factors):.1f} times" in note
    many = make_study({"platform": tuple(f"p{n}" for n in range(9))}, replicates=8, metrics=METRICS[:1])
    make_campaign(tmp_path / "many", many, value=slow("a"), provenance=HOST)
    page = lastro("report", tmp_path / "many", "--format", "md", "--full", "-o", "-").out
    assert re.search(r"are correlated \(autocorrelation 0\.\d\d, p &lt; 0\.\d+\)\. So 8 trials", page)
    serial = lastro("results", tmp_path / "a", "--json").json["analysis"]["throughput"]["serial"]
    assert (serial["n"], serial["trials"]) == (24, 8)
    assert serial["counts_as"] == pytest.approx(8 / max(factors[::2]))


def test_what_is_not_distinguishable_is_counted_unless_all_is_wanted(tmp_path: Path) -> None:
    a, b = pair(tmp_path)
    some, everything = wide(a, b).out, wide(a, b, "--all").out
    assert "≈ not distinguishable" not in some and "not distinguishable: 24 rows; --all shows them" in some
    assert everything.count("≈ not distinguishable") == 24 and "--all" not in everything
    assert some.splitlines()[0] == "No difference is distinguishable in 24 tests"


def test_the_verdict_is_the_first_line(tmp_path: Path) -> None:
    a, b = pair(tmp_path, b=steady("b", slow="apparmor", factor=0.8))
    only = ("--metric", "throughput")
    first = wide(a, b, "--fail-over", "5%", *only).out.splitlines()[0]
    assert first == "FAIL: 2 regressions of more than 5 % (throughput)"
    assert wide(a, b, *only).out.splitlines()[0] == "2 of 6 ratios differ: 2 worse"
    passed = "PASS, shown for these two campaigns only: no regression of more than 40 % in 6 cells"
    assert wide(a, b, "--fail-over", "40%", *only).out.splitlines()[0] == passed
    heading, _, verdict, *_ = wide(a, b, "--fail-over", "40%", *only, "--format", "md").out.splitlines()
    assert heading.startswith("# ") and verdict == f"**{passed}**"


def test_a_gate_that_cannot_decide_has_an_exit_code_of_its_own(tmp_path: Path) -> None:
    """Intervals of 2 % spread over eight blocks allow a loss of 1 %, and none of 20 %."""
    a, b = pair(tmp_path)
    for margin, code in (("0.1%", 8), ("20%", 0)):
        assert lastro("compare", a, b, "--fail-over", margin).code == 0
        done = wide(a, b, "--fail-over", margin, "--require", "shown")
        assert done.code == code
        outcome = "undecided" if code else "shown for these two campaigns only"
        assert done.out.splitlines()[0].startswith(f"PASS, {outcome}: no regression")
        found = compared(a, b, "--fail-over", margin)
        assert found["gate"]["outcome"] == ("undecided" if code else "shown")
        assert (found["gate"]["undecided"] > 0) == (code == 8)
        assert {cell["gate"]["outcome"] for cell in found["cells"]} <= {"undecided", "shown"}
    is_error(lastro("compare", a, b, "--require", "shown"), 2, "--require shown needs a margin")


def test_a_copy_is_no_other_campaign(tmp_path: Path) -> None:
    a, b = pair(tmp_path)
    copy = tmp_path / "copy"
    shutil.copytree(a, copy)
    is_error(lastro("compare", a, copy), 2, f"{copy} is a copy of {a}")
    assert lastro("compare", a, b).code == 0


def test_a_regression_comes_first_and_ends_with_code_4(tmp_path: Path) -> None:
    a, b = pair(tmp_path, b=steady("b", slow="apparmor", factor=0.8))
    done = wide(a, b, "--fail-over", "5%", "--metric", "throughput", "--metric", "jitter")
    assert done.code == 4
    lines = done.out.splitlines()
    first = lines[next(at for at, line in enumerate(lines) if line.startswith("──")) + 1]
    assert "throughput" in first and "apparmor" in first and first.endswith("✕ REGRESSION")
    assert "▲ better" in done.out, "less jitter is better"
    found = compared(a, b, "--fail-over", "5%", "--metric", "throughput")
    assert [cell["gate"]["regressed"] for cell in found["cells"]] == [True, True, False, False, False, False]
    assert found["cells"][0]["ratio"]["interval"]["low"] < 0.8 < found["cells"][0]["ratio"]["interval"]["high"]
    assert found["cells"][0]["gate"]["limit"] == 0.95 and found["gate"]["tests"] == 6
    assert lastro("compare", a, b).code == 0, "without --fail-over nothing fails"
    assert lastro("compare", a, b, "--fail-over", "30%").code == 0


@pytest.mark.parametrize(("margin", "code"), [(0.1, 4), (0.3, 0)])
def test_without_a_margin_the_gate_takes_that_of_each_metric_in_the_study(
    tmp_path: Path, margin: float, code: int
) -> None:
    """The baseline may be older than the table; what the table does not name has the margin of `lastro ab`."""
    study = make_study(replicates=8, baseline={"isolation": "none"}, margins={"throughput": margin})
    a, b = pair(tmp_path, b=steady("b", slow="apparmor", factor=0.8), study_b=study)
    done = wide(a, b, "--fail-over", "--metric", "throughput", "--metric", "jitter")
    assert done.code == code and f"of more than {100 * margin:g} % (throughput), 3 % (jitter)" in done.out
    found = compared(a, b, "--fail-over", "--metric", "throughput", "--metric", "jitter")
    assert found["gate"]["margin"] is None and found["gate"]["margins"] == {"throughput": margin, "jitter": 0.03}
    limits = {(cell["metric"], cell["gate"]["limit"]) for cell in found["cells"]}
    assert limits == {("throughput", 1 - margin), ("jitter", 1.03)}
    assert f"of more than {100 * margin:g} %" in wide(a, b, "--fail-over", "--metric", "throughput").out.splitlines()[0]
    assert lastro("compare", a, b, "--fail-over", "30%").code == 0, "one that is given is for all metrics"


def test_the_order_of_treatments_and_blocks_does_not_matter(tmp_path: Path) -> None:
    """B's file lists factors and levels the other way round."""
    turned = make_study({name: levels[::-1] for name, levels in reversed(SMALL.items())}, replicates=8)
    a, b = pair(tmp_path, study_b=turned, b=steady("a"))
    found = compared(a, b)
    assert len(found["cells"]) == 24 and found["only_in"] == []
    assert all(cell["ratio"]["value"] == pytest.approx(1) for cell in found["cells"])


def test_what_only_one_side_has_is_listed_with_the_level(tmp_path: Path) -> None:
    levels = {"platform": ("native", "docker"), "isolation": ("none", "cgroups", "apparmor")}
    a, b = pair(tmp_path, study_b=make_study(levels, replicates=8))
    found = compared(a, b)
    assert [(side["side"], side["reason"], len(side["treatments"])) for side in found["only_in"]] == [
        ("A", "B has no platform = runc", 3), ("B", "A has no platform = docker", 3),
    ]  # fmt: skip
    assert "only in A: 3 treatments: B has no platform = runc" in wide(a, b).out


def test_what_could_not_be_compared_says_why(tmp_path: Path) -> None:
    a, b = pair(
        tmp_path,
        unavailable=lambda levels: ("no AppArmor in this kernel", None) if levels["isolation"] == "apparmor" else None,
        doubts=lambda levels, block, attempt: ["no traffic"] if levels["platform"] == "runc" else [],
    )
    found = compared(a, b)
    reasons = {(*cell["levels"].values(),): cell["not_compared"] for cell in found["cells"]}
    assert reasons["native", "none"] is None
    assert reasons["native", "apparmor"] == "B: unavailable: no AppArmor in this kernel"
    assert reasons["runc", "none"] == "B: every attempt invalid"
    assert found["tests"] == 8, "only what could be compared counts for the correction"
    text = wide(a, b).out
    assert (
        "not compared: native · apparmor; runc · apparmor (throughput, jitter, latency_mean, latency_max): B: una"
        in text
    )
    done = wide(a, b, "--fail-over", "5%")
    assert done.code == 0 and "Not judged: 16 cells" in " ".join(done.out.split())
    assert lastro("compare", a, b, "--fail-lost").code == 4
    assert lastro("compare", b, a, "--fail-lost").code == 0, "what is new is not lost"


def test_one_trial_on_a_side_gives_a_ratio_and_no_test(tmp_path: Path) -> None:
    study = make_study(replicates=1)
    a, b = (make_campaign(tmp_path / side, study, value=steady(side), provenance=HOST) for side in "ab")
    found = compared(a, b)
    assert {cell["not_compared"] for cell in found["cells"]} == {"n = 1: a test needs 2 trials or more"}
    assert all(cell["ratio"]["interval"] is None and cell["ratio"]["value"] for cell in found["cells"])
    done = wide(a, b, "--fail-over", "5%")
    assert done.code == 2 and "Nothing could be compared." in done.out and "nothing to judge" in done.err


def test_zeros_and_constants_are_no_accident(tmp_path: Path) -> None:
    study = make_study(replicates=8)
    zero, one, two = (
        make_campaign(tmp_path / str(x), study, value=lambda levels, block, metric, x=x: x)
        for x in (0.0, 10 / 3, 20 / 3)
    )
    for a, b in ((one, two), (zero, one)):
        found = compared(a, b, "--fail-over", "50%")
        assert {cell["verdict"] for cell in found["cells"]} == {"better", "worse"} and found["cells"][0]["p"] > 0
        assert found["gate"]["regressions"] == 18, "three metrics of six treatments, of which less is better"
    assert lastro("compare", zero, one, "--fail-over", "50%").code == 4, "from nothing, anything is worse"
    assert {cell["ratio"]["value"] for cell in found["cells"]} == {None}
    nine = make_study(replicates=9)  # with as many blocks it would be a copy
    same = compared(zero, make_campaign(tmp_path / "again", nine, value=lambda *_: 0.0), "--fail-over", "5%")
    assert {cell["verdict"] for cell in same["cells"]} == {"same"} and same["gate"]["not_judged"] == 0


def test_a_step_of_the_tool_is_no_difference(tmp_path: Path) -> None:
    """A tool that prints three decimals reads 42.005 in one campaign, and 42.006 or 42.007 in the other."""
    study = make_study({"platform": ("native",)}, replicates=8, metrics=METRICS[:1])
    before, step, two = (
        make_campaign(tmp_path / str(x), study, value=lambda *_, x=x: x + 0.0) for x in (42.005, 42.006, 42.007)
    )
    same, differs = (compared(before, after, "--fail-over", "0.01%")["cells"][0] for after in (step, two))
    assert (same["verdict"], same["p"], differs["verdict"]) == ("same", 1.0, "better")
    interval = same["ratio"]["interval"]
    assert (interval["low"], interval["high"]) == pytest.approx((42.0055 / 42.0055, 42.0065 / 42.0045))


def test_values_near_the_limits_of_what_is_taken_are_compared_as_any_others(tmp_path: Path) -> None:
    study, found = make_study({"platform": ("native", "runc")}, replicates=6, metrics=METRICS[:1]), []
    for unit in (1.0, 2.0**-95):
        a, b = (
            make_campaign(
                tmp_path / f"{unit}-{seed}", study, value=lambda *words, s=seed, u=unit: u * (steady(s)(*words) or 0)
            )
            for seed in "ab"
        )
        found.append([{k: cell[k] for k in ("ratio", "p", "verdict")} for cell in compared(a, b)["cells"]])
    assert found[0] == found[1] and all(cell["ratio"]["interval"] for cell in found[0])


def test_three_constant_values_a_side_prove_nothing_among_many(tmp_path: Path) -> None:
    study = make_study(replicates=3)
    one, two = (make_campaign(tmp_path / str(x), study, value=lambda *_, x=x: x) for x in (1.0, 2.0))
    assert {cell["verdict"] for cell in compared(one, two)["cells"]} == {"same"}
    assert lastro("compare", one, two, "--fail-over", "5%").code == 0


def test_differing_settings_profile_and_provenance_are_notes_below_the_table(tmp_path: Path) -> None:
    other = make_study(replicates=5, settings={"tcp_s": 5, "anomaly": "none", "platform": "runc"}, profile="quick")
    host = {**HOST, "host": {**HOST["host"], "kernel": "6.9.0"}, "lastro": {"version": "0.2.0"}}
    a, b = pair(tmp_path, study_b=other, provenance=host)
    found = compared(a, b)
    assert [(what["what"], what["a"], what["b"]) for what in found["differences"]] == [
        ("kernel", "6.1.0", "6.9.0"), ("Lastro", "0.1.0", "0.2.0"), ("profile", "none", "quick"),
        ("tcp_s", "15", "5"), ("replicates", "8", "5"),
    ]  # fmt: skip
    text = wide(a, b).out
    assert text.index("not distinguishable") < text.index("1. differs: kernel: A 6.1.0, B 6.9.0")


def test_an_unfinished_campaign_is_compared_as_far_as_it_is(tmp_path: Path) -> None:
    a, b = pair(tmp_path, stop_after=30)
    assert compared(a, b)["notes"] == ["B is unfinished: 18 of 48 trials have not run"]


def test_junit_has_a_suite_for_each_metric_and_a_case_for_each_treatment(tmp_path: Path) -> None:
    a, b = pair(
        tmp_path,
        b=steady("b", slow="cgroups", factor=0.8),
        unavailable=lambda levels: ("<no> & \x00never", None) if levels["isolation"] == "apparmor" else None,
    )
    file = tmp_path / "out" / "gate.xml"
    assert lastro("compare", a, b, "--fail-over", "5%", "--junit", file).code == 4
    root = ElementTree.parse(file).getroot()
    assert root.tag == "testsuites" and [suite.get("name") for suite in root] == [metric.name for metric in METRICS]
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("24", "2", "8")
    throughput = root[0]
    assert (throughput.get("tests"), throughput.get("failures"), throughput.get("skipped")) == ("6", "2", "2")
    failures = throughput.findall("testcase/failure")
    assert all("×0.7" in f.get("message", "") or "×0.8" in f.get("message", "") for f in failures)
    assert all("Mbit/s" in f.get("message", "") and "below ×0.95" in f.get("message", "") for f in failures)
    skipped = throughput.findall("testcase/skipped")
    assert {s.get("message") for s in skipped} == {"B: unavailable: <no> & \ufffdnever"}
    lastro("compare", a, b, "--fail-lost", "--junit", file)
    lost = ElementTree.parse(file).findall(".//failure[@type='lost']")
    assert len(lost) == 8


def test_a_metric_without_direction_is_compared_and_not_judged(tmp_path: Path) -> None:
    metrics = (Metric("size", "MiB", "neither", "how large"), METRICS[0])
    study = make_study(replicates=6, metrics=metrics)
    a, b = (
        make_campaign(tmp_path / side, study, value=steady(side, slow="runc", factor=x), provenance=HOST)
        for side, x in (("a", 1.0), ("b", 2.0))
    )
    found = compared(a, b, "--fail-over", "5%")
    assert found["gate"]["tests"] == 6 and found["gate"]["regressions"] == 0
    assert {cell["verdict"] for cell in found["cells"] if cell["metric"] == "size"} == {"higher", "same"}
    file = tmp_path / "gate.xml"
    assert lastro("compare", a, b, "--fail-over", "5%", "--junit", file).code == 0
    assert len(ElementTree.parse(file).findall(".//skipped")) == 6


def test_markdown_is_a_table_and_harmless(tmp_path: Path) -> None:
    title = "<script>alert(1)</script> | a\nb *c*"
    study = make_study({"platform": ("x|y", "native")}, title=title, replicates=3)
    a, b = (make_campaign(tmp_path / side, study, value=steady(side), provenance=HOST) for side in "ab")
    text = lastro("compare", a, b, "--format", "md").out
    assert "<script>" not in text and "x\\|y" in text
    assert len([line for line in text.splitlines() if line.startswith("| ")]) == 2 + 8
    assert len({line.replace("\\|", "").count("|") for line in text.splitlines() if line.startswith("| ")}) == 1


def test_annotations_of_github_are_one_line_for_each_failure(tmp_path: Path) -> None:
    a, b = pair(tmp_path, b=steady("b", slow="apparmor", factor=0.8))
    done = lastro("compare", a, b, "--fail-over", "5%", "--metric", "throughput", "--format", "github")
    lines = done.out.splitlines()
    assert done.code == 4 and len(lines) == 2
    assert all(line.startswith("::error title=throughput regressed%3A ") for line in lines)
    assert "apparmor::throughput of " in lines[0] and "below ×0.95" in lines[0] and "%0A" not in lines[0]
    passed = lastro("compare", a, b, "--fail-over", "30%", "--format", "github")
    assert passed.code == 0 and passed.out.startswith("::notice title=lastro compare::Gate: no regression of more than")
    assert "30\N{NO-BREAK SPACE}%25 was found" in passed.out and passed.out.count("\n") == 1
    assert lastro("compare", a, b, "--format", "github").out == "", "without a gate there is nothing to say"


def remarked(levels: Levels, block: int) -> dict[str, Any]:
    marks = [{"kind": "closed loop", "text": "x"}, {"kind": "through a cache", "text": "y", "metrics": ["jitter"]}]
    return {"generator_limited": True, "remarks": marks}


def test_the_regression_comes_before_any_note_and_each_note_once(tmp_path: Path) -> None:
    study = make_study(replicates=8, baseline={"isolation": "none"})
    a = make_campaign(tmp_path / "a", study, value=steady("a"), provenance=HOST, notes=remarked)
    new = {**HOST, "host": {**HOST["host"], "kernel": "6.9.0"}}
    slower = steady("b", slow="apparmor", factor=0.8)
    b = make_campaign(tmp_path / "b", study, value=slower, provenance=new, notes=remarked)
    once = ("† the generator", "↻ closed loop: ", "‡ through a cache: ", "WARNING: how much", "differs: kernel")
    for columns in ("80", "120"):
        done = lastro("compare", a, b, "--fail-over", "5%", env={"COLUMNS": columns})
        row = done.out.index("✕ REGRESSION")
        assert done.code == 4 and done.out.splitlines()[0].startswith("FAIL: 2 regressions of more than 5 %")
        assert done.out[:row].count("\n") < 9
        assert all(done.out.count(words) == 1 and done.out.index(words) > row for words in once)
        assert re.search(r"\(n = 8\) [†↻]{2}", done.out) and "A and B: †" in done.out
    text = lastro("compare", a, b, "--fail-over", "5%", "--format", "md").out
    row = text.index("✕ REGRESSION")
    assert text[:row].count("\n") < 10 and all(text.count(words) == 1 and text.index(words) > row for words in once)
    assert re.search(r"^1\. differs: kernel", text, re.MULTILINE)
    options = ("--fail-over", "5%", "--fail-changed-host", "--format", "github")
    lines = lastro("compare", a, b, *options).out.splitlines()
    assert [line.split("::")[1].split("%3A")[0] for line in lines[:3]] == [
        "error title=throughput regressed", "error title=throughput regressed", "error title=lastro compare",
    ]  # fmt: skip


def test_a_reason_of_many_treatments_is_given_once(tmp_path: Path) -> None:
    a, b = pair(tmp_path, unavailable=lambda levels: ("no way", None))
    text = " ".join(wide(a, b).out.split())
    assert text.count("no way") == 1 and "; and 2 more treatments (" in text


def test_markdown_of_a_huge_study_fits_into_a_comment_unless_all_of_it_is_wanted(tmp_path: Path) -> None:
    levels = tuple(f"firewall-{number}" for number in range(200))
    study = make_study({"function": levels}, replicates=2, baseline={"function": levels[0]})
    a, b = (make_campaign(tmp_path / name, study, value=steady(name), provenance=HOST) for name in "ab")
    short, whole = (lastro("compare", a, b, "--format", "md", *more).out for more in ((), ("--all",)))
    kept = short.count(" not distinguishable |")
    assert 58_000 < len(short.encode()) <= 60_000 < len(whole.encode()) and whole.count(" not distinguishable |") == 800
    assert f"and {800 - kept} more rows: `lastro compare --format md --all`" in short.splitlines()


def test_github_keeps_ten_errors_and_the_last_counts_the_others(tmp_path: Path) -> None:
    a, b = pair(tmp_path, unavailable=lambda levels: ("no\nway, 100%", None) if levels["platform"] == "runc" else None)
    done = lastro("compare", a, b, "--fail-lost", "--format", "github")
    lines = done.out.splitlines()
    assert done.code == 4 and len(lines) == 10 and lines[-1] == "::error title=lastro compare::and 3 more failures"
    assert all(" was lost%3A runc" in line and line.endswith("no%0Away, 100%25") for line in lines[:-1])


@pytest.mark.parametrize("columns", ["60", "100", "200"])
def test_no_line_of_a_table_is_wider_than_the_terminal_but_where_nothing_can_be_done(
    tmp_path: Path, columns: str
) -> None:
    a, b = pair(tmp_path)
    lines = lastro("compare", a, b, env={"COLUMNS": columns}).out.splitlines()
    assert max(map(len, lines)) <= max(110, int(columns))


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"scenario": "lifecycle"}, "scenario chain, B runs lifecycle"),
        ({"metrics": (Metric("boot_s", "s", "lower", ""),)}, "no metric in common"),
        ({"metrics": (Metric("throughput", "Gbit/s", "higher", ""),)}, "metric throughput differs between A and B"),
    ],
)
def test_other_studies_are_one_error(tmp_path: Path, other: dict[str, Any], words: str) -> None:
    a, b = pair(tmp_path, study_b=make_study(replicates=2, **other))
    is_error(lastro("compare", a, b), 2, words)


def test_other_factors_are_one_error(tmp_path: Path) -> None:
    a, b = pair(tmp_path, study_b=make_study({"platform": ("native",), "anomaly": ("none",)}, replicates=2))
    is_error(lastro("compare", a, b), 2, "only A has isolation; only B has anomaly")


def test_bad_arguments_are_one_error(tmp_path: Path) -> None:
    a, b = pair(tmp_path)
    for margin in ("5", "x", "-1%", "100%", "5 percent"):
        is_error(lastro("compare", a, b, f"--fail-over={margin}"), 2, "not a fraction below 1", "5%")
    is_error(lastro("compare", a, b, "--metric", "throughputs"), 2, "did you mean 'throughput'?")
    is_error(lastro("compare", a, a), 2, "the same campaign")
    is_error(lastro("compare", a, b, "--confidence", "95"), 2, "at least 0.5 and below 1")
    is_error(lastro("compare", a, tmp_path), 2, "holds no campaign")


def test_the_document_is_json_without_nan(tmp_path: Path) -> None:
    a, b = pair(tmp_path, b=lambda levels, block, metric: 0.0)
    done = lastro("compare", a, b, "--json")
    assert json.loads(done.out)["format"] == "lastro-compare/1" and done.json["cells"]


def test_places_that_cannot_be_read_are_one_error(tmp_path: Path) -> None:
    a, _ = pair(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "fifo").mkdir()
    os.mkfifo(tmp_path / "fifo" / "campaign.db")
    is_error(lastro("compare", tmp_path / "loop", a), 2, "loop cannot be read: Too many levels of symbolic links")
    is_error(lastro("compare", a, "x" * 5_000), 2, "cannot be read: File name too long")
    is_error(lastro("compare", a, tmp_path / "none"), 2, "none holds no campaign")
    is_error(lastro("compare", a, tmp_path / "fifo"), 2, "fifo")
    (tmp_path / "link").symlink_to(a)
    is_error(lastro("compare", a, tmp_path / "link"), 2, "are the same campaign")


def test_a_gate_is_planned_from_a_campaign(bench: Bench) -> None:
    """By the plan of the study itself: the blocks of two campaigns, their time, and what they would find."""
    assert bench.run({"level": ["a", "b"]}, replicates=4).code == 0
    words = ("plan", bench.home / "study.toml", "--no-probe", "--gate", "5%", "--from", bench.directory)
    shown = lastro(*words)
    assert shown.code == 0 and "trials      8" in shown.out
    found = lastro(*words, "--json").json["gate"]
    assert found["margin"] == 0.05 and found["tests"] == 2 * len(found["metrics"])
    assert [power["blocks"] for power in found["powers"]] == [4, 5, 10, 20, 40]
    assert f"Gate: over 5 %, 2 treatments and {len(found['metrics'])} metric" in shown.out
    assert lastro("plan", bench.home / "study.toml", "--no-probe", "--json").json.keys() == lastro(
        *words, "--json"
    ).json.keys() - {"gate"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--gate", "5%"], ["--gate needs the noise of this study", "--from", "lastro noise-floor"]),
        (["--from", "c"], ["--from is for --gate", "--gate 5%"]),
        (["--metric", "x"], ["--metric is for --gate"]),
        (["--gate", "0", "--from", "c"], ["--gate"]),
        (["--gate", "5%", "--from", "nowhere"], ["nowhere"]),
    ],
)
def test_a_gate_that_cannot_be_planned_says_what_is_missing(bench: Bench, words: list[str], said: list[str]) -> None:
    bench.write({"level": ["a", "b"]})
    is_error(lastro("plan", bench.home / "study.toml", "--no-probe", *words), 2, *said)


def test_a_gate_of_a_suite_is_refused() -> None:
    words = ("plan", "trindade2018", "--no-probe", "--gate", "5%", "--from", "c")
    is_error(lastro(*words), 2, "trindade2018 is a suite", "name one of its study files")


def test_without_a_measured_spread_between_campaigns_it_warns(tmp_path: Path) -> None:
    a, b = pair(tmp_path)
    assert compared(a, b)["between"] is None
    for format_ in ("text", "md"):
        said = " ".join(wide(a, b, "--format", format_).out.replace("\\_", "_").split())
        assert "WARNING: how much two campaigns of the same thing differ on this host is not known" in said
        assert f"lastro noise-floor {a} --campaigns 5" in said.replace("\\", "")


@pytest.mark.parametrize("side", [0, 1])
def test_the_spread_between_campaigns_is_in_every_interval(tmp_path: Path, side: int) -> None:
    """All of B is 6 % faster: a difference, unless equal campaigns differ by 3 %."""
    study = make_study(replicates=8, baseline={"isolation": "none"})
    faster = make_campaign(
        tmp_path / "faster", study, value=lambda *at: 1.06 * (steady("b")(*at) or 0), provenance=HOST
    )
    a, b = pair(tmp_path)[0], faster
    before = compared(a, b, "--metric", "throughput")
    assert {cell["verdict"] for cell in before["cells"]} == {"better"}
    shifts = [1.03, 0.97, 1.0, 1.04, 0.96]
    for at, shift in enumerate(shifts, 1):
        place = tmp_path / ("aa" if at == 1 else f"aa-{at}")
        aa = aa_study(study)
        make_campaign(place, aa, value=lambda *of, shift=shift: shift * (steady("aa")(*of) or 0), provenance=HOST)
    done = lastro("noise-floor", (a, b)[side], "-o", tmp_path / "aa")
    assert done.code == 0 and "Between 5 A/A campaigns" in " ".join(done.out.split())
    after = compared(a, b, "--metric", "throughput")
    assert after["between"]["campaigns"] == 5 and after["between"]["spreads"]["throughput"] == pytest.approx(
        0.035, abs=0.003
    )
    assert {cell["verdict"] for cell in after["cells"]} == {"same"}
    widths = [
        [cell["ratio"]["interval"]["high"] - cell["ratio"]["interval"]["low"] for cell in found["cells"]]
        for found in (before, after)
    ]
    assert min(widths[1]) > 3 * max(widths[0])
    said = " ".join(wide(a, b).out.split())
    assert "contain the spread between 5 campaigns in which nothing changed" in said and "WARNING" not in said
    gated = compared(a, b, "--metric", "throughput", "--fail-over", "5%")
    assert min(cell["gate"]["least_found"] for cell in gated["cells"]) > 0.15, "and the gate says that it sees less"
    assert wide(a, b, "--metric", "throughput", "--fail-over", "90%").out.startswith("PASS, shown: no regression")


MAY_DIFFER = {("controller", "hostname"), ("controller", "machine"), ("machines",)}


@pytest.mark.parametrize("path", leaves(MORE), ids=".".join)
def test_every_recorded_fact_is_compared_unless_it_is_named_as_an_exception(path: tuple[str, ...]) -> None:
    other = with_fact(path, 4 << 30 if path[-1] == "memory_bytes" else "another")
    found = {
        **differing_facts([named_facts(MORE), named_facts(other)]),
        **changed_facts(unnamed_facts(MORE), unnamed_facts(other)),
    }
    expected = path not in MAY_DIFFER and path[-1] != "path"
    assert bool(found) is expected, found


def test_a_changed_host_is_listed_everywhere_and_can_fail_the_gate(tmp_path: Path) -> None:
    other = with_fact(("kernel", "command_line"), MORE["kernel"]["command_line"] + " mitigations=off")
    other["kernel"]["mitigations"] = dict.fromkeys(other["kernel"]["mitigations"], "Vulnerable")
    other["tools"]["runc"] |= {"version": "runc 99.0", "sha256": "0" * 64}
    a, b = pair(tmp_path, provenance=other)
    make_campaign(tmp_path / "more", make_study(replicates=8, baseline={"isolation": "none"}), value=steady("a"),
                  provenance=MORE)  # fmt: skip
    a = tmp_path / "more"
    done = wide(a, b)
    assert done.code == 0
    assert "differs: tools.runc: A runc 1.0 (SHA-256 abababababab), B runc 99.0 (SHA-256 000000000000)" in done.out
    assert "differs: kernel.command_line: A …, B … mitigations=off" in done.out
    assert "differs: kernel.mitigations, 5 facts: retbleed, spectre_v1," in done.out
    assert "differs: tools.runc" in lastro("compare", a, b, "--format", "md").out
    found = compared(a, b, "--fail-changed-host", "--may-differ", "kernel.*")
    assert found["changed_host"] == ["tools.runc"] and len(found["differences"]) == 7
    assert compared(a, b)["changed_host"] is None
    file = tmp_path / "gate.xml"
    done = wide(a, b, "--fail-changed-host", "--junit", file)
    assert done.code == 4 and done.out.startswith("FAIL: the hosts differ in 7 facts (")
    suites = ElementTree.parse(file).getroot()
    assert suites.get("failures") == "1" and suites[0].find(".//failure").get("type") == "changed-host"  # type: ignore[union-attr]
    assert len(suites[1].findall(".//property[@name='differs']")) == 7
    lines = lastro("compare", a, b, "--fail-changed-host", "--format", "github").out.splitlines()
    assert lines[0].startswith("::error title=lastro compare::the hosts differ in 7 facts")
    lines = lastro("compare", a, b, "--fail-over", "50%", "--format", "github").out.splitlines()
    assert lines[1].startswith("::warning title=lastro compare::A and B differ: ")
    all_may = ("--may-differ", "kernel.*", "--may-differ", "tools.runc")
    assert lastro("compare", a, b, "--fail-changed-host", *all_may).code == 0
    assert is_error(lastro("compare", a, b, "--fail-changed-host", "--may-differ", "tools.rnc"), 2, "tools.runc")
    assert is_error(lastro("compare", a, b, "--may-differ", "tools.runc"), 2, "--fail-changed-host")
