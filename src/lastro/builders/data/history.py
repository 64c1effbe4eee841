"""A history for programs: its campaigns and its changes as JSON, and its alarms as JUnit XML. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from lastro.analysis.history import FactChange, HistoryChange, HistoryReport, HistorySeries, fact_changes
from lastro.builders.data.encoder import pick
from lastro.builders.data.junit import add_case, add_failure, add_suite, new_root, xml_file
from lastro.grouping import by_key
from lastro.results.history_points import History
from lastro.words.history import headline, range_text, treatment_text
from lastro.words.language import ENGLISH
from lastro.words.numbers import ratio_text


def campaigns_document(history: History) -> dict[str, Any]:
    """Return the campaigns of a history, and the remarks of users, as JSON-serializable data.

    The `facts` of a campaign are those that changed since the last campaign of the same study on the same host."""
    campaigns = []
    for points in by_key(((point.study, point.host), point) for point in history.points).values():
        for at, point in enumerate(points):
            facts = [_fact(fact) for fact in fact_changes(points[max(0, at - 1) : at + 1])]
            known = pick(point, "study scenario host campaign label measured_utc")
            campaigns.append({**known, "constants": dict(point.settings), "facts": facts})
    return {
        "format": "lastro-history-campaigns/1",
        "campaigns": campaigns,
        "remarks": [asdict(remark) for remark in history.remarks],
    }


def document(report: HistoryReport) -> dict[str, Any]:
    """Return the history as JSON-serializable data.

    `at`, `first` and `last` of a change are indices of `points`. The change is taken to begin at `at`, but may begin
    anywhere from `first` to `last`."""
    return {
        "format": "lastro-history/1",
        "answer": headline(report, ENGLISH),
        "alarms": len(report.alarms),
        "alpha_of_a_series": report.alpha,
        "series": [_series(series) for series in report.series],
    }


def _series(series: HistorySeries) -> dict[str, Any]:
    return {
        "study": series.last.study,
        "host": series.last.host,
        "metric": series.metric.name,
        **pick(series.metric, "unit better"),
        "levels": dict(series.levels),
        "sentinel": None if series.sentinel is None else dict(series.sentinel),
        "is_sentinel": series.is_sentinel,
        "muted": series.muted and series.muted.text,
        "left_out": series.left_out,
        "points": [
            pick(point, "campaign label measured_utc")
            | pick(summary, "n mean low high")
            | {"judged": judged, "marks": list(summary.marks)}
            for point, summary, judged in zip(series.points, series.summaries, series.judged, strict=True)
        ],
        "changes": list(map(_change, series.changes)),
    }


def _change(change: HistoryChange) -> dict[str, Any]:
    point, ends = change.point, change.point.ratio.interval
    return {
        **pick(point, "at first last"),
        "ratio": point.ratio.value,
        "low": ends and ends.low,
        "high": ends and ends.high,
        "p": point.p,
        **pick(change, "verdict cause"),
        "acknowledged": change.acknowledged and change.acknowledged.text,
        "facts": [_fact(fact) for fact in change.facts],
    }


def junit(report: HistoryReport) -> bytes:
    """Return JUnit XML in UTF-8: a testsuite for each metric, a testcase for each series.

    A testcase fails if its series has a change for the worse that is not acknowledged."""
    root = new_root("lastro history check")
    for metric, several in by_key((series.metric.name, series) for series in report.series).items():
        metric_suite = add_suite(root, metric, [("answer", headline(report, ENGLISH))])
        for series in several:
            series_case = add_case(metric_suite, treatment_text(series, ENGLISH), f"{series.last.study}.{metric}")
            if series.alarms:
                texts = [
                    f"worse at {range_text(series, change, ENGLISH)}: {ratio_text(change.point.ratio, ENGLISH)}"
                    for change in series.alarms
                ]
                add_failure(series_case, "regression", "; ".join(texts))
    return xml_file(root)


def _fact(fact: FactChange) -> dict[str, str | None]:
    return {"at": fact.point.name, "name": fact.name, "before": fact.before, "after": fact.after}
