"""How each metric scales with a numeric factor: a line for each combination of the other factors. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from lastro.analysis.campaign import Report, Row
from lastro.report.language import ENGLISH, Language
from lastro.report.numbers import mean_text
from lastro.stats.intervals import Summary
from lastro.stats.notes import N_
from lastro.stats.scaling import Line, fit_line

LEAST_LEVELS = 3  # a line fits any two points
_EXPLANATION = N_(
    "What 1 more of {factor} adds: the slope of the least-squares line through the valid trials, ± half its interval. "
    "≈ marks an interval that holds 0. A line says nothing beyond the levels measured."
)


@dataclass(frozen=True, slots=True)
class ScalingRow:
    """One combination of the other factors' levels, with a line for each metric of the report, or None."""

    levels: tuple[str, ...]
    lines: tuple[Line | None, ...]


@dataclass(frozen=True, slots=True)
class Scaling:
    """The lines over one numeric factor; `others` are the other factors that vary."""

    factor: str
    others: tuple[str, ...]
    rows: tuple[ScalingRow, ...]

    def explanation(self, say: Language = ENGLISH) -> str:
        return say(_EXPLANATION, factor=self.factor)


def scalings(report: Report) -> tuple[Scaling, ...]:
    """Return the lines for each factor with three or more levels, all numbers; leave out factors without a line."""
    found = []
    for factor in report.varying:
        numbers = [level for level in factor.levels if isinstance(level, int | float) and not isinstance(level, bool)]
        if len(numbers) == len(factor.levels) >= LEAST_LEVELS:
            found.append(_scaling(report, factor.name))
    return tuple(scaling for scaling in found if any(any(row.lines) for row in scaling.rows))


def _scaling(report: Report, factor: str) -> Scaling:
    others = tuple(other.name for other in report.varying if other.name != factor)
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in report.rows:
        groups[tuple(str(row.treatment.levels[name]) for name in others)].append(row)
    metrics = range(len(report.metrics))
    confidence = report.study.design.confidence
    return Scaling(
        factor,
        others,
        tuple(
            ScalingRow(levels, tuple(_line(rows, factor, index, confidence) for index in metrics))
            for levels, rows in groups.items()
        ),
    )


def _line(rows: list[Row], factor: str, metric: int, confidence: float) -> Line | None:
    if any(row.cells[metric].bounded for row in rows):
        return None
    points = [(float(row.treatment.levels[factor]), p.value) for row in rows for p in row.cells[metric].points]
    if len({x for x, _ in points}) < LEAST_LEVELS:
        return None
    return fit_line([x for x, _ in points], [y for _, y in points], confidence)


def slope_text(line: Line | None, say: Language = ENGLISH) -> str:
    """Format a slope: '1.23 ± 0.11', with '≈' in front if its interval contains 0."""
    if line is None:
        return "—"
    text = mean_text(Summary(line.n, line.slope, None, line.slope_interval), say)
    return text if line.grows else f"≈ {text}"
