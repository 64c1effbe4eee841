"""Full virtualization in software: QEMU translates the guest's instructions (TCG), on any host.

It represents hypervisors that run guests without hardware support, and is neither KVM nor VirtualBox."""

from __future__ import annotations

from lastro.platforms._qemu import QemuPlatform


class QemuTcg(QemuPlatform):
    name = "qemu-tcg"
    summary = "virtual machines by QEMU in software (binary translation), on any host"
    accelerator = "tcg,thread=multi"
    cpu = "max"
    emulates = True
    boot_timeout_s = 120.0
    start_s = 4.4
    slowdown = 5.0
