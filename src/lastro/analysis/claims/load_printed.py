"""The shape of a claims file; check its tables and figures, and read the published figures of claims from tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pydantic import Field

from lastro.analysis.claims.check import check_factor, check_metric, factors_of, units_of
from lastro.analysis.claims.claim import Claim, PublishedFigure, Source
from lastro.analysis.claims.kinds import AnyClaim
from lastro.errors import did_you_mean
from lastro.study.model import Study
from lastro.study.printed import BarFigure, LineFigure, Passage, PrintedFigure, PrintedTable
from lastro.study.problems import FieldError, Key, Problems, shown
from lastro.study.schema import OneLine, StrictTable
from lastro.study.sides import Side

_Sides = dict[tuple[Key, ...], Mapping[str, Any]]  # {place in the file: {factor: levels}}
_FORMS = "a figure has `metrics`, `groups` and mostly `bars`, or `series`, `panels` and `lines`"


class FigureTable(Passage):
    """A figure of the source: bars (`metrics`, `groups`, `bars`), or lines over time (`series`, `panels`, `lines`)."""

    metrics: list[OneLine] = Field(default_factory=list, max_length=4)
    groups: list[Side] = Field(default_factory=list, max_length=20)
    bars: list[Side] = Field(default_factory=list, max_length=8)
    series: OneLine = ""
    line: OneLine = ""
    panels: list[Side] = Field(default_factory=list, max_length=36)
    lines: list[Side] = Field(default_factory=list, max_length=8)
    marks: list[OneLine] = Field(default_factory=list)
    times: list[OneLine] = Field(default_factory=list)


class ClaimsFile(StrictTable):
    """The claims about one study. `tables_from` is a file in the same directory whose tables they may use, too."""

    source: Source = Source()
    tables_from: str = Field(default="", pattern=r"^$|^[A-Za-z0-9][A-Za-z0-9_-]*\.toml$")
    claim: list[AnyClaim] = Field(min_length=1, max_length=1000)
    table: list[PrintedTable] = Field(default_factory=list, max_length=100)
    figure: list[FigureTable] = Field(default_factory=list, max_length=100)


def checked_tables(shape: ClaimsFile, study: Study, problems: Problems) -> tuple[PrintedTable, ...]:
    """Return the tables of a claims file, and record a problem for each entry that does not fit this study."""
    check_ids("table", shape.table, problems)
    for index, table in enumerate(shape.table):
        here = ("table", index)
        for place, column in enumerate(table.columns):
            with problems.at(*here, "columns", place, "metric"):
                check_metric(column.metric, study)
        sides: _Sides = {("at",): table.at}
        sides.update({("columns", place, "at"): column.at for place, column in enumerate(table.columns)})
        sides.update({("rows", place, "at"): row.at for place, row in enumerate(table.rows)})
        _check_sides(sides, here, study, problems)
        for place, row in enumerate(table.rows):
            with problems.at(*here, "rows", place, "printed"):
                if len(row.printed) != len(table.columns):
                    raise FieldError(f"has {len(row.printed)} cells for {len(table.columns)} columns")
    return tuple(shape.table)


def checked_figures(
    shape: ClaimsFile, tables: Mapping[str, PrintedTable], study: Study, problems: Problems
) -> tuple[PrintedFigure, ...]:
    """Return the figures of a claims file, and record a problem for each entry that does not fit this study."""
    check_ids("figure", shape.figure, problems)
    claims = [claim.id for claim in shape.claim]
    figures: list[PrintedFigure] = []
    for index, figure in enumerate(shape.figure):
        here = ("figure", index)
        # All sides in this figure, by their place in it.
        sides: _Sides = {("at",): figure.at}
        for key in ("groups", "bars", "panels", "lines"):
            sides.update({(key, place): side for place, side in enumerate(getattr(figure, key))})
        _check_sides(sides, here, study, problems)
        for name in figure.metrics:
            with problems.at(*here, "metrics"):
                check_metric(name, study)
        _check_known(figure.marks, claims, (*here, "marks"), problems)
        _check_known(figure.times, list(tables), (*here, "times"), problems)
        with problems.at(*here):
            figures.append(_figure(figure, tables))
    return tuple(figures)


def resolved(claim: Claim, tables: Mapping[str, PrintedTable], study: Study) -> PublishedFigure | None:
    """Return the figure published with a claim, read from its table if it names one.

    For a comparison, it is the ratio of the cells of the two sides; its tolerance is half of the effect, unless the
    file has one. None if the claim has no published figure. Raises: FieldError if the table does not have the cells."""
    given, stated = claim.published, claim.statements
    if given is None or not given.table:
        if given is not None and given.columns:
            raise FieldError("columns apply only to a figure of a `table`")
        return given
    if given.table not in tables:
        raise FieldError(f"there is no table {shown(given.table)}", partial(did_you_mean, given.table, tables))
    if given.given or given.printed:
        raise FieldError("has a figure and a table", "give one of them")
    if len(stated) != 1:
        return given
    cells = stated[0].cells_of(tables[given.table], given.columns)
    printed = PublishedFigure(printed="; ".join(column.printed(cell) for column, cell in cells))
    if "ratio" not in stated[0].figures or stated[0].is_equivalence(claim):
        return printed
    (column, of), (_, to) = cells
    if not of.value or not to.value:
        raise FieldError(f"no ratio follows from {shown(of.text)} and {shown(to.text)}")
    same = column.common_unit == units_of(study).get(stated[0].metric)
    return printed.model_copy(
        update={
            "ratio": round(of.value / to.value, 4),
            "tolerance": given.tolerance or round(abs(of.value / to.value - 1) / 2, 5),
            "difference": round(of.value - to.value, 6) if same else None,
            "unit": column.common_unit if same else "",
        }
    )


def _figure(figure: FigureTable, tables: Mapping[str, PrintedTable]) -> PrintedFigure:
    """Return a figure of bars or of lines. Raises: FieldError if it has keys of both, or lacks keys of either."""
    has_keys_of_lines = bool(figure.series or figure.line or figure.panels or figure.lines or figure.times)
    is_bars = bool(figure.metrics and figure.groups) and not has_keys_of_lines
    has_keys_of_bars = bool(figure.metrics or figure.groups or figure.bars)
    is_lines = bool(figure.series and figure.panels and figure.lines) and not has_keys_of_bars
    if is_bars == is_lines:
        raise FieldError("must have exactly one of two forms", _FORMS)
    at, marks = figure.at, tuple(figure.marks)
    if is_bars:
        groups, bars = (tuple(sides) for sides in (figure.groups, figure.bars or [{}]))
        return BarFigure(figure, at, tuple(figure.metrics), groups, bars, marks)
    times = tuple(tables[name] for name in figure.times if name in tables)
    panels, lines = (tuple(sides) for sides in (figure.panels, figure.lines))
    return LineFigure(figure, at, figure.series, figure.line, panels, lines, marks, times)


def check_ids(kind: str, entries: Sequence[Claim | Passage], problems: Problems) -> None:
    """Record a problem for each entry whose id an entry above it has."""
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        with problems.at(kind, index, "id"):
            if entry.id in seen:
                raise FieldError(f"{shown(entry.id)} is already the id of a {kind} above")
        seen.add(entry.id)


def _check_known(names: Sequence[str], known: Sequence[str], here: tuple[Key, ...], problems: Problems) -> None:
    """Add a problem for each name that is not `known`: not a claim, or not a table, of this file."""
    for name in names:
        with problems.at(*here):
            if name not in known:
                raise FieldError(f"{shown(name)} is not in this file", partial(did_you_mean, name, known))


def _check_sides(sides: _Sides, here: tuple[Key, ...], study: Study, problems: Problems) -> None:
    """Add a problem for each factor of these sides that the study does not have."""
    factors = factors_of(study)
    for key, side in sides.items():
        for name in side:
            with problems.at(*here, *key, name):
                check_factor(name, factors, study)
