"""Open vSwitch whose daemons die under a trial: it is named, nobody waits for it, and the next trial starts it anew."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro import registry
from lastro.attachments._ovs_daemons import DIED
from lastro.attachments.base import Segment
from lastro.errors import PlatformError, TrialError
from lastro.host.base import Completed
from lastro.platforms.base import Port

from ...support.recording import RecordingHost, answer, recording_testbed

PROGRAMS = ("ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "ovs-appctl", "ovsdb-tool")


class Daemon:
    def __init__(self) -> None:
        self.returncode: int | None = None

    def alive(self) -> bool:
        return self.returncode is None

    def stop(self) -> Any:
        self.returncode = 143 if self.returncode is None else self.returncode
        return SimpleNamespace(returncode=self.returncode)


@pytest.fixture(params=["netdev", "system"])
def switch(request: pytest.FixtureRequest) -> Any:
    """As prepared, with both daemons at work."""
    part: Any = registry.get("attachment", "ovs")()
    part._daemons, part._datapath = {"ovsdb-server": Daemon(), "ovs-vswitchd": Daemon()}, request.param
    part.separated, part.own_cgroups = True, ("lastro/ovs",)
    return part


def segments() -> list[Segment]:
    ports = (Port(SimpleNamespace(netns=f"n{n}", takes_taps=False), "eth0", "198.18.0.1/30") for n in (0, 1))  # type: ignore[arg-type]
    return [Segment("0", tuple(ports))]  # type: ignore[arg-type]


def run_under(switch: Any, directory: Path, body: Any) -> RecordingHost:
    host = RecordingHost()
    with switch.laid(recording_testbed(host, directory), segments()):
        body()
    return host


def test_whole_it_takes_its_bridges_away(switch: Any, tmp_path: Path) -> None:
    host = run_under(switch, tmp_path, lambda: None)
    (removal,) = (argv for argv in host.commands if "del-br" in argv)
    assert "--timeout=10" in removal and removal[-1] == "br-0"
    assert not any("ovs-dpctl" in argv for argv in host.commands) and len(switch._daemons) == 2


@pytest.mark.parametrize("name", ["ovsdb-server", "ovs-vswitchd"])
@pytest.mark.parametrize("error", [None, PlatformError("no convergence within 40 s", "a hint")])
def test_dead_it_is_named_whatever_else_went_wrong(
    switch: Any, tmp_path: Path, name: str, error: PlatformError | None
) -> None:
    host = RecordingHost()
    with (
        pytest.raises(PlatformError, match=f"Open vSwitch: {name} exited with code 137") as caught,
        switch.laid(recording_testbed(host, tmp_path), segments()),
    ):
        switch._daemons[name].returncode = 137
        if error:
            raise error
    assert caught.value.__cause__ is error
    assert (error is None) == ("no convergence within 40 s" not in caught.value.message)
    assert caught.value.hint == ("a hint" if error else DIED)
    assert not any("del-br" in argv for argv in host.commands), "a dead daemon answers nobody"
    forgotten = [argv[2:] for argv in host.commands if "ovs-dpctl" in argv]
    assert forgotten == ([["ovs-dpctl", "del-dp", "system@ovs-system"]] if switch._datapath == "system" else [])
    assert switch._daemons == {}, "the other one has no work left"


def test_alive_it_is_not_to_blame(switch: Any, tmp_path: Path) -> None:
    def fail() -> None:
        raise PlatformError("r0-0 died")

    with pytest.raises(PlatformError, match=r"^r0-0 died$"):
        run_under(switch, tmp_path, fail)


def test_after_its_death_it_is_started_before_the_next_links(
    switch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr(type(switch), "_start", lambda part, testbed: started.append("anew"))
    run_under(switch, tmp_path / "one", lambda: None)
    assert started == []
    switch._daemons["ovs-vswitchd"].returncode = 137
    run_under(switch, tmp_path / "two", lambda: None)
    assert started == ["anew"]


@pytest.mark.parametrize("failing", ["db", "init", "vs"])
def test_after_a_failed_start_it_is_started_before_the_next_links(switch: Any, tmp_path: Path, failing: str) -> None:
    def say(argv: Sequence[str]) -> Completed | None:
        fails = failing == "init" if "init" in argv else argv[0] == "sh" and f"{failing}.ctl" in argv[-1]
        return answer(code=1, error="no memory") if fails else None

    switch._daemons["ovs-vswitchd"].returncode = 137
    refused = recording_testbed(RecordingHost(say, programs=PROGRAMS), tmp_path / "one")
    with pytest.raises(TrialError, match="no memory") as caught, switch.laid(refused, segments()):
        pytest.fail("it has the links")
    assert failing == "init" or "apt-get install openvswitch-switch" in str(caught.value.hint)
    testbed = recording_testbed(RecordingHost(programs=PROGRAMS), tmp_path / "two")
    with switch.laid(testbed, segments()):
        assert all(switch._daemons[name].alive() for name in ("ovsdb-server", "ovs-vswitchd"))


def test_in_user_space_ports_are_told_to_finish_packets_by_one_shell_for_each_namespace(
    switch: Any, tmp_path: Path
) -> None:
    host = RecordingHost()
    row = [SimpleNamespace(netns=f"n{n}", takes_taps=n == 3) for n in range(4)]
    ring = [
        Segment(str(n), (Port(row[n], "eth1", "198.18.0.1/30"), Port(row[(n + 1) % 4], "eth0", "198.18.0.2/30")))  # type: ignore[arg-type]
        for n in range(4)
    ]
    with switch.laid(recording_testbed(host, tmp_path), ring):
        pass
    told = [text for text in host.stdins if "ethtool" in str(text)]
    if switch._datapath == "system":
        assert told == []
        return
    (script,) = map(str, told)
    lines = script.splitlines()
    assert [line.rpartition(" - ")[2] for line in lines] == ["eth1 eth0", "eth0 eth1", "eth0 eth1"], "but the guest's"
    assert all(line.startswith(f"nsenter --net=/run/netns/n{n} sh -ec '") for n, line in enumerate(lines))
