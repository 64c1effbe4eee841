"""The hypervisors that a guest host may have: what each adds to the guest's userland, and how it starts.

Xen is loaded in place of the kernel, by the multiboot protocol, and starts it as its first domain, the host."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lastro.host.shell import quoted
from lastro.image.guest import put
from lastro.image.rootfs import Image
from lastro.image.workshop import workshop

# Physical addresses of a domain are not those of the machine. Virtio translates them only with these options.
VIRTIO_UNDER_XEN = ",disable-legacy=on,iommu_platform=on"
# Memory that was never used needs no scrubbing. After an error, QEMU ends.
_XEN = ("console=com1", "bootscrub=false", "noreboot")
# An emulated processor has none of the flaws that Xen works around, at great cost there. With XSAVE, programs of its
# domains were killed by memory faults, now and then.
_XEN_EMULATED = ("spec-ctrl=no", "xpti=no", "smap=0", "smep=0", "xsave=off")
# On the emulated processor with all features, VirtualBox's guests hang when they boot. With XSAVE, which AVX needs, a
# memory fault kills their first process.
_FOR_VIRTUALBOX = "EPYC,-xsave,-xsavec,-xsaves,-xsaveopt,-xgetbv1,-avx,-avx2,-fma,-f16c"


@dataclass(frozen=True, slots=True)
class GuestHypervisor:
    """A hypervisor inside a guest."""

    called: str  # its name in titles
    packages: tuple[str, ...]  # Debian packages that it requires
    start: str  # file name of a script that starts it; root runs the script inside the guest before sshd starts
    builds: bool = False  # modules for the guest's kernel must be built, which requires the kernel's headers
    components: str = ""  # of Debian's archive, which have the packages
    cpu: str = "max"  # model of the emulated processor on which it works


HYPERVISORS = {
    "xen": GuestHypervisor("Xen", ("qemu-system-xen", "xen-system-amd64"), "guest_host_xen.sh"),
    "virtualbox": GuestHypervisor(
        "VirtualBox",
        ("virtualbox", "virtualbox-dkms"),
        "guest_host_virtualbox.sh",
        builds=True,
        components="main,contrib",
        cpu=_FOR_VIRTUALBOX,
    ),
}
NOTHING = GuestHypervisor("", (), "")
_BUILT = "usr/lib/lastro"  # /lib/modules is a disk of its own in the guest


def modules_hook(kernel: str) -> str:
    """Return a hook for mmdebstrap that builds modules for the kernel release `kernel`.

    It stores them where the guest looks for them, since /lib/modules is a separate disk in the guest."""
    [release] = quoted(kernel)
    return (
        f'chroot "$1" dkms autoinstall -k {release} && mkdir "$1/{_BUILT}"'
        f' && cp "$1"/lib/modules/{release}/updates/dkms/*.ko* "$1/{_BUILT}"'
    )


def start_of(hypervisor: str) -> str:
    """Return the text of the script that starts a hypervisor's daemons; empty if the guest has no hypervisor."""
    start = HYPERVISORS.get(hypervisor)
    return Path(__file__).with_name(start.start).read_text(encoding="utf-8") if start else ""


def ensure_xen(userland: Image, store: Path) -> Path:
    """Return the path of Xen as an ELF file, which QEMU can load; unpack it from the userland if necessary."""
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
    """Return the options with which QEMU loads Xen, which in turn loads the kernel and the initramfs.

    `words` are the parameters of the kernel. QEMU takes them in a list with commas, so each comma in them is doubled.
    The host's own domain gets half of the memory; the rest is for the other domains."""
    own = f"dom0_mem={memory_mib // 2}M,max:{memory_mib // 2}M"
    modules = f"{kernel} {' '.join(words).replace(',', ',,')},{initramfs}"
    parameters = [own, *_XEN, *(_XEN_EMULATED if emulated else ())]
    return ["-kernel", str(xen), "-append", " ".join(parameters), "-initrd", modules]
