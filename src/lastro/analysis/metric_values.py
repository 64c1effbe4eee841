"""The valid values of one metric by treatment and block, with the factors that vary, as the analysis needs them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lastro.analysis.build import describe_points
from lastro.analysis.campaign import CampaignResults, Cell, MetricView, Point, Row, by_block
from lastro.grouping import by_key
from lastro.stats.intervals import Summary
from lastro.study.fraction import FULL, Fraction

if TYPE_CHECKING:
    from lastro.stats.block_model import BlockModel

LevelsOf = Mapping[str, str]
Sides = tuple[dict[int, float], dict[int, float]]


@dataclass(frozen=True, slots=True)
class MetricValues:
    """The valid values of one metric.

    `cells` is {treatment: {block: value}}, without empty cells. `factors` are the factors that vary among these
    treatments, with their measured levels in the study's order; `references` has the reference level of each. `planned`
    has the levels of every treatment of the design; `model` is that of the cells, `step` the resolution of the values,
    and `summaries` has that of each cell. `fraction` is that of the factors that vary here."""

    cells: Mapping[int, Mapping[int, float]]
    levels: Mapping[int, LevelsOf]
    factors: Mapping[str, tuple[str, ...]]
    references: Mapping[str, str]
    confidence: float
    model: BlockModel | None = None
    planned: tuple[LevelsOf, ...] = ()
    step: float = 0.0
    summaries: Mapping[int, Summary] = field(default_factory=dict)
    fraction: Fraction = FULL

    @property
    def n(self) -> int:
        return sum(map(len, self.cells.values()))

    @property
    def blocks(self) -> frozenset[int]:
        return frozenset(block for cell in self.cells.values() for block in cell)

    @property
    def complete(self) -> bool:
        """True if every combination of the measured levels was measured, or every one in the fraction."""
        return len(self.cells) * self.fraction.size == math.prod(map(len, self.factors.values()))

    def aliases(self, *effect: str) -> tuple[str, ...]:
        """Return the main effects and interactions of two factors that are measured together with an effect."""
        return tuple(self.fraction.text(alias) for alias in self.fraction.aliases(effect) if len(alias) <= 2)

    @property
    def comparable(self) -> list[int]:
        """The treatments to compare. One with a single value has no spread, and would prevent an interval for all
        others: it is left out where another has two."""
        least = min(2, max(map(len, self.cells.values()), default=0))
        return [index for index, cell in self.cells.items() if len(cell) >= least]

    def trials(self) -> Iterator[tuple[int, int, float]]:
        """Yield (treatment, block, value) for every trial."""
        for index, cell in self.cells.items():
            for block, value in cell.items():
                yield index, block, value

    def planned_combinations(self, factor: str) -> int:
        """Return with how many combinations of the other factors' levels the design has each level of this factor."""
        if factor in self.fraction.halved:
            return len(self.planned) // 2
        others = [{name: level for name, level in at.items() if name != factor} for at in self.planned]
        return len({tuple(sorted(at.items())) for at in others})

    def combinations(self, factor: str, given: LevelsOf) -> list[dict[str, int]]:
        """Return {level of the factor: treatment} for every measured combination of the other factors' levels.

        Only combinations with the levels in `given` are included. In a fraction, no treatments differ in a halved
        factor alone: they are paired as they come, since all of them together are balanced."""
        halved = factor in self.fraction.halved
        if halved and not self.fraction.whole:
            return []
        found: dict[tuple[str | int, ...], dict[str, int]] = {}
        places: Counter[str] = Counter()
        others = [name for name in self.factors if name != factor]
        for index in self.comparable:
            levels = self.levels[index]
            if all(levels[name] == level for name, level in given.items()):
                place = places[levels[factor]] if halved else 0
                places[levels[factor]] += 1
                key = (place,) if halved else tuple(levels[name] for name in others)
                found.setdefault(key, {})[levels[factor]] = index
        return list(found.values())

    def sides(self, factor: str, pairs: Iterable[tuple[str, str]], given: LevelsOf | None = None) -> list[Sides]:
        """Return the weights of the means of each two levels, over the combinations with both; empty if none has."""
        found = self.combinations(factor, given or {})
        both = [(level, to, [at for at in found if level in at and to in at]) for level, to in pairs]
        return [
            ({at[level]: 1 / len(shared) for at in shared}, {at[to]: 1 / len(shared) for at in shared})
            for level, to, shared in both
        ]


def measured(view: MetricView) -> MetricValues:
    """Return the valid values of a metric.

    Treatments with a value that is only a lower bound are left out: no effect or test may treat it as exact."""
    report = view.report
    exact = [(row, cell) for row, cell in view if cell.points and not cell.bounded]
    levels = {row.treatment.index: _texts(row) for row, _ in exact}
    factors = {}
    for factor in report.varying:
        texts = {of[factor.name] for of in levels.values()}
        if len(texts) > 1:
            factors[factor.name] = tuple(text for level in factor.levels if (text := str(level)) in texts)
    cells = {row.treatment.index: by_block(cell.points) for row, cell in exact}
    least = min(2, max(map(len, cells.values()), default=0))
    comparable = [levels[index] for index, cell in cells.items() if len(cell) >= least]
    return MetricValues(
        cells=cells,
        levels=levels,
        factors=factors,
        references={name: _reference(report, name, measured) for name, measured in factors.items()},
        confidence=view.confidence,
        model=view.model,
        planned=tuple(_texts(row) for row in report.rows),
        step=view.step,
        summaries={row.treatment.index: cell.summary for row, cell in exact if cell.summary},
        fraction=Fraction.of(report.study).within(factors, comparable),
    )


def pooled(view: MetricView, cells: Sequence[Cell]) -> Summary:
    """Return the summary of one treatment, or the mean over several with the interval of their means in each block."""
    alone = cells[0].summary
    if len(cells) == 1 and alone is not None:
        return alone
    blocks = by_key((point.block, point) for cell in cells for point in cell.points)
    bounded = sum(cell.bounded for cell in cells)
    whole = [_mean_of(found) for found in blocks.values() if len(found) == len(cells)]
    mean = math.fsum(cell.summary.mean for cell in cells if cell.summary) / len(cells)
    known = len(whole) > 1 and not bounded
    interval = describe_points(view.metric, whole, view.confidence, view.step).interval if known else None
    return Summary(sum(len(cell.points) for cell in cells), mean, None, interval, bounded)


def _mean_of(points: Sequence[Point]) -> Point:
    """Return the mean of the points of one block."""
    value, width = (math.fsum(each) / len(points) for each in zip(*((p.value, p.width) for p in points), strict=True))
    return points[0]._replace(value=value, width=width)


def _texts(row: Row) -> dict[str, str]:
    return {name: str(level) for name, level in row.treatment.levels.items()}


def _reference(report: CampaignResults, factor: str, levels: Sequence[str]) -> str:
    """Return the baseline's level of the factor if it was measured, otherwise the first measured level."""
    wished = str(report.study.design.baseline.get(factor, levels[0]))
    return wished if wished in levels else levels[0]
