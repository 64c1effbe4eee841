"""Several campaigns in one report: how they differ, and which treatments link them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lastro.analysis.campaign import Report
from lastro.analysis.compare import differing, facts
from lastro.study.design import Treatment

MACHINE = ("host", "CPU model", "CPUs", "guest")  # the facts by which hosts differ


@dataclass(frozen=True, slots=True)
class AcrossCampaigns:
    """The campaigns of a report. `differing` is {fact: its value in each campaign}; `links` are treatments that several
    campaigns measured."""

    differing: Mapping[str, tuple[str | None, ...]]
    links: tuple[Treatment, ...]

    @property
    def other_machine(self) -> bool:
        return any(fact in self.differing for fact in MACHINE)


def across_campaigns(report: Report) -> AcrossCampaigns | None:
    """Compare the campaigns of a report; None for a report of one campaign."""
    if not report.members:
        return None
    found = [facts(member.provenance) for member in report.members]
    measured: dict[int, set[int]] = {}
    for attempt in report.attempts:
        if attempt.valid:
            home = next(n for n, member in enumerate(report.members) if attempt.block in member.blocks)
            measured.setdefault(attempt.treatment, set()).add(home)
    links = [row.treatment for row in report.rows if len(measured.get(row.treatment.index, ())) > 1]
    return AcrossCampaigns(differing(found), tuple(links))
