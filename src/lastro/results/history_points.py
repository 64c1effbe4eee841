"""The points of a history, one for each campaign, and the remarks of users on changes between them. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from lastro.results.samples import Metric

Levels = Mapping[str, str]  # {factor: level}, as text
Said = Literal["acknowledged", "muted", "unmuted"]


@dataclass(frozen=True, slots=True)
class KeptSummary:
    """The mean of a metric over the `n` valid trials of a treatment, with the ends of its interval, if it has one.

    `marks` are the kinds of remarks on the values, such as a generator that was the limit. With `bounded`, some values
    are only lower bounds, and so is the mean."""

    levels: Levels
    metric: str
    n: int
    mean: float
    low: float | None = None
    high: float | None = None
    marks: tuple[str, ...] = ()
    bounded: bool = False


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """A campaign: when its first trial began, what it measured, and all facts of its host that count.

    `settings` are the constants of its study. `label` is the user's word for it, such as a commit or a tag; empty
    without one."""

    campaign: str
    measured_utc: str
    label: str
    study: str
    scenario: str
    settings: Mapping[str, str]
    host: str
    facts: Mapping[str, str]
    metrics: tuple[Metric, ...]
    summaries: tuple[KeptSummary, ...]

    @property
    def name(self) -> str:
        return self.label or self.campaign


@dataclass(frozen=True, slots=True)
class HistoryRemark:
    """What a user said, and why: a change at the point `at` is known, or series are not judged, or judged again.

    It holds for the series of a `metric`, if given, and with these `levels`."""

    kind: Said
    said_utc: str
    text: str
    at: str = ""
    metric: str = ""
    levels: Levels = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class History:
    """All points of a file in the order in which they were measured, and all remarks in the order of their making."""

    points: tuple[HistoryPoint, ...] = ()
    remarks: tuple[HistoryRemark, ...] = ()
