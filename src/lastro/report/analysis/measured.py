"""The valid values of one metric, arranged for the analysis: by treatment and block, with the factors that vary."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lastro.report.model import Cell, Report, Row
from lastro.stats.censored import median_of_bounded
from lastro.stats.order import Estimate
from lastro.study.design import Treatment

LevelsOf = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Measured:
    """`cells` are {treatment: {block: value}}, only those with values; `factors` those that vary among them, with their
    measured levels in the study's order; `references` the level of each against which the others are set; `planned` the
    levels of every treatment of the design."""

    cells: Mapping[int, Mapping[int, float]]
    levels: Mapping[int, LevelsOf]
    factors: Mapping[str, tuple[str, ...]]
    references: Mapping[str, str]
    confidence: float
    planned: tuple[LevelsOf, ...] = ()

    @property
    def n(self) -> int:
        return sum(map(len, self.cells.values()))

    @property
    def blocks(self) -> frozenset[int]:
        return frozenset(block for cell in self.cells.values() for block in cell)

    @property
    def complete(self) -> bool:
        """Whether every combination of the measured levels was measured."""
        return len(self.cells) == math.prod(map(len, self.factors.values()))

    def trials(self) -> Iterator[tuple[int, int, float]]:
        """(treatment, block, value) of every trial."""
        for index, cell in self.cells.items():
            for block, value in cell.items():
                yield index, block, value

    def planned_combinations(self, factor: str) -> int:
        """How many combinations of the other factors' levels the design has."""
        others = [{name: level for name, level in at.items() if name != factor} for at in self.planned]
        return len({tuple(sorted(at.items())) for at in others})

    def combinations(self, factor: str, given: LevelsOf) -> list[dict[str, int]]:
        """{level of the factor: treatment} for every combination of the other factors' levels in which `given` holds

        and anything was measured."""
        found: dict[tuple[str, ...], dict[str, int]] = {}
        others = [name for name in self.factors if name != factor]
        for index in self.cells:
            levels = self.levels[index]
            if all(levels[name] == level for name, level in given.items()):
                found.setdefault(tuple(levels[name] for name in others), {})[levels[factor]] = index
        return list(found.values())


def measured(report: Report, index: int) -> Measured:
    """The values of the report's metric number `index`.

    Treatments with a value that is only a lower bound stay out: no effect or test may take it for exact."""
    rows = [row for row in report.rows if row.cells[index].points and not row.cells[index].bounded]
    levels = {row.treatment.index: _texts(row) for row in rows}
    factors = {}
    for factor in report.varying:
        here = {of[factor.name] for of in levels.values()}
        if len(here) > 1:
            factors[factor.name] = tuple(text for level in factor.levels if (text := str(level)) in here)
    return Measured(
        cells={row.treatment.index: {p.block: p.value for p in row.cells[index].points} for row in rows},
        levels=levels,
        factors=factors,
        references={name: _reference(report, name, found) for name, found in factors.items()},
        confidence=report.study.design.confidence,
        planned=tuple(_texts(row) for row in report.rows),
    )


def medians(report: Report, index: int, confidence: float) -> tuple[tuple[Treatment, Estimate], ...]:
    """Of the metric's valid values, treatment by treatment; those without a value are left out."""
    return tuple(
        (row.treatment, median_of(row.cells[index], confidence)) for row in report.rows if row.cells[index].points
    )


def median_of(cell: Cell, confidence: float) -> Estimate:
    """Of a cell that has values."""
    return median_of_bounded([p.value for p in cell.points], [p.at_least for p in cell.points], confidence)


def _texts(row: Row) -> dict[str, str]:
    return {name: str(level) for name, level in row.treatment.levels.items()}


def _reference(report: Report, factor: str, levels: Sequence[str]) -> str:
    """The baseline's level of the factor where it was measured, else the first level that was."""
    wished = str(report.study.design.baseline.get(factor, levels[0]))
    return wished if wished in levels else levels[0]
