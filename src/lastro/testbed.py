"""The testbed of a trial: a host, the session that owns objects on it, the root filesystem, the network namespaces."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from lastro.errors import HostError
from lastro.host.apparatus import Apparatus
from lastro.host.base import Host, Transcript
from lastro.host.cgroups import Cgroups, Resources, block_device_of, detect, parse_cpus
from lastro.host.ledger import NETNS_DIR, Session
from lastro.host.shell import sysctl_lines
from lastro.host.undo import mount_point, mounts_below
from lastro.image import rootfs
from lastro.image.rootfs import Image
from lastro.study.root_change import RootChange
from lastro.validity import Window

if TYPE_CHECKING:
    from lastro.host.lock import OnWait
    from lastro.host.testbed_file import GuestPlan, TestbedFile

# Inside the DUT: no bridge traffic through iptables (Docker's module switches that on for a whole host), no IPv6
# neighbour discovery in the background of a measurement, no packets dropped by the reverse-path filter.
QUIET = {
    "net.ipv6.conf.all.disable_ipv6": "1",
    "net.ipv6.conf.default.disable_ipv6": "1",
    "net.bridge.bridge-nf-call-iptables": "0",
    "net.bridge.bridge-nf-call-ip6tables": "0",
    "net.bridge.bridge-nf-call-arptables": "0",
    "net.ipv4.conf.all.rp_filter": "0",
}

_FLUSH_TIMEOUT_S = 300.0
IN_A_GUEST = "or measure in a guest, whose kernel has it (--testbed guest)"  # ends a remedy


@dataclass(frozen=True, slots=True)
class Testbed:
    """The testbed of one role, usually of the device under test, with the testbeds of the other roles."""

    __test__: ClassVar[bool] = False  # its name looks like a test's to pytest

    host: Host
    session: Session
    image: Image
    cgroups: Cgroups
    dut: str  # name of the role's network namespace
    preparation: tuple[dict[str, Any], ...] = ()  # transcript of the set-up of the testbed
    # The role's CPUs, such as "0-3", if the testbed file gives them; None: all CPUs of the host.
    cpus: str | None = None
    # {role: testbed} of the other roles, if a testbed file names their hosts.
    others: Mapping[str, Testbed] = field(default_factory=dict)
    # {neighbouring role: the network card on this host that leads to it}
    cards: Mapping[str, str] = field(default_factory=dict)
    guest: Mapping[str, Any] | None = None  # facts of the guest if the host is one: a virtual machine on the controller
    controller: Session | None = None  # session of the machine where Lastro runs, if that is not the host
    rivals: frozenset[int] = frozenset()  # PIDs, on the controller, of the other guests of the session
    # {name: testbed} of all guests, if the testbed file names several.
    guests: Mapping[str, Testbed] = field(default_factory=dict)
    # {root filesystem that a variant changes: a testbed that has it, on the same hosts}
    roots: Mapping[RootChange, Testbed] = field(default_factory=dict)
    # The root filesystem of the roles that are not under test, if a variant has a testbed of its own.
    base: Image | None = None
    # If a variant has a testbed of its own, distinguishes what daemons keep for it from what they keep for others.
    suffix: str = ""
    # Records what runs on the host, except instances, while an instrument measures.
    apparatus: Apparatus = field(default_factory=Apparatus, compare=False)

    @property
    def local_session(self) -> Session:
        """The session of the machine where Lastro runs. Root filesystems are built on this machine."""
        return self.controller or self.session

    @property
    def original(self) -> Image:
        """The root filesystem on the machine where Lastro runs; for a remote host, `image` is a copy of it there."""
        here = self.controller
        return Image(self.image.digest, here.ledger.state / "rootfs" / self.image.name) if here else self.image

    @property
    def guest_controller(self) -> Session | None:
        """The session of the machine on which the guest runs; None if the host is not a guest."""
        return None if self.guest is None else self.controller

    def at(self, role: str) -> Testbed:
        """Return the testbed of a role: this one, unless a testbed file names a host for the role."""
        return self.others.get(role, self)

    def apparatus_windows(self) -> list[Window]:
        """Return the windows in which instruments measured on any host since the last call, and clear them."""
        beds = {id(bed.apparatus): bed.apparatus for bed in (self, *self.others.values())}
        return [window for apparatus in beds.values() for window in apparatus.drain()]

    @property
    def sessions(self) -> list[Session]:
        """The sessions of all hosts, one for each host; that of the device under test is the first."""
        by_token = {bed.session.token: bed.session for bed in (self, *self.others.values())}
        return [*by_token.values()]

    @property
    def quiet_sessions(self) -> list[Session]:
        """The sessions of the machines that must be quiet: the hosts of all roles or, for a guest, its machine.

        Inside a guest, only Lastro runs; other processes that take CPU time from it run on the machine below it."""
        return [self.guest_controller] if self.guest_controller else self.sessions

    @contextmanager
    def attempt(self) -> Iterator[Transcript]:
        """Record the steps of the block on all hosts in one transcript, and yield it; then remove what the block left.

        Raises: HostError when an object cannot be removed."""
        with ExitStack() as stack:
            transcript = Transcript()
            for session in self.sessions:
                stack.enter_context(session.host.recorded(transcript))
            for session in self.sessions:
                stack.callback(session.undo_since, session.mark())
            yield transcript

    @property
    def shared_cpus(self) -> list[str]:
        """One line for each pair of roles that may run on the same CPUs of a host, and so slow each other down."""
        roles = {"client": self.at("client"), "dut": self, "server": self.at("server")}
        usable = {role: set(bed.usable_cpus) for role, bed in roles.items()}
        return [
            f"{a} and {b} on {roles[a].host.name}: CPUs {', '.join(map(str, sorted(usable[a] & usable[b])))}"
            for a, b in combinations(roles, 2)
            if roles[a].session is roles[b].session and usable[a] & usable[b]
        ]

    @property
    def usable_cpus(self) -> list[int]:
        """The CPUs, sorted, that the host allows for the role's processes; only those in `cpus`, if it is given."""
        if self.host.remote:
            line = self.host.read_text("/proc/self/status").partition("Cpus_allowed_list:")[2].partition("\n")[0]
            granted = parse_cpus(line)
        else:
            granted = frozenset(os.sched_getaffinity(0))
        return sorted(granted & parse_cpus(self.cpus) if self.cpus else granted)

    @property
    def has_ipv6(self) -> bool:
        return self.host.view.exists("/proc/sys/net/ipv6")

    def flush(self) -> None:
        """Write the cached data of the scratch directory's file system to the disk.

        Some platforms copy the root filesystem for each instance, and a trial may leave unwritten data. The kernel
        could write such data during a measurement, and so slow down only these platforms, or only the next trial."""
        self.host.run(["sync", "--file-system", str(self.scratch_dir)], timeout_s=_FLUSH_TIMEOUT_S)

    def on_own_cpus(self, resources: Resources) -> Resources:
        """Return `resources` with the CPUs of the role as `cpuset`, unless they already have a `cpuset`."""
        return replace(resources, cpuset=self.cpus) if self.cpus and resources.cpuset is None else resources

    @property
    def run_dir(self) -> Path:
        return self.session.run_dir

    @property
    def scratch_dir(self) -> Path:
        return self.session.scratch_dir


@contextmanager
def local_testbed(session: Session, image: Image) -> Iterator[Testbed]:
    """Yield a testbed with all roles on one machine; its namespaces have no route to the outside."""
    host = session.host
    with _mounted_read_only(session, image), _dut_namespace(session, "dut") as dut:
        groups = _count_io(session, detect(files=host.view))
        yield Testbed(host, session, image, groups, dut, tuple(host.transcript.records))


@contextmanager
def guest_testbeds(
    controller: Session, image: Image, plans: Sequence[GuestPlan], purpose: str, more: Sequence[Image] = ()
) -> Iterator[Testbed]:
    """Boot guests, and yield a testbed with all roles in the first one; its `guests` has the testbed of each guest.

    Each guest contains `image` and the root filesystems in `more`. The guests end after the block. Raises: HostError
    when a guest does not boot, or ends inside the block.

    While one guest is measured, the others are idle, not paused: an idle guest uses 0.4 % of a CPU even in software,
    and a paused guest would lose its time and its connections. The meter of the host counts the CPU time of idle guests
    as foreign load."""
    from lastro.guest import booted_guest
    from lastro.host.remote import remote_session

    beds, pids = dict[str, Testbed](), dict[str, int]()
    with ExitStack() as stack:
        for plan in plans:
            machine = stack.enter_context(booted_guest(controller, (image, *more), plan))
            own = remote_session(controller, machine.target, purpose, directory=machine.home / "ledger")
            guest_session = stack.enter_context(own)
            guest_image = rootfs.on_host(image, guest_session.host, guest_session.state / "rootfs")
            bed = stack.enter_context(local_testbed(guest_session, guest_image))
            steps = (*machine.steps, *bed.preparation)
            beds[plan.name] = replace(bed, preparation=steps, guest=machine.facts, controller=controller)
            pids[plan.name] = machine.pid
        for name, bed in beds.items():
            beds[name] = replace(bed, rivals=frozenset(pid for other, pid in pids.items() if other != name))
        first = next(iter(beds.values()))
        yield replace(first, guests=beds if plans[0].name else {})


@contextmanager
def spread_testbed(
    controller: Session, image: Image, file: TestbedFile, purpose: str, wait: OnWait | None = None
) -> Iterator[Testbed]:
    """Yield a testbed whose roles are on the hosts that a testbed file names; the image is copied to each remote host.

    Raises: HostError when a host cannot be used, or lacks the CPUs of a role; HostBusy when another Lastro holds a host
    and `wait` is None."""
    from lastro.host.remote import remote_session

    with ExitStack() as stack:
        sessions: dict[Any, Session] = {None: controller}
        beds: dict[str, Testbed] = {}
        for role, plan in file.roles.items():
            if plan.target not in sessions:
                assert plan.target is not None
                sessions[plan.target] = stack.enter_context(remote_session(controller, plan.target, purpose, wait))
            host_session = sessions[plan.target]
            host_image = rootfs.on_host(image, host_session.host, host_session.state / "rootfs")
            stack.enter_context(_mounted_read_only(host_session, host_image))
            groups = _count_io(host_session, detect(files=host_session.host.view))
            bed = Testbed(host_session.host, host_session, host_image, groups, "", cpus=plan.cpus, cards=plan.links)
            beds[role] = bed if host_session is controller else replace(bed, controller=controller)
            if bed.cpus and (lacking := parse_cpus(bed.cpus) - set(bed.usable_cpus)):
                raise HostError(
                    f"the {role} needs the CPUs {bed.cpus}, but {bed.host.name} has no CPUs {sorted(lacking)}",
                    "in the testbed file, set `cpus` to CPUs that `taskset -pc $$` shows on that host",
                )
        dut = beds.pop("dut")
        with _dut_namespace(dut.session, "dut") as name:
            yield replace(dut, dut=name, others=beds, preparation=tuple(dut.host.transcript.records))


@contextmanager
def with_roots(bed: Testbed, images: Mapping[RootChange, Image], purpose: str) -> Iterator[Testbed]:
    """Yield `bed`, and each of its guests, with a testbed for each changed root filesystem (`Testbed.roots`)."""
    with ExitStack() as stack:

        def extended(one: Testbed) -> Testbed:
            roots = {}
            for number, (change, image) in enumerate(images.items(), start=1):
                root = stack.enter_context(_on_root(one, image, f"{purpose}: {change}"))
                roots[change] = replace(root, suffix=f"-{image.name}-{number}")  # variants may have the same image
            return replace(one, roots=roots)

        if bed.guests:
            guests = {name: extended(guest_bed) for name, guest_bed in bed.guests.items()}
            yield replace(next(iter(guests.values())), guests=guests)
        else:
            yield extended(bed)


@contextmanager
def _on_root(bed: Testbed, image: Image, purpose: str) -> Iterator[Testbed]:
    """Yield a testbed on the hosts of `bed` for a variant; its device under test has `image`.

    It has sessions of its own, and so its own daemons and namespaces. Other roles keep the root filesystem of `bed`."""
    from lastro.host.remote import session_beside

    with ExitStack() as stack:
        sessions = {
            held.token: stack.enter_context(session_beside(held, bed.local_session, purpose)) for held in bed.sessions
        }

        def moved(one: Testbed) -> Testbed:
            own = sessions[one.session.token]
            groups = _count_io(own, detect(files=own.host.view))
            return replace(one, host=own.host, session=own, cgroups=groups, apparatus=Apparatus())

        dut = moved(bed)
        dut_image = rootfs.on_host(image, dut.host, dut.session.state / "rootfs")
        with _mounted_read_only(dut.session, dut_image), _dut_namespace(dut.session, "dut") as name:
            yield replace(
                dut,
                image=dut_image,
                base=bed.image,
                dut=name,
                others={role: moved(other) for role, other in bed.others.items()},
                preparation=(*(bed.preparation if bed.guest else ()), *dut.host.transcript.records),
            )


@contextmanager
def _mounted_read_only(session: Session, image: Image) -> Iterator[None]:
    """Mount the image read-only and nosuid inside the block; layers over it are writable and honour setuid."""
    with session.host.recorded():  # not part of a trial
        tree = str(image.tree)
        place = mount_point(session.host, tree)
    if place in mounts_below(session.host, place):  # for another role, or by a session with the same state directory
        yield
        return
    with session.owned("mount", tree):
        with session.host.recorded():
            session.host.run(["mount", "--bind", place, place])
            session.host.run(["mount", "-o", "remount,bind,ro,nosuid,nodev", place])
        yield


def _count_io(session: Session, groups: Cgroups) -> Cgroups:
    """Return `groups`, after making them count the reads and writes of instances on the scratch directory's disk."""
    if device := block_device_of(session.scratch_dir, session.host):
        groups.count_io(session.host, session.cgroup, device)
    return groups


@contextmanager
def with_new_dut(testbed: Testbed, role: str) -> Iterator[Testbed]:
    """Yield the testbed with a new namespace of the DUT, without links; `role` is the last part of its name."""
    with _dut_namespace(testbed.session, role) as netns:
        yield replace(testbed, dut=netns)


@contextmanager
def _dut_namespace(session: Session, role: str) -> Iterator[str]:
    netns = session.netns_name(role)
    with session.owned("netns", netns):
        session.host.run(["ip", "netns", "add", netns])
        session.host.run(["ip", "-n", netns, "link", "set", "lo", "up"])
        set_sysctls(session.host, netns, QUIET)
        yield netns


def set_sysctls(host: Host, netns: str, values: dict[str, str]) -> None:
    """Set network sysctls, {name: value}, in a named network namespace, except names that the kernel does not have."""
    host.run(["nsenter", f"--net={NETNS_DIR / netns}", "sh", "-e"], stdin="\n".join(sysctl_lines(values)) + "\n")
