"""Virtual machines by QEMU: direct kernel boot, the root filesystem as a disk, links as taps.

A guest writes into a qcow2 file of its own over the shared disk. (QEMU's own `snapshot=on` would not do: it ignores
the cache mode that was asked for.) Source: QEMU's invocation manual, qemu-system-x86_64.1 and qemu-img.1."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from lastro.errors import LastroError, PlatformError, Unavailable
from lastro.host.base import Process
from lastro.image import guest
from lastro.platforms._guest import PORTS, SOCKET_PATTERN
from lastro.platforms._machine import MachineInstance
from lastro.platforms.base import Instance, InstanceSpec, Platform, Port, Tap
from lastro.study.model import Setting
from lastro.testbed import Testbed
from lastro.units import parse_size_bytes

_DISK = "disk.qcow2"
_LEAST_MEMORY_BYTES = 128 << 20
FIRST_FD = 3  # of open macvtap devices; a plain sh knows descriptors of one digit

OPTIONS = (
    Setting("nic", "virtio", "network card: para-virtual, or fully emulated", choices=("virtio", "e1000")),
    Setting("disk", "virtio", "disk: para-virtual, or on an emulated AHCI controller", choices=("virtio", "ahci")),
    Setting("cache", "none", "how the host caches the disk", choices=("none", "writeback", "writethrough", "unsafe")),
    Setting("vcpus", 0, "virtual CPUs; 0: what the CPU limit asks for, or one", 0, 64),
    Setting("memory", "512M", "memory of a guest without a limit of its own", check=parse_size_bytes),
    Setting("machine", "q35", "emulated board: a PC, or the least that Linux needs", choices=("q35", "microvm")),
)


class QemuInstance(MachineInstance):
    """A guest. QEMU runs in the DUT's namespace, where the taps are."""

    def __init__(self, testbed: Testbed, spec: InstanceSpec, platform: QemuPlatform, home: Path, cgroup: str) -> None:
        super().__init__(testbed, spec, netns=testbed.dut, cgroup=cgroup, sockets=home / "ports")
        self._platform, self._home = platform, home
        self._qemu: Process | None = None
        self._ports: tuple[Port, ...] = ()

    def plug(self, ports: Sequence[Port], taps: Mapping[str, Tap]) -> None:
        """Boot with a network card for each port."""
        self._ports, self.taps = tuple(ports), taps
        self.boot([(taps[port.name], self.mac(port.name)) for port in ports])

    def boot(self, cards: Sequence[tuple[Tap, str]]) -> None:
        """Start QEMU and return at once. `cards` are taps and the addresses of the guest's cards on them."""
        host, log = self.testbed.host, self._home / "console.log"
        for tap, mac in cards:
            if tap.kind == "macvtap":  # it hands on what is sent to its own address
                host.run(["ip", "-n", self.netns, "link", "set", tap.link, "address", mac])
        argv = self._platform.argv(self.testbed, self.spec, self._home, cards, log)
        enter = self.testbed.cgroups.entering(self.cgroup)  # first: `ip netns exec` mounts another /sys
        opener = ["sh", "-ec", _opening(cards, self._home), "qemu"]
        self._qemu = host.spawn([*enter, "ip", "netns", "exec", self.netns, *opener, *argv])

    def ready(self) -> None:
        assert self._qemu is not None, "a guest with ports is plugged before it is ready"
        sockets = f"n=0; until [ -S {self._home}/ports/0.sock ]; do [ $((n += 1)) -lt 500 ]; sleep 0.01; done"
        try:
            self.testbed.host.run(["sh", "-ec", sockets])
            self.wait_ready(self._platform.boot_timeout_s)
        except LastroError as error:
            raise PlatformError(
                f"the guest {self.spec.name} did not boot: {self._last_words() or error.message}"
            ) from error
        self.settle(self._ports)

    def _last_words(self) -> str:
        """What QEMU said, or else the guest's console at its end."""
        if self._qemu is not None and not self._qemu.alive():
            done = self._qemu.stop()
            if words := done.error_text.strip():
                return words[-300:]
        try:
            console = self.testbed.host.read_text(str(self._home / "console.log"))
        except OSError:
            return ""
        return " / ".join(line.strip() for line in console.strip().splitlines()[-2:])[-300:]

    def stop(self) -> None:
        if self._qemu is not None:
            self._qemu.stop()


def _opening(cards: Sequence[tuple[Tap, str]], home: Path) -> str:
    """A shell script that becomes `$@` with every macvtap's device open; FIRST_FD is the first card's.

    The /sys of a namespace, which `ip netns exec` mounts, tells the device's numbers."""
    opens = []
    for number, (tap, _) in enumerate(cards, start=FIRST_FD):
        if tap.kind == "macvtap":
            node = home / tap.link
            opens.append(
                f'd=$(cat /sys/class/net/{tap.link}/tap*/dev); mknod {node} c "${{d%:*}}" "${{d#*:}}"; '
                f"exec {number}<>{node}; "
            )
    return f'{"".join(opens)}exec "$@"'


class QemuPlatform(Platform):
    """`accelerator` and `cpu` are what tells the platforms apart; `boot_timeout_s` is when a boot has failed."""

    options = OPTIONS
    version_argv = ("qemu-system-x86_64", "--version")
    accelerator: ClassVar[str]
    cpu: ClassVar[str]
    boot_timeout_s: ClassVar[float]

    def __init__(self, **chosen: Any) -> None:
        super().__init__(**chosen)
        self._guest: guest.Guest | None = None

    @contextmanager
    def prepare(self, testbed: Testbed) -> Iterator[None]:
        """Kernel, initramfs and disk, made once for a root filesystem."""
        for program, package in (("qemu-system-x86_64", "qemu-system-x86"), ("qemu-img", "qemu-utils")):
            if testbed.host.which(program) is None:
                raise Unavailable(f"this host has no program '{program}'", f"apt-get install {package}")
        self._guest = guest.ensure(testbed.image, testbed.session.ledger.state / "guest", testbed.host)
        yield

    @contextmanager
    def start(self, testbed: Testbed, spec: InstanceSpec) -> Iterator[Instance]:
        self.require_confinement(spec)
        if 0 < (spec.resources.memory_bytes or 0) < _LEAST_MEMORY_BYTES:
            raise Unavailable(
                f"a guest of {spec.resources.memory_bytes} bytes does not boot",
                f"give it at least {_LEAST_MEMORY_BYTES >> 20} MiB",
            )
        home, scratch = testbed.run_dir / spec.name, testbed.scratch_dir / spec.name
        cgroup = f"{testbed.session.cgroup}/{spec.name}"
        with ExitStack() as stack:
            for kind, name in (("directory", home), ("directory", scratch), ("cgroup", cgroup)):
                stack.enter_context(testbed.session.owned(kind, str(name)))
            testbed.host.run(["mkdir", "-p", str(home / "ports"), str(scratch)])
            testbed.host.run(self.overlay_argv(scratch))
            # Its memory is the machine's size. What QEMU needs for itself is the platform's cost, and not limited.
            testbed.cgroups.make(testbed.host, cgroup, replace(spec.resources, memory_bytes=None))
            instance = QemuInstance(testbed, spec, self, home, cgroup)
            stack.callback(instance.stop)
            if not spec.ports:
                instance.boot([])
                instance.ready()
            yield instance

    def argv(
        self, testbed: Testbed, spec: InstanceSpec, home: Path, cards: Sequence[tuple[Tap, str]], log: Path
    ) -> list[str]:
        """The command line of QEMU for a guest."""
        assert self._guest is not None, "the platform is prepared before it starts a guest"
        bare = self.chosen["machine"] == "microvm"
        kind = "device" if bare else "pci"
        memory_bytes = spec.resources.memory_bytes or parse_size_bytes(str(self.chosen["memory"]))
        argv = [
            "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-name", spec.name, "-machine", self._machine(bare), "-accel", self.accelerator, "-cpu", self.cpu,
            "-smp", str(self.vcpus(spec)), "-m", f"{memory_bytes >> 20}M",
            "-kernel", str(self._guest.kernel.elf or self._guest.kernel.image),
            "-initrd", str(self._guest.initramfs), "-append", self._command_line(spec, bare),
            "-serial", f"file:{log}", "-device", f"virtio-rng-{kind}",
        ]  # fmt: skip
        argv += [*self._disk(kind, testbed.scratch_dir / spec.name), *_control(home, kind)]
        for number, (tap, mac) in enumerate(cards, start=FIRST_FD):
            how = f"fd={number}" if tap.kind == "macvtap" else f"ifname={tap.link},script=no,downscript=no"
            rom = "" if bare else ",romfile="  # nothing boots from the network
            model = "e1000" if self.chosen["nic"] == "e1000" else f"virtio-net-{kind}"
            argv += ["-netdev", f"tap,id=n{number},{how}{self._vhost()}"]
            # On checksums the offload of segments depends too; an emulated card finishes both by itself.
            finished = "" if tap.offloads or model == "e1000" else ",csum=off"
            argv += ["-device", f"{model},netdev=n{number},mac={mac}{rom}{finished}"]
        return argv

    def vcpus(self, spec: InstanceSpec) -> int:
        """As many as were chosen; else enough for the CPU limit."""
        return int(self.chosen["vcpus"]) or math.ceil(spec.resources.cpus or 1)

    def _machine(self, bare: bool) -> str:
        if bare and (self.chosen["nic"] == "e1000" or self.chosen["disk"] == "ahci"):
            raise Unavailable("a microvm has no PCI bus for an emulated card or controller", "choose machine=q35")
        if bare:
            return "microvm,pcie=off,pit=off,pic=off,rtc=on,isa-serial=on"
        return "q35,usb=off,smbus=off" + (",sata=off" if self.chosen["disk"] == "virtio" else "")

    def _command_line(self, spec: InstanceSpec, bare: bool) -> str:
        words = ["console=ttyS0", "loglevel=4", "tsc=reliable", "mitigations=off"]
        if bare:  # it has no other clock to find the rate of its cycle counter by
            words += ["pci=off", f"tsc_early_khz={_tsc_khz()}"]
        return guest.command_line(spec.role, PORTS, *words)

    def overlay_argv(self, scratch: Path) -> list[str]:
        """The command that makes a guest's own disk."""
        assert self._guest is not None, "the platform is prepared before it starts a guest"
        below = ["-b", str(self._guest.disk), "-F", "raw"]
        return ["qemu-img", "create", "-q", "-f", "qcow2", *below, str(scratch / _DISK)]

    def _disk(self, kind: str, scratch: Path) -> list[str]:
        drive = f"if=none,id=root,format=qcow2,file={scratch / _DISK},cache={self.chosen['cache']}"
        if self.chosen["disk"] == "ahci":
            return ["-drive", drive, "-device", "ide-hd,drive=root,bus=ide.0"]
        return ["-drive", drive, "-device", f"virtio-blk-{kind},drive=root"]

    def _vhost(self) -> str:
        return ""

    def residuals(self, testbed: Testbed) -> dict[str, str]:
        assert self._guest is not None
        chosen = ", ".join(f"{name} {value}" for name, value in self.chosen.items())
        return {
            "root filesystem": "ext4 on a disk of its own (qcow2 over raw)",
            "instance's disk": f"{testbed.scratch_dir.parent}, over {self._guest.disk.parent}",
            "guest kernel": self._guest.kernel.release,
            "machine": chosen,
        }


def _tsc_khz() -> int:
    """The rate of the host's cycle counter, at which an emulated one runs too."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    rates = (line.partition(":")[2] for line in lines if line.startswith("cpu MHz"))
    return round(float(next(rates, "2000")) * 1000)


def _control(home: Path, kind: str) -> list[str]:
    """The serial ports by which commands get in: not one byte goes over them while nothing is asked."""
    argv = ["-device", f"virtio-serial-{kind},max_ports={PORTS + 1}"]
    for number in range(PORTS):
        argv += [
            "-chardev",
            f"socket,id=c{number},path={home}/ports/{SOCKET_PATTERN.format(number=number)},server=on,wait=off",
        ]
        argv += ["-device", f"virtserialport,chardev=c{number},name=lastro.{number}"]
    return argv
