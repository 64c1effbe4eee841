"""Whether a variant is worse than the reference that ran in the same blocks, by one look or several.

A change is a fraction of the reference, above zero if the variant is worse. Its intervals hold together over all pairs
(`families`) and over all looks, at levels that spend the error (`spending`). A pair raises an alarm if its interval
lies above zero and reaches beyond the margin; it is no worse if its interval ends below. An alarm fails nothing until
as many new blocks, and no others, show the same change once more, at the level `CONFIRMING`. benches/ab_alarms.py
measures the error rates of both steps together. Loads scipy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lastro.stats.contrasts import MeanComparison, compare, one_sided_p
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
    """The change of one pair with its interval, which is unbounded where the data show nothing."""

    loss: float | None
    low: float
    high: float
    comparison: MeanComparison

    @property
    def most(self) -> float:
        """The largest change in either direction that the interval holds."""
        return max(abs(self.low), abs(self.high))

    def verdict(self, margin: float) -> Verdict:
        if self.high <= margin:
            return "no worse"
        return "worse" if self.low > 0 else "open"


def confidence_at(looks: Sequence[int], last_look: int, confidence: float) -> float:
    """Return the confidence of intervals at the last of these looks, which are numbers of blocks."""
    fractions = tuple(block / last_look for block in looks)
    return 1 - 2 * nominal_level(fractions, (1 - confidence) / 2)


def changes(
    model: BlockModel, pairs: Sequence[tuple[int, int]], better: Better, confidence: float
) -> tuple[VariantChange, ...]:
    """Return the change of each (variant, reference), which are cells of the model; together, they are one family."""
    found = compare(model, [({variant: 1.0}, {reference: 1.0}) for variant, reference in pairs], confidence)
    return tuple(_change(each, better) for each in found)


def _change(found: MeanComparison, better: Better) -> VariantChange:
    value, interval = found.ratio.value, found.ratio.interval
    low, high = (interval.low, interval.high) if interval else (float("-inf"), float("inf"))
    if better == "lower":
        return VariantChange(None if value is None else value - 1, low - 1, high - 1, found)
    return VariantChange(None if value is None else 1 - value, 1 - high, 1 - low, found)


def new_blocks(alarm: int) -> int:
    """Return how many new blocks confirm an alarm that was raised after so many."""
    return max(FEWEST_NEW, alarm)


def is_confirmed(model: BlockModel | None, variant: int, reference: int, better: Better) -> bool:
    """Return whether the model of the new blocks alone shows that the variant is worse."""
    more, less = (variant, reference) if better == "lower" else (reference, variant)
    try:
        p = None if model is None else one_sided_p(model, {more: 1.0}, {less: 1.0}, 1.0)
    except KeyError:  # no new block has a value
        return False
    return p is not None and p <= CONFIRMING
