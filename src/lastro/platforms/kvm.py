"""Hardware virtualization: QEMU with KVM.

On some hosts with /dev/kvm, no guest boots, so the probe boots one. Tested on a host that is itself a guest in
software, with the virtualization support that QEMU emulates; not yet on a bare-metal host."""

from __future__ import annotations

from dataclasses import replace

from lastro.platforms._qemu import NIC, QemuPlatform
from lastro.platforms.base import Availability
from lastro.platforms.hypervisor import require_kvm
from lastro.testbed import Testbed

_REMEDY = "use a host where KVM guests boot (bare metal, or working nesting), or the platform qemu-tcg"


class Kvm(QemuPlatform):
    name = "kvm"
    summary = "virtual machines by QEMU with KVM (hardware virtualization)"
    accelerator = "kvm"
    cpu = "host"
    hypervisor = "none"  # other hypervisors use the virtualization of the processor themselves
    start_s = 1.5
    boot_timeout_s = 20.0  # ten times the usual boot time

    def require_host(self, testbed: Testbed) -> None:
        super().require_host(testbed)
        require_kvm(testbed.host, self.name)

    def probe(self, testbed: Testbed) -> Availability:
        availability = super().probe(testbed)
        return availability if availability or availability.remedy else replace(availability, remedy=_REMEDY)

    def _vhost(self, testbed: Testbed) -> str:
        """Return the option to append to `-netdev` so that the host's kernel serves the card; empty if it cannot.

        The kernel serves only virtio cards, and only if the host has /dev/vhost-net."""
        return ",vhost=on" if NIC.of(self.chosen) == "virtio" and testbed.host.view.exists("/dev/vhost-net") else ""
