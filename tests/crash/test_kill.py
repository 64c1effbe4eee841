"""Lastro is killed in every phase of real campaigns, again and again. In the end every trial is there once, and the
host is what it was before the first.

The phases are drawn evenly, and a moment in each; a kill counts for the phase in which the process really was. All is
drawn from a seed that the test prints; LASTRO_CRASH_SEED repeats a run as far as timing can be."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lastro.host.ledger import Ledger

from ..cli.conftest import finish, lastro, no_stragglers, rows, schedule, start, study_text
from ..cli.forking import Forked
from ..support.hostlisting import Listing, idle_host, listing, settled_differences
from ..support.scenarios import SHORT, TOLERANT
from .phases import (
    BUILDING,
    CALIBRATING,
    END,
    MEASURING,
    OF_A_TRIAL,
    PHASES,
    PROBING,
    START,
    TAKING,
    TEARING,
    Watch,
    progress,
)

pytestmark = pytest.mark.root
__all__ = ["no_stragglers"]  # a fixture for every test here

WAIT_S = 300  # for others on this host
CLEAN_EVERY = 4  # processes, after which `lastro clean` alone must make the host what it was
LASTS_S = {
    START: 0.1, TAKING: 2.0, PROBING: 1.2, CALIBRATING: 2.0, BUILDING: 0.3, MEASURING: 1.8, TEARING: 0.3, END: 0.5,
}  # fmt: skip
LATER = 0.2  # of the trials in which it is killed: the second of their process
BATCH = 100  # kills
LEAST_SHARE = 0.04  # of the kills of a batch in each phase
EARLY = 3  # of its wishes: in these, a campaign still lacks calibrations

FACTORS: dict[str, dict[str, list[str]]] = {
    "chain": {"anomaly": ["none", "cpu"]}, "proxy": {"anomaly": ["none", "cpu"]}, "routing": {},
}  # fmt: skip
# Routing has no calibrations. The load of proxies does not run in an instance, so its beginning is not seen.
NEVER = {"chain": set[str](), "proxy": {MEASURING, TEARING}, "routing": {CALIBRATING}}
SETTINGS = {"chain": {"function": "firewall", "udp_s": 0}}


def study(scenario: str, platforms: list[str], replicates: int, seed: int) -> str:
    factors = {"platform": platforms, **FACTORS[scenario]}
    settings = {**SHORT[scenario], **SETTINGS.get(scenario, {}), **TOLERANT}
    return study_text(factors, scenario=scenario, replicates=replicates, seed=seed, **settings)


def drawn_wishes(chance: random.Random, scenario: str, kills: int) -> list[str]:
    """The phases in which to kill one campaign: each once or twice, or some of them.

    It calibrates early or never again, and its end is the last."""
    often = 2 if kills >= 2 * len(PHASES) else 1
    wishes = [phase for phase in PHASES if phase not in NEVER[scenario] | {CALIBRATING, END}] * often
    chance.shuffle(wishes)
    if CALIBRATING not in NEVER[scenario]:
        for _ in range(often):
            wishes.insert(chance.randrange(EARLY), CALIBRATING)
    wishes += [END] * often
    chosen = sorted(chance.sample(range(len(wishes)), min(kills, len(wishes))))
    return [wishes[at] for at in chosen]


@dataclass
class Crasher:
    """Runs one campaign to its end through kills. `before` is the host as it was."""

    home: Path
    text: str
    chance: random.Random
    before: Listing
    phases: Counter[str] = field(default_factory=Counter)

    @property
    def directory(self) -> Path:
        return self.home / "campaign"

    @property
    def planned(self) -> list[tuple[int, int, int]]:
        plan = lastro("plan", self.home / "study.toml", "--no-probe", "--schedule", "--json").json
        index = {treatment["id"]: position for position, treatment in enumerate(plan["treatments"])}
        return [(trial["trial"], trial["block"], index[trial["treatment"]]) for trial in plan["schedule"]]

    def run(self, wishes: Sequence[str]) -> None:
        (self.home / "study.toml").write_text(self.text)
        planned = self.planned
        for number, wish in enumerate(wishes, start=1):
            if wish != END and progress(self.directory)[0] == 0:
                continue  # it came to its end early, and has no such phase any more
            self.once(wish)
            if self.begun:
                assert schedule(self.directory) == planned
            if number % CLEAN_EVERY == 0:
                done = lastro("clean", "--wait")
                assert done.code == 0, done
                self.must_be_clean("after lastro clean")
        self.to_the_end()
        assert schedule(self.directory) == planned
        for number, _, _, state, attempts in rows(self.directory):
            assert state in ("valid", "invalid") and 1 <= attempts <= 3, number

    @property
    def begun(self) -> bool:
        return (self.directory / "campaign.db").exists()

    def start(self) -> Forked:
        words = ("resume", self.directory) if self.begun else ("run", self.home / "study.toml", "-o", self.directory)
        process = start(*words, "--wait", drawn=False)
        assert isinstance(process, Forked)
        return process

    def once(self, wish: str) -> None:
        """One process, and its end by a signal, unless it comes to its own end first."""
        calibrated, process = progress(self.directory)[1], self.start()
        watch = Watch(process, self.directory, calibrated)
        found = watch.follow(WAIT_S, wish, after=wish in OF_A_TRIAL and self.chance.random() < LATER)
        seen = watch.follow(self.chance.uniform(0, LASTS_S[found])) if found else ""
        # Ctrl-C in the first moment would be Python's own start, and not ours.
        number = signal.SIGINT if wish != START and self.chance.random() < 0.2 else signal.SIGKILL
        process.send_signal(number)
        done = finish(process, 90)
        assert "defect" not in done.err, done.err
        if done.code == 0:
            assert seen in (END, ""), done
            return
        assert done.code == (130 if number == signal.SIGINT else -signal.SIGKILL), done
        self.phases[seen] += 1
        if number == signal.SIGINT:
            self.must_be_clean("after SIGINT")

    def must_be_clean(self, when: str) -> None:
        with idle_host(), closing(Ledger()) as ledger:
            for token in ledger.dead_sessions():
                (purpose,) = ledger._db.execute("SELECT purpose FROM session WHERE token = ?", (token,)).fetchone()
                assert str(self.home) not in purpose, f"{when}: the ledger still lists our session {token}"
            ledger.clean()  # what other tests on this machine were killed with
            assert settled_differences(self.before, patience_s=30) == [], when

    def to_the_end(self) -> None:
        for _ in range(3):
            done = finish(self.start(), WAIT_S)
            assert done.code == 0, done.err
            self.must_be_clean("after the end")
            if progress(self.directory)[0] == 0:
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
    scenario: str = "chain",
    replicates: int = 2,
) -> Counter[str]:
    """As many campaigns as it takes to be killed that often; returns the phases in which they were."""
    phases, began_s = Counter[str](), time.monotonic()
    for number in range(2 * kills):
        chance, home = random.Random(f"{seed} {number}"), tmp_path / str(number)
        home.mkdir()
        crasher = Crasher(home, study(scenario, platforms, replicates, seed), chance, before)
        crasher.run(drawn_wishes(chance, scenario, kills - phases.total()))
        phases += crasher.phases
        if phases.total() >= kills:
            break
    took_s = time.monotonic() - began_s
    print(f"{phases.total()} kills in {number + 1} campaigns of {scenario} on {', '.join(platforms)}: {dict(phases)}")
    print(f"{took_s:.0f} s, {took_s / kills:.1f} s for each")
    assert phases.total() >= kills
    return phases


def test_killed_in_some_phases(tmp_path: Path, before: Listing, seed: int) -> None:
    crash(tmp_path, before, seed, ["native", "runc"], 5, replicates=1)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(10))
def test_killed_in_every_phase(tmp_path: Path, before: Listing, seed: int, batch: int) -> None:
    phases = crash(tmp_path, before, seed + batch, ["native", "runc"], BATCH)
    assert all(phases[phase] >= LEAST_SHARE * phases.total() for phase in PHASES), phases


@pytest.mark.slow
def test_killed_on_docker(tmp_path: Path, before: Listing, seed: int) -> None:
    crash(tmp_path, before, seed, ["docker"], 8)


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "platform"), [("routing", "native"), ("proxy", "runc")])
def test_killed_in_the_other_scenarios_that_make_networks(
    tmp_path: Path, before: Listing, seed: int, scenario: str, platform: str
) -> None:
    """Daemons of routers, captures and flows; proxies, a server, and translation in the DUT's namespace."""
    crash(tmp_path, before, seed, [platform], 3, scenario, replicates=1)
