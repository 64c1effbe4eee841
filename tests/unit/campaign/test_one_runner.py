"""Only one process runs a campaign. Its database knows which, or on which machine one may."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro.app import campaigns, fleets
from lastro.app.campaigns import ResumeOptions
from lastro.errors import HostBusy
from lastro.host.files import boot_id, start_time
from lastro.results.store import Store

from ...support.toy_fleet import Toy, campaign, study_of

AT = "2026-01-01T10:00:00.000+00:00"
HERE = os.uname().nodename


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with campaign(tmp_path / "c", study_of(2)) as found:
        yield found


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Another process, which is alive."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def taken_by(store: Store, *process: Any) -> None:
    store._db.execute("INSERT OR REPLACE INTO meta VALUES ('process', ?)", (json.dumps(process),))


def test_a_campaign_of_a_process_that_is_alive_cannot_be_taken(store: Store, other: subprocess.Popen[bytes]) -> None:
    began = start_time(other.pid)
    for machine in ((boot_id(), HERE), ()):  # an older Lastro did not write the machine
        taken_by(store, other.pid, began, AT, *machine)
        with pytest.raises(HostBusy, match=f"is running, by process {other.pid} since 2026-01-01 10:00 UTC"):
            store.take("2026-01-02T00:00:00", ended_elsewhere=True)
        found = store.runner()
        assert found is not None and (found.pid, found.since_utc) == (other.pid, AT)
    other.kill()
    other.wait()
    store.take("2026-01-02T00:00:00")
    store.take("2026-01-03T00:00:00")  # a process may take its own again
    found = store.runner()
    assert found is not None and (found.pid, found.since_utc) == (os.getpid(), "2026-01-03T00:00:00")


@pytest.mark.parametrize("boot", ["the same", "another"])
def test_a_process_id_that_is_used_again_is_not_that_process(
    store: Store, other: subprocess.Popen[bytes], boot: str
) -> None:
    """After a reboot, even with the same start: it counts from the boot."""
    began = start_time(other.pid) or 0
    taken_by(store, other.pid, *((began - 1, AT, boot_id()) if boot == "the same" else (began, AT, boot)), HERE)
    assert store.runner() is None
    store.take(AT)
    assert store.runner() is not None


@pytest.mark.parametrize("boot", ["another", "of this kernel, in another container"])
def test_a_process_on_another_machine_may_be_alive(store: Store, boot: str) -> None:
    """The directory is on a shared file system, or was moved here after a crash."""
    its_boot = "another" if boot == "another" else boot_id()
    taken_by(store, os.getpid() if boot == "another" else 2**22 + 1, 7, AT, its_boot, "login-2")
    assert store.runner() is None
    with pytest.raises(HostBusy, match="may be running on login-2, by process ") as caught:
        store.take(AT)
    assert "--accept-change" in str(caught.value.hint)
    store.take(AT, ended_elsewhere=True)
    store.let_go()
    store.take(AT)


def test_a_second_coordinator_writes_nothing(
    store: Store, other: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a scheduler, the machine of the coordinator is not held."""
    opened: list[bool] = []
    fleet = SimpleNamespace(wait_for_first=opened.append, run=lambda *_: opened.append(True))
    monkeypatch.setattr(campaigns, "scenario_of", lambda study: Toy)
    monkeypatch.setattr(campaigns, "require_runnable", lambda store: None)
    monkeypatch.setattr(fleets, "fleet_of", lambda *_: None)
    monkeypatch.setattr(fleets, "hold_fleet", lambda *_, **__: nullcontext(fleet))
    store._db.execute("UPDATE trial SET state = 'invalid' WHERE number = 1")
    taken_by(store, other.pid, start_time(other.pid), AT, boot_id(), HERE)
    with pytest.raises(HostBusy, match="is running"):
        campaigns.resume(store.directory, ResumeOptions(invalid=True))
    assert not opened and store.events() == [] and store.counts()["invalid"] == 1
    found = store.runner()
    assert found is not None and found.pid == other.pid
    other.kill()
    other.wait()
    campaigns.resume(store.directory, ResumeOptions(invalid=True))
    assert opened and store.counts()["invalid"] == 0 and store.runner() is None, "it has let go"
