"""Judge whether a variant is worse than the reference that ran in the same blocks, in one look or several.

A change is a fraction of the reference, above zero if the variant is worse. The intervals of changes are simultaneous
for all pairs (`families`) and for all looks (`spending`). A pair raises an alarm if its interval lies above zero and
extends beyond the margin; the variant is no worse if the interval ends below the margin. An alarm is confirmed only if
the same number of new blocks, without the earlier ones, shows the change again at the level `CONFIRMING`.
benches/ab_alarms.py measures the error rates of both steps together. Loads scipy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lastro.stats.contrasts import MeanComparison, compare, one_sided_p
from lastro.stats.intervals import Estimate, alpha_of
from lastro.stats.spending import nominal_level

if TYPE_CHECKING:
    from lastro.stats.block_model import BlockModel

Better = Literal["lower", "higher"]
Verdict = Literal["worse", "no worse", "open"]
Side = Mapping[int, float]

CONFIRMING = 0.1  # one-sided
FEWEST_NEW = 3  # blocks


@dataclass(frozen=True, slots=True)
class VariantChange:
    """The change of a variant from its reference; `loss` is a fraction of the reference, above zero if it is worse."""

    loss: Estimate
    comparison: MeanComparison

    @property
    def low(self) -> float:
        """The low end of the interval; minus infinity without an interval."""
        return self.loss.interval.low if self.loss.interval else -math.inf

    @property
    def high(self) -> float:
        """The high end of the interval; infinite without an interval."""
        return self.loss.interval.high if self.loss.interval else math.inf

    @property
    def most(self) -> float:
        """The largest change, in either direction, that the interval contains."""
        return max(abs(self.low), abs(self.high))

    def verdict(self, margin: float) -> Verdict:
        """Return "worse" for an alarm, "no worse", or "open" if the interval allows neither."""
        if self.high <= margin:
            return "no worse"
        return "worse" if self.low > 0 else "open"


def confidence_at(looks: Sequence[int], last_look: int, confidence: float) -> float:
    """Return the confidence of the intervals at the last of these looks, so that all looks together have `confidence`.

    `looks` are numbers of blocks, in ascending order; `last_look` is the number of blocks at the last planned look."""
    fractions = tuple(block / last_look for block in looks)
    return 1 - 2 * nominal_level(fractions, alpha_of(confidence) / 2)


def variant_changes(
    model: BlockModel, pairs: Sequence[tuple[int, int]], better: Better, confidence: float
) -> tuple[VariantChange, ...]:
    """Return the change of each pair of cells (variant, reference); all pairs are one family."""
    comparisons = compare(model, [({variant: 1.0}, {reference: 1.0}) for variant, reference in pairs], confidence)
    sign = 1 if better == "lower" else -1
    return tuple(
        VariantChange(comparison.ratio.mapped(lambda ratio: sign * (ratio - 1)), comparison)
        for comparison in comparisons
    )


def new_blocks(alarm: int) -> int:
    """Return how many new blocks confirm an alarm that was raised after `alarm` blocks."""
    return max(FEWEST_NEW, alarm)


def is_confirmed(model: BlockModel | None, variant: int, reference: int, better: Better) -> bool:
    """Return whether the new blocks confirm an alarm: their `model` shows that the variant is worse.

    False without a model, or if the new blocks have no value of the variant or of the reference."""
    larger_if_worse, other = (variant, reference) if better == "lower" else (reference, variant)
    try:
        p = None if model is None else one_sided_p(model, {larger_if_worse: 1.0}, {other: 1.0}, bound=1.0)
    except KeyError:  # no new block has a value
        return False
    return p is not None and p <= CONFIRMING
