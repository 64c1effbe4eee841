"""The base of virtual machine platforms: the files that a guest boots, its directories, its cgroup, and its start."""

from __future__ import annotations

import math
import shlex
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from lastro.errors import LastroError, Unavailable
from lastro.host.base import Host, Process
from lastro.host.cgroups import Resources
from lastro.image import guest
from lastro.platforms._machine import MachineInstance, send_client
from lastro.platforms.base import Instance, InstanceSpec, Platform, Port, Tap
from lastro.study.model import Setting
from lastro.testbed import Testbed
from lastro.units import parse_size_bytes

_COPY_TIMEOUT_S = 600.0
_EMULATED = 12  # times as long does a guest take to boot on an emulated host, at most
_UNGUARDED = "mitigations=off"  # on a kernel's command line. Source: kernel-parameters.txt

VCPUS = Setting("vcpus", 0, "virtual CPUs; 0: enough for the CPU limit, or one", 0, 32)
MEMORY = Setting("memory", "512M", "memory of a guest without a memory limit", check=parse_size_bytes)


class HypervisorInstance(MachineInstance):
    """A guest that boots once its links exist. `home` is its directory for small files; `scratch` has its disk."""

    starts_on_links = True
    _monitor: Process | None = None

    def __init__(self, testbed: Testbed, spec: InstanceSpec, platform: Hypervisor, cgroup: str) -> None:
        self.home, self.scratch = testbed.run_dir / spec.name, testbed.scratch_dir / spec.name
        super().__init__(testbed, spec, netns=testbed.dut, cgroup=cgroup, sockets=self.home / "ports")
        self._platform = platform
        self._ports: tuple[Port, ...] = ()

    def plug(self, ports: Sequence[Port], taps: Mapping[str, Tap]) -> None:
        """Boot with a network card for each port."""
        self._ports, self.taps = tuple(ports), taps
        self.require_taps(taps)
        self.boot([(taps[port.name].link, self.mac(port.name)) for port in ports])

    def require_taps(self, taps: Mapping[str, Tap]) -> None:
        """Refuse links that do not work with the hypervisor's cards. Raises: Unavailable."""
        if any(tap.kind != "tap" for tap in taps.values()):
            raise Unavailable(
                f"Lastro cannot attach {self._platform.name} guests to macvtap devices",
                "choose an attachment with a bridge, or veth-direct",
            )
        if any(not tap.offloads for tap in taps.values()):
            raise Unavailable(
                f"{self._platform.name}'s cards leave checksums to the next device, and these links compute none",
                "choose an attachment in the kernel, such as veth-bridge",
            )

    @abstractmethod
    def boot(self, cards: Sequence[tuple[str, str]]) -> None:
        """Start the guest and return immediately. `cards` pairs each tap with the address of the guest's card on it."""

    def start_monitor(self, *argv: str) -> None:
        """Start the guest's process in its cgroup and the DUT's namespace, where the taps are."""
        enter = self.testbed.cgroups.entering(self.cgroup)  # first: `ip netns exec` mounts another /sys
        self._monitor = self.testbed.host.spawn([*enter, "ip", "netns", "exec", self.netns, *argv])

    @property
    def monitor(self) -> Process:
        assert self._monitor is not None, "a guest with ports is plugged before it is ready"
        return self._monitor

    def ready(self) -> None:
        try:
            self.wait_ready(self._platform.patience_s(self.testbed))
        except LastroError as error:
            if words := self.last_words():
                raise self.no_boot(words) from error
            raise
        self.settle(self._ports)

    def limits_outside(self) -> Resources:
        return self._platform.cgroup_limits(self.spec.resources)

    def last_words(self) -> str:
        """Return why the guest did not boot; empty if nothing is known."""
        return ""

    def stop(self) -> None:
        """End the guest. This is called whether it has started or not."""
        if self._monitor is not None:
            self._monitor.stop()


class Hypervisor(Platform):
    """A platform of guests. `program` must be installed, `remedy` says how; a boot fails after `boot_timeout_s`.

    `emulates` is true if the guest's processor is emulated and has none of the flaws that kernels mitigate."""

    options: ClassVar[tuple[Setting[Any], ...]] = (VCPUS, MEMORY)
    program: ClassVar[str]
    remedy: ClassVar[str]
    boot_timeout_s: ClassVar[float] = 30.0
    least_memory_bytes = 128 << 20
    emulates: ClassVar[bool] = False
    start_s = 3.0
    shares_kernel = False
    guests = True

    def __init__(self, **chosen: Any) -> None:
        super().__init__(**chosen)
        self._guest: guest.Guest | None = None
        self._host_unguarded = False

    @property
    def guest(self) -> guest.Guest:
        assert self._guest is not None, "the platform is prepared before it starts a guest"
        return self._guest

    @contextmanager
    def prepare(self, testbed: Testbed) -> Iterator[None]:
        """Check that the hypervisor is installed, and make kernel, initramfs and disk once for each root filesystem."""
        testbed.host.require(self.started(self.program), self.remedy)
        self.require_programs(testbed)
        self.require_host(testbed)
        own = testbed.own
        with own.building():
            made = guest.ensure(testbed.original, own.ledger.state / "guest", own.host)
        self._guest = guest.sent(made, testbed.image, testbed.host, testbed.session.state / "guest")
        send_client(testbed)
        self._host_unguarded = _runs_unguarded(testbed.host)
        yield

    def image_files(self, testbed: Testbed) -> tuple[Path, ...]:
        return self.guest.image, self.guest.initramfs, self.guest.disk

    def patience_s(self, testbed: Testbed) -> float:
        """Return how long a boot may take: on an emulated host, every instruction takes longer."""
        return self.boot_timeout_s * (_EMULATED if runs_emulated(testbed) else 1)

    @property
    def mitigation_words(self) -> tuple[str, ...]:
        """The parameters with which the guest's kernel mitigates processor flaws only where the host's kernel does.

        So guests have the same overhead as all other platforms. An emulated processor has none of the flaws, and the
        mitigations would only slow it down."""
        return (_UNGUARDED,) if self.emulates or self._host_unguarded else ()

    @abstractmethod
    def require_host(self, testbed: Testbed) -> None:
        """Check that the installed program can run guests on this host. Raises: Unavailable if it cannot."""

    @abstractmethod
    def instance(self, testbed: Testbed, spec: InstanceSpec, cgroup: str) -> HypervisorInstance: ...

    @contextmanager
    def start(self, testbed: Testbed, spec: InstanceSpec) -> Iterator[Instance]:
        self.require_confinement(spec)
        self.require_memory(spec)
        instance = self.instance(testbed, spec, f"{testbed.session.cgroup}/{spec.name}")
        with ExitStack() as stack:
            for kind, name in self.owned(instance):
                stack.enter_context(testbed.session.owned(kind, name))
            testbed.host.run(["sh", "-ec", self.creation_script(instance)], timeout_s=_COPY_TIMEOUT_S)
            testbed.cgroups.make(testbed.host, instance.cgroup, self.cgroup_limits(spec.resources))
            stack.callback(instance.stop)
            if not spec.ports:
                instance.boot([])
                instance.ready()
            yield instance

    def require_memory(self, spec: InstanceSpec) -> None:
        """Check that the guest has the memory with which one boots. Raises: Unavailable."""
        least_mib, limited = self.least_memory_bytes >> 20, spec.resources.memory_bytes is not None
        if self.memory_mib(spec) < least_mib:
            what = "the limit on the memory of the instance" if limited else f"`platform.{self.name}.memory`"
            raise Unavailable(
                f"a guest of {self.name} with {self.memory_mib(spec)} MiB of memory does not boot",
                f"set {what} to {least_mib}M or more",
            )

    def owned(self, instance: HypervisorInstance) -> list[tuple[str, str]]:
        """Return what an instance makes, by kind and name, in the order in which it is made."""
        return [("directory", str(instance.home)), ("directory", str(instance.scratch)), ("cgroup", instance.cgroup)]

    def creation_script(self, instance: HypervisorInstance) -> str:
        """Return a shell script that makes the instance's directories and disk: a sparse copy, or a reflink."""
        copy = ["cp", "--sparse=always", "--reflink=auto", str(self.guest.disk), str(disk_of(instance))]
        return f"{making_places(instance)}; {shlex.join(copy)}"

    def cgroup_limits(self, resources: Resources) -> Resources:
        """Return the limits for the monitor's processes: all except those of memory and of processes.

        Memory is the size of the machine. The memory and the threads of the monitor itself are overhead of the
        platform, and are not limited; the processes inside are in a table of the guest's own kernel."""
        return replace(resources, memory_bytes=None, pids=None)

    def vcpus(self, spec: InstanceSpec) -> int:
        """Return the number of virtual CPUs: the chosen one, or else enough for the CPU limit."""
        return VCPUS.of(self.chosen) or math.ceil(spec.resources.cpus or 1)

    def memory_mib(self, spec: InstanceSpec) -> int:
        return (spec.resources.memory_bytes or parse_size_bytes(MEMORY.of(self.chosen))) >> 20

    def residuals(self, testbed: Testbed) -> dict[str, str]:
        return {
            "root filesystem": "ext4 on a disk of its own",
            "instance's disk": str(testbed.scratch_dir.parent),
            "guest kernel": f"{self.guest.release}, {self._mitigations()}",
            "machine": ", ".join(f"{name} {value}" for name, value in self.chosen.items() if value != ""),
        }

    def _mitigations(self) -> str:
        if self.emulates:
            return "without mitigations of processor flaws: its processor is emulated"
        if self._host_unguarded:
            return "without mitigations of processor flaws, as the host's"
        return "with its own mitigations of processor flaws"


def require_kvm(host: Host, user: str) -> None:
    """Raise Unavailable if the host has no hardware virtualization for `user`, or may not use it."""
    if host.run(["test", "-w", "/dev/kvm"], check=False).returncode != 0:
        raise Unavailable(
            f"this host has no usable /dev/kvm, which {user} requires",
            "enable virtualization in the firmware and load kvm_intel or kvm_amd; in a guest: enable nesting",
        )


def _runs_unguarded(host: Host) -> bool:
    """Return whether the host's own kernel runs without mitigations of processor flaws."""
    try:
        return _UNGUARDED in host.read_text("/proc/cmdline").split()
    except OSError:
        return False


def runs_emulated(testbed: Testbed) -> bool:
    """Return whether the host is a guest in software."""
    return testbed.guest is not None and bool(testbed.guest["emulated"])


def making_places(instance: HypervisorInstance) -> str:
    return shlex.join(["mkdir", "-p", str(instance.sockets), str(instance.scratch)])


def disk_of(instance: HypervisorInstance) -> Path:
    return instance.scratch / "disk.img"
