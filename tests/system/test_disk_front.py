"""Bonnie++, fio and dbench in real instances: where they write, what they leave, and every way in which they fail."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from lastro import registry
from lastro.campaign import runner
from lastro.errors import InstrumentError, LastroError
from lastro.host.cgroups import Resources
from lastro.instruments.base import WORK_DIR
from lastro.instruments.disk_workload import DiskWorkload
from lastro.instruments.fio import Fio
from lastro.platforms.base import Instance, InstanceSpec
from lastro.results.samples import MAX_ATTEMPTS, Outcome
from lastro.results.store import Store
from lastro.scenarios.base import schemas
from lastro.scenarios.compute import ComputeScenario
from lastro.scenarios.shared.pools import PlatformPool
from lastro.study import design
from lastro.study.load import parse
from lastro.testbed import Testbed

from ..cli.conftest import study_text
from ..support.products import combinations, one_of
from ..support.scenarios import TOLERANT, attempted, configured, image_needs
from ..support.smalldisk import small_disk

pytestmark = pytest.mark.root
__all__ = ["image_needs"]  # what `testbed` builds

# Seconds of work, and less than a hundred megabytes on the disk.
BRIEF: dict[str, dict[str, Any]] = {
    "fio": {"size": "8M", "time_s": 1},
    "bonnie": {"files": 1, "size": "16M", "seeks": 200},
    "dbench": {"clients": 2, "time_s": 2},
}
PLATFORMS = ("native", "runc", "docker", "qemu-tcg")


@pytest.fixture(scope="module")
def scenario(testbed: Testbed) -> Iterator[ComputeScenario]:
    with closing(ComputeScenario(testbed)) as made:
        yield made


def run(scenario: ComputeScenario, platform: str, instrument: str, **more: Any) -> Outcome:
    parts = {"platform": platform, "isolation": "none", "instrument": instrument}
    config = configured(ComputeScenario, memory="256M", limit_s=60.0, **parts)
    config |= {f"instrument.{instrument}.{name}": value for name, value in {**BRIEF[instrument], **more}.items()}
    return attempted(scenario, config)


def brief(name: str, **more: Any) -> DiskWorkload:
    return registry.get("instrument", name)(**{**BRIEF[name], **more})  # type: ignore[no-any-return]


@pytest.mark.parametrize("platform", one_of(["lxc:storage=dir", "qemu-tcg:format=raw,cache=writeback"]))
def test_a_copy_of_the_files_is_a_disk_too(scenario: ComputeScenario, platform: str) -> None:
    outcome = run(scenario, platform, "fio")
    assert outcome.valid, outcome.invalid_because
    found = outcome.notes["storage"]
    assert "overlay" not in found["path"] and found["on the host"], found


@pytest.mark.parametrize(("platform", "instrument"), combinations(PLATFORMS, BRIEF))
def test_a_disk_is_measured_and_named(
    scenario: ComputeScenario, testbed: Testbed, platform: str, instrument: str
) -> None:
    mark = testbed.session.mark()
    outcome = run(scenario, platform, instrument)
    assert testbed.session.mark() == mark
    too_short = "Bonnie++ reports no rate"  # a fast disk, and a task that is brief for the test's sake
    assert outcome.valid or too_short in outcome.invalid_because[0], outcome.invalid_because
    assert outcome.measurements["time_host"] > 1
    known = {metric.name for metric in registry.get("instrument", instrument).metrics}
    assert set(outcome.measurements) & known or not outcome.valid or "dropped" in str(outcome.notes)
    really: Any = outcome.notes["really"]
    assert "hide the disk" in str(outcome.notes["remarks"]) or not outcome.valid
    if outcome.valid:
        assert really.get("host's cache", "") == ("bypassed (cache=none)" if platform == "qemu-tcg" else "")
    assert really["file system"] == outcome.notes["storage"]["in short"] and really["clock of the tool"]  # type: ignore[index]
    lies: Any = outcome.notes["storage"]
    if platform == "qemu-tcg":
        assert lies["path"].startswith("ext4 (/dev/vda), its disk in ")
    elif platform == "native":  # what the others are compared with: the host's own file system, and nothing over it
        below = testbed.host.run(["df", "--output=fstype", str(testbed.scratch_dir)]).text.split()[-1]
        assert lies["file system"] == lies["host's file system"] == below
        assert lies["mounted at"] == WORK_DIR and lies["directory of the device"].endswith("/disk")
    else:
        assert lies["path"].startswith("overlay, its layer in ")
        assert "upper" in lies["layer on the host"] or "overlay2" in lies["layer on the host"]
    assert lies["host's file system"] in lies["path"]
    assert str(testbed.session.ledger.state) in lies["on the host"]


def test_storage_is_among_the_differences_between_platforms(pool: PlatformPool) -> None:
    of_the_host = pool.residuals("native")[f"under {WORK_DIR}"]
    assert pool.residuals("docker:place=volume")[f"under {WORK_DIR}"] == of_the_host
    assert pool.residuals("runc")[f"under {WORK_DIR}"] == f"overlay on {of_the_host}"


def test_a_disk_is_read_past_the_cache(scenario: ComputeScenario) -> None:
    outcome = run(scenario, "native", "fio", direct="yes")
    assert outcome.valid, outcome.invalid_because
    assert "O_DIRECT" in str(outcome.notes["really"]) and "through a cache" not in str(outcome.notes)


def test_dockers_volume_is_another_place(scenario: ComputeScenario) -> None:
    outcome = run(scenario, "docker:place=volume", "fio")
    assert outcome.valid, outcome.invalid_because
    lies: Any = outcome.notes["storage"]
    assert lies["file system"] != "overlay" and lies["mounted at"] == WORK_DIR
    assert "/volumes/" in lies["directory of the device"]


# Failures: one instance after the other, each broken in its own way


@pytest.mark.parametrize("platform", one_of(PLATFORMS, "docker"))
def test_a_full_disk_is_said_to_be_full(testbed: Testbed, pool: PlatformPool, platform: str) -> None:
    mark = testbed.session.mark()
    with pool.get(platform).start(testbed, InstanceSpec("full", "instance")) as instance:
        small_disk(instance)
        for name in BRIEF:
            tool = brief(name)
            tool.prepare(instance)
            with pytest.raises(InstrumentError, match=r"filled the instance's disk"):
                tool.run(instance, 60)
            tool.prepare(instance)  # room for the next one
    assert testbed.session.mark() == mark


def kill_soon(instance: Instance, program: str, which: Callable[[list[int]], int]) -> threading.Thread:
    """SIGKILL to one of the processes of a name within the instance, once they have worked for a little."""

    def named() -> Iterator[int]:
        for pid in sorted(instance.pids()):
            with suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().strip() == program:
                    yield pid

    def work() -> None:
        for _ in range(400):
            time.sleep(0.05)
            if list(named()):
                time.sleep(0.7)  # its children have come
                with suppress(ProcessLookupError, ValueError):
                    os.kill(which(list(named())), signal.SIGKILL)
                return

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("name", "victim", "reason"),
    [
        ("bonnie", ("bonnie++", min), "bonnie++ was killed"),
        ("fio", ("fio", min), "fio was killed"),
        ("dbench", ("dbench", max), "1 of dbench's clients did not finish"),  # the youngest: a client
    ],
    ids=["bonnie", "fio", "dbench"],
)
def test_a_tool_that_is_killed_is_no_measurement(
    testbed: Testbed, pool: PlatformPool, name: str, victim: Any, reason: str
) -> None:
    with pool.get("runc").start(testbed, InstanceSpec("killed", "instance")) as instance:
        tool = brief(name)
        if name == "fio":
            tool = type(tool)(**{**tool.chosen, "time_s": 5})  # or it is done before it is killed
        tool.prepare(instance)
        killing = kill_soon(instance, *victim)
        try:
            reasons = reasons_of(lambda: tool.run(instance, 60))
        finally:
            killing.join()
        assert reason in reasons


def reasons_of(work: Callable[[], Any]) -> tuple[str, ...]:
    try:
        return work().invalid_because  # type: ignore[no-any-return]
    except LastroError as error:
        return (error.message,)


@pytest.mark.parametrize("platform", one_of(["native", "runc", "docker"]))
def test_a_tool_without_memory_is_no_measurement(testbed: Testbed, pool: PlatformPool, platform: str) -> None:
    limits = Resources(memory_bytes=64 << 20)
    mark = testbed.session.mark()
    tool = Fio(size="96M", block="96M", time_s=1, direct="yes")  # else it fights for the cache for long
    with pool.get(platform).start(testbed, InstanceSpec("poor", "instance", resources=limits)) as instance:
        tool.prepare(instance)
        (reason,) = reasons_of(lambda: tool.run(instance, 60))
    assert reason == "fio was killed: the instance has 64 MiB of memory"
    assert testbed.session.mark() == mark


def test_a_campaign_goes_on_after_a_tool_that_never_ends(scenario: ComputeScenario, tmp_path: Path) -> None:
    levels = ["fio:time_s=600,size=8M", "dbench:time_s=2,clients=1"]
    chosen = {**TOLERANT, "memory": "256M", "isolation": "none", "limit_s": 4.0}
    text = study_text({"platform": ["runc"], "instrument": levels}, scenario="compute", replicates=1, **chosen)
    study = parse(text.replace("[factors]", 'metrics = ["time_host"]\n[factors]'), "test", schemas())
    treatments = design.treatments(study)
    with Store.create(tmp_path / "campaign", study, treatments, design.trials(study, len(treatments)), {}) as store:
        runner.run(store, scenario, _Silent())
        attempts = store.attempts()
        names = {trial.number: str(treatments[trial.treatment].levels["instrument"]) for trial in store.trials()}
    endings = [(names[attempt.trial].partition(":")[0], attempt.valid, attempt.reasons) for attempt in attempts]
    assert [valid for name, valid, _ in endings if name == "dbench"] == [True]
    failures = [reasons for name, valid, reasons in endings if name == "fio" and not valid]
    assert len(failures) == MAX_ATTEMPTS
    assert all("did not end within 4 s" in reasons[0] for reasons in failures)


class _Silent:
    """An observer that says nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **options: None
