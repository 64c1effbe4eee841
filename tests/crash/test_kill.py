"""Lastro is killed at random moments of real campaigns, again and again. In the end every trial is there once, and the
host is what it was before the first.

The moments are drawn from a seed that the test prints; LASTRO_CRASH_SEED repeats a run as far as timing can be."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lastro.host.ledger import STATE_DIR, Ledger
from lastro.host.lock import Holder, holder

from ..cli.conftest import lastro, no_stragglers, rows, schedule, start, study_text, until
from ..hostlisting import Listing, idle_host, listing, settled_differences
from ..scenarios import SHORT, TOLERANT

pytestmark = pytest.mark.root
__all__ = ["no_stragglers"]  # a fixture for every test here

WAIT_FOR_THE_HOST_S = 300
CLEAN_EVERY = 8  # kills, after which `lastro clean` alone must make the host what it was


ANOMALIES = {"chain": ["none", "cpu"], "proxy": ["none", "cpu"]}


def study(scenario: str, platforms: list[str], replicates: int, seed: int) -> str:
    factors = {"platform": platforms}
    if anomalies := ANOMALIES.get(scenario):
        factors["anomaly"] = anomalies
    return study_text(factors, scenario=scenario, replicates=replicates, seed=seed, **SHORT[scenario], **TOLERANT)


def pid_of(process: Holder | None) -> int | None:
    return process.pid if process else None


@dataclass
class Crasher:
    """Runs one campaign to its end through kills. `before` is the host as it was."""

    home: Path
    text: str
    chance: random.Random
    before: Listing
    longest_s: float  # a process is killed at the latest this long after it has got hold of the host
    kills: int = 0
    phases: Counter[str] = field(default_factory=Counter)
    waited_s: float = 0.0  # for others on this host

    @property
    def directory(self) -> Path:
        return self.home / "campaign"

    @property
    def planned(self) -> list[tuple[int, int, int]]:
        plan = lastro("plan", self.home / "study.toml", "--no-probe", "--schedule", "--json").json
        index = {treatment["id"]: position for position, treatment in enumerate(plan["treatments"])}
        return [(trial["trial"], trial["block"], index[trial["treatment"]]) for trial in plan["schedule"]]

    def run(self, at_least: int) -> None:
        """Kill until there have been enough kills, or the campaign has come to its end."""
        (self.home / "study.toml").write_text(self.text)
        planned = self.planned
        while self.kills < at_least:
            if self.once() == 0:
                break
            if (self.directory / "campaign.db").exists():
                assert schedule(self.directory) == planned
            if self.kills % CLEAN_EVERY == CLEAN_EVERY - 1:
                self.clean()
        self.to_the_end()
        assert schedule(self.directory) == planned
        for number, _, _, state, attempts in rows(self.directory):
            assert state in ("valid", "invalid") and 1 <= attempts <= 3, number

    def words(self) -> tuple[object, ...]:
        common = ("--wait", "--no-report")
        if (self.directory / "campaign.db").exists():
            return ("resume", self.directory, *common)
        return ("run", self.home / "study.toml", "-o", self.directory, *common)

    def once(self) -> int:
        """One process and its end; 0 when it had come to it by itself."""
        process = start(*self.words())
        if self.kills % 10 == 4:  # before it has said a word, which chance alone may leave out
            self.end(process, signal.SIGKILL, self.chance.uniform(0, 0.1))
            return process.returncode
        number = signal.SIGINT if self.chance.random() < 0.2 else signal.SIGKILL
        # A few may be killed before they hold the host; for Ctrl-C that would be Python's own start, and not ours.
        if number == signal.SIGINT or self.chance.random() < 0.9:
            self.wait_for_the_host(process)
        killed = self.end(process, number)
        if not killed or number == signal.SIGKILL:
            assert process.returncode == (-signal.SIGKILL if killed else 0)
        else:
            assert process.returncode == 130
            self.must_be_clean("after SIGINT")
        return process.returncode

    def end(self, process: subprocess.Popen[str], number: signal.Signals, after_s: float | None = None) -> bool:
        """Let it live for a while, a random one unless it is given, and send a signal; whether it was still alive."""
        try:
            early = self.chance.random() < 0.3  # so much happens in the first second
            process.wait(self.chance.uniform(0, 1.0 if early else self.longest_s) if after_s is None else after_s)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
        _, err = process.communicate(timeout=90)
        assert "Traceback" not in err and "defect" not in err, err
        if process.returncode == 0:
            return False
        self.kills += 1
        lines = [line for line in err.splitlines() if line.strip() and not line.startswith(("cleaning", "lastro:"))]
        if not lines:
            self.phases["start"] += 1
        elif any(line.startswith("[") for line in lines):
            self.phases["trials and the end"] += 1
        else:
            self.phases["probes, first trial"] += 1
        if not self.phases["trials and the end"]:  # not even the longest lives were long enough, on a busy machine
            self.longest_s *= 1.1
        return True

    def wait_for_the_host(self, process: subprocess.Popen[str]) -> None:
        began_s = time.monotonic()
        until(
            lambda: pid_of(holder(STATE_DIR)) == process.pid or process.poll() is not None,
            "its turn on the host",
            WAIT_FOR_THE_HOST_S,
        )
        self.waited_s += time.monotonic() - began_s

    def clean(self) -> None:
        """A kill, and then `lastro clean` rather than another run."""
        process = start(*self.words())
        self.wait_for_the_host(process)
        self.end(process, signal.SIGKILL)
        began_s = time.monotonic()
        done = lastro("clean", "--wait")
        self.waited_s += time.monotonic() - began_s
        assert done.code == 0, done
        self.must_be_clean("after lastro clean")

    def must_be_clean(self, when: str) -> None:
        began_s = time.monotonic()
        with idle_host(), closing(Ledger()) as ledger:
            self.waited_s += time.monotonic() - began_s
            for token in ledger.dead_sessions():
                (purpose,) = ledger._db.execute("SELECT purpose FROM session WHERE token = ?", (token,)).fetchone()
                assert str(self.home) not in purpose, f"{when}: the ledger still lists our session {token}"
            ledger.clean()  # what other tests on this machine were killed with
            assert settled_differences(self.before, patience_s=30) == [], when

    def to_the_end(self) -> None:
        for _ in range(3):
            process = start(*self.words())
            self.wait_for_the_host(process)
            _, err = process.communicate(timeout=WAIT_FOR_THE_HOST_S)
            assert process.returncode == 0, err
            self.must_be_clean("after the end")
            if not any(row[3] in ("pending", "running") for row in rows(self.directory)):
                return
        pytest.fail("a campaign that was left alone came to no end")


@pytest.fixture(scope="module")
def seed() -> int:
    chosen = int(os.environ.get("LASTRO_CRASH_SEED") or random.SystemRandom().randrange(10**6))
    print(f"LASTRO_CRASH_SEED={chosen}")
    return chosen


@pytest.fixture
def before() -> Listing:
    with idle_host(), closing(Ledger()) as ledger:
        ledger.clean()  # what an earlier crash left is none of ours
        return listing()


def crash(
    tmp_path: Path,
    before: Listing,
    seed: int,
    platforms: list[str],
    kills: int,
    longest_s: float,
    scenario: str = "chain",
    replicates: int = 2,
) -> None:
    """As many campaigns as it takes to be killed that often."""
    done, waited_s, began_s, phases = 0, 0.0, time.monotonic(), Counter[str]()
    for number in range(1, 20):
        home = tmp_path / str(number)
        home.mkdir()
        text = study(scenario, platforms, replicates, seed)
        crasher = Crasher(home, text, random.Random(seed + number), before, longest_s)
        crasher.run(kills - done)
        done += crasher.kills
        phases += crasher.phases
        waited_s += crasher.waited_s
        if done >= kills:
            break
    took_s = time.monotonic() - began_s
    print(f"{done} kills in {number} campaigns of {scenario} on {', '.join(platforms)}")
    print(f"{took_s:.0f} s, {waited_s:.0f} s of them waiting for the host")
    print(f"killed in: {dict(phases)}")
    assert done >= kills
    assert len(phases) == 3 or done < 20, "a campaign's whole life was hit"


@pytest.mark.parametrize("kills", [5, pytest.param(40, marks=pytest.mark.slow)])
def test_killed_on_native_and_runc(tmp_path: Path, before: Listing, seed: int, kills: int) -> None:
    crash(tmp_path, before, seed, ["native", "runc"], kills=kills, longest_s=7.0)


@pytest.mark.slow
def test_killed_on_docker(tmp_path: Path, before: Listing, seed: int) -> None:
    crash(tmp_path, before, seed, ["docker"], kills=8, longest_s=9.0)


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "platform", "longest_s"), [("routing", "native", 15.0), ("proxy", "runc", 8.0)])
def test_killed_in_the_other_scenarios_that_make_networks(
    tmp_path: Path, before: Listing, seed: int, scenario: str, platform: str, longest_s: float
) -> None:
    """Daemons of routers, captures and flows; proxies, a server, and translation in the DUT's namespace."""
    crash(tmp_path, before, seed, [platform], kills=3, longest_s=longest_s, scenario=scenario, replicates=1)
