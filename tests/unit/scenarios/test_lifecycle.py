"""What lives and footprints add up to, without a host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lastro import papers
from lastro.errors import InstrumentError, PlatformError
from lastro.host.local import LocalHost
from lastro.results.samples import Outcome
from lastro.scenarios import lifecycle
from lastro.scenarios.base import schemas
from lastro.scenarios.lifecycle import Footprint, LifecycleScenario, _record_lifecycles
from lastro.scenarios.shared.host_memory import require_room
from lastro.scenarios.shared.timing import InstanceTimes
from lastro.study.design import treatments
from lastro.study.load import load
from lastro.units import MIB

from ...support.recording import RecordingHost, answer, recording_testbed


def test_links_that_the_platform_makes_are_refused_before_anything_starts(tmp_path: Path) -> None:
    host = RecordingHost()
    scenario = LifecycleScenario(recording_testbed(host, tmp_path))
    found = scenario.availability({"platform": "docker", "attachment": "docker-nat"})
    assert "docker-nat" in str(found.reason) and "veth-bridge" in str(found.remedy)
    assert not host.commands


def told(lives: list[InstanceTimes], *, together: bool) -> dict[str, float]:
    outcome = Outcome()
    _record_lifecycles(outcome, lives, together=together)
    return {name: round(value, 6) for name, value in outcome.measurements.items()}


def test_each_phase_counts_from_the_call_for_a_start() -> None:
    life = InstanceTimes(began_s=100.0, create_s=2.0, port_s=0.5, command_s=0.25, packet_s=0.125, stop_s=1.0)
    assert told([life], together=False) == {
        "start": 2500, "first_command": 2750, "first_packet": 2625, "stop": 1000, "start_all": 2500
    }  # fmt: skip


def test_starts_that_overlap_count_once() -> None:
    lives = [
        InstanceTimes(began_s=10.0, create_s=2.0, port_s=0.5),
        InstanceTimes(began_s=10.1, create_s=3.0, port_s=0.75),
    ]
    assert told(lives, together=False)["start_all"] == 6250
    assert told(lives, together=True)["start_all"] == 3100 + 750


def test_a_footprint_is_a_difference_by_instance() -> None:
    empty = Footprint(1000 * MIB, 50 * MIB, 10 * MIB, 500 * MIB, 3)
    taken = Footprint(1040 * MIB, 58 * MIB, 12 * MIB, 504 * MIB, 11).since(empty)
    assert taken.per_instance(4) == {
        "memory": 2, "memory_host": 10, "memory_total": 40, "disk": 0.5, "disk_host": 1, "processes": 2
    }  # fmt: skip


@pytest.mark.parametrize("printed", ["", "total of nothing\n"])
def test_disk_space_that_was_not_reported_is_an_error_of_the_tool(printed: str, tmp_path: Path) -> None:
    host = RecordingHost(lambda argv: answer(printed, code=1, error="du: cannot access") if argv[0] == "du" else None)
    with pytest.raises(InstrumentError, match="du did not report the disk space of instances: du: cannot access"):
        lifecycle._disk(recording_testbed(host, tmp_path))


@pytest.mark.parametrize(("available_kib", "refused"), [(99, True), (100, False)])
def test_memory_is_left_to_others(monkeypatch: pytest.MonkeyPatch, available_kib: int, refused: bool) -> None:
    host = LocalHost()
    text = f"MemTotal: 1000 kB\nMemFree: 5 kB\nMemAvailable: {available_kib} kB\nHugePages_Total: 0\n"
    monkeypatch.setattr(host, "read_text", lambda path: text)
    if refused:
        with pytest.raises(PlatformError, match="under 10%"):
            require_room(host)
    else:
        require_room(host)


def test_the_study_is_sound() -> None:
    study = load(papers.find("lifecycle"), schemas())
    levels: dict[str, Any] = {factor.name: factor.levels for factor in study.factors}
    assert {"native", "runc", "docker"} <= set(levels["platform"])
    assert len(treatments(study)) == 5 * len(levels["platform"])
    assert set(study.profiles) == {"quick", "standard"}
    assert LifecycleScenario.duration_s({**study.settings, "instances": 16, "platform": "native"}) > 2
