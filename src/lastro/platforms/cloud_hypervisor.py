"""Cloud Hypervisor: guests on KVM with virtio devices on a PCI bus, and without legacy hardware.

Sources: Cloud Hypervisor's README.md, docs/vsock.md, docs/device_model.md, and its --help. Not yet tested with the real
program: tests check the command line, and use the control channel with a program that stands in for it."""

from __future__ import annotations

from collections.abc import Sequence

from lastro.platforms.hypervisor import disk_of
from lastro.platforms.vmm import GUEST_CID, VmmInstance, VmmPlatform
from lastro.requirements import Requirements


class CloudHypervisor(VmmPlatform):
    name = "cloud-hypervisor"
    summary = "virtual machines by Cloud Hypervisor, on KVM"
    version_argv = ("cloud-hypervisor", "--version")
    program = "cloud-hypervisor"
    remedy = "put `cloud-hypervisor`, from its project's releases, into /usr/local/bin"
    requirements = Requirements(program=program, remedy=remedy)

    def argv(self, instance: VmmInstance, cards: Sequence[tuple[str, str]]) -> list[str]:
        spec = instance.spec
        nets = [f"tap={tap},mac={mac}" for tap, mac in cards]
        return [
            "cloud-hypervisor",
            "--kernel", str(self.guest.fastest),
            "--initramfs", str(self.guest.initramfs), "--cmdline", self.command_line(spec),
            "--cpus", f"boot={self.vcpus(spec)}", "--memory", f"size={self.memory_mib(spec)}M",
            "--disk", f"path={disk_of(instance)}", "--serial", "tty", "--console", "off",
            "--vsock", f"cid={GUEST_CID},socket={instance.home / 'vsock'}",
            *(["--net", *nets] if nets else []),
        ]  # fmt: skip
