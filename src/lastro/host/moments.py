"""Readings of a host, with the time of its own clock, and the duration of a block by that clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OwnCpu:
    """The CPU seconds that Lastro has used on a host, in user mode and in all."""

    own_user_s: float = 0.0
    own_s: float = 0.0  # of Lastro itself or, on a remote host, of the shells and servers of its connections
    commands_user_s: float = 0.0
    commands_s: float = 0.0  # of the commands that Lastro ran on the host and that have ended

    def __add__(self, other: OwnCpu) -> OwnCpu:
        return OwnCpu(
            self.own_user_s + other.own_user_s, self.own_s + other.own_s,
            self.commands_user_s + other.commands_user_s, self.commands_s + other.commands_s,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class FileReadings:
    """The files of a host that were read at `at_s` on its monotonic clock."""

    at_s: float
    texts: Mapping[str, str]  # {path: text}
    spent: OwnCpu  # until then


@dataclass(slots=True)
class TimedSpan:
    """When a block of commands began and ended on the host's monotonic clock, and how long it took.

    On a remote host, from the start of the first command to the end of the last; `took_s` excludes network delays."""

    began_s: float = 0.0
    ended_s: float = 0.0
    took_s: float = 0.0
