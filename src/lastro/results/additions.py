"""What a scenario adds to a report of its trials, as data: the report draws it, and knows no scenario. Pure.

Texts are English messages, marked by `N_`, so that a report can translate them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Milestones:
    """A figure of metrics that begin at the same moment: their means on one axis of time, a row for each treatment.

    `name` is the stem of its file; `metrics` are in the order in which they usually end."""

    name: str
    title: str
    axis: str
    metrics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AlignedSeries:
    """A figure of series with a value for each second, aligned at a mark: a panel for each treatment.

    `name` is the stem of its file; `how` describes the numbers. `lines` are the series that each line adds up. The
    series of a trial begin at 0 of its marks (the note `timeline_s`), and are shown from `before_s` before the mark
    `begin` until the mark `end`. `back` is a later mark, drawn with the first one and described by `events`."""

    name: str
    title: str
    how: str
    axis: str
    quantity: str
    lines: Mapping[str, tuple[str, ...]]
    begin: str
    end: str
    before_s: int = 0
    back: str = ""
    events: str = ""


ScenarioFigure = Milestones | AlignedSeries


@dataclass(frozen=True, slots=True)
class SizedFactor:
    """A factor whose levels have sizes, such as a topology: the report shows how each metric grows with them.

    `measures` are the names of the sizes, which trials note as `network`; `columns` are their headings. `of_level`
    returns the sizes of a level by its name, for a level without a trial; None if the name does not say. `heading` is
    that of the sizes, with the placeholder {factor}; `explanation` says how to read the verdicts."""

    factor: str
    measures: tuple[str, ...]
    columns: tuple[str, ...]
    heading: str
    explanation: str
    of_level: Callable[[str], tuple[int, ...] | None]
