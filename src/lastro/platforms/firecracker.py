"""Firecracker: guests on KVM, by a monitor with only five kinds of devices.

The guest's kernel finds its devices in ACPI tables, which Firecracker has since version 1.8. Without them, the kernel
would have to accept virtio-mmio devices on its command line, and Debian's does not.

Sources: Firecracker's docs/getting-started.md, docs/vsock.md, src/firecracker/swagger/firecracker.yaml. Not yet tested
with the real program: tests check commands and configuration, and use the control channel with a program that stands in
for Firecracker."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from lastro.errors import Unavailable
from lastro.platforms.hypervisor import disk_of
from lastro.platforms.vmm import GUEST_CID, VmmInstance, VmmPlatform
from lastro.requirements import Requirements


class Firecracker(VmmPlatform):
    name = "firecracker"
    summary = "micro virtual machines by Firecracker, on KVM"
    version_argv = ("firecracker", "--version")
    program = "firecracker"
    remedy = "put `firecracker` 1.8 or later, from its project's releases, into /usr/local/bin"
    requirements = Requirements(program=program, remedy=remedy)

    def argv(self, instance: VmmInstance, cards: Sequence[tuple[str, str]]) -> list[str]:
        config = str(instance.home / "config.json")
        instance.testbed.host.write_text(config, json.dumps(self.config(instance, cards), indent=1))
        return ["firecracker", "--no-api", "--config-file", config]

    def config(self, instance: VmmInstance, cards: Sequence[tuple[str, str]]) -> dict[str, Any]:
        """Return the configuration, instead of requests to the API. `cards` has (name of the tap, MAC address)."""
        spec, kernel = instance.spec, self.guest.elf
        if kernel is None:
            raise Unavailable("the guest's kernel could not be unpacked to an ELF file, which Firecracker requires")
        return {
            "boot-source": {
                "kernel_image_path": str(kernel),
                "initrd_path": str(self.guest.initramfs),
                "boot_args": self.command_line(spec, "reboot=k", "pci=off"),
            },
            "drives": [
                {
                    "drive_id": "root",
                    "path_on_host": str(disk_of(instance)),
                    "is_root_device": False,  # the initramfs finds it
                    "is_read_only": False,
                }
            ],
            "machine-config": {"vcpu_count": self.vcpus(spec), "mem_size_mib": self.memory_mib(spec)},
            "network-interfaces": [
                {"iface_id": f"card{number}", "guest_mac": mac, "host_dev_name": tap}
                for number, (tap, mac) in enumerate(cards)
            ],
            "vsock": {"guest_cid": GUEST_CID, "uds_path": str(instance.home / "vsock")},
            "entropy": {},
        }
