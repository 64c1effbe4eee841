"""Readings of a host at one moment of its own clock, and the time that a block took there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OwnCpu:
    """CPU seconds that Lastro has used on a host: the time in user mode, and the total.

    `own` is the time of Lastro itself, or on a remote host, of the shells and servers of its connections. `commands` is
    the time of commands that Lastro ran there and that have ended."""

    own_user_s: float = 0.0
    own_s: float = 0.0
    commands_user_s: float = 0.0
    commands_s: float = 0.0

    def __add__(self, other: OwnCpu) -> OwnCpu:
        return OwnCpu(
            self.own_user_s + other.own_user_s, self.own_s + other.own_s,
            self.commands_user_s + other.commands_user_s, self.commands_s + other.commands_s,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class FileReadings:
    """Texts of files by path, read at `at_s` on the host's monotonic clock, and the CPU time of Lastro until then."""

    at_s: float
    texts: Mapping[str, str]
    spent: OwnCpu


@dataclass(slots=True)
class TimedSpan:
    """When a block of commands began and ended, on the host's monotonic clock, and how long it took.

    On a remote host, it begins with the first command there and ends with the last, and `took_s` does not include the
    time in which the host waited for Lastro."""

    began_s: float = 0.0
    ended_s: float = 0.0
    took_s: float = 0.0
