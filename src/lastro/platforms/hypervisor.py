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
from lastro.platforms._machine import GuestInstance, send_client
from lastro.platforms.base import Instance, InstanceSpec, Platform, Port, Tap
from lastro.study.model import Setting
from lastro.testbed import Testbed
from lastro.units import parse_size_bytes

_COPY_TIMEOUT_S = 600.0
_EMULATED = 12  # on an emulated host, a guest takes up to this factor longer to boot
_NO_MITIGATIONS = "mitigations=off"  # on a kernel's command line. Source: kernel-parameters.txt

VCPUS = Setting("vcpus", 0, "virtual CPUs; 0: enough for the CPU limit, or one", 0, 32)
MEMORY = Setting("memory", "512M", "memory of a guest without a memory limit", check=parse_size_bytes)


class HypervisorInstance(GuestInstance):
    """A guest that boots when its links exist. `home` is its directory for small files; `scratch` has its disk."""

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
        """Raise Unavailable if the hypervisor's cards do not work with one of the links."""
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
        """Start the guest and return immediately. `cards` has (name of the tap, MAC address) of each network card."""

    def start_monitor(self, *argv: str) -> None:
        """Start the monitor, which runs the guest, in the cgroup of the instance and in the DUT's namespace."""
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
            if reason := self.last_words():
                raise self.boot_error(reason) from error
            raise
        self.settle(self._ports)

    def limits_outside(self) -> Resources:
        return self._platform.cgroup_limits(self.spec.resources)

    def last_words(self) -> str:
        """Return the last output of the guest or its monitor, which explains a failed boot; empty if there is none."""
        return ""

    def stop(self) -> None:
        """End the guest, if it has started."""
        if self._monitor is not None:
            self._monitor.stop()


class Hypervisor(Platform):
    """A platform of guests."""

    options: ClassVar[tuple[Setting[Any], ...]] = (VCPUS, MEMORY)
    program: ClassVar[str]  # must be installed
    remedy: ClassVar[str]  # how to install the program
    boot_timeout_s: ClassVar[float] = 30.0  # a boot fails after this time
    least_memory_bytes = 128 << 20
    # The guest's processor is emulated, and so has none of the flaws that kernels mitigate.
    emulates: ClassVar[bool] = False
    start_s = 3.0
    shares_kernel = False
    guests = True

    def __init__(self, **chosen: Any) -> None:
        super().__init__(**chosen)
        self._guest: guest.Guest | None = None
        self._host_lacks_mitigations = False

    @property
    def guest(self) -> guest.Guest:
        assert self._guest is not None, "the platform is prepared before it starts a guest"
        return self._guest

    @contextmanager
    def prepare(self, testbed: Testbed) -> Iterator[None]:
        """Check that the hypervisor is installed, and make missing files of guests. Raises: Unavailable."""
        testbed.host.require(self.chosen_path(self.program), self.remedy)
        self.require_programs(testbed)
        self.require_host(testbed)
        controller = testbed.local_session
        with controller.building():
            files = guest.ensure(testbed.original, controller.ledger.state / "guest", controller.host)
        self._guest = guest.on_host(files, testbed.image, testbed.host, testbed.session.state / "guest")
        send_client(testbed)
        self._host_lacks_mitigations = _NO_MITIGATIONS in testbed.host.read_or_empty("/proc/cmdline").split()
        yield

    def image_files(self, testbed: Testbed) -> tuple[Path, ...]:
        return self.guest.image, self.guest.initramfs, self.guest.disk

    def patience_s(self, testbed: Testbed) -> float:
        """Return the time limit of a boot in seconds, which is higher on an emulated host."""
        return self.boot_timeout_s * (_EMULATED if runs_emulated(testbed) else 1)

    @property
    def mitigation_words(self) -> tuple[str, ...]:
        """Parameters that turn off mitigations of processor flaws in the guest's kernel; empty to leave them on.

        They are off if the host's kernel has none, so that guests have the same overhead of mitigations as other
        platforms. They are also off on an emulated processor, which has none of the flaws."""
        return (_NO_MITIGATIONS,) if self.emulates or self._host_lacks_mitigations else ()

    @abstractmethod
    def require_host(self, testbed: Testbed) -> None:
        """Check that the installed program can run guests on this host. Raises: Unavailable if it cannot."""

    @abstractmethod
    def instance(self, testbed: Testbed, spec: InstanceSpec, cgroup: str) -> HypervisorInstance:
        """Return an instance that has not been started."""

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
        """Raise Unavailable if the guest would have too little memory to boot."""
        least_mib = self.least_memory_bytes >> 20
        if self.memory_mib(spec) < least_mib:
            is_limited = spec.resources.memory_bytes is not None
            what = "the limit on the memory of the instance" if is_limited else f"`platform.{self.name}.memory`"
            raise Unavailable(
                f"a guest of {self.name} with {self.memory_mib(spec)} MiB of memory does not boot",
                f"set {what} to {least_mib}M or more",
            )

    def owned(self, instance: HypervisorInstance) -> list[tuple[str, str]]:
        """Return (kind, name) of each object that `instance` will create on the host, in the order for the ledger."""
        return [("directory", str(instance.home)), ("directory", str(instance.scratch)), ("cgroup", instance.cgroup)]

    def creation_script(self, instance: HypervisorInstance) -> str:
        """Return a shell script that makes the instance's directories, and its disk by a sparse copy or a reflink."""
        copy = ["cp", "--sparse=always", "--reflink=auto", str(self.guest.disk), str(disk_of(instance))]
        return f"{mkdir_command(instance)}; {shlex.join(copy)}"

    def cgroup_limits(self, resources: Resources) -> Resources:
        """Return the limits for the monitor's cgroup: all except the limits of memory and of the number of processes.

        The guest's memory is limited by the size of the machine, and its processes are not in the host's process table.
        The memory and threads of the monitor itself are overhead of the platform, and are not limited."""
        return replace(resources, memory_bytes=None, pids=None)

    def vcpus(self, spec: InstanceSpec) -> int:
        """Return the number of virtual CPUs: the option `vcpus`, or if it is 0, the CPU limit rounded up, or 1."""
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
        if self._host_lacks_mitigations:
            return "without mitigations of processor flaws, as the host's"
        return "with its own mitigations of processor flaws"


def require_kvm(host: Host, program: str) -> None:
    """Raise Unavailable if the host has no usable /dev/kvm; the error names the program that requires it."""
    if host.run(["test", "-w", "/dev/kvm"], check=False).returncode != 0:
        raise Unavailable(
            f"this host has no usable /dev/kvm, which {program} requires",
            "enable virtualization in the firmware and load kvm_intel or kvm_amd; in a guest: enable nesting",
        )


def runs_emulated(testbed: Testbed) -> bool:
    """Return whether the testbed's host is a guest with an emulated processor."""
    return testbed.guest is not None and bool(testbed.guest["emulated"])


def mkdir_command(instance: HypervisorInstance) -> str:
    """Return the shell command that makes the directories of an instance."""
    return shlex.join(["mkdir", "-p", str(instance.sockets), str(instance.scratch)])


def disk_of(instance: HypervisorInstance) -> Path:
    return instance.scratch / "disk.img"
