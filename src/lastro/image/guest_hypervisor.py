"""The hypervisors that a guest may have for platforms inside: what each adds to its userland, and how it starts.

Xen is loaded in place of the kernel, by the multiboot protocol, and starts the kernel as its first domain, which is the
host of the testbed."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lastro.image.guest import put
from lastro.image.rootfs import Image
from lastro.image.workshop import workshop

# Physical addresses of a domain are not those of the machine. Virtio translates them only with these options.
VIRTIO_UNDER_XEN = ",disable-legacy=on,iommu_platform=on"
# Memory that was never used needs no scrubbing. After an error, QEMU ends.
_XEN = ("console=com1", "bootscrub=false", "noreboot")
# An emulated processor has none of the flaws that Xen works around, at great cost there.
_XEN_EMULATED = ("spec-ctrl=no", "xpti=no", "smap=0", "smep=0")


@dataclass(frozen=True, slots=True)
class GuestHypervisor:
    """`called` is its name in titles. `start` is a script that starts its daemons, as root inside, before sshd."""

    called: str
    packages: tuple[str, ...]
    start: str


HYPERVISORS = {"xen": GuestHypervisor("Xen", ("qemu-system-xen", "xen-system-amd64"), "guest_host_xen.sh")}


def start_of(hypervisor: str) -> str:
    """Return the script that starts the daemons of a hypervisor; empty for a guest without one."""
    found = HYPERVISORS.get(hypervisor)
    return Path(__file__).with_name(found.start).read_text(encoding="utf-8") if found else ""


def ensure_xen(userland: Image, store: Path) -> Path:
    """Return Xen itself, as an ELF file, which QEMU can load; its package is in the userland."""
    path = store / f"xen-{userland.name}"
    if not path.is_file():
        [packed] = (userland.tree / "boot").glob("xen-*-amd64.gz")
        with workshop(store) as work:
            (work / path.name).write_bytes(gzip.decompress(packed.read_bytes()))
            put(work / path.name, path)
    return path


def xen_options(
    xen: Path, kernel: Path, initramfs: Path, words: Sequence[str], memory_mib: int, *, emulated: bool
) -> list[str]:
    """Return the options with which QEMU loads Xen, and the kernel with its parameters as modules of it.

    The host's own domain gets half of the memory, and the other domains get the rest. In a list of modules, a comma is
    written twice."""
    own = f"dom0_mem={memory_mib // 2}M,max:{memory_mib // 2}M"
    modules = f"{kernel} {' '.join(words).replace(',', ',,')},{initramfs}"
    parameters = [own, *_XEN, *(_XEN_EMULATED if emulated else ())]
    return ["-kernel", str(xen), "-append", " ".join(parameters), "-initrd", modules]
