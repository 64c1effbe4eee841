"""The files that a virtual machine boots: a kernel, an initramfs with the control agent, the root filesystem as a disk.

They are made from Debian's packages and from the tree that every platform runs. Nothing is installed on the host:
mmdebstrap extracts the kernel into a scratch directory. The kernel is Debian's generic one, because the cloud kernel
lacks e1000 and AHCI. It is also stored as an ELF file. Hypervisors with PVH can start that file directly, without
decompressing it, which saves a second of boot time on an emulated processor.

The agent serves serial ports. SSH would need a network card inside the guest and cryptography on its processor, and
both would affect the measurement; vsock would need vhost-vsock in the host's kernel, which many lack. A serial port
costs nothing while no command runs, and every hypervisor has some."""

from __future__ import annotations

import hashlib
import lzma
import shutil
import stat
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from lastro.errors import CommandFailed, CommandTimeout, ImageError, WriteFailed
from lastro.host.base import Host
from lastro.host.ssh import SshHost
from lastro.image.rootfs import RELEASE, Image
from lastro.image.workshop import building, mmdebstrap, workshop

KERNEL = "linux-image-amd64"
_TOOLS = ("busybox-static", "kmod")
DISK_BYTES = 4 << 30
MODULES_BYTES = 512 << 20
_EXTRACT_TIMEOUT_S = 900.0
_SOURCES = Path(__file__).parent
INSIDE = {"init": "guest_init.sh", "agent": "guest_agent_start.sh", "agent.pl": "guest_agent.pl"}
APPLETS = (
    "cat", "chroot", "init", "ip", "ln", "ls", "mkdir", "mknod", "modprobe", "mount", "poweroff", "sh", "sleep", "sort",
    "tr", "unshare",
)  # fmt: skip
# No self-tests of ciphers (half a second on an emulated processor), no wait after a panic, interfaces named eth0, eth1.
# No check of the timer's interrupts either: an emulator that loses its processor for a moment fails it.
BOOT_WORDS = ("cryptomgr.notests", "audit=0", "panic=-1", "net.ifnames=0", "no_timer_check")
_INITTAB = "::respawn:/agent\n::ctrlaltdel:/bin/poweroff -f\n"
# Modules for network functions and virtual devices, as paths below lib/modules/RELEASE/kernel. Dependencies are added.
MODULES = (
    "drivers/virtio/*", "drivers/block/virtio_blk.ko", "drivers/net/virtio_net.ko",
    "drivers/char/virtio_console.ko", "drivers/char/hw_random/virtio-rng.ko", "drivers/block/xen-blk*",
    "drivers/net/xen-net*", "drivers/xen/*", "drivers/net/ethernet/intel/e1000/*",
    "drivers/net/ethernet/intel/e1000e/*", "drivers/net/ethernet/realtek/8139cp.ko", "drivers/ata/ahci.ko",
    "drivers/scsi/sd_mod.ko", "drivers/ptp/ptp_kvm.ko", "fs/ext4/*", "fs/overlayfs/*", "crypto/crc32c_generic.ko",
    "arch/x86/crypto/crc32c-intel.ko", "drivers/net/tun.ko", "drivers/net/tap.ko", "drivers/net/veth.ko",
    "drivers/net/dummy.ko", "drivers/net/ifb.ko", "drivers/net/macvlan.ko", "drivers/net/vxlan/*",
    "drivers/net/vrf.ko", "net/bridge/*", "net/8021q/*", "net/netfilter/nf_*", "net/netfilter/nft_*",
    "net/netfilter/nfnetlink*", "net/netfilter/x_tables.ko", "net/netfilter/xt_*", "net/ipv4/netfilter/*",
    "net/ipv4/ip_gre.ko", "net/ipv4/ipip.ko", "net/sched/*", "lib/ts_*", "net/vmw_vsock/vsock.ko",
    "net/vmw_vsock/vmw_vsock_virtio_transport.ko",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel with some of its modules, in `directory`.

    `elf` is the kernel as an ELF file, which boots faster than `image` since it is not compressed. It is None if the
    kernel could not be unpacked."""

    directory: Path

    @property
    def release(self) -> str:
        return (self.directory / "release").read_text(encoding="utf-8").strip()

    @property
    def image(self) -> Path:
        return self.directory / "vmlinuz"

    @property
    def modules_disk(self) -> Path:
        """The disk image with the kernel's modules, as /lib/modules/RELEASE. Only some kernels have this file."""
        return self.directory / "modules.img"

    @property
    def elf(self) -> Path | None:
        path = self.directory / "vmlinux"
        return path if path.is_file() else None


@dataclass(frozen=True, slots=True)
class Guest:
    """The files that a guest boots, on the host that boots it."""

    release: str  # of the kernel, such as `6.1.0-31-amd64`
    image: Path  # the kernel
    elf: Path | None  # the same kernel as an ELF file, which boots faster; None if there is none
    initramfs: Path
    disk: Path  # a raw, sparse ext4 file system that guests share: use a layer over it, or a copy

    @property
    def fastest(self) -> Path:
        """The kernel image that boots faster: the ELF file if there is one, or else the compressed kernel."""
        return self.elf or self.image

    @property
    def to_send(self) -> tuple[Path, ...]:
        """The files that must be copied to a remote host: all but the disk, which is made there."""
        return tuple(file for file in (self.image, self.elf, self.initramfs) if file)


def command_line(hostname: str, ports: int | Iterable[str] = 1, *words: str) -> str:
    """Return the kernel's command line.

    `ports` says over what the agent serves commands: a number of virtio-serial ports named `lastro.*`, or names, each
    of a tty or `vsock=PORT`.
    `words` are appended unchanged, such as `console=ttyS0`; `lastro.modules=a,b` loads modules at boot."""
    wanted = str(ports) if isinstance(ports, int) else ",".join(ports)
    return " ".join([f"lastro.hostname={hostname}", f"lastro.ports={wanted}", *BOOT_WORDS, *words])


def ensure(image: Image, store: Path, host: Host) -> Guest:
    """Return the files below `store`; make them if necessary (half a minute). Raises: ImageError if a tool failed."""
    with building("kernel and disk of virtual machines", store, image.snapshot):
        kernel = ensure_kernel(store, host, RELEASE, image.snapshot)
        initramfs, disk = ensure_initramfs(kernel, store), ensure_disk(image, store, host)
        return Guest(kernel.release, kernel.image, kernel.elf, initramfs, disk)


def on_host(guest: Guest, image: Image, host: Host, store: Path) -> Guest:
    """Return the files of a guest on the host that boots it: `guest` itself, unless that host is remote.

    On a remote host, the files are below `store`. Kernel and initramfs are copied there once. The disk is made there
    once, from `image`, the copy of the root filesystem on that host, and has the same content as the disk here.

    Raises: ImageError."""
    if not isinstance(host, SshHost):
        return guest
    here = guest.initramfs.parent

    def place(file: Path) -> Path:
        return store / file.relative_to(here)

    disk = place(guest.disk)
    try:
        with host.recorded():
            for file in guest.to_send:
                if not host.view.exists(str(place(file))):
                    host.send(file, str(place(file)))
            if not host.view.exists(str(disk)):
                make_disk(image.tree, Path(f"{disk}.part"), image.digest, DISK_BYTES, host)
                host.run(["mv", f"{disk}.part", str(disk)])
    except (CommandFailed, CommandTimeout, WriteFailed) as error:
        why = f"the files of guests could not be made on {host.name}: {error}"
        raise ImageError(why, "is its disk full?") from error
    elf = place(guest.elf) if guest.elf else None
    return Guest(guest.release, place(guest.image), elf, place(guest.initramfs), disk)


def ensure_kernel(
    store: Path, host: Host, release: str, snapshot: str, package: str = KERNEL, on_disk: Sequence[str] = ()
) -> Kernel:
    """Return the kernel of a Debian package; fetch and unpack it if necessary.

    `release` is the Debian release of the package.
    `snapshot` is the time of Debian's archive from which the package is taken; empty for today's mirror.
    `on_disk` are patterns of additional modules. With any, all modules are on a disk, `modules_disk`."""
    kernel = kernel_at(store, release, snapshot, package, on_disk)
    if kernel.directory.is_dir():
        return kernel
    if host.which("mmdebstrap") is None:
        raise ImageError("mmdebstrap, which fetches the guest kernel, is not installed", "apt-get install mmdebstrap")
    with workshop(store) as work:
        extract, target = work / "extract", work / "kernel"
        options = ["--variant=extract", f"--include={','.join((package, *_TOOLS))}"]
        argv = mmdebstrap(work, options, release, extract, snapshot=snapshot)
        host.run(argv, timeout_s=_EXTRACT_TIMEOUT_S)
        _as_before_debian_13(extract)
        target.mkdir()
        version = _copy_kernel(extract, target)
        host.run(["chroot", str(extract), "/sbin/depmod", version], timeout_s=120)
        modules = extract / "lib/modules" / version
        _copy_modules(modules, target / "modules", MODULES)
        if on_disk:
            _copy_modules(modules, work / "more" / version, (*MODULES, *on_disk))
            for index in modules.glob("modules.*.bin"):  # kmod reads no other; absent modules are absent all the same
                shutil.copy(index, work / "more" / version)
            make_disk(work / "more", target / "modules.img", kernel.directory.name, MODULES_BYTES, host)
        shutil.copy(extract / "bin/busybox", target / "busybox")
        put(target, kernel.directory)
    return kernel


def kernel_at(store: Path, release: str, snapshot: str, package: str, on_disk: Sequence[str]) -> Kernel:
    """Return the kernel that `ensure_kernel` makes from these arguments; its directory may not exist yet."""
    moment = (snapshot,) if snapshot else ()
    return Kernel(store / f"kernel-{key_of(release, package, *_TOOLS, *MODULES, *moment, *on_disk)}")


def _as_before_debian_13(extract: Path) -> None:
    """Change extracted packages to the layout of Debian 12: links to /usr, unpacked modules, and kernels in /boot.

    Since Debian 13, base-files has the links. Since Debian 14, a kernel is in the directory of its modules."""
    for name in ("bin", "lib", "lib64", "sbin"):
        if not (extract / name).exists():
            (extract / name).symlink_to(f"usr/{name}")
    for module in [*(extract / "lib/modules").rglob("*.ko.xz")]:
        module.with_suffix("").write_bytes(lzma.decompress(module.read_bytes()))
        module.unlink()
    for kernel in (extract / "lib/modules").glob("*/vmlinuz"):
        (extract / "boot").mkdir(exist_ok=True)
        for file in (kernel, kernel.with_name("config")):
            (extract / "boot" / f"{file.name}-{kernel.parent.name}").symlink_to(file)


def _copy_kernel(extract: Path, target: Path) -> str:
    """Copy the kernel into `target`, also unpacked, and return its release, such as `6.1.0-31-amd64`."""
    [image] = (extract / "boot").glob("vmlinuz-*")
    version = image.name.removeprefix("vmlinuz-")
    shutil.copy(image, target / "vmlinuz")
    shutil.copy(extract / "boot" / f"config-{version}", target / "config")
    (target / "release").write_text(version + "\n")
    elf = elf_in(image.read_bytes())
    if elf is not None:
        (target / "vmlinux").write_bytes(elf)
    return version


def elf_in(image: bytes) -> bytes | None:
    """Return the ELF file that is packed in a bzImage by xz or gzip, or None. Source: Linux x86 boot protocol 2.08."""
    if image[0x202:0x206] != b"HdrS":
        return None
    setup_sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    payload = image[start : start + length]
    try:
        if payload.startswith(b"\xfd7zXZ"):
            elf = lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(payload)
        elif payload.startswith(b"\x1f\x8b"):
            elf = zlib.decompressobj(31).decompress(payload)
        else:
            return None
    except (lzma.LZMAError, zlib.error):
        return None
    return elf if elf.startswith(b"\x7fELF") else None


def _copy_modules(source: Path, target: Path, patterns: Iterable[str]) -> None:
    """Copy the modules that match a pattern, and the modules that they require, from `source` to `target`.

    The files that busybox's modprobe reads are written there, too."""
    lines = (source / "modules.dep").read_text(encoding="utf-8").splitlines()
    requires = {path: others.split() for path, _, others in (line.partition(":") for line in lines)}
    wanted = {path for path in requires if any(fnmatchcase(path, f"kernel/{pattern}") for pattern in patterns)}
    wanted |= {other for path in wanted for other in requires[path]}
    for path in sorted(wanted):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / path, target / path)
    names = {path.rpartition("/")[2].partition(".ko")[0].replace("-", "_") for path in wanted}
    dependencies = [f"{path}: {' '.join(requires[path])}".rstrip() for path in sorted(wanted)]
    (target / "modules.dep").write_text("\n".join(dependencies) + "\n")
    aliases = (source / "modules.alias").read_text(encoding="utf-8").splitlines()
    (target / "modules.alias").write_text("".join(f"{line}\n" for line in aliases if line.split()[-1] in names))
    for extra in ("modules.builtin", "modules.order"):
        shutil.copy(source / extra, target / extra)


def ensure_initramfs(
    kernel: Kernel, store: Path, inside: Mapping[str, str] = INSIDE, applets: Sequence[str] = APPLETS
) -> Path:
    """Return an initramfs with the kernel's modules, busybox, and Lastro's own files; make it if necessary.

    `inside` is {path in the initramfs: file of this package}.
    `applets` are the commands of busybox to which /bin has links."""
    sources = [(_SOURCES / file).read_bytes() for file in inside.values()]
    path = store / f"initramfs-{key_of(kernel.directory.name, _INITTAB, *sources)}.cpio"
    if not path.is_file():
        files = {name: (0o755, (_SOURCES / file).read_bytes()) for name, file in inside.items()}
        files["bin/busybox"] = (0o755, (kernel.directory / "busybox").read_bytes())
        files["etc/inittab"] = (0o644, _INITTAB.encode())
        modules = kernel.directory / "modules"
        for file in sorted(modules.rglob("*")):
            if file.is_file():
                files[f"lib/modules/{kernel.release}/{file.relative_to(modules)}"] = (0o644, file.read_bytes())
        links = {f"bin/{applet}": "busybox" for applet in applets} | {"sbin/modprobe": "../bin/busybox"}
        with workshop(store) as work:
            # Not compressed: an emulated processor would take longer to unpack it than the host takes to load it.
            (work / path.name).write_bytes(newc(files, links, ("proc", "sys", "dev", "root")))
            put(work / path.name, path)
    return path


def newc(files: Mapping[str, tuple[int, bytes]], links: Mapping[str, str], directories: Iterable[str]) -> bytes:
    """Return a cpio archive in the kernel's format (Documentation/driver-api/early-userspace/buffer-format.rst).

    `files` is {path: (mode, content)}. `links` is {path of a symbolic link: its target}.
    `directories` are paths of directories. The parents of files and links are added."""
    above = {str(parent) for path in (*files, *links) for parent in Path(path).parents} - {"."}
    entries = [(name, stat.S_IFDIR | 0o755, b"") for name in sorted(above | set(directories))]
    entries += [(name, stat.S_IFREG | mode, content) for name, (mode, content) in sorted(files.items())]
    entries += [(name, stat.S_IFLNK | 0o777, target.encode()) for name, target in sorted(links.items())]
    archive = bytearray()
    for number, (name, mode, content) in enumerate([*entries, ("TRAILER!!!", 0, b"")], start=1):
        path = name.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(path), 0)
        archive += b"070701" + b"".join(b"%08X" % field for field in fields) + path
        archive += bytes(-len(archive) % 4) + content
        archive += bytes(-len(archive) % 4)
    return bytes(archive)


def ensure_disk(image: Image, store: Path, host: Host) -> Path:
    path = store / f"disk-{image.name}-{DISK_BYTES >> 30}g.img"
    if not path.is_file():
        if host.which("mke2fs") is None:
            raise ImageError("mke2fs, which makes the guest disk, is not installed", "apt-get install e2fsprogs")
        with workshop(store) as work:
            make_disk(image.tree, work / path.name, image.digest, DISK_BYTES, host)
            put(work / path.name, path)
    return path


def make_disk(tree: Path, disk: Path, seed: str, size_bytes: int, host: Host) -> None:
    """Make the file `disk` of `size_bytes`: an ext4 file system with the files of `tree`.

    Its inode tables are complete, so that no guest has to write them. Its UUID and its hashes are computed from the
    text `seed`, so that the same tree gives the same disk."""
    host.run(["truncate", f"--size={size_bytes}", str(disk)])
    digest = seed if len(seed) >= 32 else key_of(seed) + key_of(seed, "more")
    uuid = f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"
    options = f"lazy_itable_init=0,lazy_journal_init=0,hash_seed={uuid}"
    argv = ["mke2fs", "-q", "-F", "-t", "ext4", "-L", "lastro", "-U", uuid, "-m", "0", "-E", options]
    epoch = ["env", "SOURCE_DATE_EPOCH=1700000000", "E2FSPROGS_FAKE_TIME=1700000000"]
    host.run([*epoch, *argv, "-d", str(tree), str(disk)], timeout_s=600)


def put(made: Path, place: Path) -> None:
    """Move `made` to `place`, unless another Lastro process has put its result there in the meantime."""
    if not place.exists():
        made.rename(place)


def key_of(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:16]
