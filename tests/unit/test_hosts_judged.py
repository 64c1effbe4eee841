"""Each distinct host of the roles is judged once, by what is ours on it; and so is each host's clock."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from lastro import validity
from lastro.host.cgroups import Usage
from lastro.scenarios.proxy import hosts as role_hosts
from lastro.scenarios.proxy.hosts import HostClocks, HostsMeter

from .recording import RecordingHost

LIMITS = {"max_steal_percent": 5.0, "max_foreign_cpus": 0.3}
STAT = "cpu  {user} 0 0 1000 0 0 0 {steal}\n"


class Counted(RecordingHost):
    """A host whose user time and stolen time, in hundredths of a second, are what a test says."""

    def __init__(self, name: str, *, remote: bool = False) -> None:
        super().__init__()
        self.name, self.remote = name, remote  # type: ignore[misc]
        self.user = self.steal = 0
        self.view: Any = self

    def read(self, paths: Sequence[str]) -> dict[str, str]:
        assert "/proc/stat" in paths
        return {"/proc/stat": STAT.format(user=self.user, steal=self.steal)}


def wire(client: Counted, dut: Counted, server: Counted) -> Any:
    place = lambda host: SimpleNamespace(testbed=SimpleNamespace(host=host, cgroups=None, near=None))  # noqa: E731
    return SimpleNamespace(client=place(client), dut=place(dut), server=place(server))


def user(seconds: float) -> Usage:
    return Usage(cpu_s=seconds, user_s=seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Monotonic seconds of the meters."""
    now = [100.0]
    monkeypatch.setattr("lastro.meters.host.time.monotonic", lambda: now[0])
    return now


def test_a_disturbed_client_on_a_host_of_its_own_makes_the_trial_invalid(clock: list[float]) -> None:
    client, dut, server = (Counted(name, remote=True) for name in ("client-host", "dut-host", "server-host"))
    hosts = HostsMeter(wire(client, dut, server), ())
    hosts.start()
    client.user, dut.user, server.user, clock[0] = 900, 100, 100, 110.0
    hosts.stop()
    everyone: Any = {
        name: SimpleNamespace(testbed=SimpleNamespace(host=host, near=None))
        for name, host in (("client", client), ("proxy0", dut), ("server", server))
    }
    found = hosts.judge({"client": user(1.0), "proxy0": user(1.0), "server": user(1.0)}, everyone, LIMITS)
    assert found.invalid_because == [
        "client-host: the host was disturbed: other processes used 0.80 CPUs (limit 0.3)",
    ]
    assert set(found.notes) == {"host", "host client-host", "host server-host"}


def test_one_machine_for_all_roles_is_judged_once(clock: list[float]) -> None:
    one = Counted("here", remote=True)
    hosts = HostsMeter(wire(one, one, one), ())
    hosts.start()
    one.user, one.steal, clock[0] = 250, 500, 110.0
    hosts.stop()
    everyone: Any = {
        name: SimpleNamespace(testbed=SimpleNamespace(host=one, near=None)) for name in ("client", "server")
    }
    found = hosts.judge({"client": user(1.0), "server": user(1.5)}, everyone, LIMITS)
    (reason,) = found.invalid_because
    assert "stolen" in reason and set(found.notes) == {"host"}


def test_starts_are_judged_without_what_lastros_own_commands_used(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, children_s = Counted("here"), [0.0]
    monkeypatch.setattr(
        role_hosts.os, "times", lambda: SimpleNamespace(user=0.0, system=0.0, children_user=children_s[0])
    )
    hosts = HostsMeter(wire(here, here, here), ())
    hosts.start()
    here.user, children_s[0], clock[0] = 500, 1.5, 104.0
    hosts.stop()
    everyone: Any = {"proxy0": SimpleNamespace(testbed=SimpleNamespace(host=here, near=None))}
    assert hosts.judge_starts({"proxy0": user(3.0)}, everyone, LIMITS).invalid_because == []
    found = hosts.judge_starts({"proxy0": user(1.0)}, everyone, LIMITS)
    told = "while the proxies started, the host was disturbed: other processes used 0.62 CPUs (limit 0.3)"
    assert found.invalid_because == [told] and set(found.notes) == {"host at start"}


def test_the_clock_of_a_remote_host_is_asked_there(monkeypatch: pytest.MonkeyPatch) -> None:
    near, client = Counted("here"), Counted("client-host", remote=True)
    readings = {near: validity.ClockReading(10.0, 1000.0), client: validity.ClockReading(50.0, 2000.0)}
    monkeypatch.setattr(role_hosts, "_clock", lambda host: readings[host])
    clocks = HostClocks([near, client])
    assert clocks.reasons() == []
    readings[client] = validity.ClockReading(60.0, 2013.0)
    assert clocks.reasons() == ["client-host: the host's clock jumped by +3.00 s"]
