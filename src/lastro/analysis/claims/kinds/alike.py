"""Claims that the means of several levels are alike."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Annotated, ClassVar, Self

from pydantic import Field

from lastro.analysis.claim_cells import Comparisons
from lastro.analysis.claim_effects import ClaimEffects, equivalence_contrast
from lastro.analysis.claims.claim import Change, Claim, OverConditions, check_distinct
from lastro.study.model import Levels, Study
from lastro.study.schema import LevelValue
from lastro.study.sides import AsTuple, NonEmptyLine


class Alike(OverConditions):
    """The statement that the means of any two of the `levels` of `factor` differ by less than the claim's margin."""

    key: ClassVar[str] = "alike"

    factor: NonEmptyLine
    levels: Annotated[tuple[LevelValue, ...], Field(min_length=2), AsTuple]

    def is_equivalence(self, claim: Claim) -> bool:
        return True

    def listed_factors(self) -> tuple[str, Sequence[str]]:
        return "factor", (self.factor,)

    def check(self, claim: Claim, study: Study) -> None:
        check_distinct(self.levels)

    def with_levels(self, change: Change) -> Self:
        return super().with_levels(change).model_copy(update={"levels": change(self.factor, self.levels)})

    def effects(self, claim: Claim, cells: Comparisons, *also: Comparisons) -> ClaimEffects:
        sides: list[Levels] = [{self.factor: (level,)} for level in self.levels]
        places, n_measured, n_conditions = self.places(sides, cells)
        parts = []
        for place, weights in places.items():
            for (a, of), (b, to) in itertools.combinations(zip(self.levels, weights, strict=True), 2):
                label = " · ".join(filter(None, (f"{a} / {b}", place)))
                parts.append(equivalence_contrast(label, of, to, claim.margin or 0.0, cells))
        return ClaimEffects(tuple(parts), n_measured, n_conditions)
