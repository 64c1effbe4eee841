"""The shape of a claims file as pydantic models. Importing this module imports pydantic; only `load_claims` does."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from lastro.study.model import NAME_PATTERN
from lastro.study.schema import ALevel, OneLine, OneOrMoreLevels, Prose, StrictTable

Some = Annotated[OneLine, Field(min_length=1)]
Side = Annotated[dict[str, OneOrMoreLevels], Field(min_length=1)]
At = Annotated[dict[str, OneOrMoreLevels], Field(default_factory=dict)]


def _listed(tables: object) -> object:
    return [tables] if isinstance(tables, dict) else tables


class SourceTable(StrictTable):
    """The source of the claims."""

    title: OneLine = ""
    authors: OneLine = ""
    year: int | None = Field(default=None, ge=1900, le=2200)


class CompareTable(StrictTable):
    """Two sides, each a choice of levels of the same factors."""

    metric: Some
    of: Side
    to: Side
    at: At


class RecoveryTable(StrictTable):
    """Three choices of levels of the same factors."""

    metric: Some
    ideal: Side
    without: Side
    protected: Side
    at: At


class OrderTable(StrictTable):
    """Levels, or groups of levels, of one factor in falling order: of means or, with `of` and `to`, of effects.

    With `distance`, of how far `of` and `to` are apart, in either direction. Or `sides`, each a choice of levels of the
    same factors, or a list of such choices."""

    metric: Some
    factor: OneLine = ""
    falling: list[OneOrMoreLevels] = Field(default_factory=list)
    sides: list[Annotated[list[Side], BeforeValidator(_listed)]] = Field(default_factory=list)
    of: dict[str, OneOrMoreLevels] = Field(default_factory=dict)
    to: dict[str, OneOrMoreLevels] = Field(default_factory=dict)
    distance: bool = False
    at: At


class AlikeTable(StrictTable):
    metric: Some
    factor: Some
    levels: list[ALevel] = Field(min_length=2)
    at: At


class AdditiveTable(StrictTable):
    metric: Some
    factors: list[OneLine] = Field(min_length=2, max_length=2)
    at: At


class ExtremeTable(StrictTable):
    """Two sides, each a choice of levels of the same factors, and the levels over which their ratio has its extreme.

    `also` are further metrics over which it has it."""

    metric: Some
    also: list[Some] = Field(default_factory=list, max_length=20)
    of: Side
    to: Side
    over: Side
    at: At


class LevelTable(StrictTable):
    """A claim on a mean itself: a value with its tolerance, or a bound."""

    metric: Some
    value: float | None = None
    tolerance: float | None = Field(default=None, gt=0)
    at_most: float | None = None
    at_least: float | None = None
    unit: Some
    at: At


class PublishedTable(StrictTable):
    """A figure of the source, in its own unit; or the `table` of this file in which it is printed.

    `columns` are the two metrics whose cells are printed with a claim on a level that follows from them."""

    table: OneLine = ""
    columns: list[OneLine] = Field(default_factory=list)
    ratio: float | None = Field(default=None, gt=0)
    share: float | None = None
    difference: float | None = None
    unit: OneLine = ""
    tolerance: float | None = Field(default=None, gt=0)
    printed: OneLine = ""


class ContradictionTable(StrictTable):
    """A passage of the same source that contradicts a claim."""

    says: Some
    says_in: dict[str, OneLine] = Field(default_factory=dict)
    where: Some


class StandInTable(StrictTable):
    """Levels in place of those that were published, by factor, and the metric by which they are judged."""

    levels: Annotated[dict[str, dict[str, OneOrMoreLevels]], Field(min_length=1)]
    metric: OneLine = ""


class ClaimTable(StrictTable):
    """One claim: a sentence, its place in the source, and exactly one of the seven statements."""

    id: str = Field(pattern=f"^{NAME_PATTERN}$", max_length=64)
    says: Annotated[OneLine, Field(min_length=1)]
    says_in: dict[str, OneLine] = Field(default_factory=dict)
    where: OneLine = ""
    compare: CompareTable | None = None
    recovery: RecoveryTable | None = None
    order: OrderTable | None = None
    alike: AlikeTable | None = None
    additive: AdditiveTable | None = None
    level: LevelTable | None = None
    extreme: ExtremeTable | None = None
    direction: Literal["higher", "lower", "alike"] | None = None
    margin: float | None = Field(default=None, gt=0, le=10)
    slight: float | None = Field(default=None, gt=0, le=1)
    note: Prose = ""
    note_in: dict[str, Prose] = Field(default_factory=dict)
    published: PublishedTable | None = None
    contradicted_by: ContradictionTable | None = None
    stand_in: Annotated[list[StandInTable], BeforeValidator(_listed)] = Field(default_factory=list)


class PassageTable(StrictTable):
    """What a table and a figure of the source have in common."""

    id: str = Field(pattern=f"^{NAME_PATTERN}$", max_length=64)
    says: Some
    says_in: dict[str, OneLine] = Field(default_factory=dict)
    where: Some
    note: Prose = ""
    note_in: dict[str, Prose] = Field(default_factory=dict)
    at: At


class ColumnTable(StrictTable):
    """A column of numbers: their metric, their unit as printed, its heading, and levels that it alone has."""

    metric: Some
    unit: Some
    heading: OneLine = ""
    at: At


class RowTable(StrictTable):
    """A row: its levels, and a cell for each column, as printed."""

    at: Side
    printed: list[OneLine] = Field(min_length=1)


class TableTable(PassageTable):
    """A table of the source."""

    columns: list[ColumnTable] = Field(min_length=1, max_length=20)
    rows: list[RowTable] = Field(min_length=1, max_length=200)
    stand_in: Annotated[list[StandInTable], BeforeValidator(_listed)] = Field(default_factory=list)


class FigureTable(PassageTable):
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
    """Claims on one study. `tables_from` is another file beside it, whose tables the claims may read, too."""

    source: SourceTable = SourceTable()
    tables_from: str = Field(default="", pattern=r"^$|^[A-Za-z0-9][A-Za-z0-9_-]*\.toml$")
    claim: list[ClaimTable] = Field(min_length=1, max_length=1000)
    table: list[TableTable] = Field(default_factory=list, max_length=100)
    figure: list[FigureTable] = Field(default_factory=list, max_length=100)


KINDS = ("compare", "recovery", "order", "alike", "additive", "level", "extreme")
