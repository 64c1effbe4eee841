"""Claims that compare the means of two sides: one is higher than, lower than or like the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from lastro.analysis.claim_cells import Comparisons
from lastro.analysis.claim_effects import ClaimEffects, direction_contrast, equivalence_contrast, without_common
from lastro.analysis.claims.claim import (
    DIRECTION,
    EQUIVALENCE,
    Claim,
    MeanAt,
    OverConditions,
    PublishedMark,
    VerdictWords,
)
from lastro.stats.notes import N_
from lastro.study.model import Levels
from lastro.study.printed import PrintedCell, PrintedColumn, PrintedTable
from lastro.study.sides import Side


class Compare(OverConditions):
    """The statement that the mean at `of` is higher than, lower than or like the mean at `to`, as `direction` says."""

    key: ClassVar[str] = "compare"
    figures: ClassVar[tuple[str, ...]] = ("difference", "ratio")

    of: Side
    to: Side

    def choices(self) -> Mapping[str, Levels]:
        return {"of": self.of, "to": self.to}

    def is_equivalence(self, claim: Claim) -> bool:
        return claim.direction == "alike"

    def cells_of(self, table: PrintedTable, columns: Sequence[str]) -> list[tuple[PrintedColumn, PrintedCell]]:
        return [table.cell(self.metric, {**self.at, **side}) for side in (self.of, self.to)]

    def effects(self, claim: Claim, cells: Comparisons, *also: Comparisons) -> ClaimEffects:
        places, n_measured, n_conditions = self.places([self.of, self.to], cells)
        pair = f"{without_common(self.of, self.to)} / {without_common(self.to, self.of)}"
        parts = []
        for place, (of, to) in places.items():
            label = " · ".join(filter(None, (pair, place)))
            if self.is_equivalence(claim):
                parts.append(equivalence_contrast(label, of, to, claim.margin or 0.0, cells))
            else:
                parts.append(direction_contrast(label, of, to, claim.direction == "higher", cells))
        return ClaimEffects(tuple(parts), n_measured, n_conditions)

    def mark(self, claim: Claim, others: Sequence[Claim], mean: MeanAt) -> PublishedMark | None:
        base, published = mean({**self.at, **self.to}), claim.published
        if base is None or published is None or not {"ratio", "difference"} & {*published.given}:
            return None
        value = base + (published.difference or 0.0) if published.ratio is None else base * published.ratio
        return PublishedMark(claim, {**self.at, **self.of}, value, "", relative=True)

    def words(self, claim: Claim) -> VerdictWords:
        if self.over == "worst":
            return EQUIVALENCE if self.is_equivalence(claim) else _EVERYWHERE
        return _ALIKE if self.is_equivalence(claim) else DIRECTION


_EVERYWHERE = VerdictWords(
    N_("the effect is significant, in this direction, in every condition; the weakest evidence is for {levels}"),
    N_("the effect is significant, in the opposite direction, for {levels}"),
    N_("no effect is distinguishable for {levels}"),
)
_ALIKE = EQUIVALENCE._replace(reproduced=N_("the difference is within {figure}"))
