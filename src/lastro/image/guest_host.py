"""The files of a virtual machine that is the host of a testbed: its kernel, its disks, and Docker's AppArmor profile.

Its root is a second root filesystem, which has Debian packages only: sshd, the tools that Lastro runs on a host, and
what the platforms require. A second disk has the root filesystem of instances, virtual machines included."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lastro import registry
from lastro.errors import ImageError
from lastro.host.base import Host
from lastro.host.files import file_sha256
from lastro.image import guest, rootfs
from lastro.image.guest_hypervisor import HYPERVISORS, NOTHING, ensure_xen, modules_hook
from lastro.image.rootfs import Image
from lastro.image.workshop import building

PROFILE = "docker-default"
# The parts that work in every guest, beside its platforms. `lastro setup` installs the same packages.
PARTS = {"attachment": ("ovs",), "isolation": ("apparmor",), "scenario": ("routing",), "instrument": ("curl",)}
_TOOLS = (
    "busybox-static", "ethtool", "iproute2", "iptables", "iputils-ping", "kmod", "nftables", "openssh-server", "procps",
    "util-linux-extra",
)  # fmt: skip
_FOR_MACHINES = ("python3-minimal",)  # runs the client of the agent in a virtual machine
# Until Debian 12, the client was in docker.io, which only recommends it since then.
_SINCE_DEBIAN_13 = ("docker-cli",)
_BEFORE_DEBIAN_13 = ("buster", "bullseye", "bookworm")
# Each machine gets keys of its own when it boots.
_NO_KEYS = 'rm -f "$1"/etc/ssh/ssh_host_*_key*'
_MODULES = (
    "net/*", "fs/*", "crypto/*", "lib/*", "arch/x86/crypto/*", "drivers/net/ipvlan/*", "drivers/net/macvtap.ko",
    "drivers/net/bonding/*", "drivers/net/wireguard/*", "drivers/net/geneve.ko", "drivers/md/*",
    "drivers/block/loop.ko", "arch/x86/kvm/*", "drivers/vhost/*",
)  # fmt: skip
_INSIDE = {"init": "guest_host_init.sh"}
_APPLETS = (
    "cat", "chmod", "chroot", "ip", "ln", "mkdir", "mknod", "modprobe", "mount", "mv", "poweroff", "rmdir", "sh",
    "sleep", "sort", "switch_root", "tar", "touch", "tr",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class GuestHost:
    """The files to boot. Disks are shared between guests, so use layers over them."""

    kernel: Path
    initramfs: Path
    root: Path  # disk with the userland of the host
    instances: tuple[Path, ...]  # disks with the root filesystems of instances
    modules: Path | None  # disk with the kernel's modules; None for a kernel with everything built in
    profile: str  # of AppArmor, as text; empty if there is none
    digests: dict[str, str]  # of the userland and the kernel, for provenance
    boots: guest.Guest | None = None  # by its platforms that are virtual machines; `instances` are their disks, too
    xen: Path | None = None  # loads the kernel


def ensure(
    images: Sequence[Image],
    state: Path,
    host: Host,
    release: str,
    kernel: str,
    platforms: Sequence[str],
    hypervisor: str = "none",
) -> GuestHost:
    """Return the files; make them if necessary (about two minutes in all).

    `images` are the root filesystems of instances: that of the study, and those of its variants.
    `kernel` is a Debian package, as PACKAGE or PACKAGE/RELEASE if it comes from another Debian release than `release`.
    Or it is the absolute path of a bzImage that has everything built in.
    `platforms` and `hypervisor` are those that the guest must be able to run; its userland has what they require.

    Raises: ImageError with the last output of the tool that failed."""
    image, store, own = images[0], state / "guest", kernel.startswith("/")
    package, origin = _package(release, kernel)
    with building("the guest that is the host", store, image.snapshot):
        debian = guest.ensure_kernel(store, host, origin, image.snapshot, package, _MODULES)
    recipe = recipe_of(release, image.snapshot, platforms, hypervisor, debian.release)
    userland = rootfs.ensure(recipe, state / "rootfs", host)
    with building("the guest that is the host", store, image.snapshot):
        if own and not Path(kernel).is_file():
            raise ImageError(f"{kernel}, the kernel of the guest, is not a file", "set `kernel` to a bzImage")
        xen = ensure_xen(userland, store) if hypervisor == "xen" else None
        booted = Path(kernel) if own else debian.image if xen else debian.elf or debian.image
        return GuestHost(
            booted,
            guest.ensure_initramfs(debian, store, _INSIDE, _APPLETS),
            guest.ensure_disk(userland, store, host),
            tuple(guest.ensure_disk(each, store, host) for each in images),
            None if own else debian.modules_disk,
            docker_profile(userland.tree / "usr/sbin/dockerd"),
            {"userland_sha256": userland.digest, "kernel_sha256": file_sha256(booted)},
            guest.ensure(image, store, host) if _run_machines(platforms) else None,
            xen,
        )


def to_build(
    image: Image, state: Path, release: str, kernel: str, platforms: Sequence[str], hypervisor: str = "none"
) -> list[str]:
    """Return a description of each thing that `ensure` would have to fetch and build, which takes minutes."""
    package, origin = _package(release, kernel)
    debian = guest.kernel_at(state / "guest", origin, image.snapshot, package, _MODULES)
    made = debian.directory.is_dir()
    recipe = recipe_of(release, image.snapshot, platforms, hypervisor, debian.release if made else "")
    found = [] if rootfs.built_image(recipe, state / "rootfs") else [f"the userland of {release}"]
    return found if made else [*found, f"{package} of {origin}"]


def _package(release: str, kernel: str) -> tuple[str, str]:
    """Return (Debian package of a kernel, Debian release from which to take it).

    If `kernel` is a file of the user, this is Debian's usual kernel package, whose initramfs is used."""
    package, _, origin = (guest.KERNEL if kernel.startswith("/") else kernel).partition("/")
    return package, origin or release


def recipe_of(
    release: str, snapshot: str, platforms: Sequence[str], hypervisor: str = "none", kernel: str = ""
) -> rootfs.ImageRecipe:
    """Return the recipe of the guest's own root filesystem.

    `kernel` is the release of the guest's kernel. Modules of the hypervisor, if any, are built for it."""
    parts = {**PARTS, "platform": platforms}
    classes = [registry.get(kind, name) for kind, names in parts.items() for name in names]
    needed = {package for part in classes for package in part.requirements.packages}
    needed |= {*(_FOR_MACHINES if _run_machines(platforms) else ())}
    below = HYPERVISORS.get(hypervisor, NOTHING)
    needed |= {*below.packages, *((f"linux-headers-{kernel}",) if below.builds else ())}
    needed |= {*_TOOLS, *(() if release in _BEFORE_DEBIAN_13 else _SINCE_DEBIAN_13)}
    hooks = (_NO_KEYS, *((modules_hook(kernel),) if below.builds else ()))
    return rootfs.ImageRecipe(release, tuple(sorted(needed)), (), hooks, snapshot, below.components)


def _run_machines(platforms: Sequence[str]) -> bool:
    """Return whether the instances of any of these platforms are virtual machines."""
    return any(registry.get("platform", name).guests for name in platforms)


def docker_profile(dockerd: Path) -> str:
    """Return the AppArmor profile that the program `dockerd` contains, filled in; empty if it contains none.

    dockerd loads the profile when it starts. The guest loads it at boot instead, so that it also serves runc and crun,
    and no daemon has to run for it. In the program, the profile is a template in Go's format."""
    try:
        program = dockerd.read_bytes()
    except OSError:
        return ""
    profile = re.search(rb"\nprofile \{\{\.Name\}\} flags=.*?\n\}\n", program, re.DOTALL)
    text = profile[0].decode(errors="replace") if profile else ""
    text = re.sub(
        r"\{\{range \$value := \.InnerImports\}\}.*?\{\{end\}\}", "#include <abstractions/base>", text, flags=re.DOTALL
    )
    for name, value in {".Name": PROFILE, ".DaemonProfile": "unconfined"}.items():
        text = text.replace("{{" + name + "}}", value)
    text = re.sub(r"\{\{(if ge \.Version \d+|end)\}\}", "", text)  # for parsers older than any that has our release
    return f"#include <tunables/global>\n{text}" if text and "{{" not in text else ""
