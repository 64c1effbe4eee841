"""Find changes in a history of campaigns: when a metric of a treatment changed, by how much, and with which host facts.

A series is one metric of one treatment of one study on one host; its values are means of campaigns, in the order of
measurement. A sentinel is a treatment that the software under test cannot affect. If there is a sentinel, values are
divided by the sentinel's value in the same campaign. Changes of the ratios are then changes of the software, and
changes of the sentinel itself are changes of the host. All judged series share one error rate (`ALPHA`). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise, takewhile
from typing import Literal

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.host_facts import changed_facts, named_facts, unnamed_facts
from lastro.analysis.pooled_study import machine
from lastro.analysis.table_choice import known_level
from lastro.analysis.verdicts import Verdict, verdict_on_change
from lastro.errors import InputError, did_you_mean
from lastro.results.history_points import History, HistoryPoint, HistoryRemark, Levels, StoredSummary
from lastro.results.members import NAMELESS
from lastro.results.samples import Metric
from lastro.stats.change_points import FEWEST, ChangePoint, change_points
from lastro.study.levels import find_levels
from lastro.study.model import PATIENCE

ALPHA = 0.005  # of any false change in all series together, at one look
_STRICTER = 1.05  # `ALPHA` is divided by the number of series to this power
CONFIDENCE = 0.95
Cause = Literal["software", "host", "unknown"]
Wanted = Mapping[str, Sequence[str]]  # {factor: levels}


def point_of(report: CampaignResults, campaign: str, label: str = "") -> HistoryPoint:
    """Return the point that a campaign adds to a history.

    `campaign` is the name of the campaign in the history, and `label` another name that the user gave it. Raises:
    InputError if the campaign ran on several hosts or on an unknown host, or has no valid trial."""
    host, *more = machine(report.provenance.chapters)
    if report.members or host is None or host == NAMELESS:
        why = "ran on several testbeds" if report.members else "does not say on which host it ran"
        raise InputError(f"{report.directory} {why}", "a history holds campaigns of one known host each")
    summaries = tuple(_summaries(report))
    if not summaries or report.progress.first_utc is None:
        raise InputError(f"{report.directory} has no valid trial", "`lastro status` says what became of it")
    facts = {name: fact for name, fact in named_facts(report.provenance.chapters).items() if fact is not None}
    return HistoryPoint(
        campaign, report.progress.first_utc, label, report.study.name, report.study.scenario,
        {name: str(value) for name, value in report.study.constants.items() if name not in PATIENCE},
        ", ".join(filter(None, (host, *more))), {**facts, **unnamed_facts(report.provenance.chapters)},
        tuple(replace(metric, cell=None) for metric in report.metrics), summaries,
    )  # fmt: skip


def _summaries(report: CampaignResults) -> Iterator[StoredSummary]:
    """Yield the summary of each cell that has values, as a history stores it."""
    for row in report.rows:
        levels = {name: str(level) for name, level in row.treatment.levels.items()}
        for cell in row.cells:
            if summary := cell.summary:
                kept = StoredSummary(
                    levels, cell.metric.name, summary.n, summary.mean, bounded=cell.bounded > 0,
                    marks=tuple(dict.fromkeys(mark.kind for mark in cell.marks)),
                )  # fmt: skip
                interval = summary.interval
                yield replace(kept, low=interval.low, high=interval.high) if interval else kept


@dataclass(frozen=True, slots=True)
class FactChange:
    """A fact of the host that differs at `point` from the point before; None where the fact was not recorded."""

    point: HistoryPoint
    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class HistoryChange:
    """A change of level in a series.

    `facts` are the facts of the host that changed within the range of points at which the change may have happened.
    `acknowledged` is the remark by which a user acknowledged the change; None without one."""

    point: ChangePoint
    verdict: Verdict
    cause: Cause
    facts: tuple[FactChange, ...]
    acknowledged: HistoryRemark | None


@dataclass(frozen=True, slots=True)
class HistorySeries:
    """One metric of one treatment in the campaigns that measured it; `summaries[i]` belongs to `points[i]`."""

    metric: Metric
    points: tuple[HistoryPoint, ...]
    summaries: tuple[StoredSummary, ...]
    # Values in which changes are looked for: means, or their ratios to the means of the sentinel.
    judged: tuple[float, ...]
    changes: tuple[HistoryChange, ...] = ()
    sentinel: Levels | None = None  # levels of the sentinel; None without one
    is_sentinel: bool = False
    muted: HistoryRemark | None = None  # the remark by which a user muted the series; None without one
    left_out: int = 0  # number of campaigns without an exact value of the treatment or of the sentinel
    place: str = ""  # the study, the host or the constants in which other series differ; else empty
    # Constants whose values in the series differ from the first values in the history, for the same study and host.
    # They do not change when the history grows.
    new_constants: Mapping[str, str] = field(default_factory=dict)

    @property
    def levels(self) -> Levels:
        """The levels of the treatment."""
        return self.summaries[-1].levels

    @property
    def last(self) -> HistoryPoint:
        return self.points[-1]

    @property
    def decidable(self) -> bool:
        """True if there are enough values to find a change."""
        return len(self.points) >= 2 * FEWEST

    @property
    def alarms(self) -> tuple[HistoryChange, ...]:
        """The changes for the worse that no user acknowledged; empty for a sentinel or a muted series."""
        if self.muted is not None or self.is_sentinel:
            return ()
        return tuple(change for change in self.changes if change.verdict == "worse" and change.acknowledged is None)


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """The series that a user chose, and the `alpha` of each, which depends on the number of decidable series."""

    series: tuple[HistorySeries, ...]
    alpha: float

    @property
    def alarms(self) -> tuple[tuple[HistorySeries, HistoryChange], ...]:
        return tuple((series, change) for series in self.series for change in series.alarms)


def alpha_of_each(n_series: int) -> float:
    """Return the `alpha` of each of `n_series` series that are judged together.

    Dividing `ALPHA` by their number would control the error rate at one look only. Successive looks at one series often
    show the same false change, but less often if false changes are rarer. So over many looks, all series together would
    show more false changes than a single series does (`benches/history_rates.py`)."""
    return float(ALPHA / n_series**_STRICTER)


def judge_history(history: History, metric: str, where: Wanted, sentinel: Wanted) -> HistoryReport:
    """Look for changes in the series of one metric (empty: all metrics) of the treatments with the levels `where`.

    Treatments with the levels of `sentinel` are sentinels. Raises: InputError for what the history lacks."""
    all_series = list(_all_series(history))
    names = sorted({series.metric.name for series in all_series})
    if metric and metric not in names:
        raise InputError(f"the history has no metric '{metric}'", did_you_mean(metric, names))
    wanted = [series for series in all_series if metric in ("", series.metric.name)]
    shown, of_sentinel = _known_levels(where, wanted), _known_levels(sentinel, wanted)
    sentinels = [series for series in wanted if of_sentinel and _is_under(series, of_sentinel)]
    chosen = [
        series if series in sentinels else _relative(series, sentinels) for series in wanted if _is_under(series, shown)
    ]
    alpha = alpha_of_each(max(1, sum(series.decidable for series in chosen)))
    judged = [_with_changes(series, series in sentinels, alpha, history.remarks) for series in chosen]
    return HistoryReport(tuple(replace(series, place=_place(series, judged)) for series in judged), alpha)


def named_point(history: History, name: str) -> HistoryPoint:
    """Return the newest point whose label or campaign has this name. Raises: InputError if there is none."""
    for point in reversed(history.points):
        if name in (point.label, point.campaign):
            return point
    known = [text for point in history.points for text in (point.label, point.campaign) if text]
    raise InputError(f"the history has no campaign or label '{name}'", did_you_mean(name, known))


def fact_changes(points: Sequence[HistoryPoint]) -> Iterator[FactChange]:
    """Yield the facts of the host that changed from each point to the next."""
    for before, after in pairwise(points):
        for name, (was, is_) in changed_facts(before.facts, after.facts).items():
            yield FactChange(after, name, was, is_)


# The series of a history


def _all_series(history: History) -> Iterator[HistorySeries]:
    """Yield a series for each metric of each treatment that has exact values; only comparable points share a series."""
    for added in _group_comparable(history.added):
        new = _new_constants(added[0], history.added)
        points = sorted(added, key=lambda point: point.measured_utc)
        groups: dict[tuple[str, ...], list[tuple[HistoryPoint, Metric, StoredSummary]]] = {}
        for point in points:
            metrics = {metric.name: metric for metric in point.metrics}
            for summary in point.summaries:
                metric = metrics[summary.metric]
                key = (metric.name, metric.unit, metric.better, *map(str, sorted(summary.levels.items())))
                groups.setdefault(key, []).append((point, metric, summary))
        for group in groups.values():
            exact = [(point, summary) for point, _, summary in group if not summary.bounded]
            if exact:
                _, newest_metric, _ = group[-1]
                measured_in, summaries = zip(*exact, strict=True)
                means = tuple(summary.mean for summary in summaries)
                left_out = len(group) - len(exact)
                yield HistorySeries(newest_metric, measured_in, summaries, means, left_out=left_out, new_constants=new)


def _group_comparable(points: Sequence[HistoryPoint]) -> list[list[HistoryPoint]]:
    """Group the points by study, scenario, host and the values of constants.

    Only constants that both points have are compared, because a new version of Lastro may add constants. The points are
    in the order in which they were added, so a later point never changes the group of an earlier one."""
    groups: list[list[HistoryPoint]] = []
    for point in points:
        for group in groups:
            last = group[-1].settings
            is_same_study = _study_on_host(group[-1]) == _study_on_host(point)
            if is_same_study and all(last.get(name, value) == value for name, value in point.settings.items()):
                group.append(point)
                break
        else:
            groups.append([point])
    return groups


def _study_on_host(point: HistoryPoint) -> tuple[str, str, str]:
    return point.study, point.scenario, point.host


def _new_constants(point: HistoryPoint, added: Sequence[HistoryPoint]) -> dict[str, str]:
    """Return the constants of a point whose values differ from the first values among the points added before it.

    A constant that no earlier point has is not new, because an older version of Lastro did not record it."""
    first: dict[str, str] = {}
    for earlier in takewhile(lambda other: other is not point, added):
        if _study_on_host(earlier) == _study_on_host(point):
            first = {**earlier.settings, **first}
    return {name: value for name, value in point.settings.items() if first.get(name, value) != value}


def _place(series: HistorySeries, among: Sequence[HistorySeries]) -> str:
    """Return the study, host and constants of a series, as text, where other series differ in them."""
    this = series.last
    others = [other.last for other in among]
    parts = [this.study] if any(other.study != this.study for other in others) else []
    parts += [this.host] if any(other.host != this.host for other in others) else []
    settings = [other.settings for other in others if (other.study, other.host) == (this.study, this.host)]
    for name, value in this.settings.items():
        if any(other.get(name, value) != value for other in settings):
            parts.append(f"{name} = {value}")
    return ", ".join(parts)


def _relative(series: HistorySeries, sentinels: Sequence[HistorySeries]) -> HistorySeries:
    """Return a series with its values divided by those of a sentinel, without campaigns that lack the sentinel.

    Among the sentinels of the same campaigns, the one that has the most levels in common with the series is used.
    Without a sentinel, or if all of its values are zero, return the series unchanged."""
    common = [sentinel for sentinel in sentinels if sentinel.metric == series.metric and sentinel.last in series.points]
    if not common:
        return series
    best = max(common, key=lambda sentinel: len(sentinel.levels.items() & series.levels.items()))
    means = {point.measured_utc: summary.mean for point, summary in zip(best.points, best.summaries, strict=True)}
    shared = [at for at, point in enumerate(series.points) if means.get(point.measured_utc)]
    if not shared:
        return series
    return replace(
        series,
        points=tuple(series.points[at] for at in shared),
        summaries=tuple(series.summaries[at] for at in shared),
        judged=tuple(series.summaries[at].mean / means[series.points[at].measured_utc] for at in shared),
        sentinel=best.levels,
        left_out=series.left_out + len(series.points) - len(shared),
    )


# Changes in a series


def _with_changes(
    series: HistorySeries, is_sentinel: bool, alpha: float, remarks: Sequence[HistoryRemark]
) -> HistorySeries:
    """Return a series with its changes at significance level `alpha`, and with the users' remarks on it."""
    names, levels = ("", series.metric.name), series.levels.items()  # without a metric, a remark is on all metrics
    remarks = [remark for remark in remarks if remark.metric in names and remark.levels.items() <= levels]
    muting = [remark for remark in remarks if remark.kind != "acknowledged"]
    cause: Cause = "unknown"
    if is_sentinel:
        cause = "host"
    elif series.sentinel is not None:
        cause = "software"
    changes = []
    for point in change_points(series.judged, alpha, CONFIDENCE):
        verdict = verdict_on_change(series.metric, 2.0 if point.after > point.before else 0.5)
        facts = tuple(fact_changes(series.points[point.first - 1 : point.last + 1]))
        moments = {at.measured_utc for at in series.points[point.first : point.last + 1]}
        acknowledging = (remark for remark in remarks if remark.kind == "acknowledged" and remark.at in moments)
        changes.append(HistoryChange(point, verdict, cause, facts, next(acknowledging, None)))
    muted = muting[-1] if muting and muting[-1].kind == "muted" else None
    return replace(series, changes=tuple(changes), is_sentinel=is_sentinel, muted=muted)


def _known_levels(wanted: Wanted, all_series: Sequence[HistorySeries]) -> dict[str, frozenset[str]]:
    """Return {factor: levels} that a user asked for. Raises: InputError for one that no series has."""
    levels = {}
    for factor, words in wanted.items():
        known = sorted({series.levels[factor] for series in all_series if factor in series.levels})
        if not known:
            factors = sorted({name for series in all_series for name in series.levels})
            raise InputError(f"the history has no factor '{factor}'", did_you_mean(factor, factors))
        levels[factor] = frozenset(find_levels(words, partial(known_level, factor, known)))
    return levels


def _is_under(series: HistorySeries, wanted: Mapping[str, frozenset[str]]) -> bool:
    return all(series.levels.get(factor) in levels for factor, levels in wanted.items())
