"""The wording of levels that are numbers, and of growth with the sizes of a scenario. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from lastro.analysis.campaign import MetricView, Row
from lastro.analysis.growth import Growth, SizeRelation, Verdict
from lastro.stats.intervals import Estimate, Summary
from lastro.stats.notes import N_
from lastro.study.model import Level
from lastro.units import significant
from lastro.words.language import Language
from lastro.words.numbers import WHY_MISSING, interval_text, mean_text
from lastro.words.remarks import signs

_GROWS: dict[Verdict, str] = {
    "in proportion": N_("yes: in proportion, ×{ratio}"),
    "slower": N_("no: more slowly than ×{ratio}"),
    "slower or not": N_("no: more slowly than ×{ratio}, or not at all"),
    "faster": N_("no: faster than ×{ratio}"),
    "shrinks": N_("no: it shrinks"),
    "line": N_("yes: consistent with a line"),
    "bends up": N_("not on a line: it bends upwards"),
    "bends down": N_("not on a line: it bends downwards"),
    "unknown": N_("undecided"),
}


def level_text(level: Level, say: Language) -> str:
    """Format a level that is a number as '200,000'; return a level that is text unchanged."""
    if isinstance(level, int):
        return say.integer(level)
    return say.number(f"{level:g}") if isinstance(level, float) else level


def why_missing(row: Row | None, view: MetricView, say: Language) -> str:
    """Return why a treatment has no value of a metric, and its marks; empty if it has a value or `row` is None."""
    if row is None or view.of(row).summary is not None:
        return ""
    return say(WHY_MISSING.get(row.status, WHY_MISSING["valueless"])) + signs(view.of(row).marks)


def growth_text(against: SizeRelation, say: Language) -> str:
    """Describe how a metric grows with a size: 'yes: in proportion, ×1.78'; for a line, add slope, intercept, bend."""
    ratio = say.number(significant(against.ratio, 3)) if against.ratio is not None else ""
    verdict = say(_GROWS[against.verdict], ratio=ratio)
    if (line := against.line) is None:
        return verdict
    slope, intercept = (mean_text(_summary(estimate), say) for estimate in (line.slope, line.intercept))
    text = say("{verdict}; {slope} for 1 more, {intercept} at 0", verdict=verdict, slope=slope, intercept=intercept)
    if line.bend.interval is None:
        return text
    return say("{text}; bend {interval}", text=text, interval=interval_text(_summary(line.bend), say))


def _summary(estimate: Estimate) -> Summary:
    assert estimate.value is not None
    return Summary(estimate.n, estimate.value, None, estimate.interval)


def sizes_text(growth: Growth) -> Iterator[str]:
    """Yield each level with its sizes in parentheses: '3x3 (9, 12)'."""
    return (f"{level} ({', '.join(map(str, size.values()))})" for level, size in growth.sizes.items())
