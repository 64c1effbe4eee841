"""Claims that a protection recovers a fraction of a loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from lastro.analysis.claim_cells import Comparisons
from lastro.analysis.claim_effects import ClaimEffects, recovery_effects
from lastro.analysis.claims.claim import Claim, MeanAt, PublishedMark, Statement
from lastro.study.model import Levels
from lastro.study.sides import Side


class Recovery(Statement):
    """The statement that a protection recovers a part of a loss: (protected - without) / (ideal - without)."""

    key: ClassVar[str] = "recovery"
    figures: ClassVar[tuple[str, ...]] = ("at_least", "at_most", "share")

    ideal: Side
    without: Side
    protected: Side

    def choices(self) -> Mapping[str, Levels]:
        return {"ideal": self.ideal, "without": self.without, "protected": self.protected}

    def effects(self, claim: Claim, cells: Comparisons, *also: Comparisons) -> ClaimEffects:
        return recovery_effects(self.ideal, self.without, self.protected, self.at, cells)

    def mark(self, claim: Claim, others: Sequence[Claim], mean: MeanAt) -> PublishedMark | None:
        """Return the mark of a published share of the loss.

        The loss is the published ratio of another claim of the file, which compares `without` with `ideal`. None if no
        share or no loss was published, or if the campaign has no mean at `ideal`."""
        ideal = mean({**self.at, **self.ideal})
        loss = next((other.published.ratio for other in others if other.published and self._is_loss(other)), None)
        if claim.published is None or claim.published.share is None or ideal is None or loss is None:
            return None
        value = ideal * (loss + claim.published.share * (1 - loss))
        return PublishedMark(claim, {**self.at, **self.protected}, value, "", relative=True)

    def _is_loss(self, claim: Claim) -> bool:
        """Return whether a claim compares `without` with `ideal`, in the metric and conditions of this statement."""
        other, sides = claim.statement, {"of": self.without, "to": self.ideal}
        return other.key == "compare" and (other.metric, other.at, other.choices()) == (self.metric, self.at, sides)
