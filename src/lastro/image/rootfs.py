"""The root filesystem that every platform runs: built once, named by its content, kept as a tar and as a directory.

A recipe (release, packages) has a hash of its own, under which the name of what it built is remembered; so a changed
recipe builds anew, and the same content from two recipes is stored once."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
import stat
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

from lastro.errors import CommandFailed, CommandTimeout, ImageError, WriteFailed
from lastro.host.base import Host
from lastro.host.ssh import SshHost
from lastro.image.workshop import mmdebstrap, workshop

RELEASE = "bookworm"
PACKAGES = (
    "iperf3", "iproute2", "iptables", "iputils-ping", "netcat-openbsd", "nftables", "stress", "stress-ng",
)  # fmt: skip
# A tree has no capabilities of files, since tar leaves them out; so the tar has none, or ping would be another there.
WITHOUT_FILE_CAPABILITIES = 'chroot "$1" setcap -r /usr/bin/ping || true'
_EXCLUDED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
_BUILD_TIMEOUT_S = 1800.0
_UNPACK = """cd "$1"; echo "$2  rootfs.tar" | sha256sum --check --quiet; rm -rf unpacking; mkdir unpacking
tar --extract --numeric-owner --file=rootfs.tar --directory=unpacking; mv unpacking rootfs"""
_shifting = threading.Lock()  # instances may start in parallel


@dataclass(frozen=True, slots=True)
class Needs:
    """What somebody needs in a root filesystem: Debian packages, and programs of this host's for /usr/local/bin.

    A directory goes there whole."""

    packages: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def and_of(self, other: Needs) -> Needs:
        return Needs(self.packages + other.packages, self.files + other.files)


@dataclass(frozen=True, slots=True)
class Recipe:
    """What goes in. `extra_files` are the user's own programs, such as a static `click`, copied to /usr/local/bin."""

    release: str = RELEASE
    packages: tuple[str, ...] = PACKAGES
    extra_files: tuple[str, ...] = ()
    hooks: tuple[str, ...] = (WITHOUT_FILE_CAPABILITIES,)  # shell; $1 is the root filesystem's directory

    @classmethod
    def of_this_host(cls, host: Host, needs: Needs | None = None) -> Recipe:
        """What every image has, and what is needed besides: with no needs, it is always the same recipe."""
        click, more = host.which("click"), needs or Needs()
        packages = tuple(sorted(set(more.packages) - set(PACKAGES)))
        files = tuple(sorted(set(more.files)))
        return cls(packages=PACKAGES + packages, extra_files=((click,) if click else ()) + files)

    @property
    def key(self) -> str:
        digest = hashlib.sha256(json.dumps(asdict(self)).encode())
        for file in self.extra_files:
            for path in sorted(Path(file).rglob("*")) if Path(file).is_dir() else [Path(file)]:
                digest.update(path.read_bytes() if path.is_file() else b"")
        return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Image:
    """A built root filesystem. `digest` is the SHA-256 of its tar; the name is the first part of it."""

    digest: str
    directory: Path

    @property
    def name(self) -> str:
        return self.digest[:12]

    @property
    def tar(self) -> Path:
        return self.directory / "rootfs.tar"

    @property
    def tree(self) -> Path:
        return self.directory / "rootfs"

    @property
    def docker_tag(self) -> str:
        return f"lastro:{self.name}"


def find(recipe: Recipe, store: Path) -> Image | None:
    """The image that a recipe built before, if it is still whole."""
    pointer = store / "recipes" / recipe.key
    if not pointer.is_file():
        return None
    digest = pointer.read_text().strip()
    image = Image(digest, store / digest[:12])
    return image if image.tree.is_dir() and image.tar.is_file() else None


def ensure(recipe: Recipe, store: Path, host: Host) -> Image:
    """The image of a recipe, built if need be (about half a minute, by mmdebstrap from the Debian mirror).

    Raises: ImageError with the last words of the tool that failed."""
    return find(recipe, store) or _build(recipe, store, host)


def sent(image: Image, host: Host, store: Path) -> Image:
    """The same image on the host that needs it: on a far one it is copied once, and proven by its hash.

    Raises: ImageError when it does not arrive whole."""
    if not isinstance(host, SshHost):
        return image
    there, own = Image(image.digest, store / image.name), platform.machine()
    if (architecture := host.run(["uname", "-m"]).text.strip()) != own:
        raise ImageError(
            f"{host.name} is a machine of {architecture}, and the root filesystem is of {own}",
            "run Lastro on a machine of the testbed's architecture",
        )
    if host.view.exists(str(there.tree)):
        return there
    try:
        with host.recorded():
            host.send(image.tar, f"{there.tar}")
            host.run(["sh", "-ec", _UNPACK, "unpack", str(there.directory), image.digest], timeout_s=600)
    except (CommandFailed, CommandTimeout, WriteFailed) as error:
        raise ImageError(f"the root filesystem did not reach {host.name}: {error}", "is its disk full?") from error
    return there


def shifted(image: Image, first_id: int, host: Host) -> Path:
    """A tree of the same files, owned by `first_id` where the image says 0, and so on: the root of a user namespace.

    Made once, beside the image's own tree. Raises: ImageError."""
    tree = image.directory / f"rootfs-{first_id}"
    if host.far:
        raise ImageError("owners in a root filesystem are shifted only where Lastro runs", "leave out user namespaces")
    with _shifting:
        if not tree.is_dir():
            try:
                with workshop(image.directory) as work:
                    host.run(["tar", "--extract", "--numeric-owner", f"--file={image.tar}", f"--directory={work}"])
                    for path in (work, *work.rglob("*")):
                        _shift_owner(path, first_id)
                    work.rename(tree)
            except (CommandFailed, CommandTimeout, OSError) as error:
                raise ImageError(f"the owners in a copy of the root filesystem cannot be shifted: {error}") from error
    return tree


def _shift_owner(path: Path, first_id: int) -> None:
    found = path.lstat()
    if found.st_uid >= first_id:  # a second name of a file that is done
        return
    os.chown(path, found.st_uid + first_id, found.st_gid + first_id, follow_symlinks=False)
    if not path.is_symlink():
        path.chmod(stat.S_IMODE(found.st_mode))  # a change of owner takes setuid away


def _build(recipe: Recipe, store: Path, host: Host) -> Image:
    if host.which("mmdebstrap") is None:
        raise ImageError("mmdebstrap is not installed, and builds the root filesystem", "apt-get install mmdebstrap")
    with workshop(store) as work:
        tar, tree = work / "rootfs.tar", work / "rootfs"
        try:
            host.run(_mmdebstrap(recipe, tar), timeout_s=_BUILD_TIMEOUT_S)
            tree.mkdir()
            host.run(["tar", "--extract", "--numeric-owner", f"--file={tar}", f"--directory={tree}"], timeout_s=600)
            with open(tar, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            image = Image(digest, store / digest[:12])
            if not image.directory.exists():
                work.rename(image.directory)
        except (CommandFailed, CommandTimeout) as error:
            raise ImageError(
                f"the root filesystem could not be built: {error.message}",
                "is the Debian mirror reachable? LASTRO_MIRROR names another one",
            ) from error
        except OSError as error:
            raise ImageError(
                f"the root filesystem could not be stored in {store}: {error}", "free some space"
            ) from error
    (store / "recipes").mkdir(exist_ok=True)
    (store / "recipes" / recipe.key).write_text(digest + "\n")
    return image


def _mmdebstrap(recipe: Recipe, tar: Path) -> list[str]:
    argv = ["--variant=minbase", f"--include={','.join(recipe.packages)}"]
    argv += [f"--dpkgopt=path-exclude={pattern}" for pattern in _EXCLUDED]
    # Static device nodes cannot be made in a user namespace and every platform brings its own.
    argv += [f"--customize-hook=copy-in {shlex.quote(file)} /usr/local/bin" for file in recipe.extra_files]
    argv += [f"--customize-hook={hook}" for hook in recipe.hooks]
    # Same packages, same tar: times are clamped.
    return mmdebstrap(tar.parent, [*argv, recipe.release, str(tar)], "SOURCE_DATE_EPOCH=1700000000")
