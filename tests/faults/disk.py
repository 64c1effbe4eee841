"""What is on a disk after a power cut, by a record of what a command wrote (`faults.c`).

A sync makes the content of a file last, and that of a directory its names. What was written since may be there or not,
in any order, and the last write may have reached some sectors only. Names change in the order of their changes, as a
journal keeps it. Source: "All File Systems Are Not Created Equal", Pillai et al., OSDI 2014."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

_HEAD = struct.Struct("5q")
_SECTOR = 512
_KINDS = ("wrote", "truncated", "synced", "renamed", "made", "removed", "created")


@dataclass(frozen=True, slots=True)
class Record:
    """One call. `offset` of a truncation is the new length."""

    kind: str
    path: str
    to: str
    offset: int
    data: bytes


def records(log: bytes) -> Iterator[Record]:
    at = 0
    while at < len(log):
        kind, offset, length, n_path, n_to = _HEAD.unpack_from(log, at)
        at += _HEAD.size
        path, to = log[at : at + n_path].decode(), log[at + n_path : at + n_path + n_to].decode()
        at += n_path + n_to
        data = log[at : at + length] if _KINDS[kind] == "wrote" else b""
        at += len(data)
        yield Record(_KINDS[kind], path, to, offset, data)


@dataclass
class _File:
    """`lasting` survives a power cut, and each of the changes since may do so."""

    lasting: bytearray = field(default_factory=bytearray)
    since: list[Record] = field(default_factory=list)

    def cut(self, chance: Random, kept: float) -> bytes:
        found = bytearray(self.lasting)
        for change in self.since:
            if chance.random() < kept:
                whole = kept == 1 or chance.random() < 0.7
                _apply(found, change, len(change.data) if whole else chance.randrange(len(change.data) + 1))
        return bytes(found)


def _apply(content: bytearray, change: Record, length: int) -> None:
    """Change a file; of a torn write, only the first sectors."""
    if change.kind == "truncated":
        del content[change.offset :]
        content.extend(bytes(change.offset - len(content)))
        return
    if length < len(change.data):
        length -= length % _SECTOR
    content.extend(bytes(max(0, change.offset - len(content))))
    content[change.offset : change.offset + length] = change.data[:length]


class Disk:
    """The files below `top`, as calls change them."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._now: dict[str, _File] = {}
        self._lasting: dict[str, _File] = {}
        self._since: list[tuple[Record, _File]] = []  # changes of names

    def feed(self, record: Record) -> None:
        if not Path(record.path).is_relative_to(self._top):
            return
        match record.kind:
            case "wrote" | "truncated":
                self._now[record.path].since.append(record)
            case "synced" if record.path in self._now:
                file = self._now[record.path]
                for change in file.since:
                    _apply(file.lasting, change, len(change.data))
                file.since.clear()
            case "synced":  # the only directory with files
                for change, file in self._since:
                    _rename(self._lasting, change, file)
                self._since.clear()
            case "created" | "renamed" | "removed":
                file = self._now.get(record.path) or _File()
                _rename(self._now, record, file)
                self._since.append((record, file))

    @property
    def has_unsynced(self) -> bool:
        return bool(self._since) or any(file.since for file in self._now.values())

    def cut(self, to: Path, chance: Random, kept: float) -> None:
        """Write what is there after a power cut below another directory; `kept` is the chance of an unsynced write."""
        names = dict(self._lasting)
        for record, file in self._since[: sum(chance.random() < kept for _ in self._since)]:
            _rename(names, record, file)
        for name, file in names.items():
            place = to / Path(name).relative_to(self._top)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.cut(chance, kept))


def _rename(names: dict[str, _File], record: Record, file: _File) -> None:
    if record.kind == "created":
        names[record.path] = file
        return
    names.pop(record.path, None)
    if record.kind == "renamed":
        names[record.to] = file
