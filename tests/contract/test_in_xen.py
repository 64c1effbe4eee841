"""The contract of the platform `xen` in a guest that boots Xen: a domain is a sibling of the host of the testbed.

The userland of the guest is built here, which needs the network."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lastro.host.cgroups import Resources
from lastro.platforms.base import Instance, InstanceSpec
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed
from lastro.testing.limits import SPIN
from lastro.testing.network import Network
from lastro.testing.subject import Subject

from .test_in_guest import MachineInGuest, in_guest

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.measures]


@pytest.fixture(scope="module")
def testbed() -> Iterator[Testbed]:
    """Yield a testbed in the first domain of Xen, in place of the one on this machine."""
    with in_guest(("native", "runc", "xen"), 'memory = "3G"', 'hypervisor = "xen"') as made:
        assert made.guest and made.guest["title"].endswith(", Xen)")
        yield made


class TestXen(MachineInGuest):
    """Writes are not counted: the cgroup of the disk's back-end does not show them."""

    platform = "xen:memory=256M"
    test_written_bytes_are_counted = None  # type: ignore[assignment]

    @pytest.mark.parametrize("attachment", ["veth-bridge", "veth-direct"])
    def test_two_reach_each_other_over_the_link_and_nothing_else(self, subject: Subject, attachment: str) -> None:
        """Without macvtap, which is not for the cards of a domain."""
        Network.test_two_reach_each_other_over_the_link_and_nothing_else(self, subject, attachment)

    def test_limits_are_in_force_and_bind_no_other(self, subject: Subject, instance: Instance) -> None:
        """Ask the hypervisor: on the host, a domain has only processes of the toolstack and of the disk's back-end."""
        host, size = subject.testbed.host, 2 * self.small_memory_bytes
        resources = Resources(cpus=0.2, cpuset="0", memory_bytes=size, cpu_weight=50)
        with subject.start("limited", resources=resources) as limited:
            domains = [f"lastro-{subject.testbed.session.token}-{each.spec.name}" for each in (limited, instance)]
            shares = [host.run(["xl", "sched-credit2", "-d", domain]).text.split()[-2:] for domain in domains]
            assert shares == [["128", "20"], ["256", "0"]]
            bound = [host.run(["xl", "vcpu-list", domain]).text.split()[-3:] for domain in domains]
            assert [where for where, *_ in bound] == ["0", "all"]
            total_kib = int(limited.run(["sed", "-n", r"s/^MemTotal: *\([0-9]*\) kB/\1/p", "/proc/meminfo"]).text)
            assert 0.6 * size < total_kib * 1024 <= size
            assert limited.run(["nproc"]).text == "1\n"
            before = limited.usage()
            done = limited.run(SPIN, check=False)
            used = limited.usage().since(before)
        assert done.returncode == 124
        assert 0.1 < used.cpu_s / done.duration_s < 0.28


def test_a_container_runs_in_the_domain_of_the_host(testbed: Testbed, pool: PlatformPool) -> None:
    with pool.get("runc").start(testbed, InstanceSpec("contained", "subject")) as contained:
        assert contained.run(["cat", "/sys/hypervisor/type"]).text == "xen\n"
