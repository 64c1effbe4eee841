"""Monitors on KVM with a process per guest and commands over vsock: Firecracker and Cloud Hypervisor.

Both offer the whole vsock of a guest as one Unix socket, on which a client asks for a port. The guest's agent listens
on several ports. For each of these ports there is a symbolic link to this socket. The link has the path at which other
hypervisors have the socket of a serial port."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from lastro.host.shell import quoted
from lastro.image import guest
from lastro.platforms._machine import PORTS
from lastro.platforms.base import InstanceSpec
from lastro.platforms.hypervisor import Hypervisor, HypervisorInstance, require_kvm
from lastro.testbed import Testbed

VSOCK_PORTS = tuple(range(5000, 5000 + PORTS))
GUEST_CID = 3  # of the guest's vsock; each guest is alone on its bus, so all can have the same CID


class VmmInstance(HypervisorInstance):
    _platform: VmmPlatform

    def boot(self, cards: Sequence[tuple[str, str]]) -> None:
        self.start_monitor(*self._platform.argv(self, cards))

    def last_words(self) -> str:
        """Return the end of the monitor's standard error, or if that is empty, the end of the guest's console."""
        done = self.monitor.stop()
        lines = [line.strip() for line in (done.error_text.strip() or done.text.strip()).splitlines()]
        return " / ".join(lines[-2:])[-300:]


class VmmPlatform(Hypervisor):
    hypervisor = "none"

    @abstractmethod
    def argv(self, instance: VmmInstance, cards: Sequence[tuple[str, str]]) -> list[str]:
        """Return the monitor's command line for a guest. `cards`: as for `HypervisorInstance.boot`."""

    def require_host(self, testbed: Testbed) -> None:
        require_kvm(testbed.host, self.program)

    def instance(self, testbed: Testbed, spec: InstanceSpec, cgroup: str) -> VmmInstance:
        return VmmInstance(testbed, spec, self, cgroup)

    def creation_script(self, instance: HypervisorInstance) -> str:
        (sockets,) = quoted(instance.sockets)
        links = "".join(f"; ln -s ../vsock {sockets}/{port}.sock" for port in VSOCK_PORTS)
        return super().creation_script(instance) + links

    def command_line(self, spec: InstanceSpec, *words: str) -> str:
        ports = [f"vsock={port}" for port in VSOCK_PORTS]
        return guest.command_line(spec.role, ports, "console=ttyS0", *self.mitigation_words, "quiet", *words)
