"""Write files atomically: a reader sees the whole file or the old one."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from lastro.errors import OutputError, StoreError
from lastro.files import open_directory, require_regular


def write_atomically(file: Path, content: str | bytes, *, durable: bool = False, base: Path | None = None) -> None:
    """Write `content` to a file, creating its directory if needed; after an error, the old file is unchanged.

    With `durable`, the new content survives a power cut after the return. If `file` is a symbolic link, the link is
    replaced, not followed. Below the directory `base`, links on the path are not followed either.

    Raises: StoreError when a durable file, which belongs to a campaign, cannot be written; OutputError when any other
    file cannot be written; InputError when the process is root, and other users can change the directory."""
    data = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
    try:
        directory = open_directory(file.parent, base=base, make=True)
        try:
            _write(directory, file.name, data, durable=durable)
        finally:
            os.close(directory)
    except OSError as error:
        raise (StoreError if durable else OutputError)(
            f"{file} cannot be written: {error.strerror or error}",
            "name another file, or check the disk space and permissions",
        ) from error


def _write(directory: int, name: str, data: bytes, *, durable: bool) -> None:
    """Write `data` to a file with an unpredictable name, and rename it to `name`. `directory` is a file descriptor."""
    with suppress(FileNotFoundError):
        require_regular(os.stat(name, dir_fd=directory))
    new = f".lastro-{os.urandom(8).hex()}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(new, flags, 0o666, dir_fd=directory), "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())  # before the renaming: a power cut must not leave an empty file with this name
        os.replace(new, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):  # the first error is reported instead
            os.unlink(new, dir_fd=directory)
        raise
    if durable:
        _sync(directory)


def sync_directory(directory: Path) -> None:
    """Flush a directory's list of names to the disk, so that new files survive a power cut. Raises: StoreError."""
    try:
        descriptor = open_directory(directory)
        try:
            _sync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        message = f"{directory} cannot be written: {error.strerror or error}"
        raise StoreError(message, "check the disk and its permissions") from error


def _sync(directory: int) -> None:
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
