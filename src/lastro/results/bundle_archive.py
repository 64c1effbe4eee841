"""The container of a bundle: a zip or a directory of named files, which may come from anywhere.

Every name is checked before anything is read, and nothing is written below the bundle. A zip by Lastro ends with the
SHA-256 of all bytes before it, so that any change is detected. The checksums of the zip format cover only the contents
of files."""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Protocol

from lastro.errors import InputError

MANIFEST = "SHA256SUMS"
_CHUNK = 1 << 20
_SEAL = b"sha256:"
_DIGITS = 64
_END = 22  # bytes in the end record of a zip without a comment
_MOST_FILES = 1_000_000
_MOST_RATIO = 1100  # deflate compresses data by a factor of 1032 at most: RFC 1951, and zlib's FAQ
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can store
_UNREADABLE = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, RuntimeError)  # raised by zipfile
_MODE = (stat.S_IFREG | 0o644) << 16


class DamagedFile(ValueError):
    """The error of a damaged file in a bundle; its message says how the file is damaged."""


class BundleArchive(Protocol):
    """The files of a bundle. `sizes` maps the name of each file to its size in bytes, which a zip may state wrongly."""

    @property
    def sizes(self) -> Mapping[str, int]: ...

    def open(self, name: str) -> IO[bytes]:
        """Open a file for reading. Raises: DamagedFile; `chunks` may also raise it while it reads the file."""
        ...

    def damage(self) -> str:
        """Return a description of damage to the container itself, outside its files; empty if there is none."""
        ...


def chunks(container: BundleArchive, name: str) -> Iterator[bytes]:
    """Yield the contents of a file in pieces. Raises: DamagedFile."""
    try:
        with container.open(name) as file:
            while piece := file.read(_CHUNK):
                yield piece
    except (*_UNREADABLE, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DamagedFile(f"cannot be read: {reason or type(error).__name__}") from error


def digest(container: BundleArchive, name: str) -> str:
    """Return the SHA-256 of a file in hexadecimal. Raises: DamagedFile."""
    hashed = hashlib.sha256()
    for piece in chunks(container, name):
        hashed.update(piece)
    return hashed.hexdigest()


def content(container: BundleArchive, name: str, most: int) -> bytes:
    """Return the contents of a file. Raises: DamagedFile if it is damaged, or has more than `most` bytes."""
    if container.sizes[name] > most:
        raise DamagedFile(f"has {container.sizes[name]} bytes, and at most {most} are valid")
    return b"".join(chunks(container, name))


@contextmanager
def open_bundle(place: Path) -> Iterator[BundleArchive]:
    """Open the bundle at `place` inside the block.

    Raises: InputError when it is neither a zip nor a directory, or has names that are not safe."""
    with ExitStack() as stack:
        try:
            archive = _Directory(place) if place.is_dir() else _Zip(place, stack.enter_context(_zip_file(place)))
        except OSError as error:
            raise InputError(f"{place} cannot be read: {error.strerror}", "check its name and permissions") from error
        yield archive


def _zip_file(place: Path) -> zipfile.ZipFile:
    if not stat.S_ISREG(place.stat().st_mode):
        raise InputError(f"{place} is neither a file nor a directory", "give a bundle, as `lastro bundle` wrote it")
    try:
        return zipfile.ZipFile(place)
    except _UNREADABLE as error:
        with place.open("rb") as file:
            begins_as_zip = file.read(4) == b"PK\x03\x04"
        if begins_as_zip:
            hint = "fetch the bundle again"
            raise InputError(f"{place} is a zip that is cut off or damaged: {error}", hint) from error
        hint = "give a bundle, as `lastro bundle` wrote it"
        raise InputError(f"{place} is not a bundle: it is not a zip", hint) from error


class _Directory:
    def __init__(self, place: Path) -> None:
        self._place = place
        self.sizes: dict[str, int] = {}

        def fail(error: OSError) -> None:
            raise error

        for folder, folders, files in os.walk(place, onerror=fail):
            for name in (*folders, *files):
                path = Path(folder, name)
                status, relative = path.lstat(), path.relative_to(place).as_posix()
                if stat.S_ISDIR(status.st_mode):
                    continue
                if not stat.S_ISREG(status.st_mode):
                    hint = "a bundle has only files and directories"
                    raise InputError(f"{place}: {relative!r} is a link or a special file", hint)
                self.sizes[_safe_name(place, relative)] = status.st_size

    def open(self, name: str) -> IO[bytes]:
        return open(os.open(self._place / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")

    def damage(self) -> str:
        return ""


class _Zip:
    def __init__(self, place: Path, file: zipfile.ZipFile) -> None:
        self._place, self._file = place, file
        self._infos: dict[str, zipfile.ZipInfo] = {}
        for info in file.infolist():
            if info.is_dir():
                _safe_name(place, info.orig_filename.rstrip("/"))
                continue
            name = _safe_name(place, info.orig_filename)
            if name in self._infos:
                raise InputError(f"{place}: {name!r} is in the zip twice", "fetch the bundle again")
            if stat.S_ISLNK(info.external_attr >> 16) or info.flag_bits & 1:
                kind = "encrypted" if info.flag_bits & 1 else "a link"
                raise InputError(f"{place}: {name!r} is {kind}", "a bundle has only plain files")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise InputError(f"{place}: {name!r} is compressed with an unknown method", "zip the bundle again")
            self._infos[name] = info
        self.sizes = {name: info.file_size for name, info in self._infos.items()}
        if len(self.sizes) > _MOST_FILES or sum(self.sizes.values()) > _MOST_RATIO * place.stat().st_size:
            raise InputError(f"{place} claims to unpack to more data than a zip of its size can hold", "do not use it")

    def open(self, name: str) -> IO[bytes]:
        return self._file.open(self._infos[name])

    def damage(self) -> str:
        """Return what is wrong with the seal, which is the comment of the zip; empty if it is right.

        A zip from another program has no comment and no seal, which is not an error."""
        comment = self._file.comment
        if not comment:
            # `zipfile` accepts a comment that is shorter or longer than the end record states, so it would not detect
            # that a seal was cut off (APPNOTE 4.3.16).
            with self._place.open("rb") as source:
                source.seek(-_END, os.SEEK_END)
                record = source.read()
            is_whole = record.startswith(b"PK\x05\x06") and record.endswith(b"\0\0")
            return "" if is_whole else "bytes are missing, changed or added at its end"
        if not comment.startswith(_SEAL):
            return f"it ends with {comment[:80]!r}, not with its SHA-256"
        if len(comment) != len(_SEAL) + _DIGITS:
            return "the SHA-256 at its end is cut off"
        listed, found = comment[len(_SEAL) :].decode("ascii", "replace"), _digest_before_seal(self._place)
        return "" if found == listed else f"SHA-256 of all but its last {_DIGITS} bytes is {found}, expected {listed}"


def _safe_name(place: Path, name: str) -> str:
    """Return `name` if it is the relative path of a file inside the bundle. Raises: InputError for any other name."""
    parts = PurePosixPath(name).parts
    plain = name.isprintable() and "\\" not in name and name == "/".join(parts)
    if not plain or name.startswith("/") or not parts or ".." in parts or "." in parts:
        raise InputError(f"{place}: {name!r} is not the name of a file inside a bundle", "do not unpack it")
    return name


def write_zip(folder: Path, names: list[str], file: Path) -> str:
    """Write files of a folder into a zip with a seal, and return the SHA-256 of the whole zip. Raises: OSError.

    The seal is the SHA-256 of all bytes before it. The zip has no times, owners or modes of files, so with the same
    version of zlib, the same files give the same bytes."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in names:
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type, info.external_attr, info.create_system = zipfile.ZIP_DEFLATED, _MODE, 3
            info.file_size = (folder / name).stat().st_size
            with (folder / name).open("rb") as source, archive.open(info, "w") as target:
                while piece := source.read(_CHUNK):
                    target.write(piece)
        archive.comment = _SEAL + b"0" * _DIGITS
    with file.open("r+b") as sealed:
        seal = _digest_before_seal(file)
        sealed.seek(-_DIGITS, os.SEEK_END)
        sealed.write(seal.encode())
    with file.open("rb") as whole:
        return hashlib.file_digest(whole, "sha256").hexdigest()


def _digest_before_seal(file: Path) -> str:
    sha256, n_left = hashlib.sha256(), file.stat().st_size - _DIGITS
    with file.open("rb") as source:
        while n_left > 0 and (piece := source.read(min(_CHUNK, n_left))):
            sha256.update(piece)
            n_left -= len(piece)
    return sha256.hexdigest()
