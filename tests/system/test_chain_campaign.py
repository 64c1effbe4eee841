"""Real campaigns through the real command line: native, runc and docker, on good days and on bad ones."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from lastro import validity
from lastro.app import hosts
from lastro.campaign import runner
from lastro.host.ledger import STATE_DIR
from lastro.host.lock import holder
from lastro.results.store import Store
from lastro.scenarios.base import schemas
from lastro.scenarios.chain import ChainScenario
from lastro.study import design
from lastro.study.load import load

from ..cli.conftest import PYTHON, finish, is_error, lastro, no_stragglers, rows, start, study_text, until
from ..crash.phases import measures, owned
from ..support.hostlisting import idle_host, listing, owned_processes, settled_differences
from ..support.products import one_of
from ..support.scenarios import BUSY, TOLERANT

pytestmark = pytest.mark.root
__all__ = ["no_stragglers"]  # a fixture for every test here

PLATFORMS = ["native", "runc", "docker"]


def chain_text(platforms: list[str], *, replicates: int = 1, **settings: Any) -> str:
    """As short as the instruments allow, and tolerant of colleagues on the same machine."""
    chosen = {
        "attachment": "veth-direct", "function": "none", "settle_s": 0, "tcp_s": 1, "udp_s": 1, "ping_s": 0.5,
        "gap_s": 0, "ping_interval_ms": 20, **TOLERANT, **settings,
    }  # fmt: skip
    text = study_text({"platform": platforms}, scenario="chain", replicates=replicates, **chosen)
    return text.replace("[factors]", 'metrics = ["throughput", "jitter", "latency_mean"]\n[factors]')


def write(directory: Path, text: str) -> Path:
    (directory / "study.toml").write_text(text)
    return directory / "study.toml"


def attempts_of(directory: Path) -> dict[str, list[dict[str, Any]]]:
    """Every attempt as `lastro show --json` tells it, by the trial's platform."""
    found = {}
    for row in rows(directory):
        document = lastro("show", directory, row[0], "--json").json
        found[document["levels"]["platform"]] = document["attempts"]
    return found


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One campaign on three platforms that has run to its end; the host is then what it was."""
    place = tmp_path_factory.mktemp("chain")
    with idle_host():
        before = listing()
    done = lastro("run", write(place, chain_text(PLATFORMS)), "-o", place / "campaign", "--wait", drawn=False)
    assert done.code == 0, done.err
    with idle_host():
        assert settled_differences(before) == []
    return place / "campaign"


def test_every_trial_is_valid_and_measured(campaign: Path) -> None:
    for platform, attempts in attempts_of(campaign).items():
        last = attempts[-1]
        assert last["valid"], (platform, last["reasons"])
        values = last["measurements"]
        assert 100 < values["throughput"] < 1e6, platform  # Mbit/s
        assert 0 <= values["jitter"] < 50 and values["udp_loss"] < 50
        assert 0.001 < values["latency_mean"] <= values["latency_max"] < 1000
        assert values["ping_loss"] < 100 and values["chain_cpus"] > 0 and values["cpu_per_gbit"] > 0
        assert values["function_cpus"] <= values["chain_cpus"] and values["host_cpus"] < 1.1 * (
            os.cpu_count() or 1
        )  # ticks
        assert len(last["series"]["rtt"]["values"]) >= 20 and last["series"]["throughput"]["values"]


def test_witnesses_saw_the_flow_on_every_hop(campaign: Path) -> None:
    for platform, attempts in attempts_of(campaign).items():
        witness = attempts[-1]["notes"]["witness"]
        assert set(witness) == {"iperf3-tcp", "iperf3-udp", "ping"}
        payload_bytes = attempts[-1]["measurements"]["throughput"] * 1e6 / 8
        for hop in ("source.out0", "function.in0", "function.out0", "sink.in0"):
            assert max(witness["iperf3-tcp"][hop].values()) > 0.9 * payload_bytes, (platform, hop)


def test_notes_and_provenance_are_there(campaign: Path) -> None:
    for attempts in attempts_of(campaign).values():
        notes = attempts[-1]["notes"]
        assert {"witness", "usage", "elapsed_s", "host", "residuals"} <= set(notes)
        assert notes["host"]["foreign_cpus"] >= 0
        apparatus = notes["apparatus"]
        assert 2 < apparatus["measured_s"] < notes["elapsed_s"] and 0 <= apparatus["cpus"] < 0.5
        assert set(notes["usage"]) == {"source", "function", "sink"}
        ends = [end for link in notes["topology"]["links"] for end in (link["a"], link["b"])]
        ports = ["source.out0", "function.in0", "function.out0", "sink.in0"]
        assert [f"{end['role']}.{end['port']} {end['kind']}" for end in ends] == [f"{port} veth" for port in ports]
        assert all(used["cpu_s"] >= 0 and used["memory_peak_bytes"] > 0 for used in notes["usage"].values())
    page = (campaign / "report.html").read_text()
    assert "iperf 3" in page and all(platform in page for platform in PLATFORMS)


@pytest.mark.parametrize("platform", one_of(PLATFORMS, "docker"))
def test_a_trial_can_be_repeated_by_hand(campaign: Path, tmp_path: Path, platform: str) -> None:
    """The script of `show --commands`, as a person would run it: it measures, and leaves the host as it was."""
    levels = {lastro("show", campaign, row[0], "--json").json["levels"]["platform"]: row[0] for row in rows(campaign)}
    script = lastro("show", campaign, levels[platform], "--commands")
    assert script.code == 0 and script.out.startswith("#!/bin/sh\n# synthetic: trial ")
    file = tmp_path / "trial.sh"
    file.write_text(script.out)
    assert subprocess.run(["sh", "-n", file]).returncode == 0
    with idle_host():  # so that nobody measures meanwhile
        before = listing()
        # In a session of its own, so that all of it can be ended by its group, and without Lastro's marks.
        process = subprocess.Popen(
            ["sh", file], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            out, err = process.communicate(timeout=90)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        assert settled_differences(before, patience_s=15) == [], err
    reports = [json.loads(text) for text in _json_documents(out) if '"start"' in text[:20]]
    assert len(reports) == 2, (out[:2000], err)
    assert reports[0]["end"]["sum_received"]["bits_per_second"] > 1e8
    assert reports[1]["end"]["sum"]["jitter_ms"] < 50
    assert "packets transmitted" in out and "time=" in out
    assert process.returncode == 0, err


def _json_documents(text: str) -> list[str]:
    """The documents that iperf3 prints: from a line that is { to one that is }."""
    found: list[str] = []
    inside: list[str] | None = None
    for line in text.splitlines():
        if line == "{":
            inside = []
        if inside is not None:
            inside.append(line)
            if line == "}":
                found.append("\n".join(inside))
                inside = None
    return found


# Bad days


BAD_TOOLS = {
    "runc-without-server": ("iperf3",),
    "runc-without-client": ("iperf3",),
    "runc-garbage": ("printed no JSON: 'segmentation vault",),
    "runc-half-json": ("iperf3's report has no end.",),
    "runc-liar": ("the flow took another path",),
    "runc-silent-ping": ("ping printed no summary",),
    "runc-dying": ("exited with", "did not", "closed unexpectedly", "iperf3 failed"),
}


@pytest.mark.parametrize(
    "bad",
    [
        ("runc-garbage", "runc-liar"),
        pytest.param([name for name in BAD_TOOLS if name not in ("runc-garbage", "runc-liar")], marks=pytest.mark.slow),
    ],
    ids="+".join,
)
def test_tools_that_are_missing_or_print_nonsense(tmp_path: Path, bad: Sequence[str]) -> None:
    """Real containers whose iperf3 is gone, broken or lying: each trial is invalid for its reason, the others go on."""
    reasons = {name: BAD_TOOLS[name] for name in bad}
    directory = tmp_path / "campaign"
    done = lastro("run", write(tmp_path, chain_text(["runc", *reasons])), "-o", directory, "--wait", "--no-report")
    assert done.code == 0, done.err
    found = attempts_of(directory)
    assert found.pop("runc")[-1]["valid"]
    for platform, words in reasons.items():
        attempts = found[platform]
        assert [attempt["valid"] for attempt in attempts] == [False] * 3, platform
        for attempt in attempts:
            assert any(word in attempt["reasons"][0] for word in words), (platform, attempt["reasons"])
            assert "Traceback" not in str(attempt["reasons"])
    table = lastro("results", directory)
    assert table.code == 0 and ("segmentation vault" in table.out) is ("runc-garbage" in bad)


@pytest.mark.parametrize(
    ("platform", "daemon"),
    [
        ("docker", "dockerd"),
        pytest.param("docker", "containerd", marks=pytest.mark.slow),
        pytest.param("lxd", "lxd", marks=pytest.mark.slow),
    ],
)
def test_a_daemon_of_a_platform_is_killed_in_mid_trial(tmp_path: Path, platform: str, daemon: str) -> None:
    """In two trials: each is invalid for a reason that names it, is repeated with a new daemon, and all of them end.

    A new daemon may still be busy with its own start when the trial is repeated. dockerd starts a new containerd by
    itself, without a word."""
    directory = tmp_path / "campaign"
    with idle_host():
        before = listing()
    study = write(tmp_path, chain_text([platform], replicates=2, tcp_s=2))
    process = start("run", study, "-o", directory, "--wait", "--no-report")
    killed: dict[int, int] = {}  # {trial: daemon}
    deadline = time.monotonic() + 150
    while process.poll() is None and len(killed) < 2 and time.monotonic() < deadline:
        trial, pid = _daemon_in_trial(directory, platform, daemon) or (0, 0)
        if pid and trial not in killed and measures(owned(process.pid)[0]):
            time.sleep(0.5)
            os.kill(pid, signal.SIGKILL)
            killed[trial] = pid
        time.sleep(0.05)
    done = finish(process)
    assert done.code == 0, done.err
    assert len(killed) == 2
    everything = [
        attempt for row in rows(directory) for attempt in lastro("show", directory, row[0], "--json").json["attempts"]
    ]
    invalid = [attempt for attempt in everything if not attempt["valid"]]
    ended = [attempt for attempt in invalid if f"{daemon} ended while its containers ran" in attempt["reasons"]]
    assert (daemon != "containerd") < len(ended) <= 2, [attempt["reasons"] for attempt in invalid]
    for attempt in invalid:  # the rest is of a busy machine
        assert attempt in ended or any(word in attempt["reasons"][0] for word in (*BUSY, "the apparatus was in"))
    assert all(row[3] == "valid" for row in rows(directory)), done.err
    with idle_host():
        assert settled_differences(before) == []


def _daemon_in_trial(directory: Path, platform: str, daemon: str) -> tuple[int, int] | None:
    """The number of the trial on the platform that is in flight, and the process of our daemon."""
    if not (directory / "campaign.db").exists():
        return None
    with closing(sqlite3.connect(directory / "campaign.db", timeout=10)) as db:
        running = "SELECT number, levels FROM treatment JOIN trial ON treatment = idx WHERE state = 'running'"
        trial = next((at for at, levels in db.execute(running) if json.loads(levels)["platform"] == platform), None)
    if trial is None:
        return None
    for pid in owned_processes():
        with suppress(OSError):  # it may have ended since
            name, argv = (Path(f"/proc/{pid}/{file}").read_text() for file in ("comm", "cmdline"))
            if name.strip() == daemon and (daemon != "lxd" or "--group" in argv):  # LXD has helpers of its own name
                return trial, pid
    return None


def test_the_clock_is_set_in_mid_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the first attempt the wall clock, as Lastro reads it, goes ahead by an hour; the second attempt is sound."""
    real, readings = validity.ClockReading.now, []

    def reading() -> validity.ClockReading:
        now = real()
        readings.append(now)
        return validity.ClockReading(now.monotonic_s, now.realtime_s + (3600 if len(readings) >= 2 else 0))

    monkeypatch.setattr(validity.ClockReading, "now", staticmethod(reading))
    study = load(write(tmp_path, chain_text(["native"])), schemas())
    treatments = design.treatments(study)
    with (
        hosts.testbed("tests", wait=True) as bed,
        closing(ChainScenario(bed)) as scenario,
        Store.create(tmp_path / "campaign", study, treatments, design.trials(study, 1), {}) as store,
    ):
        runner.run(store, scenario, _Silent())
        attempts = store.attempts()
    assert [attempt.valid for attempt in attempts] == [False, True]
    assert attempts[0].reasons == ("the host's clock jumped by +3600.00 s",)


class _Silent:
    """An observer that says nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **options: None


# Two at once


def test_the_second_campaign_is_refused_or_waits(tmp_path: Path) -> None:
    study = write(tmp_path, chain_text(["native"]))
    first = start("run", study, "-o", tmp_path / "first", "--wait", "--no-report")
    until(lambda: (held := holder(STATE_DIR)) and held.pid == first.pid, "the first to hold the host", 300)
    busy = f"in use by campaign {tmp_path / 'first'} (process {first.pid}, since "
    for words in (["run", study, "-o", tmp_path / "second"], ["doctor"]):
        is_error(lastro(*words), 6, busy, "--wait")
    assert not (tmp_path / "second").exists()
    plan = lastro("plan", study)
    assert plan.code == 0 and f"availability was not probed: this host is {busy}" in plan.out
    waiting = start("run", study, "-o", tmp_path / "third", "--wait", "--no-report")
    time.sleep(0.5)
    assert waiting.poll() is None and first.poll() is None
    assert finish(first).code == 0
    waited = finish(waiting)
    assert waited.code == 0
    assert f"waiting for campaign {tmp_path / 'first'} (process {first.pid}, since " in waited.err
    assert rows(tmp_path / "third")[0][3] == "valid"


def test_a_waiting_campaign_can_be_interrupted(tmp_path: Path) -> None:
    study = write(tmp_path, chain_text(["native"]))
    with open(STATE_DIR / "lock", "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        waiting = start("run", study, "-o", tmp_path / "campaign", "--wait", program=PYTHON)
        assert waiting.stderr is not None and "waiting for " in waiting.stderr.readline()
        waiting.send_signal(signal.SIGINT)
        assert finish(waiting, 20).code == 130
    assert not (tmp_path / "campaign").exists()


def test_an_interruption_leaves_nothing_on_the_host(tmp_path: Path) -> None:
    """Ctrl-C in the middle of a trial on docker; the second one comes while it cleans up."""
    with idle_host():
        before = listing()
    process = start("run", write(tmp_path, chain_text(["docker"], tcp_s=5)), "-o", tmp_path / "campaign", "--wait")
    until(lambda: (tmp_path / "campaign" / "campaign.db").exists(), "the campaign", 300)
    until(lambda: rows(tmp_path / "campaign")[0][3] == "running", "the trial", 60)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    done = finish(process, 60)
    assert done.code == 130 and f"lastro resume {tmp_path / 'campaign'}" in done.err
    with idle_host():
        assert settled_differences(before) == []
    assert "nothing was left behind" in lastro("clean", "--wait").out
