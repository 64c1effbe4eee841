"""What a trial runs on: a host, the session that owns what is made on it, the image, and the roles' namespaces."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from lastro.errors import HostError
from lastro.host.base import Host, Transcript
from lastro.host.cgroups import Cgroups, Resources, block_device_of, detect, parse_cpus
from lastro.host.ledger import NETNS_DIR, Session
from lastro.host.undo import mount_point, mounts_below
from lastro.image import rootfs
from lastro.image.rootfs import Image

if TYPE_CHECKING:
    from lastro.host.lock import Tell
    from lastro.host.testbed_file import TestbedFile

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
    """`dut` is the name of the network namespace that stands for the device under test, or for another role.

    `preparation` is the transcript of how the testbed was made. `cpus` are those of the role, such as 0-3, where the
    testbed's file says so: None is all of the host's. `others` are the other roles where a file places them; `cards`
    are the role's network cards, by the role at their other end."""

    __test__: ClassVar[bool] = False  # its name looks like a test's to pytest

    host: Host
    session: Session
    image: Image
    cgroups: Cgroups
    dut: str
    preparation: tuple[dict[str, Any], ...] = ()
    cpus: str | None = None
    others: Mapping[str, Testbed] = field(default_factory=dict)
    cards: Mapping[str, str] = field(default_factory=dict)

    def at(self, role: str) -> Testbed:
        """A role's own testbed, which is this one where no file says otherwise."""
        return self.others.get(role, self)

    @property
    def sessions(self) -> list[Session]:
        """One of each host, that of the DUT first."""
        found = {bed.session.token: bed.session for bed in (self, *self.others.values())}
        return [*found.values()]

    @contextmanager
    def attempt(self) -> Iterator[Transcript]:
        """One transcript of what is done on every host; nothing that is made inside the block is left on any of them.

        Raises: HostError when something is left that cannot be removed."""
        with ExitStack() as stack:
            transcript = Transcript()
            for session in self.sessions:
                stack.enter_context(session.host.recorded(transcript))
            for session in self.sessions:
                stack.callback(session.undo_since, session.mark())
            yield transcript

    @property
    def shared_cpus(self) -> list[str]:
        """Roles of one host that may run on the same CPUs, in a line for each pair: they may steal from each other."""
        roles = {"client": self.at("client"), "dut": self, "server": self.at("server")}
        usable = {role: set(bed.usable_cpus) for role, bed in roles.items()}
        return [
            f"{a} and {b} on {roles[a].host.name}: CPUs {', '.join(map(str, sorted(usable[a] & usable[b])))}"
            for a, b in combinations(roles, 2)
            if roles[a].session is roles[b].session and usable[a] & usable[b]
        ]

    @property
    def usable_cpus(self) -> list[int]:
        """CPUs on which processes of the role may run: those that its host grants, and its file names."""
        if self.host.far:
            line = self.host.read_text("/proc/self/status").partition("Cpus_allowed_list:")[2].partition("\n")[0]
            granted = parse_cpus(line)
        else:
            granted = frozenset(os.sched_getaffinity(0))
        return sorted(granted & parse_cpus(self.cpus) if self.cpus else granted)

    @property
    def has_ipv6(self) -> bool:
        return self.host.view.exists("/proc/sys/net/ipv6")

    def on_own_cpus(self, resources: Resources) -> Resources:
        """The same resources, on the role's own CPUs unless they name others."""
        return replace(resources, cpuset=self.cpus) if self.cpus and resources.cpuset is None else resources

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
    with _guarded(session, image), _dut(session, "dut") as dut:
        yield Testbed(host, session, image, _counting(session, detect()), dut, tuple(host.transcript.records))


@contextmanager
def spread_testbed(
    near: Session, image: Image, file: TestbedFile, purpose: str, wait: Tell | None = None
) -> Iterator[Testbed]:
    """Roles where a testbed's file places them. The image goes to every host once.

    Raises: HostError when a host cannot be had, or has not the CPUs that a role is to have; HostBusy when another
    Lastro holds one and `wait` is None."""
    from lastro.host.far import far_session

    with ExitStack() as stack:
        sessions: dict[Any, Session] = {None: near}
        beds: dict[str, Testbed] = {}
        for role, plan in file.roles.items():
            if plan.reach not in sessions:
                assert plan.reach is not None
                sessions[plan.reach] = stack.enter_context(far_session(near, plan.reach, purpose, wait))
            held = sessions[plan.reach]
            there = rootfs.sent(image, held.host, held.state / "rootfs")
            stack.enter_context(_guarded(held, there))
            groups = _counting(held, detect(files=held.host.view))
            beds[role] = Testbed(held.host, held, there, groups, "", cpus=plan.cpus, cards=plan.links)
            _require_cpus(role, beds[role])
        dut = beds.pop("dut")
        with _dut(dut.session, "dut") as name:
            yield replace(dut, dut=name, others=beds, preparation=tuple(dut.host.transcript.records))


@contextmanager
def _guarded(held: Session, image: Image) -> Iterator[None]:
    """The tree is read-only on the host, and what is setuid in it is not: instances mount layers over it, with both."""
    with held.host.recorded():  # it is no part of what a trial does
        tree = str(image.tree)
        place = mount_point(held.host, tree)
    if place in mounts_below(held.host, place):  # for another role, or by a session whose state leads to the same
        yield
        return
    with held.owned("mount", tree):
        with held.host.recorded():
            held.host.run(["mount", "--bind", place, place])
            held.host.run(["mount", "-o", "remount,bind,ro,nosuid,nodev", place])
        yield


def _counting(held: Session, groups: Cgroups) -> Cgroups:
    """The groups, which count what instances write where Lastro keeps them."""
    if device := block_device_of(held.scratch_dir, held.host):
        groups.count_io(held.host, held.cgroup, device)
    return groups


def _require_cpus(role: str, bed: Testbed) -> None:
    lacking = parse_cpus(bed.cpus) - set(bed.usable_cpus) if bed.cpus else set()
    if lacking:
        raise HostError(
            f"the {role} is to have the CPUs {bed.cpus}, and its host {bed.host.name} has not {sorted(lacking)}",
            "name CPUs that `nproc` counts there in the testbed's file",
        )


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
