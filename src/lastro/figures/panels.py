"""Panels for single treatments: their titles, and a note if there are too many for one figure."""

from __future__ import annotations

from lastro.analysis.campaign import CampaignResults, Row
from lastro.words.language import Language

MOST_PANELS = 36


def treatment_title(report: CampaignResults, row: Row, n: int, say: Language) -> list[str]:
    """Return the lines of the title of a panel: the levels that vary, if any, and 'n = 5'."""
    levels = [str(row.treatment.levels[factor.name]) for factor in report.varying]
    return [*([" · ".join(levels)] if levels else []), say("n = {n}", n=say.integer(n))]


def panel_limit_note(n: int, say: Language) -> str:
    """Return '36 of 40 treatments' if `n` treatments are too many for one figure; otherwise empty."""
    return say("{n} of {all} treatments", n=MOST_PANELS, all=n) if n > MOST_PANELS else ""
