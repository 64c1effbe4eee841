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
    """The mean of a metric over the `n` valid trials of a treatment, with its confidence interval, if any."""

    levels: Levels
    metric: str
    n: int
    mean: float
    low: float | None = None
    high: float | None = None
    marks: tuple[str, ...] = ()  # kinds of remarks on the values, such as "generator-limited"
    bounded: bool = False  # some values are only lower bounds, and so the mean is a lower bound, too


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """A campaign in a history: when its first trial began, its results, and what may have affected them."""

    campaign: str
    measured_utc: str  # when its first trial began
    label: str  # the user's name for the campaign, such as a commit or a tag; may be empty
    study: str
    scenario: str
    settings: Mapping[str, str]  # constants of its study
    host: str
    facts: Mapping[str, str]  # properties of its host that may affect results
    metrics: tuple[Metric, ...]
    summaries: tuple[StoredSummary, ...]

    @property
    def name(self) -> str:
        return self.label or self.campaign


@dataclass(frozen=True, slots=True)
class HistoryRemark:
    """A remark of a user: the change at the point `at` is acknowledged, or series are muted or unmuted."""

    kind: RemarkKind
    said_utc: str
    text: str  # the reason
    at: str = ""
    metric: str = ""  # of the series to which the remark applies; empty: all metrics
    levels: Levels = field(default_factory=dict)  # of the series to which the remark applies; empty: all levels


@dataclass(frozen=True, slots=True)
class History:
    """All points of a file, in the order in which they were added, and all remarks, the earliest first."""

    added: tuple[HistoryPoint, ...] = ()
    remarks: tuple[HistoryRemark, ...] = ()

    @property
    def points(self) -> tuple[HistoryPoint, ...]:
        """The points in the order in which they were measured."""
        return tuple(sorted(self.added, key=lambda point: point.measured_utc))
