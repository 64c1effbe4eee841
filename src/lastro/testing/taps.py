"""A stand-in for a virtual machine, which opens the taps of its links as a virtual machine does.

Its guest is a network namespace with interfaces of its own, and a process that copies frames between these and the
taps. Run as a script, this file is that process: `taps.py DUT GUEST [LINK:KIND:PORT …]`."""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import socket
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress

_TUNSETIFF, _SIOCGIFHWADDR, _SIOCSIFHWADDR = 0x400454CA, 0x8927, 0x8924
_IFF_TAP, _IFF_NO_PI, _CLONE_NEWNET = 0x0002, 0x1000, 0x40000000


def _enter(netns: str) -> None:
    with open(f"/run/netns/{netns}") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns {netns}")


def _open(device: str, link: str) -> int:
    fd = os.open(device, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH22x", link.encode(), _IFF_TAP | _IFF_NO_PI))
    return fd


def _mac(link: str) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as inet:
        return fcntl.ioctl(inet, _SIOCGIFHWADDR, struct.pack("16s24x", link.encode()))[16:32]


def _guest_interface(name: str, mac: bytes | None) -> int:
    fd = _open("/dev/net/tun", name)
    if mac:  # frames come to a macvtap by its own address
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as inet:
            fcntl.ioctl(inet, _SIOCSIFHWADDR, struct.pack("16s16s8x", name.encode(), mac))
    return fd


def _main(dut: str, guest: str, *links: str) -> None:
    ends = [link.split(":") for link in links]
    _enter(dut)
    outer, macs = [], []
    for link, kind, _ in ends:
        number = socket.if_nametoindex(link)
        outer.append(_open(f"/dev/tap{number}" if kind == "macvtap" else "/dev/net/tun", link))
        macs.append(_mac(link) if kind == "macvtap" else None)
    _enter(guest)
    inner = [_guest_interface(name, mac) for (_, _, name), mac in zip(ends, macs, strict=True)]
    other = {**dict(zip(outer, inner, strict=True)), **dict(zip(inner, outer, strict=True))}
    poll = select.poll()
    for fd in other:
        poll.register(fd, select.POLLIN)
    print("copying", flush=True)
    while True:
        for fd, event in poll.poll():
            if event & ~select.POLLIN:  # the link is gone
                return
            with suppress(OSError):  # an interface that is down, a full queue: a frame is lost
                os.write(other[fd], os.read(fd, 65_600))


if __name__ == "__main__":
    _main(*sys.argv[1:])
    sys.exit()

from lastro.errors import PlatformError  # noqa: E402 - the process above needs nothing of Lastro
from lastro.host.base import Process  # noqa: E402
from lastro.host.ledger import NETNS_DIR  # noqa: E402
from lastro.platforms.base import Instance, InstanceSpec, Platform, Port, Tap, instance_netns  # noqa: E402
from lastro.testbed import Testbed, set_sysctls  # noqa: E402


class TapInstance(Instance):
    takes_taps = True
    _copier: Process | None = None

    def plug(self, ports: Sequence[Port], taps: Mapping[str, Tap]) -> None:
        self.unplug()
        links = [f"{taps[port.name].link}:{taps[port.name].kind}:{port.name}" for port in ports]
        self._copier = self.testbed.host.spawn([sys.executable, __file__, self.testbed.dut, self.netns, *links])
        self._ports = list(ports)

    def ready(self) -> None:
        if self._copier is None:
            raise PlatformError("nothing was plugged in")
        self._copier.wait_line("copying", 10)
        super().plug(self._ports, {})

    def unplug(self) -> None:
        if self._copier is not None:
            self._copier.stop()
            self._copier = None


class TapMachine(Platform):
    name = "taps"
    summary = "for tests: a network namespace behind taps"

    @contextmanager
    def start(self, testbed: Testbed, spec: InstanceSpec) -> Iterator[Instance]:
        with ExitStack() as stack:
            netns = stack.enter_context(instance_netns(testbed.host, testbed, spec))
            set_sysctls(testbed.host, netns, dict(spec.sysctls))
            enter = ["nsenter", f"--net={NETNS_DIR / netns}"]
            instance = TapInstance(testbed, spec, netns=netns, cgroup=testbed.session.cgroup, enter=enter)
            stack.callback(instance.unplug)
            yield instance
