"""A root filesystem of the user's own, from a directory or an OCI image, instead of the usual one of Debian's packages.

Here, its files are copied and read; they are executed in instances only. The contents of directories over which an
instance mounts something are left out. Times are not preserved. Owners are preserved only if root owns the directory.
So a copy of the same files is the same root filesystem."""

from __future__ import annotations

import tarfile
from pathlib import Path

from lastro.errors import ImageError, InputError
from lastro.host.base import Host
from lastro.host.files import SEARCHED, file_sha256
from lastro.image import rootfs
from lastro.image.functions import COPY_S, MOUNT_POINTS, append_argv, follow_links, pull_image
from lastro.image.manifest import Image
from lastro.image.workshop import building, workshop
from lastro.study.root_change import is_image

# What an instance needs before anything is measured in it, and the Debian packages that have it.
_NEEDED = {"sh": "dash", "sleep": "coreutils", "ping": "iputils-ping"}
_DIRECTORIES = (*MOUNT_POINTS, "var", "var/tmp", "usr", "usr/local", "usr/local/bin")


def ensure(place: str, extra_files: tuple[str, ...], store: Path, host: Host) -> Image:
    """Return the root filesystem with the files of `place`, a directory or an OCI image; make it if necessary.

    `extra_files` are copied into its /usr/local/bin.

    Raises: InputError when there are no such files; ImageError when they cannot be used."""
    with workshop(store) as work, building(f"the root filesystem {place}", store, ""):
        tree = pull_image(place, f"rootfs '{place}'", work / "pulled", host)[0] if is_image(place) else Path(place)
        if not tree.is_dir():
            raise InputError(f"rootfs: {tree} is not a directory", "name a directory with a root filesystem")
        if store.resolve().is_relative_to(tree.resolve()):
            raise InputError(f"rootfs: {tree} contains Lastro's own files", "name a directory with its files only")
        home = work / "image"
        home.mkdir()
        tar = home / "rootfs.tar"
        owner = [] if tree.stat().st_uid == 0 else ["--owner=0", "--group=0"]
        left_out = [f"--exclude=./{mount_point}/*" for mount_point in MOUNT_POINTS]
        argv = [*append_argv(tar), *owner, "--one-file-system", "--anchored", *left_out, f"--directory={tree}", "."]
        host.run(argv, timeout_s=COPY_S)
        _complete(tar, work / "more", extra_files, host)
        _require_usable(place, tar)
        key = file_sha256(tar)[:16]
        stored = rootfs.stored_image(key, store)
        return rootfs.checked_image(stored, host) if stored else rootfs.store_image(home, key, store, host)


def _complete(tar: Path, stage: Path, extra_files: tuple[str, ...], host: Host) -> None:
    """Add to the tar the directories that every instance needs, where they are missing, and `extra_files`."""
    with tarfile.open(tar) as archive:
        members = {member.name.removeprefix("./"): member for member in archive}
    stage.mkdir()
    missing = [directory for directory in _DIRECTORIES if follow_links(members, directory) not in members]
    for directory in missing:
        (stage / directory).mkdir(parents=True, exist_ok=True)
        (stage / directory).chmod(0o1777 if directory in ("tmp", "var/tmp") else 0o755)
    skeleton = [*append_argv(tar), "--owner=0", "--group=0", f"--directory={stage}"]
    if missing:
        host.run([*skeleton, "--no-recursion", *(f"./{directory}" for directory in missing)])
    for file in extra_files:
        programs = stage / "usr/local/bin"
        host.run(["sh", "-ec", 'mkdir -p "$1"; cp -a "$0" "$1"', file, str(programs)])
        host.run([*skeleton, f"./usr/local/bin/{Path(file).name}"], timeout_s=COPY_S)


def _require_usable(place: str, tar: Path) -> None:
    """Check that no file is a device, and that the programs that every instance runs are there. Raises: ImageError."""
    with tarfile.open(tar) as archive:
        members = {member.name.removeprefix("./"): member for member in archive}
    if device := next((path for path, member in members.items() if member.ischr() or member.isblk()), None):
        raise ImageError(f"rootfs '{place}': {'/' + device!a} is a device", "remove it: an instance has its own /dev")
    lacking = [
        program
        for program in _NEEDED
        if not any(follow_links(members, f"{directory}/{program}") in members for directory in SEARCHED.split(":"))
    ]
    if lacking:
        packages = " ".join(_NEEDED[program] for program in lacking)
        raise ImageError(
            f"rootfs '{place}' lacks {', '.join(lacking)}, which every instance runs",
            f"add to it, in Debian: {packages}",
        )
