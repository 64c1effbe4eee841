"""The headline of a metric: the data for one sentence, chosen from its analysis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lastro.analysis.model import BaselineComparison, Headline, LevelEffect

if TYPE_CHECKING:
    from lastro.stats.anova import Anova


def headline(
    anova: Anova | None, effects: Sequence[LevelEffect], comparisons: Sequence[BaselineComparison]
) -> Headline:
    """Return the headline; its widest effect is the farthest from 1 of those that differ, or else of all ratios."""
    factors = [effect for effect in anova.effects if len(effect.factors) == 1] if anova else []
    factors = [effect for effect in factors if effect.name != "block"]
    leading = max(factors, key=lambda effect: effect.explained, default=None)
    differing = [effect for effect in effects if effect.decision == "different"]
    candidates = differing or [effect for effect in effects if effect.ratio.value is not None]
    decided = Counter(comparison.decision for comparison in comparisons)
    return Headline(
        factor=leading.name if leading else None,
        explained=leading.explained if leading else None,
        widest=max(candidates, key=lambda effect: effect.distance, default=None),
        different=decided["different"],
        same=decided["same"],
        unknown=decided["unknown"],
    )
