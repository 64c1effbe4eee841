"""Hosts of fleets in tests: four at the same time, each with kernel objects of its own; any of them can be lost."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from lastro.errors import HostError
from lastro.host.fleet_file import load
from lastro.host.ledger import session
from lastro.host.lock import silently
from lastro.host.remote import remote_session
from lastro.host.ssh import SshHost

from ..cli.conftest import lastro, until
from ..support.fleethosts import FleetHost, again_text, fleet_text

pytestmark = pytest.mark.root


def test_sessions_on_four_hosts_do_not_see_each_other_and_leave_nothing(
    four_hosts: list[FleetHost], tmp_path: Path
) -> None:
    (file := tmp_path / "fleet.toml").write_text(fleet_text(four_hosts))
    assert {bed.roles["dut"].target for bed in load(file).testbeds.values()} == {host.target for host in four_hosts}
    with session("tests", wait=silently) as near, ExitStack() as stack:
        for host in four_hosts:
            held = stack.enter_context(remote_session(near, host.target, "tests"))
            assert held.host.read_text("/proc/sys/kernel/hostname").strip() == host.name
            assert held.host.run(["ls", "/run/lastro"]).text.split() == [held.token]
            assert held.pids() == held.host.view.owned_pids(held.token)
            held.host.run(["ip", "netns", "add", netns := held.netns_name("dut")])
            stack.callback(held.host.run, ["ip", "netns", "del", netns])
            assert held.host.run(["ip", "netns", "list"]).text.split()[0] == netns
            assert host.left()
    assert [host.left() for host in four_hosts] == [[]] * 4


def reachable(host: FleetHost, place: Path) -> bool:
    connection = SshHost(replace(host.target, connect_s=1), place, "5ca1ab")
    try:
        connection.connect()
    except HostError:
        return False
    finally:
        connection.close()
    return True


@pytest.mark.slow
def test_one_host_loses_its_sshd_its_network_and_its_power(four_hosts: list[FleetHost], tmp_path: Path) -> None:
    ada, bea, *_ = four_hosts
    ada.kill_sshd()
    assert not reachable(ada, tmp_path) and reachable(bea, tmp_path)
    ada.start()
    assert reachable(ada, tmp_path)
    ada.unplug()
    assert not reachable(ada, tmp_path)
    ada.plug()
    until(lambda: reachable(ada, tmp_path), "the host to answer again")
    (ada.root / "var/lib/lastro/kept").touch()
    (ada.root / "run/lost").touch()
    ada.lose_power()
    assert not reachable(ada, tmp_path) and not ada.root.exists()
    ada.start()
    assert reachable(ada, tmp_path)
    assert (ada.root / "var/lib/lastro/kept").exists() and not (ada.root / "run/lost").exists()
    assert "t-ada" in subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout


def test_doctor_compares_the_testbeds_of_a_fleet(four_hosts: list[FleetHost], tmp_path: Path) -> None:
    (file := tmp_path / "fleet.toml").write_text(fleet_text(four_hosts))
    (other := tmp_path / "os-release").write_text('PRETTY_NAME="Another Linux"\n')
    *_, cid, dot = four_hosts
    cid.run("mount", "--bind", str(other), "/etc/os-release")
    dot.stop()
    done = lastro("doctor", "--fleet", file, "--wait", "--json")
    cid.run("umount", "/etc/os-release")
    dot.start()
    assert done.code == 0, done.err
    found = done.json
    assert found["groups"] == [["ada", "bea"], ["cid"]] and found["share_a_kernel"] == [["ada", "bea", "cid"]]
    assert [*found["differs"]] == ["host.distribution"] and found["differs"]["host.distribution"][1] == "Another Linux"
    assert found["same"]["isolation.cgroup_version"] and found["same"]["root filesystem"] and found["same"]["tools.ip"]
    lost = found["testbeds"][3]
    assert not lost["available"] and "cannot be reached" in lost["reason"] and "ssh" in lost["remedy"]
    assert [host.left() for host in four_hosts] == [[]] * 4


def test_doctor_finds_a_host_with_two_names(four_hosts: list[FleetHost], tmp_path: Path) -> None:
    """With --wait, both names are asked, one after the other."""
    ada, bea, *_ = four_hosts
    (file := tmp_path / "fleet.toml").write_text(fleet_text([ada, bea]) + again_text(ada, tmp_path))
    done = lastro("doctor", "--fleet", file, "--wait", "--json")
    assert done.code == 0, done.err
    assert [(bed["available"], bed["reason"]) for bed in done.json["testbeds"]] == [
        (True, None), (True, None), (False, "it uses the same host as testbed ada"),
    ]  # fmt: skip
    assert [host.left() for host in four_hosts] == [[]] * 4
