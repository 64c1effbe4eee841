"""The valid values of one metric by treatment and block, with the factors that vary."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lastro.analysis.build import describe_points
from lastro.analysis.campaign import Cell, MetricView, Row, by_block, comparable_cells
from lastro.grouping import by_key
from lastro.stats.intervals import Summary
from lastro.study.fraction import FULL, Fraction

if TYPE_CHECKING:
    from lastro.stats.block_model import BlockModel

LevelsOf = Mapping[str, str]
Sides = tuple[dict[int, float], dict[int, float]]


@dataclass(frozen=True, slots=True)
class MetricValues:
    """The valid values of one metric. Here, treatments are those with a value, except in `planned`."""

    cells: Mapping[int, Mapping[int, float]]  # {treatment: {block: value}}, without empty cells
    levels: Mapping[int, LevelsOf]  # {treatment: its levels}
    # {factor that varies among the treatments: its measured levels, in the order of the study}
    factors: Mapping[str, tuple[str, ...]]
    references: Mapping[str, str]  # {factor: its reference level}
    confidence: float
    model: BlockModel | None = None  # fitted to the cells
    planned: tuple[LevelsOf, ...] = ()  # levels of every treatment of the design
    summaries: Mapping[int, Summary] = field(default_factory=dict)  # {treatment: summary of its cell}
    fraction: Fraction = FULL  # the measured fraction of the design, restricted to `factors`

    @property
    def n(self) -> int:
        return sum(map(len, self.cells.values()))

    @property
    def blocks(self) -> frozenset[int]:
        return frozenset(block for cell in self.cells.values() for block in cell)

    @property
    def complete(self) -> bool:
        """True if every combination of the measured levels (in a fraction, all that it includes) was measured."""
        return len(self.cells) * self.fraction.size == math.prod(map(len, self.factors.values()))

    def aliases(self, *effect: str) -> tuple[str, ...]:
        """Return the names of the main effects and two-factor interactions that are aliases of an effect."""
        return tuple(self.fraction.text(alias) for alias in self.fraction.aliases(effect) if len(alias) <= 2)

    @property
    def comparable(self) -> list[int]:
        """The treatments to compare: those with two values or more, or all if none has two."""
        return list(comparable_cells(self.cells))

    def trials(self) -> Iterator[tuple[int, int, float]]:
        """Yield (treatment, block, value) for every trial."""
        for index, cell in self.cells.items():
            for block, value in cell.items():
                yield index, block, value

    def planned_combinations(self, factor: str) -> int:
        """Return the number of combinations of levels of all factors except `factor` in the design."""
        if factor in self.fraction.halved:
            return len(self.planned) // 2
        others = [frozenset((name, of) for name, of in levels.items() if name != factor) for levels in self.planned]
        return len(set(others))

    def combinations(self, factor: str, given: LevelsOf) -> list[dict[str, int]]:
        """Return {level of the factor: treatment} for every measured combination of the other factors' levels.

        Only combinations with the levels in `given` are included. In a fraction, there are no treatments that differ
        only in a halved factor. So the treatments of each level are numbered, and those with equal numbers form a
        combination, which is balanced over the whole fraction. Empty if the fraction is not whole."""
        halved = factor in self.fraction.halved
        if halved and not self.fraction.whole:
            return []
        combinations: dict[tuple[str | int, ...], dict[str, int]] = {}
        places: Counter[str] = Counter()
        others = [name for name in self.factors if name != factor]
        for index in self.comparable:
            levels = self.levels[index]
            if all(levels[name] == level for name, level in given.items()):
                place = places[levels[factor]] if halved else 0
                places[levels[factor]] += 1
                key = (place,) if halved else tuple(levels[name] for name in others)
                combinations.setdefault(key, {})[levels[factor]] = index
        return list(combinations.values())

    def sides(self, factor: str, pairs: Iterable[tuple[str, str]], given: LevelsOf | None = None) -> list[Sides]:
        """Return the weights of both means of each pair of levels; they are empty if no combination has both levels."""
        combinations = self.combinations(factor, given or {})
        sides = []
        for level, other in pairs:
            shared = [by_level for by_level in combinations if level in by_level and other in by_level]
            weight = 1 / len(shared) if shared else 0.0
            of, to = ({by_level[side]: weight for by_level in shared} for side in (level, other))
            sides.append((of, to))
        return sides


def values_of(view: MetricView) -> MetricValues:
    """Return the valid values of a metric.

    Treatments with a value that is only a lower bound are left out: no effect or test may treat it as exact."""
    report = view.report
    exact = [(row, cell) for row, cell in view if cell.points and not cell.bounded]
    levels = {row.treatment.index: _texts(row) for row, _ in exact}
    factors, references = {}, {}
    for factor in report.varying:
        texts = {of_treatment[factor.name] for of_treatment in levels.values()}
        if len(texts) > 1:
            factors[factor.name] = measured = tuple(text for level in factor.levels if (text := str(level)) in texts)
            # The baseline's level if it was measured, otherwise the first measured level.
            of_baseline = str(report.study.design.baseline.get(factor.name, measured[0]))
            references[factor.name] = of_baseline if of_baseline in measured else measured[0]
    cells = {row.treatment.index: by_block(cell.points) for row, cell in exact}
    comparable = [levels[index] for index in comparable_cells(cells)]
    return MetricValues(
        cells=cells,
        levels=levels,
        factors=factors,
        references=references,
        confidence=view.confidence,
        model=view.model,
        planned=tuple(_texts(row) for row in report.rows),
        summaries={row.treatment.index: cell.summary for row, cell in exact if cell.summary},
        fraction=Fraction.of(report.study).within(factors, comparable),
    )


def pooled_summary(view: MetricView, cells: Sequence[Cell]) -> Summary:
    """Return the summary of the mean over several treatments; for a single treatment, the summary of its cell.

    The interval is computed from the means of those blocks that have values of all treatments. It is None with fewer
    than two such blocks, or if a value is only a lower bound. The summary has no standard deviation."""
    first = cells[0].summary
    if len(cells) == 1 and first is not None:
        return first
    blocks = by_key((point.block, point) for cell in cells for point in cell.points)
    bounded = sum(cell.bounded for cell in cells)
    complete = []
    for points in blocks.values():
        if len(points) == len(cells):  # one point for the block, with the means of values and of widths
            value = math.fsum(point.value for point in points) / len(points)
            width = math.fsum(point.width for point in points) / len(points)
            complete.append(points[0]._replace(value=value, width=width))
    mean = math.fsum(cell.summary.mean for cell in cells if cell.summary) / len(cells)
    has_interval = len(complete) > 1 and not bounded
    interval = describe_points(view.metric, complete, view.confidence, view.step).interval if has_interval else None
    return Summary(sum(len(cell.points) for cell in cells), mean, None, interval, bounded)


def _texts(row: Row) -> dict[str, str]:
    return {name: str(level) for name, level in row.treatment.levels.items()}
