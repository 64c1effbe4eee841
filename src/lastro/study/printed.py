"""The tables and figures of a source as it prints them, as frozen data: a report shows a campaign beside them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lastro.study.sides import Levels, StandIn

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


@dataclass(frozen=True, slots=True)
class PrintedColumn:
    """A column of numbers: their metric, their unit as printed, and the levels that only this column has.

    `heading` is the name of the column in the source, where that says more than the metric."""

    metric: str
    unit: str
    heading: str
    at: Levels

    @property
    def common_unit(self) -> str:
        """The unit in the spelling of metrics."""
        return _SAME_UNITS.get(self.unit, self.unit)

    def printed(self, cell: PrintedCell) -> str:
        """Return a cell with its unit."""
        return cell.text if "%" in cell.text else f"{cell.text} {self.unit}"


@dataclass(frozen=True, slots=True)
class PrintedRow:
    """A row of numbers: its levels, and a cell for each column."""

    at: Levels
    cells: tuple[PrintedCell, ...]


@dataclass(frozen=True, slots=True)
class Passage:
    """The title and the note of a table or a figure, in English and by language code, and its place in the source.

    The note says how this study deviates from what was published."""

    id: str
    says: str
    says_in: Mapping[str, str]
    where: str
    note: str
    note_in: Mapping[str, str]

    def title(self, language: str) -> str:
        return self.says_in.get(language, self.says)

    def notes(self, language: str) -> str:
        return self.note_in.get(language, self.note)


@dataclass(frozen=True, slots=True)
class PrintedTable:
    """A table of the source. `at` are the conditions of all its cells in this study; what it does not name is averaged.

    `stand_in` is what is measured in place of levels of which a campaign has no valid trial."""

    passage: Passage
    at: Levels
    columns: tuple[PrintedColumn, ...]
    rows: tuple[PrintedRow, ...]
    stand_in: tuple[StandIn, ...] = ()

    def find(self, metric: str, levels: Levels) -> tuple[PrintedColumn, PrintedCell] | None:
        """Return the one cell of a metric whose own levels are among `levels`; None without one, or with several."""
        found = [
            (column, cell)
            for row in self.rows
            for column, cell in zip(self.columns, row.cells, strict=False)  # a wrong number is reported
            if column.metric == metric and {**row.at, **column.at}.items() <= dict(levels).items()
        ]
        return found[0] if len(found) == 1 else None


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
