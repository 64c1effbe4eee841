"""Reports on several campaigns, or testbeds of a fleet: how these differ, and which treatments link them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.host_facts import USUAL, differing_facts, named_facts, unnamed_facts
from lastro.results.members import campaigns_of_blocks
from lastro.study.design import Treatment

MACHINE = ("host", "CPU model", "CPUs", *USUAL)  # the facts by which hosts differ


@dataclass(frozen=True, slots=True)
class MemberDifferences:
    """The facts in which the campaigns of a report differ, and the treatments that they have in common.

    `differing` is {fact: its value in each campaign} of the facts that have names (`host_facts.named_facts`). `more`
    has the dotted paths of all other facts that differ. `links` are the treatments that several campaigns measured."""

    differing: Mapping[str, tuple[str | None, ...]]
    more: tuple[str, ...]
    links: tuple[Treatment, ...]

    @property
    def other_machine(self) -> bool:
        """True if the campaigns ran on different machines."""
        return any(fact in self.differing for fact in MACHINE)


def compare_members(report: CampaignResults) -> MemberDifferences | None:
    """Compare the campaigns of a report; None for a report of one campaign."""
    if not report.members:
        return None
    named = [named_facts(member.provenance.chapters) for member in report.members]
    if report.of_fleet:  # testbeds always have different host names
        named = [{name: value for name, value in facts.items() if name != "host"} for facts in named]
    campaign_of = campaigns_of_blocks(report.members) or {}
    measured_in: dict[int, set[int]] = {}
    for attempt in report.attempts:
        if attempt.valid:
            measured_in.setdefault(attempt.treatment, set()).add(campaign_of[attempt.block])
    links = [row.treatment for row in report.rows if len(measured_in.get(row.treatment.index, ())) > 1]
    more = differing_facts([unnamed_facts(member.provenance.chapters) for member in report.members])
    return MemberDifferences(differing_facts(named), tuple(more), tuple(links))
