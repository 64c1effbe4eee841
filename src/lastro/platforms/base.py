"""Platforms and their instances: containers, guests, or the bare host, where a network namespace only holds ports."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from lastro.errors import LastroError, PlatformError, Unavailable
from lastro.host.activity import STAT, n_cpus
from lastro.host.apparatus import ApparatusWitness
from lastro.host.base import Completed, Host, Process
from lastro.host.cgroups import Resources, Usage
from lastro.host.ledger import NETNS_DIR
from lastro.host.shell import sysctl_lines
from lastro.host.threads import run_all
from lastro.platforms._gate import CALM_S, Gate, measure_argv, naming_command, serve_argv
from lastro.platforms._gate import MeasuredCommand as MeasuredCommand
from lastro.platforms._programs import PROGRAM, chosen_programs, require_program
from lastro.study.parts import Part
from lastro.testbed import Testbed, set_sysctls
from lastro.validity import ClockSample

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{1,39}")
_MESSAGES = 3  # two begin and end a measurement; one more, since the number of their wake-ups varies
_GRACE_S = 10.0  # time for a command inside to end and for its output to leave the instance
_UNWATCHED: AbstractContextManager[object] = nullcontext()


@dataclass(frozen=True, slots=True)
class Availability:
    """The outcome of probing a part: available, or unavailable for a reason."""

    reason: str | None = None  # None if the part is available
    remedy: str | None = None  # what the user can do; None if nothing is known to help

    def __bool__(self) -> bool:
        return self.reason is None


AVAILABLE = Availability()


def unavailable(error: LastroError) -> Availability:
    """Return the availability of a part whose probe failed with `error`."""
    return Availability(error.message, error.hint)


@dataclass(frozen=True, slots=True)
class Security:
    """The confinement of an instance. A mechanism whose field is None, False or empty is not used."""

    apparmor: str | None = None  # name of a profile that the kernel has loaded
    selinux: str | None = None  # type of the process's label
    seccomp: Mapping[str, Any] | None = None  # a filter in the form of the OCI runtime specification
    # For example CAP_NET_ADMIN; granted in addition to those that containers have by default.
    capabilities: tuple[str, ...] = ()
    drop_capabilities: bool = False  # the instance has only `capabilities`, without the default ones
    # Root inside is not root on the host, but controls the network namespace of the instance.
    user_namespace: bool = False
    # Only /tmp and /run (in memory) and /var/tmp (on the disk of the instance) are writable.
    read_only_root: bool = False
    # The command line of a program that confines itself and then executes its arguments. It is prepended to every
    # command that runs inside the instance.
    prefix: tuple[str, ...] = ()

    @property
    def mechanisms(self) -> frozenset[str]:
        """The names of the fields in use, except `capabilities` and `prefix`, which every platform can apply."""
        supported_by_all = ("capabilities", "prefix")
        return frozenset(f.name for f in fields(self) if f.name not in supported_by_all and getattr(self, f.name))


@dataclass(frozen=True, slots=True)
class InstanceSpec:
    """The specification of an instance to start."""

    name: str  # unique in the testbed
    role: str  # in the scenario
    resources: Resources = field(default_factory=Resources)
    security: Security = field(default_factory=Security)
    sysctls: Mapping[str, str] = field(default_factory=dict)
    # Names of the interfaces that the instance will get. An instance to which no interface can be added while it runs
    # starts when they exist.
    ports: tuple[str, ...] = ()
    # An existing network namespace in which the instance runs, such as that of a role. It outlives the instance.
    netns: str | None = None
    own_network: bool = False  # the platform itself makes the networks of the instance (see `Docker.own_network`)
    # A TCP port of an instance with its own network, as for `docker run --publish`: ADDRESS:PORT:INSIDE.
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
    """An interface `name` of an instance."""

    instance: Instance
    name: str
    address: str  # in CIDR form; empty if the interface already has one when `Instance.plug` configures it
    routes: tuple[str, ...] = ()  # such as 'DESTINATION via GATEWAY'

    @property
    def netns(self) -> str:
        return self.instance.netns

    @property
    def ip(self) -> str:
        """The address without the prefix length."""
        return self.address.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Tap:
    """A virtual machine's end of a link: the device `link` in the DUT's namespace, which the monitor opens.

    With `offloads`, the machine may send packets of many segments or without checksums. Without, the next device on the
    link cannot split or complete such packets. The machine's card must then not offer this to the guest.

    `swapping` returns a context manager. Inside its block, another device may take the place and the name of `link`. It
    is for a switch that does not notice such a replacement by itself; None if the link is not on such a switch."""

    link: str
    kind: str = "tap"  # or "macvtap"
    offloads: bool = True
    swapping: Callable[[], AbstractContextManager[None]] | None = None


class Instance:
    """A running instance. `netns` is the name, in /run/netns, of the namespace to which links are connected.

    `cgroup` contains all processes of the instance: the host reads their usage from it. `enter` is the prefix of a
    command line that runs inside."""

    # Its links end in a tap in the DUT's namespace, not in an interface of its own namespace.
    takes_taps: ClassVar[bool] = False
    shares_kernel: ClassVar[bool] = True  # it runs on the host's kernel, with the host's nftables, clocks and processes
    # It can use only the links that exist when it starts, so it starts after they are connected.
    starts_on_links: ClassVar[bool] = False
    has_nftables: ClassVar[bool] = True  # its kernel supports nftables
    # Inside the instance; its files are in memory, and are gone when the instance ends.
    memory_dir: ClassVar[str] = "/dev/shm"
    own_settings: ClassVar[bool] = False  # settings of its network can be set only by commands inside
    idle_wake_ups_per_s: ClassVar[float] = 0.0  # how often an idle `daemon` wakes up
    daemon: str = ""  # cgroup of the daemon through which commands reach the instance; empty if there is none
    # The instance or its monitor sends packets from sockets in the DUT's namespace, so its links carry none.
    sends_by_host: bool = False
    host_cache: str = ""  # QEMU's name of the cache mode in which the host caches a machine's disk; empty if unknown
    _commands: int = 0  # number of commands that `measure` and `during` have run
    _wake_ups_per_message: int | None = None  # wake-ups of the apparatus by a message into the instance and its answer

    def __init__(
        self, testbed: Testbed, spec: InstanceSpec, *, netns: str, cgroup: str, enter: Sequence[str] = ()
    ) -> None:
        self.testbed, self.spec, self.netns, self.cgroup, self.enter = testbed, spec, netns, cgroup, enter
        if cgroup:
            testbed.apparatus.instances.add(cgroup)

    def wrap(self, argv: Sequence[str]) -> list[str]:
        """Return the command line for the host that runs `argv` inside the instance, and passes on standard input."""
        if not self.enter:  # the command would run on the host
            raise NotImplementedError(f"{type(self).__name__}: pass `enter`, or define `wrap`")
        return [*self.enter, *argv]

    def run(
        self, argv: Sequence[str], *, stdin: str | bytes | None = None, timeout_s: float = 60.0, check: bool = True
    ) -> Completed:
        """Run `argv` inside the instance, like `Host.run`. Use `measure` for a command that measures."""
        return self.testbed.host.run(self._inside(argv), stdin=stdin, timeout_s=timeout_s, check=check)

    def spawn(self, argv: Sequence[str]) -> Process:
        """Start `argv` inside the instance, and return the process on the host that stands for it.

        The host gets its output line by line while it runs. With `during`, the output stays inside until the end."""
        return self.testbed.host.spawn(self._inside(argv))

    def measure(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 60.0,
        check: bool = True,
        watch: AbstractContextManager[object] = _UNWATCHED,
    ) -> MeasuredCommand:
        """Run a command that measures, so that the apparatus is idle from its start to its end.

        Exec into the instance is complete before the command starts. The command's output stays in memory inside the
        instance until the command has ended. `watch` is entered after the exec and before the start, and left before
        the output is read. Inside `watch`, the apparatus counts what else is active on the host.

        Raises: CommandFailed if the instance ends, or if `check` is true and the exit code is not 0; CommandTimeout."""
        inside = self._inside(measure_argv(self._memory_file(), argv))
        gate = Gate(self.testbed.host.spawn(inside, fed=True, whole=True), argv)
        witness = ApparatusWitness(self.testbed.apparatus, self.testbed.session, self.testbed.cgroups, self.daemon)
        with gate.running():
            if self._wake_ups_per_message is None:
                self._wake_ups_per_message = witness.wake_ups(gate.exchange, CALM_S)
            if not self.shares_kernel:
                gate.time_messages()
            with watch, witness.watching(_MESSAGES * self._wake_ups_per_message, self.idle_wake_ups_per_s):
                gate.run(timeout_s)
            gate.release_output()
        measured = gate.result
        if check:
            measured.done.require_success()
        return measured

    @contextmanager
    def during(self, argv: Sequence[str], ready: str, timeout_s: float = 15.0) -> Iterator[Process]:
        """Run `argv` inside the instance while the block runs, then kill it.

        The block begins when the command has printed `ready`. During the block, neither the command's output nor its
        exit is visible outside the instance. After the block, `stop` returns a line "ready", and then the output.

        `spawn`, in contrast, can only kill a process on the host. Where a daemon runs the command, this process is the
        daemon's client, and the command itself would continue.

        Raises: CommandFailed when the command ends before it prints `ready`; CommandTimeout after `timeout_s`."""
        process = self.testbed.host.spawn(self._inside(serve_argv(self._memory_file(), ready, argv)), fed=True)
        try:
            with naming_command(argv):
                process.wait_line("ready\n", timeout_s)
            yield process
        finally:
            process.send("give")
            process.ended_within(_GRACE_S)
            process.stop()

    def _memory_file(self) -> str:
        """Return the prefix of the paths, inside the instance, of one command's files in memory.

        A counter, not a random name, makes prefixes unique, so that a script can repeat the commands of a trial."""
        self._commands += 1
        return f"{self.memory_dir}/lastro-{self._commands}"

    def _inside(self, argv: Sequence[str]) -> list[str]:
        """Return the command line for the host that runs `argv` inside, with the instance's limits and confinement."""
        files = self.spec.resources.open_files
        limited = [] if files is None else ["prlimit", f"--nofile={files}:{files}"]
        return self.wrap([*limited, *self.spec.security.prefix, *argv])

    def run_with_rights(self, script: str, *, of_host: bool = False) -> str:
        """Run a shell script on the files of the instance, with more rights than its processes have; return its output.

        In an instance with a kernel of its own, the script has the rights of root. On the host's kernel, it has all
        rights within the user namespace of the instance, or with `of_host` all rights on the host. Therefore, no
        program of the user may have run in the instance before.

        Raises: CommandFailed."""
        if not self.shares_kernel:
            return self.run(["sh", "-e"], stdin=script).text
        pids = " ".join(map(str, sorted(self.pids())))
        # The instance's cgroup may also contain a process of the platform, whose root is that of the host.
        enter = f'for pid in {pids}; do [ /proc/$pid/root/ -ef / ] || exec nsenter -t $pid "$@" -r sh -e; done; exit 1'
        namespaces = ("--mount", "--net", "--pid") if of_host else ("--all",)
        return self.testbed.host.run(["sh", "-c", enter, "enter", *namespaces], stdin=script).text

    def usage(self) -> Usage:
        """Return the usage since the start, from the instance's own cgroup. Raises: PlatformError when it has ended."""
        try:
            return self.testbed.cgroups.usage(self.cgroup)
        except OSError as error:
            raise PlatformError(f"instance {self.spec.name} is gone: {error}") from error

    def limits_outside(self) -> Resources:
        """Return the limits that the host's kernel enforces on the instance's own cgroup."""
        return self.spec.resources

    def clock(self) -> ClockSample | None:
        """Return a reading of the instance's clocks and the host's; None if the instance has the host's clocks."""
        return None

    def pids(self) -> set[int]:
        """Return the PIDs of the instance's processes, as the host sees them."""
        return self.testbed.cgroups.pids(self.cgroup)

    def written_bytes(self) -> int:
        """Return the total bytes that the instance's running processes have passed to write(2) and similar calls.

        They are read from /proc, since the counters of cgroup v1 miss buffered writes."""
        total = 0
        for pid in self.pids():
            with suppress(OSError, ValueError, StopIteration):
                text = self.testbed.host.read_text(f"/proc/{pid}/io")
                total += int(next(line.split()[1] for line in text.splitlines() if line.startswith("wchar:")))
        return total

    def plug(self, ports: Sequence[Port], taps: Mapping[str, Tap]) -> None:
        """Configure the existing interfaces of `ports`: set their addresses, bring them up, and add their routes.

        `taps` maps the name of a port to its tap, for an instance with `takes_taps`. This may start the instance;
        `ready` waits until it has started."""
        lines = [line for port in ports for line in configuration(port)]
        self.testbed.host.run(["ip", "-n", self.netns, "-batch", "-"], stdin="\n".join(lines) + "\n")

    def ready(self) -> None:
        """Wait until the instance runs and its links are up. Raises: PlatformError if it does not start."""

    def links(self) -> list[dict[str, Any]]:
        """Return the interfaces of the instance with their counters, in the format of `ip -json -statistics link`."""
        return self.testbed.host.run_json(["ip", "-n", self.netns, "-j", "-s", "link", "show"])

    def set_sysctls(self, values: Mapping[str, str]) -> None:
        """Set network settings of the instance's kernel; settings that the kernel does not have are ignored."""
        if not self.own_settings:
            set_sysctls(self.testbed.host, self.netns, dict(values))
        elif values:  # without the confinement of other commands
            script = "".join(f"{line}\n" for line in sysctl_lines(values))
            self.testbed.host.run(self.wrap(["sh", "-e"]), stdin=script)

    def send_single_segments(self, link: str) -> None:
        """Make the instance's kernel send only single segments over `link`, never packets that a card must divide.

        This works on every link; turning off offloads does not, since a macvlan's offloads cannot be turned off."""
        self._on_links(["ip", "link", "set", link, "gso_max_segs", "1"])

    def complete_checksums(self, link: str) -> None:
        """Make the instance's kernel compute the checksums of what it sends over `link`, never leave them to a card.

        Raises: Unavailable for a link that does not allow it."""
        script = 'ethtool --offload "$1" tx off; ethtool --show-offload "$1" | grep -q "^tx-checksumming: off"'
        done = self._on_links(["sh", "-c", script, "sh", link], check=False)
        if done.returncode != 0:
            raise Unavailable(
                f"the kernel of {self.spec.role} cannot complete checksums on {link}: its link leaves them to a card",
                'use an attachment by veth, or implementation = "kernel"',
            )

    def _on_links(self, argv: Sequence[str], *, check: bool = True) -> Completed:
        """Run a command that configures the instance's links, with the necessary rights."""
        return self.testbed.host.run(["nsenter", f"--net={NETNS_DIR / self.netns}", *argv], check=check)


def configuration(port: Port) -> list[str]:
    """Return the `ip -batch` commands, for a port's namespace, that set its address and routes, and bring it up."""
    routes = [f"route add {route} dev {port.name}" for route in port.routes]
    flag = " nodad" if ":" in port.address else ""  # without a check for duplicates, which would delay the address
    address = [f"address add {port.address} dev {port.name}{flag}"] if port.address else []
    return [*address, f"link set {port.name} up", *routes]


class Platform(Part):
    """A way to host instances.

    `confines`, `sends_by_host` and `shares_kernel` may depend on options. `sends_by_host` and `shares_kernel` have the
    same meaning, and the same value, as in the platform's instances."""

    kind = "platform"
    # Prints the version of the platform's program, for provenance (see `host.facts.program`).
    version_argv: ClassVar[tuple[str, ...]] = ()
    confines: frozenset[str] = frozenset()  # names of the fields of `Security` that the platform can apply
    sends_by_host: bool = False
    shares_kernel: bool = True
    start_s: ClassVar[float] = 0.15  # approximate seconds to start and end an instance; for plans without measurements
    slowdown: ClassVar[float] = 1.0  # approximate time of a computation, relative to the bare host; for plans only
    bare: ClassVar[bool] = False  # whether its instances are processes of the host itself, without virtualization
    guests: ClassVar[bool] = False  # whether its instances are virtual machines, with cards that only they configure
    least_memory_bytes: ClassVar[int] = 0  # the lowest limit on memory with which an instance starts
    hypervisor: ClassVar[str] = ""  # `hypervisor` that the file of a guest testbed must have; empty: any
    own_cgroups: tuple[str, ...] = ()  # of daemons: their usage is the platform's cost, not foreign load

    @abstractmethod
    def start(self, testbed: Testbed, spec: InstanceSpec) -> AbstractContextManager[Instance]:
        """Start an instance that runs inside the block; end and remove it at the end of the block.

        Raises: PlatformError when it does not start; Unavailable when the platform cannot satisfy `spec`."""

    @contextmanager
    def prepare(self, testbed: Testbed) -> Iterator[None]:
        """Set up, for the block, what all instances share; by default, only check the programs that the study chose."""
        self.require_programs(testbed)
        yield

    def image_files(self, testbed: Testbed) -> tuple[Path, ...]:
        """Return the files and directories on the host from which instances start. Call it inside `prepare`."""
        return (testbed.image.tree,)

    def residuals(self, testbed: Testbed) -> dict[str, str]:
        """Return {name: value} of properties in which this platform inevitably differs from others, for the report."""
        return {}

    def hidden_usage(self, testbed: Testbed) -> Usage:
        """Return the CPU time and memory of instances that are missing in the host's /proc, such as Xen domains."""
        return Usage()

    def host_cpus(self, testbed: Testbed) -> int:
        """Return the number of CPUs on which the host and its instances run."""
        return n_cpus(testbed.host.read_text(STAT))

    def probe(self, testbed: Testbed) -> Availability:
        """Return whether an instance starts here and can ping its own loopback address. Call it inside `prepare`."""
        spec = InstanceSpec(name=f"probe-{self.name}", role="probe")
        try:
            with self.start(testbed, spec) as instance:
                instance.run(["ping", "-c", "1", "-W", "2", "127.0.0.1"], timeout_s=20)
                return self.verify(instance)
        except LastroError as error:
            return unavailable(error)

    def verify(self, instance: Instance) -> Availability:
        """Return whether a running instance is what the platform promises; part of `probe`."""
        return AVAILABLE

    @property
    def programs(self) -> dict[str, str]:
        """The programs that the study chose by their path, as {name of the option: path}."""
        return chosen_programs(self.options, self.chosen)

    def chosen_path(self, name: str, option: str = PROGRAM) -> str:
        """Return the path that the study chose in `option`, or else `name`, which is looked up in the PATH."""
        return self.programs.get(option, name)

    def require_programs(self, testbed: Testbed) -> None:
        """Check the programs that the study chose. Raises: Unavailable when one cannot run or is another program."""
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
    """Start an instance on `platform` for each specification, at most `at_once` at the same time; see `start_each`."""
    return start_each(stack, [platform.start(testbed, spec) for spec in specs], at_once=at_once)


def start_each(
    stack: ExitStack, managers: Sequence[AbstractContextManager[Instance]], *, at_once: int = 20
) -> list[Instance]:
    """Enter the managers, at most `at_once` at the same time, and return their instances in the order of `managers`.

    When `stack` closes, the instances end one by one, in reverse order.

    Raises: the first error, after all other starts have finished. The others also end when `stack` closes."""
    started: set[int] = set()

    def start(position: int) -> Instance:
        instance = managers[position].__enter__()
        started.add(position)
        return instance

    try:
        futures = run_all([partial(start, position) for position in range(len(managers))], at_once)
    finally:
        for position in sorted(started):
            stack.push(managers[position])
    return [future.result() for future in futures]


@contextmanager
def instance_netns(host: Host, testbed: Testbed, spec: InstanceSpec, *, made_by_runtime: bool = False) -> Iterator[str]:
    """Yield the name of an instance's network namespace.

    The namespace is new, and removed after the block, unless `spec` names an existing one. With `made_by_runtime`, it
    is always new, and the container runtime makes it: the name becomes valid when the instance has started."""
    if spec.netns is not None and not made_by_runtime:
        yield spec.netns
        return
    name = testbed.session.netns_name(spec.name)
    with testbed.session.owned("netns", name):
        if not made_by_runtime:
            host.run(["sh", "-ec", f"ip netns add {name}; exec ip -n {name} link set lo up"])
        yield name
