"""The points of a history, one for each campaign, and the remarks of users on changes between them. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from lastro.results.samples import Metric

DEFAULT_FILE = "lastro-history.db"
Levels = Mapping[str, str]  # {factor: level}, as text
RemarkKind = Literal["acknowledged", "muted", "unmuted"]


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """The mean of a metric over the `n` valid trials of a treatment, and the ends of its confidence interval, if any.

    `marks` are the kinds of remarks on the values, such as "generator-limited". If `bounded` is true, some values are
    only lower bounds, and so the mean is a lower bound, too."""

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
    """A campaign in a history: when its first trial began, its results, and what may have affected them.

    `measured_utc` is the time of its first trial. `settings` are the constants of its study, and `facts` the properties
    of its host that may affect results. `label` is the user's name for the campaign, such as a commit or a tag; it may
    be empty."""

    campaign: str
    measured_utc: str
    label: str
    study: str
    scenario: str
    settings: Mapping[str, str]
    host: str
    facts: Mapping[str, str]
    metrics: tuple[Metric, ...]
    summaries: tuple[StoredSummary, ...]

    @property
    def name(self) -> str:
        return self.label or self.campaign


@dataclass(frozen=True, slots=True)
class HistoryRemark:
    """A remark of a user: the change at the point `at` is acknowledged, or series are muted or unmuted.

    `text` is the reason. The remark applies to the series of `metric` with these `levels`. An empty `metric` means all
    metrics, and empty `levels` mean all levels."""

    kind: RemarkKind
    said_utc: str
    text: str
    at: str = ""
    metric: str = ""
    levels: Levels = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class History:
    """All points of a file, in the order in which they were added, and all remarks, the earliest first."""

    added: tuple[HistoryPoint, ...] = ()
    remarks: tuple[HistoryRemark, ...] = ()

    @property
    def points(self) -> tuple[HistoryPoint, ...]:
        """The points in the order in which they were measured."""
        return tuple(sorted(self.added, key=lambda point: point.measured_utc))
