"""What a level of a factor does, against a reference level: main effects, simple effects and interactions.

Every effect is a contrast of cell means, a cell being one combination of levels. A main effect weighs the cells of the
other factors equally, over those where both levels were measured; so an unbalanced campaign does not favour the
treatments that happened to yield more trials. Sources: Montgomery, Design and Analysis of Experiments (8th ed.),
sections 3.5 and 5.3; Searle, Linear Models for Unbalanced Data (1987), chapter 4 (cell means models)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from lastro.stats.contrasts import Contrast, as_ratio, from_standard_error, linear
from lastro.stats.notes import Note
from lastro.stats.pairing import Pairing, blocks_to_pair

if TYPE_CHECKING:
    from lastro.stats._cell_fit import CellFit

Level = object
Cell = tuple[Level, ...]
# `pooled`: one residual variance for all cells, from the model with its blocks. `separate`: each contrast has its own,
# block by block where the cells share blocks; where some of their trials are missing, from the residuals of its own
# cells, after taking out the blocks; without blocks, by Welch and Satterthwaite. Separate is the default and no test of
# spreads chooses: where one level spreads four times as much as others, pooled intervals of 95 % cover 89 %, and with
# five blocks so do those that Brown and Forsythe's test chose, since it sees too little to warn.
Spread = Literal["separate", "pooled"]

# Why an effect is absent; the report's catalogues translate these.
NOWHERE_BOTH = "no combination of the other factors has both {first} and {second}"
NO_RESIDUAL = "no degrees of freedom are left for the residual: an interval needs repeated trials"
APART = "the cells share no blocks, not even by way of others"


@dataclass(frozen=True, slots=True)
class LevelEffect:
    """A level of `factor` against `reference`, at the levels `at` of other factors (none: a main effect).

    `contrast` is a difference in the unit of the values or, of a log model, a ratio (1: no effect). It is averaged
    over `strata` combinations of the factors not named in `at`, of the `possible` that hold either level."""

    factor: str
    level: Level
    reference: Level
    at: Mapping[str, Level]
    contrast: Contrast
    strata: int
    possible: int


@dataclass(frozen=True, slots=True)
class Interaction:
    """What changing both factors does beyond the sum (of a log model: the product) of changing either alone.

    `levels` against `references`, in the order of `factors`; the difference of the differences, or ratio of ratios."""

    factors: tuple[str, str]
    levels: tuple[Level, Level]
    references: tuple[Level, Level]
    contrast: Contrast
    strata: int


@dataclass(frozen=True)
class CellMeans:
    """Values arranged in cells. With `log`, means are geometric, and effects are ratios of them.

    `cells` maps the levels, in the order of `names`, to the values by block, or by running number where there are no
    blocks or a cell has two trials in one."""

    names: tuple[str, ...]
    cells: Mapping[Cell, Mapping[int, float]]
    has_blocks: bool
    confidence: float
    spread: Spread
    log: bool
    _rows: tuple[tuple[Cell, int, float], ...] = field(repr=False)

    @classmethod
    def of(
        cls,
        values: Sequence[float],
        factors: Mapping[str, Sequence[Level]],
        *,
        block: Sequence[int] | None = None,
        confidence: float = 0.95,
        spread: Spread = "separate",
        log: bool = False,
    ) -> CellMeans:
        """Arranges `values`, of which `factors` give the levels and `block` the block.

        Raises: ValueError for unequal lengths, for no values, and with `log` for values that are not > 0."""
        if not values:
            raise ValueError("no values, no effects")
        if log and min(values) <= 0:
            raise ValueError(f"logarithms need values above 0, and one is {min(values)}")
        keys = list(zip(*factors.values(), strict=True)) if factors else [()] * len(values)
        # A cell with two trials in one block cannot be paired block by block: its values are then only numbered.
        paired = block is not None and len(set(zip(keys, block, strict=True))) == len(values)
        cells: dict[Cell, dict[int, float]] = {}
        rows = []
        for number, (key, value) in enumerate(zip(keys, values, strict=True)):
            own = math.log(value) if log else value
            cells.setdefault(key, {})[block[number] if paired and block is not None else number] = own
            rows.append((key, block[number] if block is not None else 0, own))
        several = block is not None and len(set(block)) > 1
        return cls(tuple(factors), cells, several, confidence, spread, log, tuple(rows))

    def levels(self, factor: str) -> tuple[Level, ...]:
        """The levels that were measured, in order of first appearance. Raises: ValueError for an unknown factor."""
        index = self._index(factor)
        return tuple(dict.fromkeys(cell[index] for cell in self.cells))

    def main_effects(self, factor: str, reference: Level) -> tuple[LevelEffect, ...]:
        """Every other level against the reference, averaged over the cells of the other factors.

        Raises: ValueError for an unknown factor or level."""
        self._index(factor, reference)
        others = [level for level in self.levels(factor) if level != reference]
        return tuple(self._level_effect(factor, level, reference, {}) for level in others)

    def simple_effects(self, factor: str, reference: Level, at: Sequence[str] | None = None) -> tuple[LevelEffect, ...]:
        """Every other level against the reference, at each combination of levels of the factors `at`, default all.

        Raises: ValueError for an unknown factor or level."""
        self._index(factor, reference)
        fixed = [name for name in self.names if name != factor] if at is None else list(at)
        places = [self._index(name) for name in fixed]
        combinations = dict.fromkeys(tuple(cell[place] for place in places) for cell in self.cells)
        return tuple(
            self._level_effect(factor, level, reference, dict(zip(fixed, combination, strict=True)))
            for combination in combinations
            for level in self.levels(factor)
            if level != reference
        )

    def interactions(
        self, first: str, first_reference: Level, second: str, second_reference: Level
    ) -> tuple[Interaction, ...]:
        """Every pair of other levels: (both - second alone) - (first alone - neither), over the remaining factors.

        Raises: ValueError for an unknown factor or level, or twice the same factor."""
        i, j = self._index(first, first_reference), self._index(second, second_reference)
        if i == j:
            raise ValueError(f"{first} cannot interact with itself")
        return tuple(
            self._interaction((i, j), (level, other), (first_reference, second_reference))
            for level in self.levels(first)
            for other in self.levels(second)
            if level != first_reference and other != second_reference
        )

    def means(self, factor: str) -> Mapping[Level, Contrast]:
        """The mean of each level, averaged over those cells of the other factors where every level was measured.

        Raises: ValueError for an unknown factor."""
        index, levels = self._index(factor), self.levels(factor)
        strata = self._strata((index,), [(level,) for level in levels], {})
        return {level: self._contrast([(1.0, (level,))], (index,), strata, levels) for level in levels}

    def contrast(self, weights: Mapping[Cell, float]) -> Contrast:
        """Any weighted sum of means of cells that have values. For a log model a ratio, if the weights sum to zero."""
        found = self._block_by_block(weights) if self.spread == "separate" else None
        found = found or self._adjusted(weights)
        return as_ratio(found) if self.log else found

    def _index(self, factor: str, level: Level | None = None) -> int:
        if factor not in self.names:
            raise ValueError(f"{factor} is not among the factors {', '.join(self.names)}")
        index = self.names.index(factor)
        if level is not None and all(cell[index] != level for cell in self.cells):
            raise ValueError(f"nothing was measured at {level} of {factor}")
        return index

    def _level_effect(self, factor: str, level: Level, reference: Level, at: Mapping[str, Level]) -> LevelEffect:
        place = (self._index(factor),)
        strata = self._strata(place, [(level,), (reference,)], at)
        possible = {*self._strata(place, [(level,)], at), *self._strata(place, [(reference,)], at)}
        contrast = self._contrast([(1.0, (level,)), (-1.0, (reference,))], place, strata, (level, reference))
        return LevelEffect(factor, level, reference, at, contrast, len(strata), len(possible))

    def _interaction(
        self, places: tuple[int, int], levels: tuple[Level, Level], references: tuple[Level, Level]
    ) -> Interaction:
        corners = [
            (1.0, levels),
            (-1.0, (levels[0], references[1])),
            (-1.0, (references[0], levels[1])),
            (1.0, references),
        ]
        strata = self._strata(places, [corner for _, corner in corners], {})
        contrast = self._contrast(
            corners, places, strata, (", ".join(map(str, levels)), ", ".join(map(str, references)))
        )
        return Interaction((self.names[places[0]], self.names[places[1]]), levels, references, contrast, len(strata))

    def _strata(self, places: tuple[int, ...], wanted: Sequence[Cell], at: Mapping[str, Level]) -> list[Cell]:
        """Combinations of the factors not in `places`, in accord with `at`, in which all wanted cells have values."""
        fixed = [(self.names.index(name), level) for name, level in at.items()]
        rests = dict.fromkeys(
            tuple(level for index, level in enumerate(cell) if index not in places)
            for cell in self.cells
            if all(cell[index] == level for index, level in fixed)
        )
        return [rest for rest in rests if all(_joined(places, own, rest) in self.cells for own in wanted)]

    def _contrast(
        self,
        corners: Sequence[tuple[float, Cell]],
        places: tuple[int, ...],
        strata: Sequence[Cell],
        named: Sequence[Level],
    ) -> Contrast:
        if not strata:
            why = Note(NOWHERE_BOTH, first=named[0], second=", ".join(map(str, named[1:])))
            return Contrast(None, None, None, None, 0, "unpaired", why)
        share = 1 / len(strata)
        return self.contrast({_joined(places, own, rest): w * share for w, own in corners for rest in strata})

    @cached_property
    def _fit(self) -> CellFit:
        from lastro.stats._cell_fit import CellFit

        cells, blocks, values = zip(*self._rows, strict=True)
        return CellFit.of(values, cells, blocks)

    def _block_by_block(self, weights: Mapping[Cell, float]) -> Contrast | None:
        """None where the cells share too few blocks for that, although there are blocks."""
        used = [self.cells[cell] for cell, weight in weights.items() if weight and cell in self.cells]
        if self.has_blocks and used and not blocks_to_pair(used):
            return None
        return linear(weights, self.cells, self.confidence)

    def _adjusted(self, weights: Mapping[Cell, float]) -> Contrast:
        """From the model of all cells with additive blocks, which takes out of each value what its block does."""
        estimate = self._fit.separate(weights) if self.spread == "separate" else self._fit.pooled(weights)
        n = sum(len(self.cells[cell]) for cell, weight in weights.items() if weight)
        pairing: Pairing = "unpaired"
        if self.has_blocks:
            n, pairing = self._fit.n_blocks, "paired"
        if estimate.apart:
            return Contrast(None, None, None, None, n, pairing, Note(APART))
        if estimate.error is None or estimate.df is None:
            return Contrast(estimate.value, None, None, None, n, pairing, Note(NO_RESIDUAL))
        return from_standard_error(estimate.value, estimate.error, estimate.df, self.confidence, n, pairing)


def _joined(places: tuple[int, ...], own: Cell, rest: Cell) -> Cell:
    """The cell with the levels `own` at the places and the levels `rest` at all others, in order."""
    levels, others = dict(zip(places, own, strict=True)), iter(rest)
    return tuple(levels[i] if i in levels else next(others) for i in range(len(own) + len(rest)))
