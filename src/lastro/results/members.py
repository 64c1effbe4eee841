"""The campaigns behind a report of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Member:
    """One of several campaigns: its directory and provenance, and which blocks and trials of the whole it measured."""

    directory: str
    provenance: Mapping[str, Any]
    blocks: range
    trials: range


def campaigns_of_blocks(members: Sequence[Member]) -> dict[int, int] | None:
    """Return {block: number of its campaign}; None without members, which is one campaign."""
    return {block: number for number, member in enumerate(members) for block in member.blocks} or None
