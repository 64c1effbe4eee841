"""What a history of campaigns says: where a metric of a treatment changed, by how much, and what else changed there.

A series is one metric of one treatment of one study on one host; its values are means of campaigns, in the order in
which these were measured. With a sentinel, a treatment that software under test cannot change, values are divided by
the sentinel's in the same campaign: what they then show is a change of the software, and a change of the sentinel
itself is one of the host. All series that are judged share one error rate (`ALPHA`). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Literal

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.host_facts import changed, named_facts, recorded
from lastro.analysis.pooled_study import machine
from lastro.analysis.table_choice import known_level
from lastro.analysis.verdicts import Verdict, direction
from lastro.errors import InputError, did_you_mean
from lastro.results.history_points import History, HistoryPoint, HistoryRemark, KeptSummary, Levels
from lastro.results.members import NAMELESS
from lastro.results.samples import Metric
from lastro.stats.change_points import FEWEST, ChangePoint, change_points
from lastro.study.levels import listed
from lastro.study.model import PATIENCE

ALPHA = 0.005  # of any false change in all series together, at one look
CONFIDENCE = 0.95
Cause = Literal["software", "host", "unknown"]
Wanted = Mapping[str, Sequence[str]]  # {factor: levels}


def point_of(report: CampaignResults, campaign: str, label: str = "") -> HistoryPoint:
    """Return the point of a campaign in a history. Raises: InputError if it is of several hosts, of none, or empty."""
    host, *more = machine(report.provenance)
    if report.members or host is None or host == NAMELESS:
        why = "ran on several testbeds" if report.members else "does not say on which host it ran"
        raise InputError(f"{report.directory} {why}", "a history holds campaigns of one known host each")
    summaries = tuple(_summaries(report))
    if not summaries or report.progress.first_utc is None:
        raise InputError(f"{report.directory} has no valid trial", "`lastro status` says what became of it")
    facts = {name: fact for name, fact in named_facts(report.provenance).items() if fact is not None}
    return HistoryPoint(
        campaign, report.progress.first_utc, label, report.study.name, report.study.scenario,
        {name: str(value) for name, value in report.study.held.items() if name not in PATIENCE},
        ", ".join(filter(None, (host, *more))), {**facts, **recorded(report.provenance)},
        tuple(replace(metric, cell=None) for metric in report.metrics), summaries,
    )  # fmt: skip


def _summaries(report: CampaignResults) -> Iterator[KeptSummary]:
    for row in report.rows:
        levels = {name: str(level) for name, level in row.treatment.levels.items()}
        for cell in row.cells:
            if summary := cell.summary:
                of = KeptSummary(
                    levels, cell.metric.name, summary.n, summary.mean, bounded=cell.bounded > 0,
                    marks=tuple(dict.fromkeys(mark.kind for mark in cell.marks)),
                )  # fmt: skip
                ends = summary.interval
                yield replace(of, low=ends.low, high=ends.high) if ends else of


@dataclass(frozen=True, slots=True)
class FactChange:
    """A fact of the host that was another at `point` than one point before; None where it was not recorded."""

    point: HistoryPoint
    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class HistoryChange:
    """A change of level in a series, with the facts that changed within its range, and what a user said of it."""

    found: ChangePoint
    verdict: Verdict
    cause: Cause
    facts: tuple[FactChange, ...]
    acknowledged: HistoryRemark | None


@dataclass(frozen=True, slots=True)
class KeptSeries:
    """One metric of one treatment in the campaigns that measured it; `summaries[i]` belongs to `points[i]`.

    Changes are looked for in the values `judged`: the means, or their ratios to the means of a sentinel. `sentinel` has
    the levels of that treatment. `left_out` campaigns had no exact value, or none of the sentinel. `place`
    distinguishes the series from those of another study or host, or with another value of a constant; it is empty if
    there are none."""

    metric: Metric
    points: tuple[HistoryPoint, ...]
    summaries: tuple[KeptSummary, ...]
    judged: tuple[float, ...]
    changes: tuple[HistoryChange, ...] = ()
    sentinel: Levels | None = None
    is_sentinel: bool = False
    muted: HistoryRemark | None = None
    left_out: int = 0
    place: str = ""

    @property
    def levels(self) -> Levels:
        return self.summaries[-1].levels

    @property
    def last(self) -> HistoryPoint:
        return self.points[-1]

    @property
    def decidable(self) -> bool:
        """True if there are enough values on both sides of some point."""
        return len(self.points) >= 2 * FEWEST

    @property
    def alarms(self) -> tuple[HistoryChange, ...]:
        """The changes for the worse that nobody knows of yet, and that are not those of the host."""
        if self.muted is not None or self.is_sentinel:
            return ()
        return tuple(each for each in self.changes if each.verdict == "worse" and each.acknowledged is None)


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """The series that were asked for, and the `alpha` of each: the error rate of all, divided by their number."""

    series: tuple[KeptSeries, ...]
    alpha: float

    @property
    def alarms(self) -> tuple[tuple[KeptSeries, HistoryChange], ...]:
        return tuple((series, change) for series in self.series for change in series.alarms)


def judge(history: History, metric: str, where: Wanted, sentinel: Wanted) -> HistoryReport:
    """Look for changes in the series of a metric, or of all, and of treatments with some levels, or of all.

    Treatments with the levels of `sentinel` are sentinels. Raises: InputError for a name that the history lacks."""
    every = list(_all_series(history))
    names = sorted({series.metric.name for series in every})
    if metric and metric not in names:
        raise InputError(f"the history has no metric '{metric}'", did_you_mean(metric, names))
    wanted = [series for series in every if metric in ("", series.metric.name)]
    shown, fixed = _expanded(where, wanted), _expanded(sentinel, wanted)
    sentinels = [series for series in wanted if fixed and _is_under(series, fixed)]
    chosen = [
        series if series in sentinels else _relative(series, sentinels) for series in wanted if _is_under(series, shown)
    ]
    alpha = ALPHA / max(1, sum(series.decidable for series in chosen))
    judged = [_judged(series, series in sentinels, alpha, history.remarks) for series in chosen]
    return HistoryReport(tuple(replace(series, place=_place(series, judged)) for series in judged), alpha)


def named_point(history: History, name: str) -> HistoryPoint:
    """Return the newest point with this label, or of the campaign with this name. Raises: InputError without one."""
    for point in reversed(history.points):
        if name in (point.label, point.campaign):
            return point
    known = [each for point in history.points for each in (point.label, point.campaign) if each]
    raise InputError(f"the history has no campaign or label '{name}'", did_you_mean(name, known))


def fact_changes(points: Sequence[HistoryPoint]) -> Iterator[FactChange]:
    """Yield the facts that changed from one point to the next."""
    for before, after in pairwise(points):
        for name, (was, is_) in changed(before.facts, after.facts).items():
            yield FactChange(after, name, was, is_)


# The series of a history


def _all_series(history: History) -> Iterator[KeptSeries]:
    for points in _comparable(history.points):
        found: dict[tuple[str, ...], list[tuple[HistoryPoint, Metric, KeptSummary]]] = {}
        for point in points:
            metrics = {metric.name: metric for metric in point.metrics}
            for summary in point.summaries:
                metric = metrics[summary.metric]
                same = (metric.name, metric.unit, metric.better, *map(str, sorted(summary.levels.items())))
                found.setdefault(same, []).append((point, metric, summary))
        for measured in found.values():
            exact = [(point, summary) for point, _, summary in measured if not summary.bounded]
            if exact:
                of, summaries = zip(*exact, strict=True)
                means = tuple(summary.mean for summary in summaries)
                yield KeptSeries(measured[-1][1], of, summaries, means, left_out=len(measured) - len(exact))


def _comparable(points: Sequence[HistoryPoint]) -> list[list[HistoryPoint]]:
    """Return the points in groups of one study on one host, in which no constant that two of them have differs.

    A constant that only one of them has is new in another version of Lastro."""
    groups: list[list[HistoryPoint]] = []
    for point in points:
        for group in groups:
            last = group[-1]
            alike = (point.study, point.scenario, point.host) == (last.study, last.scenario, last.host)
            common = point.settings.keys() & last.settings.keys()
            if alike and all(point.settings[name] == last.settings[name] for name in common):
                group.append(point)
                break
        else:
            groups.append([point])
    return groups


def _place(series: KeptSeries, among: Sequence[KeptSeries]) -> str:
    """Return what distinguishes a series from the others: its study, its host, and the constants of its study."""
    mine = series.last
    others = [each.last for each in among]
    found = [mine.study] if any(each.study != mine.study for each in others) else []
    found += [mine.host] if any(each.host != mine.host for each in others) else []
    alike = [each.settings for each in others if (each.study, each.host) == (mine.study, mine.host)]
    found += [
        f"{name} = {value}"
        for name, value in mine.settings.items()
        if any(each.get(name, value) != value for each in alike)
    ]
    return ", ".join(found)


def _relative(series: KeptSeries, sentinels: Sequence[KeptSeries]) -> KeptSeries:
    """Return a series relative to its sentinel: of those in the same campaigns, the one with most of its levels."""
    common = [each for each in sentinels if each.metric == series.metric and each.last in series.points]
    if not common:
        return series
    best = max(common, key=lambda each: len(each.levels.items() & series.levels.items()))
    means = {point.measured_utc: summary.mean for point, summary in zip(best.points, best.summaries, strict=True)}
    kept = [at for at, point in enumerate(series.points) if means.get(point.measured_utc)]
    return replace(
        series,
        points=tuple(series.points[at] for at in kept),
        summaries=tuple(series.summaries[at] for at in kept),
        judged=tuple(series.summaries[at].mean / means[series.points[at].measured_utc] for at in kept),
        sentinel=best.levels,
        left_out=series.left_out + len(series.points) - len(kept),
    )


# Changes in a series


def _judged(series: KeptSeries, is_sentinel: bool, alpha: float, remarks: Sequence[HistoryRemark]) -> KeptSeries:
    said = [each for each in remarks if _is_about(each, series)]
    muting = [each for each in said if each.kind != "acknowledged"]
    cause: Cause = "host" if is_sentinel else "software" if series.sentinel is not None else "unknown"
    changes = tuple(
        HistoryChange(
            found,
            direction(series.metric, 2.0 if found.after > found.before else 0.5),
            cause,
            tuple(fact_changes(series.points[found.first - 1 : found.last + 1])),
            _acknowledged(series.points[found.first : found.last + 1], said),
        )
        for found in change_points(series.judged, alpha, CONFIDENCE)
    )
    muted = muting[-1] if muting and muting[-1].kind == "muted" else None
    return replace(series, changes=changes, is_sentinel=is_sentinel, muted=muted)


def _acknowledged(points: Iterable[HistoryPoint], said: Iterable[HistoryRemark]) -> HistoryRemark | None:
    moments = {point.measured_utc for point in points}
    return next((each for each in said if each.kind == "acknowledged" and each.at in moments), None)


def _is_about(remark: HistoryRemark, series: KeptSeries) -> bool:
    return remark.metric in ("", series.metric.name) and all(
        series.levels.get(name) == level for name, level in remark.levels.items()
    )


# What a user asks for


def _expanded(wanted: Wanted, every: Sequence[KeptSeries]) -> dict[str, frozenset[str]]:
    """Return {factor: levels}. Raises: InputError for a factor or a level that no series has."""
    found = {}
    for factor, words in wanted.items():
        known = sorted({series.levels[factor] for series in every if factor in series.levels})
        if not known:
            factors = sorted({name for series in every for name in series.levels})
            raise InputError(f"the history has no factor '{factor}'", did_you_mean(factor, factors))
        found[factor] = frozenset(listed(words, partial(known_level, factor, known)))
    return found


def _is_under(series: KeptSeries, wanted: Mapping[str, frozenset[str]]) -> bool:
    return all(series.levels.get(factor) in levels for factor, levels in wanted.items())
