"""The tables and figures of a source as it prints them, as frozen data: a report shows a campaign beside them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from lastro.study.model import NAME_PATTERN, Levels
from lastro.study.problems import FieldError, shown
from lastro.study.schema import OneLine, Prose
from lastro.study.sides import Choice, FrozenTable, Listed, Side, Some, StandIns

_NUMBER = r"-?\d+(?:[.,]\d+)?"
_PRINTED = re.compile(rf"({_NUMBER})\s*%?(?:\s*±\s*{_NUMBER}\s*%?)?")
_SAME_UNITS = {"Mbps": "Mbit/s"}  # as printed, and as metrics have them


@dataclass(frozen=True, slots=True)
class PrintedCell:
    """A cell as printed, such as '259,50' or '815 ± 0,15'; `value` is None where it is not a number."""

    text: str
    value: float | None

    @classmethod
    def of(cls, text: str) -> PrintedCell:
        number = _PRINTED.fullmatch(text.strip())
        return cls(text, float(number[1].replace(",", ".")) if number else None)


class PrintedColumn(FrozenTable):
    """A column of numbers: their metric, their unit as printed, and the levels that only this column has.

    `heading` is the name of the column in the source, where that says more than the metric."""

    metric: Some
    unit: Some
    heading: OneLine = ""
    at: Choice = Field(default_factory=dict)

    @property
    def common_unit(self) -> str:
        """The unit in the spelling of metrics."""
        return _SAME_UNITS.get(self.unit, self.unit)

    def printed(self, cell: PrintedCell) -> str:
        """Return a cell with its unit."""
        return cell.text if "%" in cell.text else f"{cell.text} {self.unit}"


class PrintedRow(FrozenTable):
    """A row of numbers: its levels, and a cell for each column, as printed."""

    at: Side
    printed: Annotated[tuple[OneLine, ...], Field(min_length=1), Listed]

    @property
    def cells(self) -> tuple[PrintedCell, ...]:
        return tuple(map(PrintedCell.of, self.printed))


class Passage(FrozenTable):
    """A table or a figure of the source: its title and note, in English and by language code, and its place there.

    The note says how this study deviates from what was published. `at` are the conditions of all its numbers."""

    id: str = Field(pattern=f"^{NAME_PATTERN}$", max_length=64)
    says: Some
    says_in: dict[str, OneLine] = Field(default_factory=dict)
    where: Some
    note: Prose = ""
    note_in: dict[str, Prose] = Field(default_factory=dict)
    at: Choice = Field(default_factory=dict)

    def title(self, language: str) -> str:
        return self.says_in.get(language, self.says)

    def notes(self, language: str) -> str:
        return self.note_in.get(language, self.note)


class PrintedTable(Passage):
    """A table of the source; what neither it nor a cell names is averaged.

    `stand_in` is what is measured in place of levels of which a campaign has no valid trial."""

    columns: Annotated[tuple[PrintedColumn, ...], Field(min_length=1, max_length=20), Listed]
    rows: Annotated[tuple[PrintedRow, ...], Field(min_length=1, max_length=200), Listed]
    stand_in: StandIns = ()

    def cell(self, metric: str, levels: Levels) -> tuple[PrintedColumn, PrintedCell]:
        """Return the one cell of a metric whose own levels are among `levels`.

        Raises: FieldError without one, or with several."""
        cells = [
            (column, cell)
            for row in self.rows
            for column, cell in zip(self.columns, row.cells, strict=False)  # a wrong number is reported
            if column.metric == metric and {**row.at, **column.at}.items() <= dict(levels).items()
        ]
        if len(cells) != 1:
            where = ", ".join(f"{name} = {'|'.join(map(str, own))}" for name, own in levels.items())
            raise FieldError(f"table {shown(self.id)} has no single cell of {metric} at {where}")
        return cells[0]


@dataclass(frozen=True, slots=True)
class BarFigure:
    """A figure of bars: a panel for each metric, a group for each choice of levels, and in each the same `bars`.

    A group of one bar has a side without levels. `marks` are the ids of claims whose published figures are drawn beside
    the bars."""

    passage: Passage
    at: Levels
    metrics: tuple[str, ...]
    groups: tuple[Levels, ...]
    bars: tuple[Levels, ...]
    marks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LineFigure:
    """A figure of lines over time, laid over each other: a panel for each choice of levels, a line for each other one.

    `series` is the name of a figure of the scenario whose series are drawn, `line` the one of its lines. `marks` are
    the ids of claims on levels, drawn across; `times` are tables of times, drawn upright in the colours of the
    lines."""

    passage: Passage
    at: Levels
    series: str
    line: str
    panels: tuple[Levels, ...]
    lines: tuple[Levels, ...]
    marks: tuple[str, ...]
    times: tuple[PrintedTable, ...]


PrintedFigure = BarFigure | LineFigure
