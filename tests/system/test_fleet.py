"""A campaign on several hosts that are reached by real sshds, and what it loses when one of them is lost: nothing."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from lastro.host.ledger import STATE_DIR
from lastro.results.rows import Attempt
from lastro.results.store import Store

from ..cli.conftest import finish, lastro, n_done, rows, start, study_text, until
from ..support.fleethosts import FleetHost, again_text, fleet_text
from ..support.scenarios import TOLERANT

pytestmark = pytest.mark.root
Attempts = dict[tuple[int, int], Attempt]


def write(place: Path, hosts: list[FleetHost], *, replicates: int, settle_s: float = 0.0) -> list[str]:
    """Write a study of short trials and a fleet file; return the words that run it."""
    place.mkdir(exist_ok=True)
    text = study_text(
        {"platform": ["native"], "attachment": ["veth-bridge", "veth-direct"]}, scenario="lifecycle",
        replicates=replicates, instances=1, settle_s=settle_s, **TOLERANT,
    )  # fmt: skip
    (place / "study.toml").write_text(text)
    (place / "fleet.toml").write_text(fleet_text(hosts))
    words = (place / "study.toml", "--fleet", place / "fleet.toml", "-o", place / "campaign", "--no-report")
    return [str(word) for word in words]


def attempts_of(campaign: Path) -> list[Attempt]:
    with Store.open(campaign, readonly=True) as store:
        return store.attempts()


def workers(parent: int | None = None) -> list[int]:
    """The processes that hold a testbed: for a coordinator, or for any, also for one that was killed."""
    of = [] if parent is None else ["-P", str(parent)]
    found = subprocess.run(
        ["pgrep", *of, "-f", "lastro.app.testbed_worker"], capture_output=True, text=True, check=False
    )
    return [int(pid) for pid in found.stdout.split()]


def is_whole(campaign: Path) -> bool:
    """Whether every trial is valid, and every block was measured on one testbed."""
    beds: dict[int, set[str]] = {}
    for attempt in attempts_of(campaign):
        if attempt.valid:
            beds.setdefault(attempt.block, set()).add(attempt.testbed)
    return {row[3] for row in rows(campaign)} == {"valid"} and all(len(names) == 1 for names in beds.values())


def sessions_of(pid: int) -> list[str]:
    """The sessions of a process that this machine's ledger has; also of one that has ended without cleaning up."""
    with closing(sqlite3.connect(STATE_DIR / "ledger.db")) as ledger:
        return [token for (token,) in ledger.execute("SELECT token FROM session WHERE pid = ?", [pid])]


def test_blocks_are_divided_among_hosts_and_nothing_is_left(four_hosts: list[FleetHost], tmp_path: Path) -> None:
    done = lastro("run", *write(tmp_path, four_hosts[:2], replicates=2))
    assert done.code == 0, done.err
    attempts = attempts_of(tmp_path / "campaign")
    assert {attempt.testbed for attempt in attempts} == {"ada", "bea"} and is_whole(tmp_path / "campaign")
    assert [host.left() for host in four_hosts] == [[]] * 4


def test_a_fleet_runs_until_its_decision(four_hosts: list[FleetHost], tmp_path: Path) -> None:
    words = write(tmp_path, four_hosts[:2], replicates=6)
    with open(tmp_path / "study.toml", "a") as file:
        file.write('[sla]\nstart = "< 60 s"\n')
    done = lastro("run", *words, "--until", "decided")
    assert done.code == 0, done.err
    found = lastro("decide", tmp_path / "campaign", "--json").json
    looks = found["looks"]
    assert found["verdict"] == "recommended" and looks[-1]["stop"] == "decided" and looks[-1]["block"] < 6
    attempts = attempts_of(tmp_path / "campaign")
    assert {attempt.testbed for attempt in attempts} == {"ada", "bea"} and is_whole(tmp_path / "campaign")
    assert [host.left() for host in four_hosts] == [[]] * 4


def test_a_host_with_two_names_measures_under_one(four_hosts: list[FleetHost], tmp_path: Path) -> None:
    words = write(tmp_path, four_hosts[:2], replicates=8)
    with open(tmp_path / "fleet.toml", "a") as file:
        file.write(again_text(four_hosts[0], tmp_path))
    done = lastro("run", *words)
    assert done.code == 0, done.err
    assert {attempt.testbed for attempt in attempts_of(tmp_path / "campaign")} in ({"ada", "bea"}, {"again", "bea"})
    assert is_whole(tmp_path / "campaign") and [host.left() for host in four_hosts] == [[]] * 4
    assert any(said in done.err for said in ("uses the same host as testbed", " is in use by campaign "))


@pytest.mark.slow
def test_killed_and_stopped_workers_are_replaced_and_leave_nothing(four_hosts: list[FleetHost], tmp_path: Path) -> None:
    """A stopped one holds its host and its link; only its signs of life are missing, for a minute."""
    process = start("run", *write(tmp_path, four_hosts[:2], replicates=60, settle_s=0.5))
    until(lambda: n_done(tmp_path / "campaign") >= 4, "trials", 120)
    killed, stopped = workers()
    assert sessions_of(killed) and sessions_of(stopped)
    os.kill(killed, signal.SIGKILL)
    os.kill(stopped, signal.SIGSTOP)
    for pid in killed, stopped:
        until(lambda: not sessions_of(pid), "what it left to be removed, while the campaign goes on", 150)  # noqa: B023
    assert process.poll() is None
    done = finish(process, 400)
    assert done.code == 0, done.err
    for said in ("ended with -9", "gave no sign of life for "):
        assert f" is lost: the process that held the testbed {said}" in done.err
    assert done.err.count(" is back") == 2 and is_whole(tmp_path / "campaign")
    assert [host.left() for host in four_hosts] == [[]] * 4


@pytest.mark.slow
def test_a_host_that_loses_power_and_one_that_loses_its_network_come_back(
    four_hosts: list[FleetHost], tmp_path: Path
) -> None:
    campaign = tmp_path / "campaign"
    process = start("run", *write(tmp_path, four_hosts, replicates=24, settle_s=0.5))
    until(lambda: n_done(campaign) >= 4, "four trials", 120)
    before = {(each.trial, each.attempt): each for each in attempts_of(campaign) if each.valid}
    four_hosts[0].lose_power()
    four_hosts[1].unplug()
    time.sleep(25)  # three unanswered probes of ssh take 15 s
    four_hosts[0].start()
    four_hosts[1].plug()
    done = finish(process, 300)
    assert done.code == 0, done.err
    assert "ada: is lost: " in done.err and "ada: is back" in done.err
    after = {(each.trial, each.attempt): each for each in attempts_of(campaign)}
    assert before.items() <= after.items() and is_whole(campaign)
    assert [host.left() for host in four_hosts] == [[]] * 4


def moved_blocks(campaign: Path) -> set[int]:
    """The blocks that began again on another testbed: their trials before it were set aside."""
    with Store.open(campaign, readonly=True) as store:
        return {int(text.split()[1]) for _, kind, text in store.events() if kind == "moved"}


def kept(attempts: Attempts, moved: set[int]) -> dict[tuple[int, int], tuple[bool, dict[str, float]]]:
    """What must remain of attempts: their measurements, and whether they are valid, except in blocks that moved."""
    return {key: (each.valid or each.block in moved, each.measurements) for key, each in attempts.items()}


def interrupted(host: FleetHost, off: Callable[[FleetHost], None], on: Callable[[FleetHost], None], s: float) -> None:
    off(host)
    time.sleep(s)
    on(host)


@pytest.mark.slow
def test_a_storm_over_coordinator_workers_links_and_hosts_loses_nothing(
    four_hosts: list[FleetHost], tmp_path: Path
) -> None:
    seed = int(os.environ.get("LASTRO_CRASH_SEED") or random.SystemRandom().randrange(10**6))
    print(f"LASTRO_CRASH_SEED={seed}")
    chance, kinds, number = random.Random(seed), Counter[str](), 0
    seen: Attempts = {}
    while kinds.total() < 40:
        number, seen = number + 1, {}
        words = write(place := tmp_path / f"{number}", four_hosts, replicates=40, settle_s=0.5)
        campaign = place / "campaign"
        process = start("run", *words)
        until(lambda: n_done(campaign) >= 1 or process.poll() is not None, "a trial", 300)  # noqa: B023
        while kinds.total() < 40 and process.poll() is None:
            kind, host = chance.choice(["coordinator", "worker", "link", "sshd", "power"]), chance.choice(four_hosts)
            if kind == "coordinator":
                if (held := workers(process.pid)) and chance.random() < 0.5:
                    os.kill(chance.choice(held), signal.SIGSTOP)  # it must end, too: the kernel continues it
                process.kill()
                process.communicate()
                process = start("resume", campaign, "--no-report")
            elif kind == "worker":
                if not (held := workers()):
                    continue  # nobody is hit
                os.kill(chance.choice(held), signal.SIGKILL)
            elif kind == "link":
                interrupted(host, FleetHost.unplug, FleetHost.plug, chance.choice((0.5, 3.0, 20.0)))
            elif kind == "sshd":
                interrupted(host, FleetHost.kill_sshd, FleetHost.start, chance.uniform(0, 2))
            elif kind == "power":
                interrupted(host, FleetHost.lose_power, FleetHost.start, chance.uniform(0, 5))
            kinds[kind] += 1
            time.sleep(chance.uniform(0, 3))
            found = {(each.trial, each.attempt): each for each in attempts_of(campaign)}
            assert kept(seen, moved := moved_blocks(campaign)).items() <= kept(found, moved).items()
            seen = found
        done = finish(process, 600)
        assert done.code == 0, done.err
        assert is_whole(campaign)
    print(f"{number} campaigns: {dict(kinds)}")
    until(lambda: not workers(), "the workers to end")
    assert [host.left() for host in four_hosts] == [[]] * 4
