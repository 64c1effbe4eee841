"""Virtual machines by QEMU: direct kernel boot, the root filesystem as a disk, links as taps.

A guest writes into its own file: qcow2 over the shared disk, or a sparse raw copy of it. (`snapshot=on` is not used,
since it ignores the requested cache mode.) Source: QEMU's invocation manual, qemu-system-x86_64.1 and qemu-img.1."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from lastro.errors import Unavailable
from lastro.host.shell import quoted
from lastro.image import guest
from lastro.platforms._machine import PORTS, SOCKET_PATTERN
from lastro.platforms._programs import program_option
from lastro.platforms.base import InstanceSpec, Tap
from lastro.platforms.hypervisor import MEMORY, VCPUS, Hypervisor, HypervisorInstance, mkdir_command
from lastro.requirements import Requirements
from lastro.study.model import Setting
from lastro.testbed import Testbed

_RAW, _QCOW2 = "raw", "qcow2"
FIRST_FD = 3  # of the first card's macvtap device; a plain sh has descriptors of one digit

NIC = Setting("nic", "virtio", "network card: para-virtual, or fully emulated", choices=("virtio", "e1000", "rtl8139"))
_DISK = Setting("disk", "virtio", "disk: para-virtual, or on an emulated AHCI controller", choices=("virtio", "ahci"))
_FORMAT = Setting("format", _QCOW2, "disk file: a qcow2 layer over the shared disk, or a copy", choices=(_QCOW2, _RAW))
_CACHE = Setting(
    "cache", "none", "how the host caches the disk", choices=("none", "writeback", "writethrough", "unsafe")
)
_MACHINE = Setting(
    "machine", "q35", "emulated board: a PC, or the minimum that Linux needs", choices=("q35", "microvm")
)


class QemuInstance(HypervisorInstance):
    _platform: QemuPlatform

    def require_taps(self, taps: Mapping[str, Tap]) -> None:
        """Accept every kind of tap: QEMU's cards can be configured to send only complete packets."""

    def boot(self, cards: Sequence[tuple[str, str]]) -> None:
        host, log = self.testbed.host, self.home / "console.log"
        by_link = {tap.link: tap for tap in self.taps.values()}
        tap_cards = [(by_link[link], mac) for link, mac in cards]
        for tap, mac in tap_cards:
            if tap.kind == "macvtap":  # it passes on only frames to its own address
                host.run(["ip", "-n", self.netns, "link", "set", tap.link, "address", mac])
        argv = self._platform.argv(self.testbed, self.spec, self.home, tap_cards, log)
        self.start_monitor("sh", "-ec", _macvtap_script(tap_cards, self.home), "qemu", *argv)

    def wait_ready(self, timeout_s: float) -> None:
        (socket,) = quoted(self.sockets / "0.sock")
        listening = f"n=0; until [ -S {socket} ]; do [ $((n += 1)) -lt 500 ]; sleep 0.01; done"
        if self.testbed.host.run(["sh", "-ec", listening], check=False).returncode != 0:
            raise self.boot_error("QEMU did not open the guest's ports within 5 s")
        super().wait_ready(timeout_s)

    def last_words(self) -> str:
        """Return the standard error of QEMU if it has ended, or else the last lines of the guest's console."""
        if not self.monitor.alive() and (words := self.monitor.stop().error_text.strip()):
            return words[-300:]
        console = self.testbed.host.read_or_empty(str(self.home / "console.log"))
        return " / ".join(line.strip() for line in console.strip().splitlines()[-2:])[-300:]


def _macvtap_script(cards: Sequence[tuple[Tap, str]], home: Path) -> str:
    """Return a shell script that opens the device of every macvtap card, and then executes its arguments.

    `cards` has (tap, MAC address) of each card. The device of the n-th card, counted from 0, gets the file descriptor
    FIRST_FD + n. The script must run under `ip netns exec`: it reads the /sys that this mounts."""
    opens = []
    for number, (tap, _) in enumerate(cards, start=FIRST_FD):
        if tap.kind == "macvtap":
            (node,) = quoted(home / tap.link)
            opens.append(
                f'd=$(cat /sys/class/net/{tap.link}/tap*/dev); mknod {node} c "${{d%:*}}" "${{d#*:}}"; '
                f"exec {number}<>{node}; "
            )
    return f'{"".join(opens)}exec "$@"'


class QemuPlatform(Hypervisor):
    """The base of QEMU's platforms, which differ in `accelerator` and `cpu`."""

    options = (NIC, _DISK, _FORMAT, _CACHE, VCPUS, MEMORY, _MACHINE, program_option("QEMU", "QEMU emulator version "))
    version_argv = ("qemu-system-x86_64", "--version")
    requirements = Requirements(packages=("qemu-system-x86", "qemu-utils", "e2fsprogs"))
    program = "qemu-system-x86_64"
    remedy = "apt-get install qemu-system-x86"
    accelerator: ClassVar[str]
    cpu: ClassVar[str]

    def require_host(self, testbed: Testbed) -> None:
        testbed.host.require("qemu-img", "apt-get install qemu-utils")

    def instance(self, testbed: Testbed, spec: InstanceSpec, cgroup: str) -> QemuInstance:
        instance = QemuInstance(testbed, spec, self, cgroup)
        instance.host_cache = _CACHE.of(self.chosen)
        return instance

    def creation_script(self, instance: HypervisorInstance) -> str:
        return f"{mkdir_command(instance)}; {shlex.join(self.overlay_argv(instance.scratch))}"

    def argv(
        self, testbed: Testbed, spec: InstanceSpec, home: Path, cards: Sequence[tuple[Tap, str]], log: Path
    ) -> list[str]:
        """Return QEMU's command line for a guest; `cards` are (tap, MAC address), `log` is the file for its console."""
        is_microvm = _MACHINE.of(self.chosen) == "microvm"
        kind = "device" if is_microvm else "pci"
        argv = [
            self.chosen_path(self.program), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-name", spec.name, "-machine", self._machine(is_microvm), "-accel", self.accelerator, "-cpu", self.cpu,
            "-smp", str(self.vcpus(spec)), "-m", f"{self.memory_mib(spec)}M",
            "-kernel", str(self.guest.fastest),
            "-initrd", str(self.guest.initramfs), "-append", self._command_line(testbed, spec, is_microvm),
            "-serial", f"file:{log}", "-device", f"virtio-rng-{kind}",
        ]  # fmt: skip
        argv += [*self._disk(kind, testbed.scratch_dir / spec.name), *_control(home, kind)]
        for number, (tap, mac) in enumerate(cards, start=FIRST_FD):
            back_end = f"fd={number}" if tap.kind == "macvtap" else f"ifname={tap.link},script=no,downscript=no"
            rom = "" if is_microvm else ",romfile="  # nothing boots from the network
            is_emulated = NIC.of(self.chosen) != "virtio"
            model = NIC.of(self.chosen) if is_emulated else f"virtio-net-{kind}"
            argv += ["-netdev", f"tap,id=n{number},{back_end}{self._vhost(testbed)}"]
            # Segmentation offload depends on checksum offload; an emulated card finishes both itself.
            offloads = "" if tap.offloads or is_emulated else ",csum=off"
            argv += ["-device", f"{model},netdev=n{number},mac={mac}{rom}{offloads}"]
        return argv

    def _machine(self, is_microvm: bool) -> str:
        if not is_microvm:
            return "q35,usb=off,smbus=off" + (",sata=off" if _DISK.of(self.chosen) == "virtio" else "")
        if NIC.of(self.chosen) != "virtio" or _DISK.of(self.chosen) == "ahci":
            raise Unavailable("a microvm has no PCI bus for an emulated card or controller", "choose machine=q35")
        return "microvm,pcie=off,pit=off,pic=off,rtc=on,isa-serial=on"

    def _command_line(self, testbed: Testbed, spec: InstanceSpec, is_microvm: bool) -> str:
        words = ["console=ttyS0", "loglevel=4", "tsc=reliable", *self.mitigation_words]
        if is_microvm:  # it has no other clock by which to measure the rate of its cycle counter
            lines = testbed.host.read_text("/proc/cpuinfo").splitlines()
            mhz = next((line.partition(":")[2] for line in lines if line.startswith("cpu MHz")), "2000")
            words += ["pci=off", f"tsc_early_khz={round(float(mhz) * 1000)}"]  # QEMU emulates the host's rate
        return guest.command_line(spec.role, PORTS, *words)

    def overlay_argv(self, scratch: Path) -> list[str]:
        """Return the command that makes a guest's own disk file in `scratch`, by the option for the disk's format.

        The file is a copy of the shared disk, flushed to the host's disk, or a qcow2 layer over the shared disk."""
        if _FORMAT.of(self.chosen) == _RAW:
            copy = 'cp --sparse=always --reflink=auto "$0" "$1"; sync "$1"'
            return ["sh", "-ec", copy, str(self.guest.disk), self._file(scratch)]
        backing = ["-b", str(self.guest.disk), "-F", "raw"]
        return ["qemu-img", "create", "-q", "-f", "qcow2", *backing, self._file(scratch)]

    def _file(self, scratch: Path) -> str:
        return f"{scratch}/disk.{_FORMAT.of(self.chosen)}"

    def _disk(self, kind: str, scratch: Path) -> list[str]:
        file_format, cache = _FORMAT.of(self.chosen), _CACHE.of(self.chosen)
        drive = f"if=none,id=root,format={file_format},file={self._file(scratch)},cache={cache}"
        if _DISK.of(self.chosen) == "ahci":
            return ["-drive", drive, "-device", "ide-hd,drive=root,bus=ide.0"]
        return ["-drive", drive, "-device", f"virtio-blk-{kind},drive=root"]

    def _vhost(self, testbed: Testbed) -> str:
        return ""

    def residuals(self, testbed: Testbed) -> dict[str, str]:
        raw = _FORMAT.of(self.chosen) == _RAW
        return {
            **super().residuals(testbed),
            "root filesystem": f"ext4 on a disk of its own ({'raw' if raw else 'qcow2 over raw'})",
            "instance's disk": f"{testbed.scratch_dir.parent}" + ("" if raw else f", over {self.guest.disk.parent}"),
        }


def _control(home: Path, kind: str) -> list[str]:
    """Return the options for the guest's serial ports, over which commands run."""
    argv = ["-device", f"virtio-serial-{kind},max_ports={PORTS + 1}"]
    for number in range(PORTS):
        argv += [
            "-chardev",
            f"socket,id=c{number},path={home}/ports/{SOCKET_PATTERN.format(number=number)},server=on,wait=off",
        ]
        argv += ["-device", f"virtserialport,chardev=c{number},name=lastro.{number}"]
    return argv
