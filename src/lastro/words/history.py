"""Texts on a history that its documents and its figures share. Pure."""

from __future__ import annotations

from lastro.analysis.history import HistoryChange, HistoryReport, HistorySeries
from lastro.stats.change_points import FEWEST
from lastro.words.language import Language


def headline(report: HistoryReport, say: Language) -> str:
    """Return in one line how many changes for the worse are not acknowledged, and which of them is the newest."""
    if points := [(series.points[change.point.at], series) for series, change in report.alarms]:
        point, series = max(points, key=lambda alarm: alarm[0].measured_utc)
        return say(
            "{changes} for the worse that nobody has acknowledged; the newest: {metric} of {treatment}, at {point}",
            changes=say.count(len(points), "change"),
            metric=series.metric.name,
            treatment=treatment_text(series, say),
            point=point.name,
        )
    if not any(series.decidable for series in report.series):
        return say("Nothing can be decided yet: a series needs {n} campaigns", n=2 * FEWEST)
    return say("No change for the worse that is not acknowledged")


def treatment_text(series: HistorySeries, say: Language) -> str:
    """Return the levels of a series, with its study or host if the report has several: 'runc · cgroups (edge-7)'."""
    levels = " · ".join(series.levels.values()) or say("the treatment")
    return f"{levels} ({series.place})" if series.place else levels


def range_text(series: HistorySeries, change: HistoryChange, say: Language) -> str:
    """Return the campaign at which a series changed: 'v9', or 'v9 (v8 to v11)' if it is uncertain."""
    first, at, last = (series.points[index] for index in (change.point.first, change.point.at, change.point.last))
    if first == last:
        return at.name
    return say("{at} ({first} to {last})", at=at.name, first=first.name, last=last.name)
