"""Sequential stopping through the real command line: whole blocks, ten at least, until precise or at the cap."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lastro.results.store import Store
from lastro.study.design import trials

from .conftest import Bench, Finished, finish, interrupt, is_error, lastro, rows, schedule, start


def study(bench: Bench, *, factors: dict[str, list[Any]] | None = None, profile: str = "", **design: Any) -> Path:
    """A study of the synthetic scenario, whose ratios become known to 4 % in ten blocks, about."""
    file = bench.write(factors, baseline={"level": "a"}, replicates=design.pop("replicates", 5))
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in design.items())
    text = file.read_text().replace("[design]\n", f"[design]\n{lines}")
    file.write_text(text + profile)
    return file


def run(bench: Bench, file: Path, *more: str) -> Finished:
    return lastro("run", file, "-o", bench.directory, "--no-report", *more)


def blocks(directory: Path) -> int:
    return max(row[1] for row in rows(directory))


def last_words(directory: Path) -> str:
    with Store.open(directory, readonly=True) as store:
        return next(text for _, kind, text in reversed(store.events()) if kind == "sequential")


def test_it_adds_whole_blocks_until_every_ratio_is_precise(bench: Bench) -> None:
    done = run(bench, study(bench, stopping="sequential", precision=0.025))
    assert done.code == 0
    n = blocks(bench.directory)
    assert 10 < n < 40 and Counter(row[1] for row in rows(bench.directory)) == dict.fromkeys(range(1, n + 1), 2)
    found = re.fullmatch(
        rf"{n} blocks: narrow enough; widest: (speed|delay) of b, ±(\S+)\xa0%", last_words(bench.directory)
    )
    assert found and float(found[2]) <= 2.5
    assert done.err.count("not precise enough yet: 2 more trials") == n - 10
    assert "Sequential campaign: blocks were added until every chosen ratio was known to ±2.5 %" in " ".join(
        done.out.split()
    )
    results = lastro("results", bench.directory, "--json").json
    assert results["study"]["stopping"] == "sequential" and results["study"]["replicates"] == n
    assert "sequential: blocks are added until" in lastro("status", bench.directory).out
    assert lastro("report", bench.directory, drawn=False).code == 0
    assert "Sequential campaign" in (bench.directory / "report.html").read_text()


def test_ten_blocks_are_the_least_and_the_cap_is_the_most(bench: Bench) -> None:
    assert run(bench, study(bench, stopping="sequential", precision=1.0)).code == 0
    assert blocks(bench.directory) == 10
    other = bench.home / "capped"
    file = study(bench, stopping="sequential", precision=0.001, max_replicates=13)
    assert lastro("run", file, "-o", other, "--no-report").code == 0
    assert blocks(other) == 13 and last_words(other).startswith("13 blocks: cap reached")


def test_blocks_are_drawn_as_if_they_had_been_there_from_the_start(bench: Bench) -> None:
    file = study(bench, factors={"level": ["a", "b", "c"]}, stopping="sequential", precision=0.001, max_replicates=14)
    assert run(bench, file).code == 0
    with Store.open(bench.directory, readonly=True) as store:
        drawn = [(trial.number, trial.block, trial.treatment) for trial in trials(store.study, 3)]
    assert schedule(bench.directory) == drawn and len(drawn) == 42


def test_interrupted_among_added_blocks_it_resumes_to_the_same_schedule(bench: Bench) -> None:
    file = study(bench, stopping="sequential", precision=0.001, max_replicates=16)
    file.write_text(file.read_text().replace("[settings]", "[settings]\ntrial_s = 0.02"))
    process = start("run", file, "-o", bench.directory, "--no-report")
    bench.wait_until_done(23)
    interrupt(process)
    assert finish(process).code == 130
    assert lastro("resume", bench.directory, "--no-report").code == 0
    with Store.open(bench.directory, readonly=True) as store:
        assert schedule(bench.directory) == [(t.number, t.block, t.treatment) for t in trials(store.study, 2)]
    assert blocks(bench.directory) == 16


def test_killed_again_and_again_it_has_every_trial_once(bench: Bench) -> None:
    """Kills fall after a number of trials, among the added blocks: no block is drawn twice or in part."""
    file = study(bench, stopping="sequential", precision=0.001, max_replicates=18)
    file.write_text(file.read_text().replace("[settings]", "[settings]\ntrial_s = 0.01"))
    process = start("run", file, "-o", bench.directory, "--no-report")
    for done in (19, 20, 24, 29):
        bench.wait_until_done(done)
        process.kill()
        process.communicate()
        assert all(n == 2 for n in Counter(row[1] for row in rows(bench.directory)).values())
        process = start("resume", bench.directory, "--no-report")
    assert finish(process).code == 0
    with Store.open(bench.directory, readonly=True) as store:
        assert schedule(bench.directory) == [(t.number, t.block, t.treatment) for t in trials(store.study, 2)]
    assert Counter(row[3] for row in rows(bench.directory)) == {"valid": 36}


def test_killed_before_it_had_decided_it_decides_on_resume(bench: Bench) -> None:
    """All ten blocks are done and no eleventh was drawn: as after a kill between the last trial and the decision."""
    assert run(bench, study(bench, stopping="sequential", precision=1.0)).code == 0
    with sqlite3.connect(bench.directory / "campaign.db") as db:
        (text,) = db.execute("SELECT value FROM meta WHERE key = 'study'").fetchone()
        changed = json.loads(text)
        changed["design"] |= {"precision": 0.001, "max_replicates": 12}
        db.execute("UPDATE meta SET value = ? WHERE key = 'study'", (json.dumps(changed),))
    db.close()
    assert lastro("resume", bench.directory, "--no-report").code == 0
    assert blocks(bench.directory) == 12
    again = lastro("resume", bench.directory, "--no-report")
    assert "nothing is left to run" in again.out and blocks(bench.directory) == 12


def test_what_is_unavailable_stays_so_in_added_blocks_and_is_not_waited_for(bench: Bench) -> None:
    file = study(
        bench, factors={"level": ["a", "b"], "fault": ["none", "unavailable"]}, stopping="sequential", precision=0.025
    )
    assert run(bench, file).code == 0
    n = blocks(bench.directory)
    assert 10 < n < 40
    assert Counter(row[3] for row in rows(bench.directory)) == {"valid": 2 * n, "unavailable": 2 * n}


def test_only_the_chosen_metrics_need_be_precise(bench: Bench) -> None:
    file = study(bench, stopping="sequential", precision=0.025, precise_metrics=["delay"])
    assert run(bench, file).code == 0
    assert "widest: delay of b" in last_words(bench.directory)


def test_a_profile_fixes_the_number_or_sets_the_cap(bench: Bench) -> None:
    profiles = "[profiles.quick]\nreplicates = 2\n[profiles.paper]\nmax_replicates = 11\n"
    file = study(bench, profile=profiles, stopping="sequential", precision=0.001)
    assert run(bench, file, "--profile", "quick").code == 0
    assert blocks(bench.directory) == 2
    plan = lastro("plan", file, "--profile", "paper", "--json").json
    assert (plan["replicates"], plan["most_replicates"], plan["stopping"]) == (10, 11, "sequential")
    assert lastro("plan", file, "--profile", "quick", "--json").json["stopping"] == "fixed"


def test_the_plan_tells_least_and_most(bench: Bench) -> None:
    file = study(bench, stopping="sequential", precision=0.02, max_replicates=30)
    text = lastro("plan", file).out
    assert "blocks      10 (randomised" in text and "known to ±2\xa0%, 30 blocks at most" in text
    assert re.search(r"^expected +\S+ ms to \S+ ms$", text, re.MULTILINE)


def test_its_noise_floor_is_for_the_blocks_that_it_came_to(bench: Bench) -> None:
    assert run(bench, study(bench, stopping="sequential", precision=0.001, max_replicates=12)).code == 0
    done = lastro("noise-floor", bench.directory, "--json")
    assert done.code == 0 and done.json["blocks"] == 12 and "24 blocks, 24 trials" in done.err


@pytest.mark.parametrize(
    ("design", "words"),
    [
        ({"stopping": "random"}, ["design.stopping", "fixed"]),
        ({"precision": 0.1}, ["design.precision", "is for sequential stopping"]),
        ({"stopping": "sequential", "precision": 0.0}, ["design.precision", "at least 0.001"]),
        ({"stopping": "sequential", "max_replicates": 9}, ["design.max_replicates", "at least 10"]),
        ({"stopping": "sequential", "max_replicates": 12, "replicates": 20}, ["max_replicates", "(20)"]),
        ({"stopping": "sequential", "precise_metrics": ["sped"]}, ["precise_metrics[0]", "did you mean 'speed'?"]),
    ],
)
def test_a_design_that_cannot_be_is_one_error(bench: Bench, design: dict[str, Any], words: list[str]) -> None:
    is_error(lastro("plan", study(bench, **design)), 2, *words)


def test_it_needs_a_baseline(bench: Bench) -> None:
    file = bench.write()
    file.write_text(file.read_text().replace("[design]", '[design]\nstopping = "sequential"'))
    is_error(lastro("plan", file), 2, "design.stopping", "no baseline")


def test_a_profiles_cap_is_for_sequential_studies_and_above_its_least(bench: Bench) -> None:
    cap = "[profiles.paper]\nmax_replicates = 12\n"
    is_error(lastro("plan", study(bench, profile=cap)), 2, "profiles.paper.max_replicates", "a fixed number of blocks")
    file = study(bench, profile=cap + "replicates = 20\n", stopping="sequential")
    is_error(lastro("plan", file), 2, "profiles.paper.max_replicates", "(20)")
