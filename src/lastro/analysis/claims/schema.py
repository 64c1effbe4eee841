"""The shape of a claims file as pydantic models. Importing this module imports pydantic."""

from __future__ import annotations

from pydantic import Field

from lastro.analysis.claims.claim import Source
from lastro.analysis.claims.kinds import AnyClaim
from lastro.study.printed import Passage, PrintedTable
from lastro.study.schema import OneLine, StrictTable
from lastro.study.sides import Side


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
