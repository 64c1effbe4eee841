"""Platforms and their instances: containers, guests, or the bare host with a network namespace used only as a cable."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from lastro.errors import CommandFailed, LastroError, PlatformError, Unavailable
from lastro.host.activity import STAT, n_cpus
from lastro.host.apparatus import ApparatusWitness
from lastro.host.base import Completed, Host, Process
from lastro.host.cgroups import Resources, Usage
from lastro.host.threads import all_of
from lastro.platforms._gate import CALM_S, Gate, measuring, named, serving
from lastro.platforms._gate import MeasuredCommand as MeasuredCommand
from lastro.platforms._programs import PROGRAM, chosen_programs, require_program
from lastro.study.parts import Part
from lastro.testbed import Testbed, set_sysctls
from lastro.validity import ClockSample

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{1,39}")
_MESSAGES = 3  # begin and end a measurement: two, and the usual spread of what they wake
_GRACE_S = 10.0  # for the end of a command inside, and for its output to come out
_NOTHING: AbstractContextManager[object] = nullcontext()


@dataclass(frozen=True, slots=True)
class Availability:
    """The outcome of probing a part: available, or unavailable with a reason and, if there is one, a remedy."""

    reason: str | None = None
    remedy: str | None = None

    def __bool__(self) -> bool:
        return self.reason is None


AVAILABLE = Availability()


def unavailable(error: LastroError) -> Availability:
    """Return the availability of a part whose attempt failed with `error`."""
    return Availability(error.message, error.hint)


@dataclass(frozen=True, slots=True)
class Security:
    """The confinement of an instance. None and False mean that a mechanism is not used.

    `capabilities`, such as CAP_NET_ADMIN, are added to the usual ones of a container; with `drop_capabilities`, the
    instance has no others. With `user_namespace`, id 0 inside is not the root of the host, but it controls the network
    namespace of the instance. With `read_only_root`, only /tmp and /run (in memory) and /var/tmp (on the disk of the
    instance) are writable. `prefix` is put before every command: a program that confines itself and then becomes the
    command."""

    apparmor: str | None = None  # name of a profile that the kernel has loaded
    selinux: str | None = None  # type of the process's label
    seccomp: Mapping[str, Any] | None = None  # a filter in the form of the OCI runtime specification
    capabilities: tuple[str, ...] = ()
    drop_capabilities: bool = False
    user_namespace: bool = False
    read_only_root: bool = False
    prefix: tuple[str, ...] = ()

    @property
    def mechanisms(self) -> frozenset[str]:
        """The mechanisms in use that a platform must know how to apply."""
        apart = ("capabilities", "prefix")
        return frozenset(f.name for f in fields(self) if f.name not in apart and getattr(self, f.name))


@dataclass(frozen=True, slots=True)
class InstanceSpec:
    """The specification of an instance to start.

    `name` is unique in the testbed; `role` is the role of the instance in the scenario. `ports` are the interfaces that
    it will get; on platforms that cannot add them later, the instance starts only once they exist. `netns` is an
    existing namespace, such as that of a role: the instance runs in it, and does not remove it. `published` is a TCP
    port of the instance on a network of the platform's own, as `docker run --publish` takes it: ADDRESS:PORT:INSIDE
    (see `Docker.own_network`)."""

    name: str
    role: str
    resources: Resources = field(default_factory=Resources)
    security: Security = field(default_factory=Security)
    sysctls: Mapping[str, str] = field(default_factory=dict)
    ports: tuple[str, ...] = ()
    netns: str | None = None
    published: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise PlatformError(
                f"{self.name!r} cannot name an instance", "use 2 to 40 letters, digits, '-', '_' and '.'"
            )

    def with_security(self, **changes: Any) -> InstanceSpec:
        return replace(self, security=replace(self.security, **changes))


@dataclass(frozen=True, slots=True)
class Port:
    """An interface `name` of an instance, with an address in CIDR form and routes such as 'DESTINATION via GATEWAY'.

    The address is empty if who made the interface has given it one."""

    instance: Instance
    name: str
    address: str
    routes: tuple[str, ...] = ()

    @property
    def netns(self) -> str:
        return self.instance.netns

    @property
    def ip(self) -> str:
        """The address without the length of its prefix."""
        return self.address.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Tap:
    """The end of a link that a virtual machine opens: the device `link` in the DUT's namespace.

    With `offloads`, the machine may send packets of many segments or without checksums. If the reader of the tap cannot
    complete them, the machine's network card must not offer this to the guest; otherwise TCP would never connect.

    `swapping` is a context in which another device may take the place and the name of the link, for a switch that does
    not notice it by itself; None if there is no such switch."""

    link: str
    kind: str = "tap"  # or "macvtap"
    offloads: bool = True
    swapping: Callable[[], AbstractContextManager[None]] | None = None


class Instance(ABC):
    """A running instance.

    `netns` names the network namespace (in /run/netns) to which links are connected; `cgroup` is the group of all its
    processes, so that its usage can be read from outside.
    `takes_taps`: its links end in a tap in the DUT's namespace, not in an interface of its own namespace.
    `shares_kernel`: it runs on the host's kernel, with the host's nftables, clocks and processes.
    `starts_on_links`: it takes over its links when it starts, so it starts after they are connected.
    `has_nftables`: its kernel supports nftables.
    `memory_dir`: a directory inside whose files are in memory, and end with the instance.
    `daemon`: the cgroup of the daemon that passes commands on, if any; it wakes up `idle_wake_ups_per_s` when it idles.
    `sends_by_host`: its packets are sent from sockets of the DUT's namespace, by itself or by its monitor, so its links
    carry none.
    `host_cache`: the mode in which the host caches the disk of a machine, by QEMU's names; empty if unknown."""

    takes_taps: ClassVar[bool] = False
    shares_kernel: ClassVar[bool] = True
    starts_on_links: ClassVar[bool] = False
    has_nftables: ClassVar[bool] = True
    memory_dir: ClassVar[str] = "/dev/shm"
    idle_wake_ups_per_s: ClassVar[float] = 0.0
    daemon: str = ""
    sends_by_host: bool = False
    host_cache: str = ""
    _commands: int = 0  # of `measure` and `during`
    _usual: int | None = None  # wake-ups of the apparatus by a message into the instance and back

    def __init__(self, testbed: Testbed, spec: InstanceSpec, *, netns: str, cgroup: str) -> None:
        self.testbed, self.spec, self.netns, self.cgroup = testbed, spec, netns, cgroup
        if cgroup:
            testbed.apparatus.instances.add(cgroup)

    @abstractmethod
    def wrap(self, argv: Sequence[str]) -> list[str]:
        """Return the host's argv that runs `argv` inside, with standard input passed on."""

    def run(
        self, argv: Sequence[str], *, stdin: str | bytes | None = None, timeout_s: float = 60.0, check: bool = True
    ) -> Completed:
        """Run `argv` inside as `Host.run` does. A command that measures needs `measure`."""
        return self.testbed.host.run(self._inside(argv), stdin=stdin, timeout_s=timeout_s, check=check)

    def spawn(self, argv: Sequence[str]) -> Process:
        """Run `argv` inside in the background. What it prints leaves the instance line by line: see `during`."""
        return self.testbed.host.spawn(self._inside(argv))

    def measure(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 60.0,
        check: bool = True,
        watch: AbstractContextManager[object] = _NOTHING,
    ) -> MeasuredCommand:
        """Run a command that measures: outside of its instance, nothing happens from its start to its end.

        It starts inside when exec into the instance is over, and its output is in memory there until it has ended.
        `watch` is entered between exec and the start, and left before the output is read. The testbed's apparatus
        counts what runs meanwhile on the host that is not an instance.

        Raises: CommandFailed when `check` and the exit code is not 0, or when the instance ends; CommandTimeout."""
        gate = Gate(
            self.testbed.host.spawn(self._inside(measuring(self._memory_file(), argv)), fed=True, whole=True), argv
        )
        witness = ApparatusWitness(self.testbed.apparatus, self.testbed.session, self.testbed.cgroups, self.daemon)
        with gate.entered():
            if self._usual is None:
                self._usual = witness.wake_ups(gate.exchange, CALM_S)
            if not self.shares_kernel:
                gate.time_messages()
            with watch, witness.watching(_MESSAGES * self._usual, self.idle_wake_ups_per_s):
                gate.run(timeout_s)
            gate.give()
        found = gate.measured
        if check and found.done.returncode != 0:
            raise CommandFailed(argv, found.done.returncode, found.done.error_text or found.done.text)
        return found

    @contextmanager
    def during(self, argv: Sequence[str], ready: str, timeout_s: float = 15.0) -> Iterator[Process]:
        """Run `argv` inside for as long as the block runs, and then kill it inside.

        The block begins when the command has printed `ready`. Inside the block, neither the command's output nor its
        exit is visible outside the instance. After the block, `stop` of the process returns a line "ready" and then all
        output. (`spawn` kills only what runs on the host: where a daemon runs the command, that is a client, and the
        command itself would go on.)

        Raises: CommandFailed when the command ends before it prints `ready`; CommandTimeout after `timeout_s`."""
        process = self.testbed.host.spawn(self._inside(serving(self._memory_file(), ready, argv)), fed=True)
        try:
            with named(argv):
                process.wait_line("ready\n", timeout_s)
            yield process
        finally:
            process.send("give")
            process.ended_within(_GRACE_S)
            process.stop()

    def _memory_file(self) -> str:
        """Return the beginning of a file's name; not a random one: a trial may be repeated by hand."""
        self._commands += 1
        return f"{self.memory_dir}/lastro-{self._commands}"

    def _inside(self, argv: Sequence[str]) -> list[str]:
        files = self.spec.resources.open_files
        limited = [] if files is None else ["prlimit", f"--nofile={files}:{files}"]
        return self.wrap([*limited, *self.spec.security.prefix, *argv])

    def run_with_rights(self, script: str, *, of_host: bool = False) -> str:
        """Run a script for sh on the files of the instance, with rights that no process inside needs to have.

        On the host's kernel, these are the host's own, or all within the user namespace of the instance unless
        `of_host`, so nothing of a user may have run inside before. On another kernel, they are those of its root.
        Return what it prints. Raises: CommandFailed."""
        if not self.shares_kernel:
            return self.run(["sh", "-e"], stdin=script).text
        pids = " ".join(map(str, sorted(self.pids())))
        # A process of the tool that watches the instance may be in its group, too.
        entering = (
            f'for pid in {pids}; do [ /proc/$pid/root/ -ef / ] || exec nsenter -t $pid "$@" -r sh -e; done; exit 1'
        )
        namespaces = ("--mount", "--net", "--pid") if of_host else ("--all",)
        return self.testbed.host.run(["sh", "-c", entering, "enter", *namespaces], stdin=script).text

    def usage(self) -> Usage:
        """Return CPU time, memory and disk traffic since the start, from the instance's own cgroup.

        Raises: PlatformError when the instance has ended."""
        try:
            return self.testbed.cgroups.usage(self.cgroup)
        except OSError as error:
            raise PlatformError(f"instance {self.spec.name} is gone: {error}") from error

    def limits_outside(self) -> Resources:
        """Return the limits that the host's kernel enforces on the instance's own cgroup."""
        return self.spec.resources

    def clock(self) -> ClockSample | None:
        """Return a reading of its clocks against the host's; None if it has the host's clocks."""
        return None

    def pids(self) -> set[int]:
        """Return the ids of the instance's processes on the host."""
        return self.testbed.cgroups.pids(self.cgroup)

    def written_bytes(self) -> int:
        """Return the bytes that its running processes passed to write(2) etc.; cgroup v1 misses buffered writes."""
        total = 0
        for pid in self.pids():
            with suppress(OSError, ValueError, StopIteration):
                text = self.testbed.host.read_text(f"/proc/{pid}/io")
                total += int(next(line.split()[1] for line in text.splitlines() if line.startswith("wchar:")))
        return total

    # Its network

    def plug(self, ports: Sequence[Port], taps: Mapping[str, Tap]) -> None:
        """Configure existing links: addresses, state and routes. `taps` has the names of ports as keys.

        This may start the instance, but does not wait for it; `ready` does."""
        lines = [line for port in ports for line in configuration(port)]
        self.testbed.host.run(["ip", "-n", self.netns, "-batch", "-"], stdin="\n".join(lines) + "\n")

    def ready(self) -> None:  # noqa: B027 - most run as soon as they have started
        """Wait until it runs and its links are up. Raises: PlatformError if it does not start."""

    def links(self) -> list[dict[str, Any]]:
        """Return its interfaces with their counters, in the format of `ip -json -statistics link`."""
        return self.testbed.host.run_json(["ip", "-n", self.netns, "-j", "-s", "link", "show"])  # type: ignore[no-any-return]

    def set_sysctls(self, values: Mapping[str, str]) -> None:
        """Set network settings of its kernel, except those that the kernel does not have."""
        set_sysctls(self.testbed.host, self.netns, dict(values))

    def send_single_segments(self, link: str) -> None:
        """Make its kernel send single segments over a link, never several in one packet that a card divides.

        A macvlan does not let its offloads be turned off, but all links have this limit."""
        self.testbed.host.run(["ip", "-n", self.netns, *single_segments(link)])


def single_segments(link: str) -> list[str]:
    """Return the words for `ip` that limit a link to single segments."""
    return ["link", "set", link, "gso_max_segs", "1"]


def configuration(port: Port) -> list[str]:
    """Return lines for `ip -batch` that configure a port, in its own namespace."""
    routes = [f"route add {route} dev {port.name}" for route in port.routes]
    usable = " nodad" if ":" in port.address else ""  # the kernel need not look whether another has the address
    address = [f"address add {port.address} dev {port.name}{usable}"] if port.address else []
    return [*address, f"link set {port.name} up", *routes]


class Platform(Part):
    """A way to host instances.

    `version_argv` prints the version of the platform's program, for provenance (see `host.facts.program`). `confines`
    are the mechanisms of `Security` that the platform can apply. `sends_by_host` is that of its instances; it may
    depend on options."""

    kind = "platform"
    version_argv: ClassVar[tuple[str, ...]] = ()
    confines: frozenset[str] = frozenset()  # it may depend on options
    sends_by_host: bool = False
    shares_kernel: bool = True  # whether its instances run on the host's kernel; it may depend on options
    start_s: ClassVar[float] = 0.15  # seconds to start and end an instance, about; for plans without measurements
    slowdown: ClassVar[float] = 1.0  # of a computation against the bare host, about; for plans only
    bare: ClassVar[bool] = False  # whether its instances are processes of the host itself, without virtualization
    guests: ClassVar[bool] = False  # whether its instances are virtual machines, with cards that only they configure
    least_memory_bytes: ClassVar[int] = 0  # with a lower limit on memory, no instance starts
    hypervisor: ClassVar[str] = ""  # in a guest, its testbed file must have this `hypervisor`; empty: any
    own_cgroups: tuple[str, ...] = ()  # of daemons: their usage is the platform's cost, not foreign load

    @abstractmethod
    def start(self, testbed: Testbed, spec: InstanceSpec) -> AbstractContextManager[Instance]:
        """Start an instance that runs inside the block, and remove everything of it afterwards.

        Raises: PlatformError when it does not start; Unavailable when the platform cannot satisfy `spec`."""

    @contextmanager
    def prepare(self, testbed: Testbed) -> Iterator[None]:
        """Set up what the platform needs once for many instances, such as a daemon."""
        yield

    def image_files(self, testbed: Testbed) -> tuple[Path, ...]:
        """Return the files and directories on the host from which instances start. Requires `prepare`."""
        return (testbed.image.tree,)

    def residuals(self, testbed: Testbed) -> dict[str, str]:
        """Return what differs on this platform although the study holds it equal."""
        return {}

    def hidden_usage(self, testbed: Testbed) -> Usage:
        """Return the CPU time and memory of instances that the host's /proc does not show, as under Xen."""
        return Usage()

    def host_cpus(self, testbed: Testbed) -> int:
        """Return the number of CPUs on which the host and its instances run."""
        return n_cpus(testbed.host.read_text(STAT))

    def probe(self, testbed: Testbed) -> Availability:
        """Start an instance, run a command in it, and ping its own loopback address. Requires `prepare`."""
        spec = InstanceSpec(name=f"probe-{self.name}", role="probe")
        try:
            with self.start(testbed, spec) as instance:
                instance.run(["ping", "-c", "1", "-W", "2", "127.0.0.1"], timeout_s=20)
        except LastroError as error:
            return unavailable(error)
        return AVAILABLE

    @property
    def programs(self) -> dict[str, str]:
        """The programs that were chosen by their path, by the names of their options."""
        return chosen_programs(self.options, self.chosen)

    def started(self, name: str, option: str = PROGRAM) -> str:
        """Return the program to start: the path that was chosen, or else a name that is looked for in the PATH."""
        return self.programs.get(option, name)

    def require_programs(self, testbed: Testbed) -> None:
        """Check the programs that were chosen. Raises: Unavailable when one cannot be used, or is another one."""
        options = {option.name: option for option in self.options}
        for name, path in self.programs.items():
            require_program(testbed.host, options[name], path)

    def require_confinement(self, spec: InstanceSpec) -> None:
        """Check that the platform can confine an instance as `spec` asks. Raises: Unavailable if it cannot."""
        for mechanism in sorted(spec.security.mechanisms - self.confines):
            raise Unavailable(
                f"{self.name} cannot confine an instance by {mechanism.replace('_', ' ')}",
                "compare this isolation on a platform that has it: `lastro doctor` shows which",
            )


def start_all(
    stack: ExitStack, platform: Platform, testbed: Testbed, specs: Sequence[InstanceSpec], *, at_once: int = 20
) -> list[Instance]:
    """Start instances on one platform in parallel, as `start_each`, and return them in the order of `specs`."""
    return start_each(stack, [platform.start(testbed, spec) for spec in specs], at_once=at_once)


def start_each(
    stack: ExitStack, managers: Sequence[AbstractContextManager[Instance]], *, at_once: int = 20
) -> list[Instance]:
    """Start instances in parallel and return them in this order; they end with the stack, the last one first.

    Raises: the first error, after all other starts have finished; instances that did start then end with the stack."""
    started: set[int] = set()

    def start(position: int) -> Instance:
        instance = managers[position].__enter__()
        started.add(position)
        return instance

    try:
        futures = all_of([partial(start, position) for position in range(len(managers))], at_once)
    finally:
        for position in sorted(started):
            stack.push(managers[position])
    return [future.result() for future in futures]


def instance_netns(host: Host, testbed: Testbed, spec: InstanceSpec) -> AbstractContextManager[str]:
    """Return the network namespace of an instance: a new one owned by the session, or the one that `spec` names."""
    if spec.netns is not None:
        return nullcontext(spec.netns)
    return _netns(host, testbed, testbed.session.netns_name(spec.name))


@contextmanager
def _netns(host: Host, testbed: Testbed, name: str) -> Iterator[str]:
    with testbed.session.owned("netns", name):
        host.run(["sh", "-ec", f"ip netns add {name}; exec ip -n {name} link set lo up"])
        yield name
