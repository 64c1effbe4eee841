"""A built root filesystem, and checks that its tree is unchanged since it was unpacked from its tar.

Every instance of every platform sees that tree, so a change in it would affect every measurement. Before a session,
names, types, modes, owners, sizes, times and link targets are compared with those in the tar, in a fraction of a
second. The contents of all files are compared on demand (`lastro image --verify`)."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lastro.errors import ImageError
from lastro.host.base import Host
from lastro.host.files import file_sha256
from lastro.image.workshop import snapshot_in
from lastro.results.files import write_atomically

_VERIFY_TIMEOUT_S = 1800.0
_SHOWN = 3
_KINDS = {tarfile.CHRTYPE: "c", tarfile.BLKTYPE: "b", tarfile.FIFOTYPE: "p", tarfile.DIRTYPE: "d", tarfile.SYMTYPE: "l"}

Entries = Mapping[str, str]  # a description of each inode, by its path below the root


@dataclass(frozen=True, slots=True)
class Image:
    """A built root filesystem, in `directory`."""

    digest: str  # SHA-256 of its tar; `name` is its beginning
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
    def snapshot(self) -> str:
        """The time of the snapshot of Debian's archive that the image was built from; empty if from a mirror."""
        return snapshot_in(self.tree)

    @property
    def docker_tag(self) -> str:
        return f"lastro:{self.name}"


def check(image: Image, tree: Path, host: Host, *, first_id: int = 0) -> None:
    """Compare a tree on a host with the image's tar on this machine, except the contents of files.

    `first_id` is the number that `rootfs.shifted_tree` added to the owners of the tree; 0 otherwise.

    Raises: ImageError if they differ."""
    expected, found = _manifest(image), _entries_of_listing(host.view.listing(str(tree)), first_id)
    differing = sorted(path for path in expected.keys() | found.keys() if expected.get(path) != found.get(path))
    _refuse(tree, host, [_difference(path, expected, found) for path in differing])


def verify(image: Image, host: Host) -> None:
    """Compare the tar with its digest, and the tree with the tar, in seconds. Raises: ImageError if they differ."""
    _require_digest(image)
    check(image, image.tree, host)
    argv = ["tar", "--compare", "--numeric-owner", f"--file={image.tar}", f"--directory={image.tree}"]
    done = host.run(argv, timeout_s=_VERIFY_TIMEOUT_S, check=False)
    if done.returncode != 0:
        _refuse(image.tree, host, [ascii(line) for line in (done.text or done.error_text).splitlines()])


def _refuse(tree: Path, host: Host, differences: Sequence[str]) -> None:
    """Raise ImageError if there are differences between a tree and its tar; the error shows the first of them."""
    if differences:
        more = len(differences) - _SHOWN
        shown = ", ".join([*differences[:_SHOWN], *([f"and {more} more"] if more > 0 else [])])
        raise ImageError(
            f"{tree} on {host.name} differs from the root filesystem that was built: {shown}",
            f"find out what changed it, then remove {tree}: Lastro unpacks it again from its tar",
        )


def write_manifest(image: Image) -> Entries:
    """Read the tar, save a description of its entries for later checks in a file next to it, and return them.

    Raises: ImageError when the SHA-256 of the tar is not the digest of the image."""
    _require_digest(image)
    entries = _entries_of_tar(image.tar)
    write_atomically(_file(image), json.dumps({"tar": _identity(image.tar), "entries": entries}))
    return entries


def _manifest(image: Image) -> Entries:
    try:
        saved = json.loads(_file(image).read_text(encoding="utf-8"))
        if saved["tar"] == _identity(image.tar):
            entries: dict[str, str] = saved["entries"]
            return entries
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        pass  # written by an older Lastro, or incomplete
    return write_manifest(image)


def _file(image: Image) -> Path:
    return image.directory / "manifest.json"


def _identity(tar: Path) -> list[int]:
    status = tar.stat()
    return [status.st_size, status.st_mtime_ns]


def _require_digest(image: Image) -> None:
    if (digest := file_sha256(image.tar)) != image.digest:
        raise ImageError(
            f"{image.tar} has the SHA-256 {digest}, but was built with {image.digest}",
            f"find out what changed it, then remove {image.directory}: Lastro builds it again",
        )


def _entries_of_tar(tar: Path) -> dict[str, str]:
    entries: dict[str, str] = {}
    with tarfile.open(tar, "r:") as archive:
        for member in archive:
            path = "" if member.name == "." else member.name.removeprefix("./")
            if member.islnk():  # a hard link to an earlier file
                entries[path] = entries[member.linkname.removeprefix("./")]
                continue
            kind = _KINDS.get(member.type, "f")
            target = member.linkname if kind == "l" else ""
            entries[path] = _entry(kind, f"{member.mode:o}", member.uid, member.gid, member.size, member.mtime, target)
    return entries


def _entries_of_listing(listing: str, first_id: int) -> dict[str, str]:
    """Return {path: description of its inode} from a `Files.listing`; subtract `first_id` from all owners."""
    entries = {}
    for line in listing.split("\0")[:-1]:
        kind, mode, uid, gid, size, time, target, path = line.split("\t", 7)
        owners = int(uid) - first_id, int(gid) - first_id
        entries[path] = _entry(kind, mode, *owners, int(size), float(time), target)
    return entries


def _entry(kind: str, mode: str, uid: int, gid: int, size: int, time_s: float, target: str) -> str:
    """Describe an inode by what no file system changes: the size of files only, and the time in whole seconds."""
    return f"{kind} {mode} {uid}:{gid} {size if kind == 'f' else 0} {int(time_s)} {target}".rstrip()


def _difference(path: str, expected: Entries, found: Entries) -> str:
    name = ascii(f"/{path}")
    if path not in expected:
        return f"{name} was added"
    return f"{name} is missing" if path not in found else f"{name} is '{found[path]}' and was '{expected[path]}'"
