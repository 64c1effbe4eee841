"""The campaigns of a report on several campaigns, or the testbeds of a campaign with a fleet."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lastro.results.provenance import Provenance

NAMELESS = "anonymous"  # the name of every host in an anonymous bundle


@dataclass(frozen=True, slots=True)
class Member:
    """One of the campaigns that a report merges, or one testbed of a campaign with a fleet."""

    directory: str  # of the campaign; if `testbed`, the name of the testbed
    provenance: Provenance
    blocks: Collection[int]  # the numbers of its blocks in the report
    trials: Collection[int]  # the numbers of its trials in the report
    testbed: bool = False
    # Command-line options that changed its study from the study file; empty if equal in all campaigns.
    changes: tuple[str, ...] = ()


def campaigns_of_blocks(members: Sequence[Member]) -> dict[int, int] | None:
    """Return {block: index of the member that ran it}; None without members, as for one campaign on one host."""
    return {block: number for number, member in enumerate(members) for block in member.blocks} or None
