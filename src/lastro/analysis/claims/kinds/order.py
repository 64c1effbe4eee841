"""Claims that levels are in descending order of their means, or of an effect at each level."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Self

from pydantic import BeforeValidator, Field

from lastro.analysis.claim_cells import Comparisons
from lastro.analysis.claim_effects import (
    ClaimContrast,
    ClaimEffects,
    direction_contrast,
    farther_contrast,
    larger_contrast,
    without_common,
)
from lastro.analysis.claims.claim import Change, Claim, Statement, VerdictWords, changed, check_distinct
from lastro.stats.notes import N_
from lastro.stats.weights import minus
from lastro.study.model import Level, Levels, Study
from lastro.study.problems import FieldError
from lastro.study.schema import OneLine
from lastro.study.sides import AsTuple, Choice, OneOrMore, Side

_Group = Annotated[tuple[Side, ...], BeforeValidator(lambda side: (side,) if isinstance(side, dict) else side), AsTuple]


class Order(Statement):
    """The statement that levels of one factor are in descending order of their means."""

    key: ClassVar[str] = "order"

    factor: OneLine = ""
    # Groups of levels of `factor`; levels of one group are not ordered.
    falling: Annotated[tuple[OneOrMore, ...], AsTuple] = ()
    # Choices of levels of several factors, to be ordered instead of levels of `factor`.
    sides: Annotated[tuple[_Group, ...], AsTuple] = ()
    # If set, levels are ordered by the difference of the means of `of` and `to`.
    of: Choice = Field(default_factory=dict)
    to: Choice = Field(default_factory=dict)
    distance: bool = False  # by the absolute value of that difference

    def choices(self) -> Mapping[str, Levels]:
        all_sides = (side for group in self.sides for side in group)
        return {f"side {n}": side for n, side in enumerate(all_sides, 1)} or {"of": self.of, "to": self.to}

    def listed_factors(self) -> tuple[str, Sequence[str]]:
        return "factor", (self.factor,) if self.factor else ()

    def check(self, claim: Claim, study: Study) -> None:
        """Raise FieldError unless either levels or sides are ordered, and there are at least two of them."""
        by_level = bool(self.factor and self.falling)
        if bool(self.sides) == by_level or (self.sides and (self.of or self.factor)):
            raise FieldError("must have exactly one of two forms", "give `factor` and `falling`, or `sides` alone")
        if self.distance and not self.of:
            raise FieldError("`distance` is between two sides", "give `of` and `to`")
        if len(self.sides or self.falling) < 2:
            raise FieldError(f"`{'sides' if self.sides else 'falling'}` must have at least 2 entries")
        check_distinct([level for group in self.falling for level in group])

    def with_levels(self, change: Change) -> Self:
        falling = tuple(change(self.factor, group) for group in self.falling)
        sides = tuple(tuple(changed(side, change) for side in group) for group in self.sides)
        return super().with_levels(change).model_copy(update={"falling": falling, "sides": sides})

    def effects(self, claim: Claim, cells: Comparisons, *also: Comparisons) -> ClaimEffects:
        groups: list[list[tuple[str, list[Levels]]]]
        if self.sides:
            groups = [[(without_common(side, {}), [side]) for side in group] for group in self.sides]
        else:
            groups = [[(str(level), self._sides_at(level)) for level in group] for group in self.falling]
        all_sides = [side for group in groups for _, sides in group for side in sides]
        weights, n_measured, n_conditions = cells.sides(all_sides, self.at)
        remaining = iter(weights)
        ordered = [[(label, [next(remaining) for _ in sides]) for label, sides in group] for group in groups]
        compare = farther_contrast if self.distance else larger_contrast
        parts: list[ClaimContrast] = []
        for upper, lower in itertools.pairwise(ordered):
            for (first, above), (second, below) in itertools.product(upper, lower):
                if len(above) == 1:
                    parts.append(direction_contrast(f"{first} / {second}", above[0], below[0], True, cells))
                else:
                    parts.append(compare(f"{first} − {second}", minus(*above), minus(*below), cells))
        return ClaimEffects(tuple(parts), n_measured, n_conditions)

    def _sides_at(self, level: Level) -> list[Levels]:
        """Return the sides to compare at a level: the level itself, or `of` and `to` at this level."""
        at_level: Levels = {self.factor: (level,)}
        return [{**at_level, **self.of}, {**at_level, **self.to}] if self.of else [at_level]

    def words(self, claim: Claim) -> VerdictWords:
        return VerdictWords(
            N_("every pair differs in this order; the closest pair is {levels}"),
            N_("{levels} differ in the opposite order"),
            N_("{levels} are not distinguishable"),
        )
