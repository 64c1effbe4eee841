"""Small panels, one for each treatment: their titles, and a note if there are too many treatments."""

from __future__ import annotations

from lastro.analysis.campaign import CampaignResults, Row
from lastro.words.language import Language

MOST_PANELS = 36


def treatment_title(report: CampaignResults, row: Row, n: int, say: Language) -> list[str]:
    """Return the varying levels of a treatment, and its number of trials."""
    levels = [str(row.treatment.levels[factor.name]) for factor in report.varying]
    return [*([" · ".join(levels)] if levels else []), say("n = {n}", n=say.integer(n))]


def not_all(n: int, say: Language) -> str:
    """Return how many treatments have a panel; empty if all have."""
    return say("{n} of {all} treatments", n=MOST_PANELS, all=n) if n > MOST_PANELS else ""
