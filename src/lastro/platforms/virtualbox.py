"""VirtualBox: guests without a window, each in its own VBoxHeadless, under a private VirtualBox service.

VBOX_USER_HOME and VBOX_IPC_SOCKETID select the service, which has its sockets in a private /tmp, so it does not use the
user's machines. Lastro starts it, and ends it after the last machine. A service that VBoxManage starts would end five
seconds after its last client, and a client that comes at that moment would wait for ever (VirtualBox 7.2).

VirtualBox cannot start a kernel directly: the guest boots from a small disc with GRUB.

A card that is bridged to a tap gives the tap its carrier: VirtualBox's kernel module passes frames between the two, in
the network namespace of the process. The tap must also pass on frames for other addresses, so it is promiscuous.

With `network=nat`, VirtualBox's default, a card is on VirtualBox's own NAT instead. VBoxHeadless terminates the guest's
flows and sends their data from its own sockets in the DUT's namespace, so the tap carries nothing. The guest has the
address that the NAT expects: the fifteenth of its network, with the gateway at the second.

Commands use the four serial ports of a PC, which VirtualBox limits to the speed of real ones, 11 kB/s: files are slow.
Nothing may be sent to a port before the guest's kernel has opened it: the kernel then clears the port's buffer, and
VirtualBox (7.2) never delivers later bytes.

Sources: VirtualBox's user manual, chapters VBoxManage, "Network Address Translation" and "Configuring the Address of a
NAT Network Interface" (6.1 to 7.1); VBoxNetFlt-linux.c for the namespace and the tap.
Tested with VirtualBox 7.2 in a guest of Debian sid, in software: a machine boots and runs commands
(tests/contract/test_in_virtualbox.py). Not yet tested: its links, and bare-metal hosts."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any

from lastro.errors import CommandFailed, PlatformError, Unavailable
from lastro.host.ledger import NETNS_DIR
from lastro.host.shell import quoted
from lastro.image import guest
from lastro.platforms._machine import SOCKET_PATTERN
from lastro.platforms.base import InstanceSpec, Port
from lastro.platforms.container import lasting_namespace_lines
from lastro.platforms.hypervisor import MEMORY, VCPUS, Hypervisor, HypervisorInstance, mkdir_command, runs_emulated
from lastro.requirements import Requirements
from lastro.study.model import Setting
from lastro.testbed import Testbed

_UARTS = (("0x3F8", "4"), ("0x2F8", "3"), ("0x3E8", "4"), ("0x2E8", "3"))  # port and interrupt of COM1 to COM4
_NIC = Setting("nic", "virtio", "network card: para-virtual, or fully emulated", choices=("virtio", "e1000"))
_NETWORK = Setting(
    "network", "bridged", "where a card leads: to its link, or to VirtualBox's own NAT", choices=("bridged", "nat")
)
_NAT_NETWORKS = 240  # the networks of cards on the NAT are 198.18.241.0/24 and so on, far from those of links
_CARDS = {"virtio": "virtio", "e1000": "82540EM"}
_MOST_CARDS = 8
_RESETS = 2
_MAKES_DISCS = ("grub-common", "grub-pc-bin", "xorriso", "mtools")
# Oracle's packages say in a file where they are.
_SERVICE = """
INSTALL_DIR=/usr/lib/virtualbox
[ ! -r /etc/vbox/vbox.cfg ] || . /etc/vbox/vbox.cfg
exec "$INSTALL_DIR/VBoxSVC"
"""
_LISTENS = "n=0; until [ -S {socket} ]; do [ $((n += 1)) -lt 300 ]; sleep 0.1; done"
_GRUB = "set timeout=0\nmenuentry lastro {{\n  linux /boot/vmlinuz {words}\n  initrd /boot/initramfs\n}}\n"


class VirtualBoxInstance(HypervisorInstance):
    """A guest. Its VBoxHeadless runs in the DUT's namespace, where the taps are."""

    _platform: VirtualBox
    speaks_first = True

    @property
    def sends_by_host(self) -> bool:  # type: ignore[override]  # it depends on the platform's options
        return self._platform.sends_by_host

    def boot(self, cards: Sequence[tuple[str, str]]) -> None:
        """Create the guest and start its monitor. `cards` are (tap, MAC address)."""
        if len(cards) > _MOST_CARDS:
            raise Unavailable(f"VirtualBox gives a guest at most {_MOST_CARDS} cards")
        if self.sends_by_host:
            self.taps = {}  # no frame crosses them; without them, `links` reads the guest's counters
        else:
            for tap, _ in cards:
                self.testbed.host.run(["ip", "-n", self.netns, "link", "set", "dev", tap, "promisc", "on"])
        try:
            for command in self._platform.creation_commands(self, cards):
                self.testbed.host.run([*self._platform.manage(self.testbed), *command], timeout_s=600)
        except CommandFailed as error:
            raise PlatformError(f"VirtualBox did not make the guest {self.spec.name}: {error.message}") from error
        enter = self.testbed.cgroups.entering(self.cgroup)
        inside = self._platform.inside(self.testbed, f"--net={NETNS_DIR / self.netns}")
        argv = [*enter, *inside, "VBoxHeadless", "--startvm", self.spec.name, "--vrde", "off"]
        self._monitor = self.testbed.host.spawn(argv)

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until VBoxHeadless has made the guest's serial ports, then until the agent answers.

        On an emulated host, a boot may hang or crash, so the machine is reset up to `_RESETS` times."""
        (last_socket,) = quoted(self.sockets / SOCKET_PATTERN.format(number=len(_UARTS) - 1))
        wait = ["sh", "-ec", f"n=0; until [ -S {last_socket} ]; do [ $((n += 1)) -lt 20 ]; sleep 0.1; done"]
        deadline_s = time.monotonic() + timeout_s
        while self.testbed.host.run(wait, check=False).returncode != 0:
            if time.monotonic() > deadline_s or not self.monitor.alive():
                raise self.boot_error("VBoxHeadless did not make its serial ports")
        resets = _RESETS if runs_emulated(self.testbed) else 0
        for resets_left in range(resets, -1, -1):
            try:
                super().wait_ready(timeout_s / (resets + 1))
                break
            except PlatformError:
                if not resets_left or not self.monitor.alive():
                    raise
            self.testbed.host.run([*self._platform.manage(self.testbed), "controlvm", self.spec.name, "reset"])

    def ready(self) -> None:
        super().ready()
        self.run(["sh", "-c", f"echo {self.spec.role} > /proc/sys/kernel/hostname"])  # all guests boot the same disc

    def settle(self, ports: Sequence[Port]) -> None:
        """Configure the booted guest.

        Behind VirtualBox's NAT, each card has an address in the network of the NAT. It reaches the networks of its link
        through the gateway of the NAT."""
        if self.sends_by_host:
            ports = [_behind_nat(port, number) for number, port in enumerate(ports, start=1)]
        super().settle(ports)

    def last_words(self) -> str:
        if self.monitor.alive():  # VBoxHeadless prints the reason only when it ends
            return ""
        done = self.monitor.stop()
        return " / ".join((done.error_text.strip() or done.text.strip()).splitlines()[-2:])[-300:]

    def stop(self) -> None:
        """Switch the guest off by VBoxManage, and delete it: at a signal, VBoxHeadless would save its memory."""
        manage = self._platform.manage(self.testbed)
        if self._monitor is not None and self._monitor.alive():
            self.testbed.host.run([*manage, "controlvm", self.spec.name, "poweroff"], check=False)
        super().stop()
        self.testbed.host.run([*manage, "unregistervm", self.spec.name, "--delete"], check=False)


class VirtualBox(Hypervisor):
    name = "virtualbox"
    summary = "virtual machines by VirtualBox, without a window"
    version_argv = ("VBoxManage", "--version")
    options = (_NIC, _NETWORK, VCPUS, MEMORY)
    program = "VBoxManage"
    remedy = "install VirtualBox 6.1 or later from virtualbox.org, with its kernel modules"
    requirements = Requirements(packages=_MAKES_DISCS, program=program, remedy=remedy)
    hypervisor = "virtualbox"
    boot_timeout_s = 90.0
    start_s = 7.0
    _version = (0, 0)

    @property
    def sends_by_host(self) -> bool:  # type: ignore[override]  # it depends on the options
        return _NETWORK.of(self.chosen) == "nat"

    def require_host(self, testbed: Testbed) -> None:
        for program, package in (("VBoxHeadless", "virtualbox"), ("grub-mkrescue", " ".join(_MAKES_DISCS))):
            testbed.host.require(program, f"apt-get install {package}")
        if testbed.host.run(["test", "-c", "/dev/vboxdrv"], check=False).returncode != 0:
            raise Unavailable("VirtualBox's kernel module is not loaded: there is no /dev/vboxdrv", "/sbin/vboxconfig")
        if match := re.search(r"^(\d+)\.(\d+)", testbed.host.run(["VBoxManage", "--version"]).text, re.MULTILINE):
            self._version = (int(match[1]), int(match[2]))

    @contextmanager
    def prepare(self, testbed: Testbed) -> Iterator[None]:
        """Run the service, with a private /tmp for its sockets, and make the disc to boot from."""
        with super().prepare(testbed):
            home = _home(testbed)
            ports = [f"ttyS{number}" for number in range(len(_UARTS))]
            words = guest.command_line("guest", ports, "console=tty0", *self.mitigation_words, "quiet")
            testbed.host.write_text(str(home / "disc/boot/grub/grub.cfg"), _GRUB.format(words=words))
            testbed.host.run(["sh", "-e"], stdin=self._preparation_script(home), timeout_s=120)
            with self._service(testbed):
                yield

    @contextmanager
    def _service(self, testbed: Testbed) -> Iterator[None]:
        group = f"{testbed.session.cgroup}/virtualbox"
        (socket,) = quoted(_home(testbed) / f"tmp/.vbox-{_service_id(testbed)}-ipc/ipcd")
        with testbed.session.owned("cgroup", group):
            testbed.cgroups.make(testbed.host, group)
            argv = [*testbed.cgroups.entering(group), *self.inside(testbed), "sh", "-ec", _SERVICE]
            service = testbed.host.spawn(argv)
            try:
                done = testbed.host.run(["sh", "-ec", _LISTENS.format(socket=socket)], timeout_s=60, check=False)
                if done.returncode != 0:
                    words = service.stop().error_text.strip().splitlines()[-2:]
                    raise PlatformError(f"VirtualBox's service did not start: {' / '.join(words)}", self.remedy)
                yield
            finally:
                service.stop()

    def _preparation_script(self, place: Path) -> str:
        home, kernel, initramfs = quoted(place, self.guest.image, self.guest.initramfs)
        return "\n".join(
            [
                f"mkdir -p {home}/tmp {home}/user",
                *lasting_namespace_lines(place),
                f"kept {home} private mount --bind {home}/tmp /tmp",
                f"cp {kernel} {home}/disc/boot/vmlinuz",
                f"cp {initramfs} {home}/disc/boot/initramfs",
                f"grub-mkrescue --output={home}/boot.iso {home}/disc\n",
            ]
        )

    def inside(self, testbed: Testbed, *namespaces: str) -> list[str]:
        """Return the prefix of a command that uses the private service; `namespaces` are options of nsenter."""
        home = _home(testbed)
        user = [f"VBOX_USER_HOME={home / 'user'}", f"VBOX_IPC_SOCKETID={_service_id(testbed)}"]
        return ["nsenter", *namespaces, f"--mount={home / 'mnt'}", "env", *user]

    def manage(self, testbed: Testbed) -> list[str]:
        return [*self.inside(testbed), "VBoxManage", "--nologo"]

    def instance(self, testbed: Testbed, spec: InstanceSpec, cgroup: str) -> VirtualBoxInstance:
        return VirtualBoxInstance(testbed, spec, self, cgroup)

    def creation_script(self, instance: HypervisorInstance) -> str:
        return mkdir_command(instance)  # VirtualBox makes the disk by conversion

    def creation_commands(self, instance: HypervisorInstance, cards: Sequence[tuple[str, str]]) -> list[list[str]]:
        """Return the VBoxManage commands that make the guest, in order. `cards` has the same meaning as in `boot`."""
        name, scratch, spec = instance.spec.name, instance.scratch, instance.spec
        disk, disc = f"{scratch}/disk.vdi", f"{_home(instance.testbed)}/boot.iso"
        create = ["createvm", "--name", name, "--ostype", "Debian_64", "--register"]
        create += ["--basefolder", f"{scratch}/machines"]
        if self._version >= (7, 1):
            create.append("--platform-architecture=x86")
        modify = ["modifyvm", name, "--memory", str(self.memory_mib(spec)), "--cpus", str(self.vcpus(spec))]
        modify += ["--ioapic", "on", "--rtcuseutc", "on", "--boot1", "dvd"]
        for number, (port, interrupt) in enumerate(_UARTS):
            socket = str(instance.sockets / SOCKET_PATTERN.format(number=number))
            modify += [f"--uart{number + 1}", port, interrupt, f"--uartmode{number + 1}", "server", socket]
        if runs_emulated(instance.testbed):
            # In QEMU, Linux does not boot with the clock of the default interface, KVM's. With nested paging, most
            # boots hang or crash in 16-bit mode, in GRUB.
            modify += ["--paravirt-provider", "none", "--nested-paging", "off"]
        if not cards:
            modify += ["--nic1", "none"]  # a new machine has one
        for number, (tap, mac) in enumerate(cards, start=1):
            if self.sends_by_host:
                modify += [f"--nic{number}", "nat", f"--natnet{number}", f"{_nat_network(number)}.0/24"]
            else:
                modify += [f"--nic{number}", "bridged", f"--bridgeadapter{number}", tap]
                modify += [f"--nicpromisc{number}", "allow-all"]
            modify += [f"--cableconnected{number}", "on", f"--nictype{number}", _CARDS[_NIC.of(self.chosen)]]
            modify += [f"--macaddress{number}", mac.replace(":", "").upper()]
        attach = ["storageattach", name, "--storagectl", "SATA", "--device", "0"]
        return [
            ["convertfromraw", str(self.guest.disk), disk, "--format", "VDI"],
            create,
            modify,
            ["storagectl", name, "--name", "SATA", "--add", "sata", "--controller", "IntelAhci", "--portcount", "2"],
            [*attach, "--port", "0", "--type", "hdd", "--medium", disk],
            [*attach, "--port", "1", "--type", "dvddrive", "--medium", disc],
        ]

    def residuals(self, testbed: Testbed) -> dict[str, Any]:
        return {**super().residuals(testbed), "root filesystem": "ext4 on a VDI disk of its own, on AHCI"}


def _behind_nat(port: Port, number: int) -> Port:
    """Return the port as it must be configured behind VirtualBox's NAT: with the NAT's address and routes.

    All destinations of the port are reached through the gateway of the NAT. `number` counts cards from 1."""
    network, gateway = IPv4Interface(port.address).network, f"{_nat_network(number)}.2"
    destinations = [str(network), *(route.partition(" via ")[0] for route in port.routes)]
    routes = tuple(f"{destination} via {gateway}" for destination in destinations)
    return replace(port, address=f"{_nat_network(number)}.15/24", routes=routes)


def _nat_network(number: int) -> str:
    return f"198.18.{_NAT_NETWORKS + number}"


def _service_id(testbed: Testbed) -> str:
    return f"lastro-{testbed.session.token}"


def _home(testbed: Testbed) -> Path:
    return testbed.run_dir / "virtualbox"
