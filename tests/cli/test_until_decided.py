"""Campaigns that run until their service levels are decided, with whole blocks or with adaptive allocation."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from lastro.results.store import Store
from lastro.study.design import trials

from .conftest import Bench, Finished, finish, is_error, lastro, rows, start, until

CANDIDATES = ["slow", "near", "fine", "fast"]  # of a mean speed of 60, 101, 130 and 250 Mbit/s
SLA = '[sla]\nspeed = ">= 100"\n[cost]\nspeed = 1\n'


def study(bench: Bench, *, sla: str = SLA, replicates: int = 12, settings: str = "", **design: Any) -> Path:
    file = bench.write({"implementation": CANDIDATES}, replicates=replicates)
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in design.items())
    text = file.read_text().replace("[design]\n", f"[design]\n{lines}")
    file.write_text(text.replace("[settings]\n", f"[settings]\n{settings}") + sla)
    return file


def run(bench: Bench, file: Path, *more: str) -> Finished:
    return lastro("run", file, "-o", bench.directory, "--no-report", *more)


def per_candidate(directory: Path) -> dict[str, int]:
    found = Counter(row[2] for row in rows(directory))
    return {name: found[at] for at, name in enumerate(CANDIDATES)}


def test_only_candidates_in_question_go_on_until_the_decision(bench: Bench) -> None:
    done = run(bench, study(bench, allocation="adaptive"))
    assert done.code == 0, done.err
    found = lastro("decide", bench.directory, "--json").json
    assert found["verdict"] == "recommended" and found["recommended"] in ("near", "fine")
    looks, n = found["looks"], per_candidate(bench.directory)
    assert [each["block"] for each in looks] == list(range(2, max(n.values()) + 1)) and max(n.values()) < 12
    assert [each["stop"] for each in looks] == [""] * (len(looks) - 1) + ["decided"]
    for each in looks:
        for dropped in each["dropped"]:
            assert n[dropped["candidate"]] == each["block"] and 0 <= dropped["chance"] < 0.25
    assert n["slow"] < max(n.values()) and n["fast"] < max(n.values())
    assert "leads (holds with" in done.err and "more trials" in done.err
    with Store.open(bench.directory, readonly=True) as store:
        drawn = [(each.number, each.block, each.treatment) for each in trials(store.study, len(CANDIDATES))]
        events = [(kind, text) for _, kind, text in store.events()]
    ran = [row[:3] for row in rows(bench.directory)]
    assert ran == [each for each in drawn if each in set(ran)], "blocks are drawn as if none had been dropped"
    assert any(kind == "dropped" and text.startswith("slow: ") for kind, text in events)
    assert any(kind == "look" and text.endswith("; the decision is made") for kind, text in events)


def test_status_says_who_leads_and_what_is_open_until_the_decision_is_made(bench: Bench) -> None:
    file = study(bench, settings="trial_s = 0.3\n")
    process = start("run", file, "-o", bench.directory, "--no-report", "--until", "decided")
    looked = until(lambda: bench.directory.exists() and _look(bench.directory), "a look")
    assert " leads (holds with " in looked
    shown = " ".join(lastro("status", bench.directory).out.split())
    assert finish(process).code == 0
    assert "decision: 2 blocks: " in shown or "the decision is made" in shown


def _look(directory: Path) -> str:
    done = lastro("status", directory, "--json")
    return (done.json["live"] or {}).get("look") or "" if done.code == 0 else ""


def test_status_results_and_report_say_who_was_dropped_when_and_why(bench: Bench) -> None:
    assert run(bench, study(bench, allocation="adaptive")).code == 0
    status = " ".join(lastro("status", bench.directory).out.split())
    assert "blocks are added until the decision is made, 12 at most" in status and "dropped: slow: " in status
    results = lastro("results", bench.directory)
    assert results.code == 0 and "holds speed ≥ 100 Mbit/s" in results.out
    page = lastro("report", bench.directory, "-o", "-", "--format", "html", drawn=False).out
    assert "What was decided when" in page and "slow: " in page and "the others stand with fewer blocks" in page
    shown = lastro("decide", bench.directory, "--all", "--lang", "pt-BR").out
    assert "O que foi decidido quando" in shown and "cumpre" in shown
    with Store.open(bench.directory, readonly=True) as store:
        trial_s = fmean(took_s for _, took_s in store.durations())
        n_dropped = sum(len(each.dropped) for each in store.looks())
    advised = lastro("advise-replicates", bench.directory, "--json").json
    assert advised["block_s"] == pytest.approx((len(CANDIDATES) - n_dropped) * trial_s, rel=0.01) and n_dropped
    other = lastro("decide", bench.directory, "--sla", "speed >= 90", "--json").json
    assert other["looks"] == [] and other["recommended"], "other levels are judged by the same trials"
    ranked = lastro("decide", bench.directory, "--cost", "delay", "--json").json
    assert ranked["looks"] and ranked["recommended"] == "fast", "of those that hold, a cost of the user ranks"


def test_killed_again_and_again_it_keeps_to_what_it_has_decided(bench: Bench) -> None:
    """What a look has found is in the database before the next block begins, and no look is made twice."""
    file = study(bench, allocation="adaptive", settings="trial_s = 0.02\n")
    process = start("run", file, "-o", bench.directory, "--no-report")
    for done in (8, 9):
        bench.wait_until_done(done)
        process.kill()
        process.communicate()
        process = start("resume", bench.directory, "--no-report")
    assert finish(process).code == 0
    found = lastro("decide", bench.directory, "--json").json
    blocks = [each["block"] for each in found["looks"]]
    assert blocks == list(range(2, blocks[-1] + 1)) and found["looks"][-1]["stop"] == "decided"
    gone = {each["candidate"]: each_look["block"] for each_look in found["looks"] for each in each_look["dropped"]}
    n = per_candidate(bench.directory)
    assert {name: n[name] for name in gone} == gone and {row[3] for row in rows(bench.directory)} == {"valid"}
    again = lastro("resume", bench.directory, "--no-report")
    assert "nothing is left to run" in again.out and per_candidate(bench.directory) == n


def test_killed_before_a_look_it_looks_on_resume_and_finds_the_same(bench: Bench) -> None:
    """All trials of a block are done and nothing is decided: as after a kill between the last trial and the look."""
    assert run(bench, study(bench, allocation="adaptive")).code == 0
    before, n = lastro("decide", bench.directory, "--json").json["looks"], per_candidate(bench.directory)
    with sqlite3.connect(bench.directory / "campaign.db") as db:
        (text,) = db.execute("SELECT value FROM meta WHERE key = 'looks'").fetchone()
        db.execute("UPDATE meta SET value = ? WHERE key = 'looks'", (json.dumps(json.loads(text)[:-1]),))
    db.close()
    assert lastro("resume", bench.directory, "--no-report").code == 0
    after = lastro("decide", bench.directory, "--json").json["looks"]
    assert [each | {"at_utc": ""} for each in after] == [each | {"at_utc": ""} for each in before]
    assert per_candidate(bench.directory) == n


def test_what_is_repeated_after_the_decision_is_no_new_look(bench: Bench) -> None:
    assert run(bench, study(bench, allocation="adaptive")).code == 0
    before = lastro("decide", bench.directory, "--json").json["looks"]
    with sqlite3.connect(bench.directory / "campaign.db") as db:
        db.execute("UPDATE trial SET state = 'invalid' WHERE number = 1")
    db.close()
    assert lastro("resume", bench.directory, "--invalid", "--no-report").code == 0
    assert lastro("decide", bench.directory, "--json").json["looks"] == before


def test_whole_blocks_until_decided(bench: Bench) -> None:
    done = run(bench, study(bench, sla=SLA.replace("100", "20")), "--until", "decided")
    assert done.code == 0
    n = per_candidate(bench.directory)
    assert len(set(n.values())) == 1 and 2 <= n["slow"] < 12
    found = lastro("decide", bench.directory, "--json").json
    assert found["recommended"] == "slow" and found["looks"][-1]["stop"] == "decided"
    with Store.open(bench.directory, readonly=True) as store:
        assert store.study.changes == ("--until", "decided")
        assert store.study.design.allocation == "equal"


def test_none_holds_is_a_decision_and_the_most_blocks_are_an_end(bench: Bench) -> None:
    assert run(bench, study(bench, sla=SLA.replace("100", "900")), "--until", "decided").code == 0
    found = lastro("decide", bench.directory, "--json").json
    assert found["verdict"] == "none" and found["looks"][-1]["stop"] == "decided"
    other = bench.home / "near"
    file = study(bench, sla=SLA.replace("100", "101"), replicates=3)
    file.write_text(file.read_text().replace(json.dumps(CANDIDATES), '["near"]'))
    assert lastro("run", file, "-o", other, "--no-report", "--until", "decided").code == 0
    found = lastro("decide", other, "--json").json
    assert found["verdict"] == "undecided" and found["looks"][-1]["stop"] == "most blocks"
    assert max(row[1] for row in rows(other)) == 3


def test_no_block_begins_that_would_end_too_late(bench: Bench) -> None:
    file = study(bench, sla=SLA.replace("100", "101"), settings="trial_s = 0.05\n")
    file.write_text(file.read_text().replace(json.dumps(CANDIDATES), '["near", "slow"]'))
    assert run(bench, file, "--until", "decided", "--within", "0.3s").code == 0
    looks = lastro("decide", bench.directory, "--json").json["looks"]
    assert looks[-1]["stop"] == "time" and 2 <= looks[-1]["block"] <= 3
    assert "nothing is left to run" in lastro("resume", bench.directory, "--no-report").out
    assert "another block would exceed the time" in lastro("decide", bench.directory, "--all").out


def test_the_plan_has_the_fewest_and_the_most_blocks(bench: Bench) -> None:
    plan = lastro("plan", study(bench, allocation="adaptive"), "--json").json
    assert (plan["replicates"], plan["most_replicates"], plan["stopping"]) == (2, 12, "decided")
    text = lastro("plan", study(bench, stopping="decided"), "--replicates", "8").out
    assert "until the service levels are decided, 8 blocks at most" in text


@pytest.mark.parametrize(
    ("design", "sla", "words"),
    [
        ({"allocation": "adaptive"}, "", ["design.allocation", "no table [sla]"]),
        ({"stopping": "decided"}, "", ["design.stopping", "no table [sla]"]),
        ({"allocation": "adaptive", "stopping": "sequential"}, SLA, ["design.allocation", "sequential stopping"]),
        ({"allocation": "random"}, SLA, ["design.allocation", "equal"]),
        ({"stopping": "decided", "precision": 0.1}, SLA, ["design.precision", "ends with a decision"]),
    ],
)
def test_a_design_that_cannot_be_decided_is_an_error(
    bench: Bench, design: dict[str, Any], sla: str, words: list[str]
) -> None:
    assert all(word in lastro("plan", study(bench, sla=sla, **design)).err for word in words)


def test_options_that_do_not_belong_together(bench: Bench) -> None:
    is_error(run(bench, study(bench, sla=""), "--until", "decided"), 2, "--until decided needs service levels", "[sla]")
    is_error(run(bench, study(bench), "--within", "30min"), 2, "--within is for --until")
    is_error(run(bench, study(bench), "--until", "decided", "--within", "soon"), 2, "'soon' is not a duration", "30min")
    for text in ("", "0s", "1e400h", "9" * 400 + "h", "٣s"):
        is_error(run(bench, study(bench), "--until", "decided", "--within", text), 2, "is not a duration")
    is_error(lastro("run", "mendes2019", "--until", "decided"), 2, "--until is for one study")
