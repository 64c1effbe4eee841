"""The campaigns of a report on several campaigns, or the testbeds of a campaign with a fleet."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NAMELESS = "anonymous"  # the name of every host in an anonymous bundle


@dataclass(frozen=True, slots=True)
class Member:
    """One of several campaigns: its directory, its provenance, and the numbers of its blocks and trials in the whole.

    If `testbed` is true, it is a testbed of a fleet, and `directory` is its name. `changes` are the options by which
    its study differs from the study file, if the campaigns differ in them."""

    directory: str
    provenance: Mapping[str, Any]
    blocks: Collection[int]
    trials: Collection[int]
    testbed: bool = False
    changes: tuple[str, ...] = ()


def campaigns_of_blocks(members: Sequence[Member]) -> dict[int, int] | None:
    """Return {block: index of its member}; None without members, so for one campaign on one host."""
    return {block: number for number, member in enumerate(members) for block in member.blocks} or None
