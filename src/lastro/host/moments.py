"""Readings of a host, with the time of its own clock, and the duration of a block by that clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OwnCpu:
    """The CPU seconds that Lastro has used on a host.

    `own_s` is the time of Lastro itself or, on a remote host, of the shells and servers of its connections.
    `commands_s` is the time of the commands that Lastro ran on the host and that have ended. `own_user_s` and
    `commands_user_s` are the parts of these times in user mode."""

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
    """The files of a host that were read at `at_s` on its monotonic clock: `texts` is {path: text}.

    `spent` is the CPU time that Lastro had used on the host until then."""

    at_s: float
    texts: Mapping[str, str]
    spent: OwnCpu


@dataclass(slots=True)
class TimedSpan:
    """When a block of commands began and ended on the host's monotonic clock, and how long it took.

    On a remote host, the block begins when the first command starts there, and ends when the last command ends;
    `took_s` does not include network delays."""

    began_s: float = 0.0
    ended_s: float = 0.0
    took_s: float = 0.0
