"""The wording of numeric factors: the numbers on an axis, and why a number has no value. Pure."""

from __future__ import annotations

from lastro.analysis.campaign import MetricView, Row
from lastro.study.model import Level
from lastro.words.language import Language
from lastro.words.numbers import WHY_MISSING
from lastro.words.remarks import signs


def level_text(level: Level, say: Language) -> str:
    """Format a number of an axis as '200,000'; return text as the study writes it."""
    if isinstance(level, int):
        return say.integer(level)
    return say.number(f"{level:g}") if isinstance(level, float) else level


def why_missing(row: Row | None, view: MetricView, say: Language) -> str:
    """Return why a treatment has no value of a metric, with its marks; empty if it has one, or if `row` is None."""
    if row is None or view.of(row).summary is not None:
        return ""
    return say(WHY_MISSING.get(row.status, WHY_MISSING["valueless"])) + signs(view.of(row).marks)
