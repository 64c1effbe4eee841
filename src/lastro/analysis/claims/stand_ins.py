"""Move a statement to stand-ins: levels measured in place of published ones that have no valid trial here.

Pure: a statement and a report in, a statement out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lastro.analysis.campaign import CampaignResults
from lastro.study.model import Level

if TYPE_CHECKING:
    from lastro.analysis.claims.claim import Statement
    from lastro.study.sides import StandIn


@dataclass(frozen=True, slots=True)
class Substitution:
    """A published level, and the levels that were measured in its place."""

    published: Level
    measured: tuple[Level, ...]


def as_measured(
    statement: Statement, stand_ins: Sequence[StandIn], reports: Sequence[CampaignResults]
) -> tuple[Statement, tuple[Substitution, ...]]:
    """Return the statement with a stand-in for each published level that no report measured, and these stand-ins.

    Of several stand-ins for one level, the first that was measured takes its place. If none was measured, the level
    stays."""
    measured = measured_levels(reports) if stand_ins else {}
    found, stood_in = list[Substitution](), dict[str, set[Level]]()
    for stand_in in stand_ins:
        lacking: dict[str, dict[Level, tuple[Level, ...]]] = {}
        for factor, levels in stand_in.levels.items():
            there = measured.get(factor, set())
            gone = [level for level in levels if level not in there and level not in stood_in.get(factor, ())]
            own: dict[Level, tuple[Level, ...]] = {
                level: levels[level] for level in gone if there.issuperset(levels[level])
            }
            found += [Substitution(level, others) for level, others in own.items()]
            stood_in.setdefault(factor, set()).update(own)
            lacking[factor] = own
        if any(lacking.values()):
            statement = statement.with_levels(partial(_replaced, lacking))
            statement = statement.model_copy(update={"metric": stand_in.metric or statement.metric})
    return statement, tuple(found)


def _replaced(
    lacking: Mapping[str, Mapping[Level, tuple[Level, ...]]], factor: str, levels: tuple[Level, ...]
) -> tuple[Level, ...]:
    return tuple(each for level in levels for each in lacking.get(factor, {}).get(level, (level,)))


def measured_levels(reports: Sequence[CampaignResults]) -> dict[str, set[Level]]:
    """Return the levels of each factor that have a valid trial."""
    found: dict[str, set[Level]] = {}
    for row in (row for report in reports for row in report.rows):
        if any(cell.points for cell in row.cells):
            for factor, level in row.treatment.levels.items():
                found.setdefault(factor, set()).add(level)
    return found
