"""Move a claim to its stand-ins: levels measured in place of published ones that have no valid trial here.

Pure: a claim and a report in, a claim out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from lastro.analysis.campaign import CampaignResults
from lastro.study.claims import Alike, Claim, Order, Statement
from lastro.study.model import Level
from lastro.study.sides import Levels


@dataclass(frozen=True, slots=True)
class Substitution:
    """A published level, and the levels that were measured in its place."""

    published: Level
    measured: tuple[Level, ...]


def as_measured(claim: Claim, reports: Sequence[CampaignResults]) -> tuple[Claim, tuple[Substitution, ...]]:
    """Return the claim with a stand-in for each published level that no report measured, and these stand-ins.

    Of several stand-ins for one level, the first that was measured takes its place. If none was measured, the level
    stays."""
    if not claim.stand_in:
        return claim, ()
    measured, found, stood_in = measured_levels(reports), list[Substitution](), dict[str, set[Level]]()
    for stand_in in claim.stand_in:
        lacking: dict[str, dict[Level, tuple[Level, ...]]] = {}
        for factor, levels in stand_in.levels.items():
            there = measured.get(factor, set())
            gone = [level for level in levels if level not in there and level not in stood_in.get(factor, ())]
            own = {level: levels[level] for level in gone if there.issuperset(levels[level])}
            found += [Substitution(level, others) for level, others in own.items()]
            stood_in.setdefault(factor, set()).update(own)
            lacking[factor] = own
        if any(lacking.values()):
            claim = replace(claim, statement=_standing_in(claim.statement, lacking, stand_in.metric))
    return claim, tuple(found)


def _standing_in(
    statement: Statement, lacking: Mapping[str, Mapping[Level, tuple[Level, ...]]], metric: str
) -> Statement:
    """Return the statement on stand-ins, judged by `metric` if that is not empty."""
    changes: dict[str, Any] = {"metric": metric} if metric else {}
    for each in fields(statement):
        if isinstance(side := getattr(statement, each.name), Mapping):
            changes[each.name] = _side(side, lacking)
    if isinstance(statement, Order):
        own = lacking.get(statement.factor, {})
        changes["falling"] = tuple(_replaced(group, own) for group in statement.falling)
        changes["sides"] = tuple(tuple(_side(side, lacking) for side in group) for group in statement.sides)
    if isinstance(statement, Alike):
        changes["levels"] = _replaced(statement.levels, lacking.get(statement.factor, {}))
    return replace(statement, **changes)


def _side(side: Levels, lacking: Mapping[str, Mapping[Level, tuple[Level, ...]]]) -> Levels:
    return {name: _replaced(levels, lacking.get(name, {})) for name, levels in side.items()}


def _replaced(levels: tuple[Level, ...], stand_ins: Mapping[Level, tuple[Level, ...]]) -> tuple[Level, ...]:
    return tuple(each for level in levels for each in stand_ins.get(level, (level,)))


def measured_levels(reports: Sequence[CampaignResults]) -> dict[str, set[Level]]:
    """Return the levels of each factor that have a valid trial."""
    found: dict[str, set[Level]] = {}
    for row in (row for report in reports for row in report.rows):
        if any(cell.points for cell in row.cells):
            for factor, level in row.treatment.levels.items():
                found.setdefault(factor, set()).add(level)
    return found
