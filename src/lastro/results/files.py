"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lastro.errors import OutputError, StoreError


def write_atomically(file: Path, content: str | bytes, *, durable: bool = False) -> None:
    """Write a file so that it appears whole or not at all; `durable`: once it is written, a power cut leaves it.

    Raises: StoreError when it is durable, a file of a campaign, and cannot be written; else OutputError."""
    with replacing(file, durable=durable) as new:
        new.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "replace"))


@contextmanager
def replacing(file: Path, *, durable: bool = False) -> Iterator[Path]:
    """A name beside `file` to write to, that takes its place at the end. Raises: as `write_atomically`."""
    new = file.with_name(f".{file.name}.{os.getpid()}.new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        yield new
        if durable:
            _sync(new)  # before it has the name: a power cut between the two would leave an empty file
        new.replace(file)
        if durable:
            _sync(file.parent)
    except OSError as error:
        raise (StoreError if durable else OutputError)(
            f"{file} cannot be written: {error.strerror or error}", "name another file, or make room and permission"
        ) from error
    finally:
        _forget(new)


def sync_directory(directory: Path) -> None:
    """Have the names in a directory outlive a power cut. Raises: StoreError when they cannot be written."""
    try:
        _sync(directory)
    except OSError as error:
        raise StoreError(
            f"{directory} cannot be written: {error.strerror or error}", "check the disk and its permissions"
        ) from error


def _sync(place: Path) -> None:
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _forget(file: Path) -> None:
    try:
        file.unlink(missing_ok=True)
    except OSError:
        return  # what could not be written cannot be removed either; the first error is the one to tell
