"""The files of a virtual machine that is the host of a testbed: its kernel, its disks, and Docker's AppArmor profile.

Its root is a second root filesystem, of Debian packages alone: sshd, the tools that Lastro runs on a host, and the
platforms that containers need. The root filesystem of instances is a disk beside it, the same that virtual machines of
the platforms boot."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lastro import registry
from lastro.errors import ImageError
from lastro.host.base import Host
from lastro.image import guest, rootfs
from lastro.image.guest_hypervisor import HYPERVISORS, NOTHING, ensure_xen, modules_hook
from lastro.image.rootfs import Image
from lastro.image.workshop import building

PROFILE = "docker-default"
# The parts that work in every guest, beside its platforms. Their packages are those that `lastro setup` installs on a
# host.
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
    """The files to boot. `modules` is None for a kernel with everything built in. Disks are shared: use layers."""

    kernel: Path
    initramfs: Path
    root: Path
    instances: Path
    modules: Path | None
    profile: str  # of AppArmor, as text; empty if there is none
    digests: dict[str, str]  # of the userland and the kernel, for provenance
    boots: guest.Guest | None = None  # by its platforms that are virtual machines; `instances` is their disk, too
    xen: Path | None = None  # loads the kernel


def ensure(
    image: Image, state: Path, host: Host, release: str, kernel: str, platforms: Sequence[str], hypervisor: str = "none"
) -> GuestHost:
    """Return the files; make them if necessary (about two minutes in all).

    `image` is the root filesystem of instances. `kernel` is a Debian package, of another release if one follows after a
    slash, or the absolute path of a bzImage that has everything built in. The userland has what `platforms` and the
    `hypervisor` require. Raises: ImageError with the last output of the tool that failed."""
    store, own = state / "guest", kernel.startswith("/")
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
            guest.ensure_disk(image, store, host),
            None if own else debian.modules_disk,
            docker_profile(userland.tree / "usr/sbin/dockerd"),
            {"userland_sha256": userland.digest, "kernel_sha256": _sha256(booted)},
            guest.ensure(image, store, host) if _run_machines(platforms) else None,
            xen,
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def to_build(
    image: Image, state: Path, release: str, kernel: str, platforms: Sequence[str], hypervisor: str = "none"
) -> list[str]:
    """Return descriptions of what `ensure` would have to fetch and build, which takes minutes; empty if nothing."""
    package, origin = _package(release, kernel)
    debian = guest.kernel_at(state / "guest", origin, image.snapshot, package, _MODULES)
    made = debian.directory.is_dir()
    recipe = recipe_of(release, image.snapshot, platforms, hypervisor, debian.release if made else "")
    found = [] if rootfs.find(recipe, state / "rootfs") else [f"the userland of {release}"]
    return found if made else [*found, f"{package} of {origin}"]


def _package(release: str, kernel: str) -> tuple[str, str]:
    """Return the Debian package of a kernel, and the Debian release that has the package.

    For a kernel file of the user, it is Debian's usual kernel, whose initramfs is used."""
    package, _, origin = (guest.KERNEL if kernel.startswith("/") else kernel).partition("/")
    return package, origin or release


def recipe_of(
    release: str, snapshot: str, platforms: Sequence[str], hypervisor: str = "none", kernel: str = ""
) -> rootfs.ImageRecipe:
    """Return the recipe of the guest's own root filesystem.

    `kernel` is the kernel release for which a hypervisor's modules are built, if it has any."""
    parts = {**PARTS, "platform": platforms}
    needed = {name for kind, names in parts.items() for part in names for name in _packages(kind, part)}
    needed |= {*(_FOR_MACHINES if _run_machines(platforms) else ())}
    below = HYPERVISORS.get(hypervisor, NOTHING)
    needed |= {*below.packages, *((f"linux-headers-{kernel}",) if below.builds else ())}
    needed |= {*_TOOLS, *(() if release in _BEFORE_DEBIAN_13 else _SINCE_DEBIAN_13)}
    hooks = (_NO_KEYS, *((modules_hook(kernel),) if below.builds else ()))
    return rootfs.ImageRecipe(release, tuple(sorted(needed)), (), hooks, snapshot, below.components)


def _run_machines(platforms: Sequence[str]) -> bool:
    """Return whether one of these platforms runs virtual machines."""
    return any(registry.get("platform", name).guests for name in platforms)


def _packages(kind: str, name: str) -> tuple[str, ...]:
    packages: tuple[str, ...] = registry.get(kind, name).requirements.packages
    return packages


def docker_profile(dockerd: Path) -> str:
    """Return the AppArmor profile that a dockerd loads when it starts, filled in; empty if the program has none.

    It is a template of Go inside of the program. Loaded at boot, it serves runc and crun as well, and no daemon has to
    run for it."""
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
