"""Tests of networks: an instance has no network except the links that an attachment gives it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from lastro import registry
from lastro.attachments.base import Attachment, Segment
from lastro.platforms.base import Instance, Port
from lastro.testing.subject import Subject

LEFT, RIGHT = "198.18.200.1", "198.18.200.2"
NAMES = ("A.b_c-1", "x" * 40)  # the oddest that an instance may have


@contextmanager
def linked_pair(
    subject: Subject, attachment: str, names: Sequence[str] = ("left", "right")
) -> Iterator[tuple[Instance, Instance]]:
    """Start two instances in parallel, and yield them with a link between them; stop them after the block."""
    specs = [subject.spec(name, ports=("eth0",)) for name in names]
    with subject.start_all(*specs) as (left, right):
        ends = (Port(left, "eth0", f"{LEFT}/24"), Port(right, "eth0", f"{RIGHT}/24"))
        with registry.get(Attachment, attachment)().connect(subject.testbed, [Segment("s", ends)]):
            yield left, right


def reaches(instance: Instance, address: str, within_s: int = 5) -> bool:
    """Return whether `address` answers a ping within `within_s` seconds; a busy host may lose the first packets."""
    return instance.run(["ping", "-n", "-c", "1", "-w", str(within_s), address], check=False).returncode == 0


class Network:
    shares_kernel: bool
    many: int

    def test_there_is_no_network_before_links_are_attached(self, instance: Instance) -> None:
        links = json.loads(instance.run(["ip", "-j", "link"]).text)
        assert [link["ifname"] for link in links] == ["lo"]
        assert "UP" in links[0]["flags"]
        assert instance.run(["ip", "route"]).text == ""
        assert not reaches(instance, "198.18.0.1", within_s=2)

    @pytest.mark.parametrize("attachment", ["veth-bridge", "veth-direct", "macvlan-bridge"])
    def test_two_reach_each_other_over_the_link_and_nothing_else(self, subject: Subject, attachment: str) -> None:
        before = subject.leftovers()
        with linked_pair(subject, attachment) as (left, right):
            reach_each_other_and_nothing_else(left, right)
        assert subject.leftovers() == before

    def test_many_start_in_parallel_and_do_not_see_each_other(self, subject: Subject) -> None:
        names = [*NAMES, *(f"many-{number}" for number in range(self.many - len(NAMES)))]
        before = subject.leftovers()
        with subject.start_all(*map(subject.spec, names)) as instances:
            assert [instance.spec.name for instance in instances] == names
            are_apart(subject, instances, shares_kernel=self.shares_kernel)
        assert subject.leftovers() == before


def reach_each_other_and_nothing_else(left: Instance, right: Instance) -> None:
    """Assert that a link carries and counts traffic between two instances, and that they reach nothing else."""
    assert reaches(left, RIGHT)
    assert reaches(right, LEFT)
    assert not reaches(left, "198.18.200.3", within_s=2)
    assert "default" not in left.run(["ip", "route"]).text
    assert sorted(link["ifname"] for link in left.links()) == ["eth0", "lo"]
    before = _counters(left), _counters(right)
    left.run(["ping", "-n", "-c", "20", "-i", "0.02", "-s", "1000", "-W", "2", RIGHT])
    time.sleep(0.1)
    after = _counters(left), _counters(right)
    assert 20 * 1000 < after[0]["tx"] - before[0]["tx"] < 40 * 1000
    assert 20 * 1000 < after[1]["rx"] - before[1]["rx"] < 40 * 1000


def are_apart(subject: Subject, instances: Sequence[Instance], *, shares_kernel: bool) -> None:
    """Assert that instances run commands, each in its own cgroup, and that they share neither files nor processes.

    With `shares_kernel`, they run on the host's kernel, and must not share network namespaces, either."""
    for instance in instances:
        assert instance.run(["echo", instance.spec.name]).text == f"{instance.spec.name}\n"
    assert len({instance.cgroup for instance in instances}) == len(instances)
    one, two, *_ = instances
    one.run(["sh", "-c", "echo mine > /root/file"])
    assert two.run(["cat", "/root/file"], check=False).returncode != 0
    for instance in (one, two):
        instance.spawn(["sleep", "86396"])
    time.sleep(0.2)
    assert one.pids() and two.pids() and not one.pids() & two.pids()
    if shares_kernel:
        namespaces = {instance.run(["readlink", "/proc/self/ns/net"]).text.strip() for instance in (one, two)}
        of_host = subject.testbed.host.run(["readlink", "/proc/self/ns/net"]).text.strip()
        assert len(namespaces | {of_host}) == 3


def _counters(instance: Instance) -> dict[str, int]:
    (stats,) = [link["stats64"] for link in instance.links() if link["ifname"] == "eth0"]
    return {direction: stats[direction]["bytes"] for direction in ("rx", "tx")}
