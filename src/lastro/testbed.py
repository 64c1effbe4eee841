"""What a trial runs on: a host, the session that owns what is made on it, the image, and the roles' namespaces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from lastro.host.base import Host
from lastro.host.cgroups import Cgroups, detect
from lastro.host.ledger import NETNS_DIR, Session
from lastro.image.rootfs import Image

# Inside the DUT: no bridge traffic through iptables (Docker's module switches that on for a whole host), no IPv6
# neighbour discovery in the background of a measurement, no packet dropped for the way by which it came.
QUIET = {
    "net.ipv6.conf.all.disable_ipv6": "1",
    "net.ipv6.conf.default.disable_ipv6": "1",
    "net.bridge.bridge-nf-call-iptables": "0",
    "net.bridge.bridge-nf-call-arptables": "0",
    "net.ipv4.conf.all.rp_filter": "0",
}


@dataclass(frozen=True, slots=True)
class Testbed:
    """`dut` is the name of the network namespace that stands for the device under test.

    `preparation` is the transcript of how the testbed was made."""

    __test__: ClassVar[bool] = False  # its name looks like a test's to pytest

    host: Host
    session: Session
    image: Image
    cgroups: Cgroups
    dut: str
    preparation: tuple[dict[str, Any], ...] = ()

    @property
    def has_ipv6(self) -> bool:
        return Path("/proc/sys/net/ipv6").exists()

    @property
    def run_dir(self) -> Path:
        return self.session.run_dir

    @property
    def scratch_dir(self) -> Path:
        return self.session.scratch_dir


@contextmanager
def local_testbed(session: Session, image: Image) -> Iterator[Testbed]:
    """All roles on this machine; nothing in them has a route out."""
    host = session.host
    with _dut(session, "dut") as dut:
        yield Testbed(host, session, image, detect(), dut, tuple(host.transcript.records))


@contextmanager
def beside(testbed: Testbed, role: str) -> Iterator[Testbed]:
    """The same testbed with a device under test of its own, in which the names of links are free."""
    with _dut(testbed.session, role) as dut:
        yield replace(testbed, dut=dut)


@contextmanager
def _dut(session: Session, role: str) -> Iterator[str]:
    netns = session.netns_name(role)
    with session.owned("netns", netns):
        session.host.run(["ip", "netns", "add", netns])
        session.host.run(["ip", "-n", netns, "link", "set", "lo", "up"])
        set_sysctls(session.host, netns, QUIET)
        yield netns


def set_sysctls(host: Host, netns: str, values: dict[str, str]) -> None:
    """Set network sysctls inside a named namespace; those that this kernel does not have are left out."""
    lines = [
        f"[ ! -e {(file := '/proc/sys/' + key.replace('.', '/'))} ] || echo {value} > {file}"
        for key, value in values.items()
    ]
    host.run(["nsenter", f"--net={NETNS_DIR / netns}", "sh", "-e"], stdin="\n".join(lines) + "\n")
