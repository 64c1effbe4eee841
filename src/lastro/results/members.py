"""The campaigns behind a report of several, or the testbeds behind a campaign of a fleet."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NAMELESS = "anonymous"  # the name of every host in an anonymous bundle


@dataclass(frozen=True, slots=True)
class Member:
    """One of several campaigns: its directory and provenance, and which blocks and trials of the whole it measured.

    For a `testbed` of a fleet, its name instead of a directory. Its trials are those of its blocks. `changes` are the
    options by which its study differs from the file, if those of another campaign are different."""

    directory: str
    provenance: Mapping[str, Any]
    blocks: Collection[int]
    trials: Collection[int]
    testbed: bool = False
    changes: tuple[str, ...] = ()


def campaigns_of_blocks(members: Sequence[Member]) -> dict[int, int] | None:
    """Return {block: number of its campaign or testbed}; None without members, which is one campaign on one host."""
    return {block: number for number, member in enumerate(members) for block in member.blocks} or None
