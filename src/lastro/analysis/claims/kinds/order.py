"""Levels are in falling order of their means, or of an effect at each level."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Self

from pydantic import BeforeValidator, Field

from lastro.analysis.claim_cells import Comparisons
from lastro.analysis.claim_effects import ClaimContrast, ClaimEffects, direction, farther, larger, without_common
from lastro.analysis.claims.claim import Change, Claim, Statement, VerdictWords, changed, check_distinct
from lastro.stats.notes import N_
from lastro.stats.weights import minus
from lastro.study.model import Level, Levels, Study
from lastro.study.problems import FieldError
from lastro.study.schema import OneLine
from lastro.study.sides import AsTuple, Choice, OneOrMore, Side

_Group = Annotated[tuple[Side, ...], BeforeValidator(lambda side: (side,) if isinstance(side, dict) else side), AsTuple]


class Order(Statement):
    """Levels of one factor in falling order of their means; levels of one group are not ordered among themselves.

    `falling` has the groups of levels of `factor`. With `of` and `to`, the levels are ordered by the difference of the
    means of these two sides at each level; with `distance`, by its absolute value. With `sides`, choices of levels of
    several factors are ordered instead of levels, and `factor` and `falling` are empty."""

    key: ClassVar[str] = "order"

    factor: OneLine = ""
    falling: Annotated[tuple[OneOrMore, ...], AsTuple] = ()
    sides: Annotated[tuple[_Group, ...], AsTuple] = ()
    of: Choice = Field(default_factory=dict)
    to: Choice = Field(default_factory=dict)
    distance: bool = False

    def choices(self) -> Mapping[str, Levels]:
        every = (side for group in self.sides for side in group)
        return {f"side {n}": side for n, side in enumerate(every, 1)} or {"of": self.of, "to": self.to}

    def listed_factors(self) -> tuple[str, Sequence[str]]:
        return "factor", (self.factor,) if self.factor else ()

    def check(self, claim: Claim, study: Study) -> None:
        """Raise FieldError unless the order is of levels of one factor, or of sides, and has two or more entries."""
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
        groups: list[list[tuple[str, list[Levels]]]] = [
            [(str(level), self._sides_at(level)) for level in group] for group in self.falling
        ] or [[(without_common(side, {}), [side]) for side in group] for group in self.sides]
        entries = [entry for group in groups for entry in group]
        weights, n_measured, n_conditions = cells.sides([side for _, sides in entries for side in sides], self.at)
        n_sides = len(weights) // len(entries)  # of each entry
        of_entries = iter([weights[at * n_sides : (at + 1) * n_sides] for at in range(len(entries))])
        ordered = [[(label, next(of_entries)) for label, _ in group] for group in groups]
        compare = farther if self.distance else larger
        parts: list[ClaimContrast] = []
        for upper, lower in itertools.pairwise(ordered):
            for (first, above), (second, below) in itertools.product(upper, lower):
                if n_sides == 1:
                    parts.append(direction(f"{first} / {second}", above[0], below[0], True, cells))
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
