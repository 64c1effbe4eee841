"""The printed tables and figures of a publication, as frozen data.

Reports show them next to the campaign's numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from lastro.study.model import NAME_PATTERN, Levels
from lastro.study.problems import FieldError, shown
from lastro.study.schema import OneLine, Prose
from lastro.study.sides import AsTuple, Choice, FrozenTable, NonEmptyLine, Side, StandIns

_NUMBER = r"-?\d+(?:[.,]\d+)?"
_PRINTED = re.compile(rf"({_NUMBER})\s*%?(?:\s*±\s*{_NUMBER}\s*%?)?")
_SAME_UNITS = {"Mbps": "Mbit/s"}  # {unit as printed: the same unit as metrics spell it}


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
    """A column of a printed table: the metric of its numbers, and their unit as printed.

    `at` are the levels that apply only to this column. `heading` is the name of the column in the source, if it differs
    from the name of the metric."""

    metric: NonEmptyLine
    unit: NonEmptyLine
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
    """A row of a printed table: `at` are its levels, and `printed` has the text of the cell in each column."""

    at: Side
    printed: Annotated[tuple[OneLine, ...], Field(min_length=1), AsTuple]

    @property
    def cells(self) -> tuple[PrintedCell, ...]:
        return tuple(map(PrintedCell.of, self.printed))


class Passage(FrozenTable):
    """A table or a figure of the source."""

    id: str = Field(pattern=f"^{NAME_PATTERN}$", max_length=64)
    says: NonEmptyLine  # its title, in English
    says_in: dict[str, OneLine] = Field(default_factory=dict)  # {language code: translation of `says`}
    where: NonEmptyLine  # its place in the source
    note: Prose = ""  # how this study deviates from the source, in English
    note_in: dict[str, Prose] = Field(default_factory=dict)  # {language code: translation of `note`}
    at: Choice = Field(default_factory=dict)  # levels that apply to all of its numbers

    def title(self, language: str) -> str:
        return self.says_in.get(language, self.says)

    def notes(self, language: str) -> str:
        return self.note_in.get(language, self.note)


class PrintedTable(Passage):
    """A table of the source. A cell is a mean over the levels of all factors that neither the table nor the cell names.

    `stand_in` has the levels to use instead of published levels for which a campaign has no valid trial."""

    columns: Annotated[tuple[PrintedColumn, ...], Field(min_length=1, max_length=20), AsTuple]
    rows: Annotated[tuple[PrintedRow, ...], Field(min_length=1, max_length=200), AsTuple]
    stand_in: StandIns = ()

    def cell(self, metric: str, levels: Levels) -> tuple[PrintedColumn, PrintedCell]:
        """Return the cell of a metric whose row and column have only levels in `levels`, with its column.

        Raises: FieldError if there is not exactly one such cell."""
        cells = []
        for row in self.rows:
            for column, cell in zip(self.columns, row.cells, strict=False):  # a wrong number of cells is reported
                if column.metric == metric and {**row.at, **column.at}.items() <= dict(levels).items():
                    cells.append((column, cell))
        if len(cells) != 1:
            where = ", ".join(f"{name} = {'|'.join(map(str, of_factor))}" for name, of_factor in levels.items())
            raise FieldError(f"table {shown(self.id)} has no single cell of {metric} at {where}")
        return cells[0]


@dataclass(frozen=True, slots=True)
class BarFigure:
    """A figure of bars: a panel per metric, in it a group for each of `groups`, and in each group the same `bars`.

    Groups and bars are given by their levels. If groups have only one bar, this bar has no levels."""

    passage: Passage
    at: Levels  # levels of all bars
    metrics: tuple[str, ...]
    groups: tuple[Levels, ...]
    bars: tuple[Levels, ...]
    marks: tuple[str, ...]  # ids of claims whose published values are drawn next to the bars


@dataclass(frozen=True, slots=True)
class LineFigure:
    """A figure of lines over time: a panel for each of `panels`, and in it a line for each of `lines`.

    Panels and lines are given by their levels."""

    passage: Passage
    at: Levels
    series: str  # name of a figure of the scenario
    line: str  # name of the line in that figure whose series are drawn
    panels: tuple[Levels, ...]
    lines: tuple[Levels, ...]
    marks: tuple[str, ...]  # ids of claims about the level of a metric, drawn as horizontal lines
    times: tuple[PrintedTable, ...]  # tables of times, drawn as vertical lines in the colours of the lines


PrintedFigure = BarFigure | LineFigure
