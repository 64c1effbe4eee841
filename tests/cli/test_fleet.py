"""Campaigns on several testbeds by the command line: real processes for the testbeds, on a scenario without a host."""

from __future__ import annotations

import math
import os
import pickle
import re
import signal
import socket
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from lastro.app.studies import load_study
from lastro.campaign import testbed_worker
from lastro.campaign.executor import AttemptCall, CalibrateCall, ProbeCall
from lastro.campaign.testbed_worker import PROGRAM, TestbedOrder
from lastro.campaign.worker_pool import LocalWorkerPool
from lastro.errors import HostError
from lastro.instruments.pts import Pts
from lastro.results.store import Store
from lastro.scenarios.base import scenario_of
from lastro.scenarios.compute import ComputeScenario
from lastro.study.design import treatments

from .conftest import ENVIRONMENT, Bench, finish, interrupt, is_error, lastro, n_done, rows, start, until

FLEET = "".join(f'[testbeds.{name}]\naddress = "192.0.2.{n}"\n' for n, name in enumerate(("ada", "bea"), 1))


@pytest.fixture
def words(bench: Bench) -> list[str]:
    """What runs a study on two testbeds, with trials of a tenth of a second."""
    (bench.home / "fleet.toml").write_text(FLEET)
    study = bench.write({"level": ["a", "b"]}, replicates=6, trial_s=0.1, baseline={"level": "a"})
    return [str(study), "--fleet", str(bench.home / "fleet.toml"), "-o", str(bench.directory), "--no-report"]


def workers(parent: int) -> list[int]:
    """The processes that hold a testbed for a campaign."""
    found = subprocess.run(
        ["pgrep", "-P", str(parent), "-f", "lastro.app.testbed_worker"], capture_output=True, text=True
    )
    return [int(pid) for pid in found.stdout.split()]


def test_a_campaign_is_divided_among_testbeds_and_its_views_name_them(bench: Bench, words: list[str]) -> None:
    done = lastro("run", *words)
    assert done.code == 0, done.err
    assert "The numbers are of 2 testbeds: " in done.out and " valid trials)" in done.out
    assert "WARNING" not in done.out, "the testbeds are alike"
    assert any(line.startswith("[12/12] ") for line in done.err.splitlines())
    with Store.open(bench.directory, readonly=True) as store:
        beds = {attempt.block: attempt.testbed for attempt in store.attempts()}
        assert len(store.attempts()) == 12
    assert set(beds.values()) == {"ada", "bea"}
    shown = lastro("show", bench.directory, 1)
    assert f"testbed {beds[1]}" in shown.out
    csv = lastro("results", bench.directory, "--csv", "-").out.splitlines()
    at = csv[0].split(",").index("testbed")
    assert {line.split(",")[at] for line in csv[1:]} == {"ada", "bea"}
    found = lastro("results", bench.directory, "--json").json
    assert {bed["name"]: len(bed["blocks"]) for bed in found["testbeds"]} == Counter(beds.values())
    status = lastro("status", bench.directory, "--json").json
    assert Counter(beds.values()) == {row["name"]: row["blocks"] for row in status["testbeds"]}
    assert "ada" in lastro("status", bench.directory).out
    assert lastro("report", bench.directory, "-o", bench.home / "r.html", drawn=False).code == 0
    assert "The numbers are of 2 testbeds: ada" in (bench.home / "r.html").read_text()


def test_a_fleet_runs_until_its_decision(bench: Bench, words: list[str]) -> None:
    """Both testbeds run blocks between two looks, and a look counts all of them."""
    study = bench.write({"implementation": ["slow", "fine", "fast"]}, replicates=12, trial_s=0.1)
    adaptive = study.read_text().replace("[design]\n", '[design]\nallocation = "adaptive"\n')
    study.write_text(adaptive + '[sla]\nspeed = ">= 100"\n[cost]\nspeed = 1\n')
    done = lastro("run", *words)
    assert done.code == 0, done.err
    found = lastro("decide", bench.directory, "--json").json
    looks = [each["block"] for each in found["looks"]]
    assert (found["verdict"], found["recommended"], found["looks"][-1]["stop"]) == ("recommended", "fine", "decided")
    assert looks[0] == 2 and looks == sorted(set(looks)) and looks[-1] <= 12
    with Store.open(bench.directory, readonly=True) as store:
        beds = {attempt.block: attempt.testbed for attempt in store.attempts()}
    assert max(beds) == looks[-1] and set(beds.values()) <= {"ada", "bea"}, "one may be ready late"


def events(directory: Path) -> list[str]:
    with closing(sqlite3.connect(directory / "campaign.db")) as db:
        return [text for (text,) in db.execute("SELECT text FROM event")]


def test_a_killed_worker_and_a_killed_campaign_lose_no_finished_trial(bench: Bench, words: list[str]) -> None:
    process = start("run", *words)
    until(lambda: n_done(bench.directory) >= 2, "two trials")
    os.kill(workers(process.pid)[0], signal.SIGKILL)
    loss = "is lost: the process that held the testbed ended with -9"
    until(lambda: any(loss in text for text in events(bench.directory)), "its loss")
    held, before = workers(process.pid), rows(bench.directory)
    os.kill(held[-1], signal.SIGSTOP)
    process.kill()
    process.communicate()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in held), "the workers to end by themselves")
    assert lastro("resume", bench.directory, "--no-report").code == 0
    after = rows(bench.directory)
    assert [row[3] for row in after] == ["valid"] * 12 and [row[4] for row in after] == [1] * 12
    assert all(now[3] == was[3] for was, now in zip(before, after, strict=True) if was[3] == "valid")


def test_ctrl_c_ends_the_testbeds_and_says_how_to_go_on(bench: Bench, words: list[str]) -> None:
    process = start("run", *words)
    until(lambda: n_done(bench.directory) >= 1, "a trial")
    held = workers(process.pid)
    assert len(held) == 2
    interrupt(process)
    done = finish(process)
    assert done.code == 130 and f"continue with `lastro resume {bench.directory}`" in done.err
    assert not any(Path(f"/proc/{pid}").exists() for pid in held)
    assert "running" not in {row[3] for row in rows(bench.directory)}


def test_options_that_do_not_fit_are_refused(bench: Bench, words: list[str]) -> None:
    assert "not allowed with argument" in lastro("run", *words, "--testbed", bench.home / "testbed.toml").err
    (bench.home / "empty.toml").write_text("[testbeds]\n")
    is_error(lastro("run", words[0], "--fleet", bench.home / "empty.toml"), 2, "neither testbeds nor a scheduler")


# Dask


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[str]:
    """A Dask scheduler on this machine, as a user may have one."""
    pytest.importorskip("distributed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = dask("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
    yield f"tcp://127.0.0.1:{port}"
    process.terminate()
    process.wait(30)


def dask(what: str, *words: str) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", f"distributed.cli.dask_{what}", *words]
    return subprocess.Popen(argv, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def worker(scheduler: str, place: Path) -> subprocess.Popen[bytes]:
    more = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(place))
    return dask("worker", scheduler, *more)


@pytest.mark.slow
def test_workers_of_a_dask_scheduler_are_testbeds(bench: Bench, words: list[str], scheduler: str) -> None:
    """Its worker is killed; another one on the same host goes on with the block."""
    (bench.home / "fleet.toml").write_text(f'scheduler = "{scheduler}"\n')
    first = worker(scheduler, bench.home)
    process = start("run", *words)
    until(lambda: n_done(bench.directory) >= 2, "two trials")
    first.kill()
    first.wait(30)
    second = worker(scheduler, bench.home)
    try:
        done = finish(process)
    finally:
        second.terminate()
        second.wait(30)
    assert done.code == 0, done.err
    assert "Dask's dashboard: " in done.err and f"{socket.gethostname()}: is back" in done.err
    assert [row[3:] for row in rows(bench.directory)] == [("valid", 1)] * 12


def test_the_process_of_a_testbed_imports_nothing_from_the_working_directory(tmp_path: Path) -> None:
    """As root it would run what another user has put there."""
    (tmp_path / "queue.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\n")
    argv = [sys.executable, *PROGRAM]
    done = subprocess.run(argv, cwd=tmp_path, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True)
    assert done.returncode != 0 and not (tmp_path / "executed").exists()


def test_a_worker_that_is_stopped_while_it_imports_goes_on_when_its_parent_ends(tmp_path: Path) -> None:
    place, went_on = tmp_path / "lastro" / "app", tmp_path / "went-on"
    place.mkdir(parents=True)
    for package in place.parent, place:
        (package / "__init__.py").touch()
    stopped = f"import os, signal; os.kill(os.getpid(), signal.SIGSTOP); open({str(went_on)!r}, 'w')"
    (place / "testbed_worker.py").write_text(stopped)
    start_it = (
        f"import os, subprocess; worker = subprocess.Popen({[sys.executable, *PROGRAM]!r}, start_new_session=True)"
    )
    parent = [sys.executable, "-c", f"{start_it}; os.waitpid(worker.pid, os.WUNTRACED)"]
    subprocess.run(parent, env={**ENVIRONMENT, "PYTHONPATH": str(tmp_path)}, stdin=subprocess.DEVNULL, timeout=60)
    until(went_on.exists, "the worker to go on", 30)


# A worker whose first call is done immediately, and whose second never ends.
HANGS = """
import sys, time
from lastro.campaign import testbed_worker
testbed_worker.BEAT_S = 0.02
class Executor:
    attempt = lambda self, *words: 1 if words[2] == 0 else time.sleep(60)
parent = testbed_worker.WorkerParent()
parent.serve(Executor(), testbed_worker.OpenedTestbed({}))
"""


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        ("stopped", r"gave no sign of life for \d.* s, and was killed"),
        ("slow", "at the same step for .*, and was kill"),
    ],
)
def test_a_testbed_that_is_stopped_or_hangs_is_lost(why: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its link is not broken, so nothing else would show it."""
    monkeypatch.setattr(testbed_worker, "PROGRAM", ("-P", "-c", HANGS))
    monkeypatch.setattr(testbed_worker, "BEAT_S", 0.02)
    monkeypatch.setattr(testbed_worker, "START_BEATS", 1500)  # the child must start, and processors are shared
    monkeypatch.setattr(testbed_worker, "SILENT_BEATS", 500)
    study = load_study("kagami2017")
    config = study.config(treatments(study)[0].levels)
    held = testbed_worker.TestbedWorker(TestbedOrder(study, "tests"))
    assert 1800 < held._limit_s(AttemptCall(config, {}, 0)) < 7200
    assert held.open(lambda seen: None) == testbed_worker.OpenedTestbed({})
    assert held.ask(AttemptCall(config, {}, 0), lambda seen: None) == 1
    if why == "stopped":
        os.kill(held.pid, signal.SIGSTOP)
        monkeypatch.setattr(testbed_worker, "SILENT_BEATS", 5)
    else:
        monkeypatch.setattr(testbed_worker.TestbedWorker, "_limit_s", lambda *_: 0.2)
    lost = held.ask(AttemptCall(config, {}, 1), lambda seen: None)
    held.close()
    assert isinstance(lost, testbed_worker.WorkerFailure) and re.search(reason, lost.message)
    assert isinstance(lost.error(), HostError) and not Path(f"/proc/{held.pid}").exists()


def test_a_testbed_that_never_starts_is_lost_later_than_one_that_falls_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testbed_worker, "PROGRAM", ("-P", "-S", "-c", "import time; time.sleep(60)"))
    for name, value in (("BEAT_S", 0.01), ("SILENT_BEATS", 0), ("START_BEATS", 5)):
        monkeypatch.setattr(testbed_worker, name, value)
    held = testbed_worker.TestbedWorker(TestbedOrder(load_study("kagami2017"), "tests"))
    lost = held.open(lambda seen: None)
    held.close()
    assert isinstance(lost, testbed_worker.WorkerFailure) and re.search(
        r"gave no sign of life for 0\.0[6-9] s", lost.message
    )


def test_a_step_may_take_as_long_as_its_own_time_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    study = load_study(str(Path(__file__).parents[2] / "examples/compute.toml"))
    config = {**study.config(treatments(study)[0].levels), "limit_s": 86_400}
    limit_s, held = testbed_worker.TestbedWorker._limit_s, SimpleNamespace(_scenario=scenario_of(study))
    trial_s = limit_s(held, AttemptCall(config, {}, 0))  # type: ignore[arg-type]
    assert 4 * 86_400 < trial_s < 5 * 86_400, "for the preparation, the run, and what a workload does around them"
    assert limit_s(held, CalibrateCall("key", config, 2, 0)) > 1.9 * trial_s  # type: ignore[arg-type]
    assert limit_s(held, ProbeCall({0: config})) > Pts.probe_limit_s + testbed_worker.STEP_S  # type: ignore[arg-type]
    monkeypatch.setattr(ComputeScenario, "duration_s", lambda config: 1 / 0)
    assert limit_s(held, AttemptCall(config, {}, 0)) == math.inf  # type: ignore[arg-type]
    rates = {"rate_per_s": 1e6, "capacity_s": 1.0}
    monkeypatch.setattr(ComputeScenario, "duration_s", lambda config: 2.0)
    assert ComputeScenario.longest_s(rates) == 10 * 2.0 + 4 * 1.0


def test_what_a_killed_testbed_left_is_removed_before_its_loss_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testbed_worker, "PROGRAM", ("-P", "-c", ""))
    cleaned: list[bool] = []

    def clean() -> None:
        cleaned.append(True)
        raise OSError("no space left on device")  # which does not keep the loss from the campaign

    pool = LocalWorkerPool({"ada": TestbedOrder(load_study("kagami2017"), "tests")}, clean)
    pool.open("ada")
    testbed, answer = pool.answers.get(timeout=30)
    assert testbed == "ada" and isinstance(answer, testbed_worker.WorkerFailure) and cleaned == [True]
    pool.close()
    assert cleaned == [True, True]


def test_a_testbed_that_is_still_being_opened_ends_with_its_parent() -> None:
    """It may wait for its host for hours, or boot a guest."""
    stuck = "worker.scenario_on_host = lambda *a, **k: __import__('time').sleep(60)"
    program = f"import sys; from lastro.app import testbed_worker as worker; {stuck}; sys.exit(worker.main())"
    argv = [sys.executable, "-P", "-c", program]
    order = pickle.dumps(TestbedOrder(load_study("kagami2017"), "tests"))
    child = subprocess.Popen(argv, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert child.stdin is not None
    child.stdin.write(len(order).to_bytes(8, "big") + order)
    child.stdin.close()
    assert child.wait(30) == 130


def test_a_testbed_that_is_released_ends_while_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testbed_worker, "PROGRAM", ("-P", "-c", HANGS))
    study = load_study("kagami2017")
    pool = LocalWorkerPool({name: TestbedOrder(study, "tests") for name in ("ada", "bea")})
    try:
        for name in pool.names():
            pool.open(name)
        opened = dict(pool.answers.get(timeout=60) for _ in range(2))
        assert opened == dict.fromkeys(("ada", "bea"), testbed_worker.OpenedTestbed({}))
        pool.release("ada")
        until(lambda: pool._workers["ada"]._process.poll() is not None, "its process to end")
        assert pool._workers["bea"]._process.poll() is None and pool.answers.empty()
    finally:
        pool.close()
