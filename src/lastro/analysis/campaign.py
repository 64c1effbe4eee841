"""The results of a campaign, as frozen data: values, intervals and ratios to the baseline, by treatment and metric.

The results also list what is missing, with the reasons. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from lastro.analysis.properties import PropertyTable, PropertyTables
from lastro.analysis.remarks import Mark, in_order
from lastro.grouping import by_key
from lastro.results.looks import Look
from lastro.results.members import Member
from lastro.results.provenance import Provenance
from lastro.results.samples import GENERATOR_LIMITED, Metric
from lastro.results.segments import HostSegment
from lastro.stats.contrasts import MeanComparison
from lastro.stats.intervals import Estimate, Summary
from lastro.stats.notes import N_, Note
from lastro.study.design import Treatment
from lastro.study.model import Factor, Study

if TYPE_CHECKING:
    from lastro.results.read import LaterHistograms, LaterSeries
    from lastro.results.rows import Attempt
    from lastro.stats.block_model import BlockModel
    from lastro.stats.modes import SecondMode

Status = Literal["measured", "partly", "invalid", "unavailable", "pending"]
Decision = Literal["different", "same", "unknown"]

CAMPAIGNS_IN = N_("{n} of {all} campaigns in {guests}")
_TESTBEDS_IN = N_("{n} of {all} testbeds in {guests}")


class Point(NamedTuple):
    """The value of one metric in one valid trial, in the metric's unit; a tuple, because there may be 400,000.

    `at_least` is true if the value is only a lower bound, because a limit of the study ended the search for it. If a
    search found the value in a grid, the true value is between `value` and `value + width`; `width` may be negative."""

    trial: int
    attempt: int
    block: int
    value: float
    at_least: bool = False
    width: float = 0.0


@dataclass(frozen=True, slots=True)
class Cell:
    """The values of one metric under one treatment, with their summary and their ratio to the baseline."""

    metric: Metric
    points: tuple[Point, ...]
    summary: Summary | None  # None without a valid value
    ratio: Estimate | None  # None without a baseline; the interval is that of `comparison`
    comparison: MeanComparison | None = None  # with the baseline; the comparisons of all treatments are one family
    decision: Decision = "unknown"  # result of the test of `comparison`
    marks: tuple[Mark, ...] = ()  # remarks of valid trials on this metric, including the reasons for missing values
    missing: int = 0  # number of valid trials without a value

    @property
    def limited(self) -> bool:
        """True if the generator, not the system under test, was the bottleneck in some valid trial."""
        return any(mark.kind == GENERATOR_LIMITED for mark in self.marks)

    @property
    def bounded(self) -> int:
        """The number of values that are only lower bounds; no printed statistic treats them as exact."""
        return sum(point.at_least for point in self.points)


@dataclass(frozen=True, slots=True)
class Row:
    """One treatment: its status, and a cell for each metric, in the order of the report."""

    treatment: Treatment
    status: Status
    reason: str | None  # why the treatment is unavailable; None if it is available
    remedy: str | None  # how to make it available
    baseline: Treatment | None  # may be the treatment itself; None if it has no baseline
    trials: Mapping[str, int]  # {state: number of trials}
    cells: tuple[Cell, ...]

    @property
    def is_baseline(self) -> bool:
        return self.baseline is not None and self.baseline.index == self.treatment.index

    @property
    def n_valid(self) -> int:
        return self.trials.get("valid", 0)


@dataclass(frozen=True, slots=True)
class InvalidAttempt:
    """An attempt that was invalid, with the reasons, and the current state of its trial."""

    trial: int
    attempt: int
    block: int
    treatment: Treatment
    reasons: tuple[str, ...]
    trial_state: str


@dataclass(frozen=True, slots=True)
class Gap:
    """Treatments that cannot run here for the same reason; `where` describes them by their levels."""

    reason: str
    remedy: str | None
    where: str
    treatments: tuple[Treatment, ...]
    n_trials: int


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a campaign: numbers of trials and attempts, and times."""

    counts: Mapping[str, int]  # {state: number of trials}
    n_trials: int
    n_attempts: int
    n_invalid_attempts: int
    measured_s: float  # total duration of all attempts
    first_utc: str | None  # when the first attempt started; None before it
    last_utc: str | None  # when the last attempt started; None before the first

    @property
    def finished(self) -> bool:
        """True if no trial is pending or running."""
        return not (self.counts.get("pending", 0) or self.counts.get("running", 0))


def by_block(points: Iterable[Point]) -> dict[int, float]:
    """Return {block: value}."""
    return {point.block: point.value for point in points}


def centres(points: Iterable[Point]) -> dict[int, float]:
    """Return {block: value}. A value that a search found in a grid is replaced by the middle of its grid interval."""
    return {point.block: point.value + point.width / 2 for point in points}


def comparable_cells(cells: Mapping[int, Mapping[int, float]]) -> dict[int, Mapping[int, float]]:
    """Return the cells of {treatment: {block: value}} that have two values or more; all with a value if none has two.

    A cell with a single value has no spread, and would prevent an interval for all other cells."""
    least = min(2, max(map(len, cells.values()), default=0))
    return {index: cell for index, cell in cells.items() if cell and len(cell) >= least}


def mean_width(points: Collection[Point]) -> float:
    """Return the mean width of the grid intervals in which a search found the values; 0 without a search."""
    return math.fsum(abs(point.width) for point in points) / max(1, len(points))


@dataclass(frozen=True, slots=True)
class MetricView:
    """One metric of a report, by its `index` in `report.metrics`.

    Iteration yields each row with its cell of the metric."""

    report: CampaignResults
    index: int

    def __iter__(self) -> Iterator[tuple[Row, Cell]]:
        return zip(self.report.rows, self.cells, strict=True)

    def of(self, row: Row) -> Cell:
        return row.cells[self.index]

    @property
    def metric(self) -> Metric:
        return self.report.metrics[self.index]

    @property
    def cells(self) -> tuple[Cell, ...]:
        return tuple(map(self.of, self.report.rows))

    @property
    def model(self) -> BlockModel | None:
        """The model that was fitted to the exact values of the metric; None if there are none."""
        return self.report.models[self.index]

    @property
    def second_mode(self) -> SecondMode[int] | None:
        """The second mode of the exact values of the metric; None if they have only one."""
        return self.report.second_modes[self.index]

    @property
    def step(self) -> float:
        """The resolution of the values of the metric; 0 if they are exact, or if there are none."""
        return self.model.step if self.model else 0.0

    @property
    def confidence(self) -> float:
        return self.report.study.design.confidence

    @property
    def n_blocks(self) -> int:
        """The number of blocks with a valid value."""
        return len({point.block for cell in self.cells for point in cell.points})

    @property
    def kinds_of_marks(self) -> tuple[str, ...]:
        return in_order(mark.kind for cell in self.cells for mark in cell.marks)


@dataclass(frozen=True, slots=True)
class MeasuredIn:
    """A virtual machine in which a campaign ran, such as 'a guest on KVM (2G, cgroup v2)'.

    If the machine was `emulated` in software, its times are not comparable with the times of any other host. An object
    may also describe several campaigns or testbeds that ran in different places. Then `title` is a note that counts the
    guests and names each kind once, and `emulated` is true if any guest was emulated. `partly` is true if this does not
    describe all places: some were not emulated or, if no guest was emulated, some were real hosts."""

    title: str
    emulated: bool
    partly: bool = False

    @classmethod
    def of(cls, provenance: Provenance) -> MeasuredIn | None:
        """Return the guest of one campaign or testbed; None for a real host."""
        guest = provenance.guest
        return cls(guest.full_title or guest.title, guest.emulated, guest.partly) if guest.title else None

    @classmethod
    def of_data(cls, provenance: Provenance, members: Sequence[Member]) -> MeasuredIn | None:
        """Return the guest of a campaign, or the guests of its members (campaigns or testbeds); None for real hosts."""
        if not members:
            return cls.of(provenance)
        counted = _TESTBEDS_IN if all(member.testbed for member in members) else CAMPAIGNS_IN
        return cls.among([cls.of(member.provenance) for member in members], counted)

    @classmethod
    def among(cls, places: Sequence[MeasuredIn | None], counted: str) -> MeasuredIn | None:
        """Return the guests among several places; None if all are real hosts.

        `counted` is the message for places that differ: {n} of {all} places are guests, named {guests}."""
        guests = [place for place in places if place is not None]
        if not guests:
            return None
        if set(places) == {guests[0]}:
            return guests[0]
        titles = "; ".join(dict.fromkeys(guest.title for guest in guests))
        emulated = sum(guest.emulated for guest in guests)
        title = Note(counted, n=len(guests), all=len(places), guests=titles)
        partly = (emulated or len(guests)) < len(places) or any(guest.partly for guest in guests)
        return cls(title, emulated > 0, partly)

    def to_dict(self) -> dict[str, Any]:
        """Return the guest as JSON-serializable data, in the format of the key `guest` of JSON documents."""
        return {"title": self.title, "emulated": self.emulated, "partly": self.partly}


@dataclass(frozen=True, slots=True)
class CampaignResults:
    """The results of a campaign, from which tables, figures, the HTML page and the JSON document are made."""

    directory: str
    study: Study
    varying: tuple[Factor, ...]
    metrics: tuple[Metric, ...]
    models: tuple[BlockModel | None, ...]
    second_modes: tuple[SecondMode[int] | None, ...]
    rows: tuple[Row, ...]
    progress: Progress
    invalid_attempts: tuple[InvalidAttempt, ...]
    gaps: tuple[Gap, ...]
    later_properties: Callable[[], PropertyTables]  # built on first use: a plain table does not need them
    later_series: LaterSeries  # read on use: only figures of series need them
    later_histograms: LaterHistograms
    events: tuple[tuple[str, str, str], ...]
    provenance: Provenance
    calibrations: Mapping[str, Any]
    noise_floor: Any = None  # as `analysis.noise_floor` reads it
    attempts: Sequence[Attempt] = ()  # in running order
    segments: tuple[HostSegment, ...] = ()
    looks: tuple[Look, ...] = ()  # of a campaign that runs until a decision is made
    members: tuple[Member, ...] = ()  # the campaigns, or the testbeds of a fleet, if there are several

    @property
    def of_fleet(self) -> bool:
        """True if the members are testbeds of one fleet."""
        return bool(self.members) and all(member.testbed for member in self.members)

    def of_the_study(self) -> CampaignResults:
        """Return the results without the metrics that the study does not list."""
        n = len(self.study.metrics)  # those of the study come first
        return replace(
            self,
            metrics=self.metrics[:n],
            models=self.models[:n],
            second_modes=self.second_modes[:n],
            rows=tuple(replace(row, cells=row.cells[:n]) for row in self.rows),
        )

    @property
    def guest(self) -> MeasuredIn | None:
        """The virtual machine, or machines, in which the campaign ran; None for real hosts."""
        return MeasuredIn.of_data(self.provenance, self.members)

    @property
    def views(self) -> tuple[MetricView, ...]:
        """A view for each metric, in order."""
        return tuple(MetricView(self, index) for index in range(len(self.metrics)))

    @property
    def blocks(self) -> set[int]:
        """The blocks with a valid value of any metric."""
        return {point.block for row in self.rows for cell in row.cells for point in cell.points}

    @property
    def on_logs(self) -> tuple[str, ...]:
        """The names of the metrics whose ratios are of geometric means, because the model is of logarithms."""
        views = [view for view in self.views if view.model is not None and view.model.log]
        return tuple(view.metric.name for view in views if any(cell.comparison for cell in view.cells))

    @property
    def properties(self) -> PropertyTables:
        """The tables of usage, of the host, and of how the platforms were measured; built on first use."""
        return self.later_properties()

    @property
    def residuals(self) -> PropertyTable:
        return self.properties.residuals

    def by_levels(self, factors: Sequence[str]) -> dict[tuple[str, ...], list[Row]]:
        """Return {levels of these factors: rows}, in the order of the report."""
        return by_key((tuple(str(row.treatment.levels[name]) for name in factors), row) for row in self.rows)

    def valid_attempts(self) -> dict[int, list[Attempt]]:
        """Return {treatment: its valid attempts, in running order}, without treatments that have none."""
        return by_key((attempt.treatment, attempt) for attempt in self.attempts if attempt.valid)

    @property
    def n_limited(self) -> int:
        """The number of treatments with a value that the load generator limited."""
        return sum(any(cell.limited for cell in row.cells) for row in self.rows)

    @property
    def kinds_of_marks(self) -> tuple[str, ...]:
        """The kinds of remarks on the values of all cells, each kind once."""
        return in_order(mark.kind for row in self.rows for cell in row.cells for mark in cell.marks)
