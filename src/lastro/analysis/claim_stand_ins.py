"""Claims on their stand-ins: what was measured in place of a published level that this campaign has no valid trial of.

Pure: a claim and a report in, a claim out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from lastro.analysis.campaign import Report
from lastro.study.claims import Alike, Claim, Order
from lastro.study.model import Level


@dataclass(frozen=True, slots=True)
class StoodIn:
    """A published level, and the levels that were measured in its place."""

    published: Level
    measured: tuple[Level, ...]


def as_measured(claim: Claim, report: Report) -> tuple[Claim, tuple[StoodIn, ...]]:
    """Return the claim with a stand-in for each published level that was not measured, and these stand-ins.

    It is the published claim if all its levels were measured, or if a stand-in was not measured either: then the reason
    is that of the published level."""
    if claim.stand_in is None:
        return claim, ()
    measured = _measured(report)
    lacking: dict[str, dict[Level, tuple[Level, ...]]] = {}
    for factor, levels in claim.stand_in.levels.items():
        there = measured.get(factor, set())
        lacking[factor] = {level: others for level, others in levels.items() if level not in there}
        if not all(other in there for others in lacking[factor].values() for other in others):
            return claim, ()
    found = tuple(StoodIn(level, others) for levels in lacking.values() for level, others in levels.items())
    if not found:
        return claim, ()
    statement = claim.statement
    changes: dict[str, Any] = {"metric": claim.stand_in.metric} if claim.stand_in.metric else {}
    for each in fields(statement):
        if isinstance(side := getattr(statement, each.name), Mapping):
            changes[each.name] = {name: _replaced(levels, lacking.get(name, {})) for name, levels in side.items()}
    if isinstance(statement, Order):
        own = lacking.get(statement.factor, {})
        changes["falling"] = tuple(_replaced(group, own) for group in statement.falling)
    if isinstance(statement, Alike):
        changes["levels"] = _replaced(statement.levels, lacking.get(statement.factor, {}))
    return replace(claim, statement=replace(statement, **changes)), found


def _replaced(levels: tuple[Level, ...], stand_ins: Mapping[Level, tuple[Level, ...]]) -> tuple[Level, ...]:
    return tuple(each for level in levels for each in stand_ins.get(level, (level,)))


def _measured(report: Report) -> dict[str, set[Level]]:
    """Return the levels of each factor that have a valid trial."""
    found: dict[str, set[Level]] = {}
    for row in report.rows:
        if any(cell.points for cell in row.cells):
            for factor, level in row.treatment.levels.items():
                found.setdefault(factor, set()).add(level)
    return found
