"""Replace published levels that have no valid trial in a campaign by stand-ins: levels that were measured. Pure."""

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


def with_stand_ins(
    statement: Statement, stand_ins: Sequence[StandIn], reports: Sequence[CampaignResults]
) -> tuple[Statement, tuple[Substitution, ...]]:
    """Return the statement with a stand-in for each published level that no report measured, and the substitutions.

    If a level has several stand-ins, the first that was measured replaces it. Without any, it stays."""
    all_measured = measured_levels(reports) if stand_ins else {}
    substitutions, replaced = list[Substitution](), dict[str, set[Level]]()
    for stand_in in stand_ins:
        in_place: dict[str, dict[Level, tuple[Level, ...]]] = {}
        for factor, levels in stand_in.levels.items():
            measured, in_place[factor] = all_measured.get(factor, set()), {}
            for level, others in levels.items():
                is_lacking = level not in measured and level not in replaced.get(factor, ())
                if is_lacking and measured.issuperset(others):
                    in_place[factor][level] = others
                    substitutions.append(Substitution(level, others))
            replaced.setdefault(factor, set()).update(in_place[factor])
        if any(in_place.values()):
            statement = statement.with_levels(partial(_replace_levels, in_place))
            statement = statement.model_copy(update={"metric": stand_in.metric or statement.metric})
    return statement, tuple(substitutions)


def _replace_levels(
    in_place: Mapping[str, Mapping[Level, tuple[Level, ...]]], factor: str, levels: tuple[Level, ...]
) -> tuple[Level, ...]:
    """Return the levels of a factor, with stand-ins replaced; `in_place` is {factor: {level: levels in its place}}."""
    return tuple(other for level in levels for other in in_place.get(factor, {}).get(level, (level,)))


def measured_levels(reports: Sequence[CampaignResults]) -> dict[str, set[Level]]:
    """Return {factor: levels that have a valid trial in some report}."""
    measured: dict[str, set[Level]] = {}
    for row in (row for report in reports for row in report.rows):
        if any(cell.points for cell in row.cells):
            for factor, level in row.treatment.levels.items():
                measured.setdefault(factor, set()).add(level)
    return measured
