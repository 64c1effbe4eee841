"""The root filesystem that every platform runs: built once, named by its content, stored as a tar and as a directory.

A recipe (release, packages) has a hash, under which the name of the image that was built by it is stored. So a changed
recipe leads to a new build, and the same content from two recipes is stored once."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shlex
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

from lastro.errors import CommandFailed, CommandTimeout, ImageError, WriteFailed
from lastro.host.base import Host
from lastro.host.files import file_sha256
from lastro.host.ssh import SshHost
from lastro.image import manifest
from lastro.image.manifest import Image as Image
from lastro.image.workshop import building, checked_snapshot, mmdebstrap, workshop
from lastro.study.own_function import OwnFunction

RELEASE = "bookworm"
PACKAGES = (
    "iperf3", "iproute2", "iptables", "iputils-ping", "netcat-openbsd", "nftables", "stress", "stress-ng",
)  # fmt: skip
# Extracting the tar loses file capabilities, so the tar must have none either, or ping would differ between the two.
DROP_FILE_CAPABILITIES = 'chroot "$1" setcap -r /usr/bin/ping || true'
_EXCLUDED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
_BUILD_TIMEOUT_S = 1800.0
_UNPACK = """cd "$1"; echo "$2  rootfs.tar" | sha256sum --check --quiet; rm -rf unpacking; mkdir unpacking
tar --extract --numeric-owner --file=rootfs.tar --directory=unpacking; mv unpacking rootfs"""
# A change of owner clears setuid, so modes are set again. A hard link whose other name is done is left as it is.
_SHIFT = r"""cd "$1"; part=shifting-$2; rm -rf "$part"; mkdir "$part"
tar --extract --numeric-owner --file=rootfs.tar --directory="$part"
find "$part" -print0 | FIRST=$2 perl -MPOSIX -0ne '
    chomp; my ($mode, $user, $group) = (lstat)[2, 4, 5]; next if $user >= $ENV{FIRST};
    POSIX::lchown($user + $ENV{FIRST}, $group + $ENV{FIRST}, $_) or die "$_: $!\n";
    -l $_ or chmod $mode & 07777, $_ or die "$_: $!\n"'
mv "$part" "rootfs-$2"
"""
_shifting = threading.Lock()  # instances may start in parallel
_checked: set[tuple[str, Path]] = set()  # shifted trees that have been checked


@dataclass(frozen=True, slots=True)
class ImageAdditions:
    """Additions to a root filesystem."""

    packages: tuple[str, ...] = ()  # of Debian
    files: tuple[str, ...] = ()  # programs or directories of this host, to copy to /usr/local/bin
    functions: tuple[OwnFunction, ...] = ()  # of the user's own; `functions.with_functions` adds them

    def combined_with(self, more: ImageAdditions) -> ImageAdditions:
        return ImageAdditions(self.packages + more.packages, self.files + more.files, self.functions + more.functions)


@dataclass(frozen=True, slots=True)
class ImageRecipe:
    """The contents of a root filesystem."""

    release: str = RELEASE  # release of Debian
    packages: tuple[str, ...] = PACKAGES
    extra_files: tuple[str, ...] = ()  # the user's own programs, such as a static `click`, to copy to /usr/local/bin
    hooks: tuple[str, ...] = (DROP_FILE_CAPABILITIES,)  # shell; $1 is the root filesystem's directory
    # A point in time of Debian's archive, such as 20261101T000000Z. If it is empty, the mirror as it is now.
    snapshot: str = ""
    components: str = ""  # of Debian's archive, with commas; empty: main

    @classmethod
    def of_this_host(cls, host: Host, needs: ImageAdditions | None = None, snapshot: str | None = None) -> ImageRecipe:
        """Return the recipe of an image with the usual packages, the host's `click` if it has one, and `needs`.

        Without `snapshot`, LASTRO_SNAPSHOT is used, or else today's mirror. Raises: InputError for an invalid time."""
        moment = checked_snapshot(os.environ.get("LASTRO_SNAPSHOT", "") if snapshot is None else snapshot)
        click, more = host.which("click"), needs or ImageAdditions()
        packages = tuple(sorted(set(more.packages) - set(PACKAGES)))
        files = tuple(sorted(set(more.files)))
        extra_files = ((click,) if click else ()) + files
        return cls(packages=PACKAGES + packages, extra_files=extra_files, snapshot=moment)

    @property
    def key(self) -> str:
        # Recipes without them have the key that they had before snapshots and components existed.
        later = ("snapshot", "components")
        parts = {name: value for name, value in asdict(self).items() if name not in later or value}
        digest = hashlib.sha256(json.dumps(parts).encode())
        for file in self.extra_files:
            for path in sorted(Path(file).rglob("*")) if Path(file).is_dir() else [Path(file)]:
                digest.update(path.read_bytes() if path.is_file() else b"")
        return digest.hexdigest()[:16]


def built_image(recipe: ImageRecipe, store: Path) -> Image | None:
    """Return the image that was built by a recipe before; None if there is none."""
    return stored_image(recipe.key, store)


def stored_image(key: str, store: Path) -> Image | None:
    """Return the image that was stored under a key; None if there is none."""
    pointer = store / "recipes" / key
    digest = pointer.read_text(encoding="utf-8").strip() if pointer.is_file() else ""
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        return None
    image = Image(digest, store / digest[:12])
    return image if image.tar.is_file() else None


def ensure(recipe: ImageRecipe, store: Path, host: Host) -> Image:
    """Return the image of a recipe; build it if necessary (half a minute, by mmdebstrap from a Debian mirror).

    Raises: ImageError if a tool failed, with its last output, or if the tree has changed since it was built."""
    if image := built_image(recipe, store):
        return checked_image(image, host)
    if host.which("mmdebstrap") is None:
        raise ImageError("mmdebstrap, which builds the root filesystem, is not installed", "apt-get install mmdebstrap")
    with workshop(store) as work, building("the root filesystem", store, recipe.snapshot):
        host.run(_mmdebstrap(recipe, work / "rootfs.tar"), timeout_s=_BUILD_TIMEOUT_S)
        return store_image(work, recipe.key, store, host)


def checked_image(image: Image, host: Host) -> Image:
    """Return the image after checking its tree against its tar; unpack the tree first if it is missing.

    The time is recorded as the image's last use, for `stock`. Raises: ImageError when the tree has changed."""
    os.utime(image.directory)
    if not image.tree.is_dir():
        manifest.write_manifest(image)
        with workshop(image.directory) as work:
            _extract(image.tar, work, host)
            work.rename(image.tree)
    manifest.check(image, image.tree, host)
    return image


def on_host(image: Image, host: Host, store: Path) -> Image:
    """Return the image on `host`: `image` itself, unless the host is remote.

    For a remote host, it is a verified copy below `store`. Raises: ImageError, also for another architecture."""
    if not isinstance(host, SshHost):
        return image
    copy, here = Image(image.digest, store / image.name), platform.machine()
    if (architecture := host.run(["uname", "-m"]).text.strip()) != here:
        raise ImageError(
            f"{host.name} has architecture {architecture}, but the root filesystem is for {here}",
            "run Lastro on a machine with the testbed's architecture",
        )
    if not host.view.exists(str(copy.tree)):
        try:
            with host.recorded():
                host.send(image.tar, str(copy.tar))
                host.run(["sh", "-ec", _UNPACK, "unpack", str(copy.directory), image.digest], timeout_s=600)
        except (CommandFailed, CommandTimeout, WriteFailed) as error:
            raise ImageError(
                f"the root filesystem could not be copied to {host.name}: {error}", "is its disk full?"
            ) from error
    manifest.check(image, copy.tree, host)
    return copy


def shifted_tree(image: Image, original: Image, first_id: int, host: Host) -> Path:
    """Return a copy of the image's tree with `first_id` added to the owner and group of every file.

    A user namespace runs the copy, which is made once, on `host`, and compared with `original`, the same image here.

    Raises: ImageError."""
    tree = image.directory / f"rootfs-{first_id}"
    with _shifting:
        if not host.view.exists(str(tree)):
            try:
                argv = ["sh", "-ec", _SHIFT, "shift", str(image.directory), str(first_id)]
                host.run(argv, timeout_s=600)
            except (CommandFailed, CommandTimeout) as error:
                raise ImageError(
                    f"the file owners in a copy of the root filesystem cannot be shifted: {error}"
                ) from error
        if (host.name, tree) not in _checked:  # once in a session
            manifest.check(original, tree, host, first_id=first_id)
            _checked.add((host.name, tree))
    return tree


def _extract(tar: Path, tree: Path, host: Host) -> None:
    host.run(["tar", "--extract", "--numeric-owner", f"--file={tar}", f"--directory={tree}"], timeout_s=600)


def store_image(work: Path, key: str, store: Path, host: Host) -> Image:
    """Store the image whose tar is in the workshop `work`, record it under `key`, and return it."""
    tar, tree = work / "rootfs.tar", work / "rootfs"
    tree.mkdir()
    _extract(tar, tree, host)
    digest = file_sha256(tar)
    image = Image(digest, store / digest[:12])
    if not image.directory.exists():
        work.rename(image.directory)
    manifest.write_manifest(image)
    (store / "recipes").mkdir(exist_ok=True)
    (store / "recipes" / key).write_text(digest + "\n")
    return image


def _mmdebstrap(recipe: ImageRecipe, tar: Path) -> list[str]:
    argv = ["--variant=minbase", f"--include={','.join(recipe.packages)}"]
    argv += [f"--components={recipe.components}"] if recipe.components else []
    argv += [f"--dpkgopt=path-exclude={pattern}" for pattern in _EXCLUDED]
    # Static device nodes cannot be made in a user namespace and every platform brings its own.
    argv += [f"--customize-hook=copy-in {shlex.quote(file)} /usr/local/bin" for file in recipe.extra_files]
    argv += [f"--customize-hook={hook}" for hook in recipe.hooks]
    # Times are clamped, so that the same packages give the same tar.
    epoch = "SOURCE_DATE_EPOCH=1700000000"
    return mmdebstrap(tar.parent, argv, recipe.release, tar, epoch, snapshot=recipe.snapshot)
