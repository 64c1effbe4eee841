"""The means of a history as Prometheus and OpenMetrics read them. Pure.

The labels of a series are fixed by its first campaign, and stay the same as the history grows: a constant of the study
is among them if its value differed from the first one in the history. "First" is by the order in which campaigns are
added. An older Lastro may not have recorded the constant in which two series differ. Then they may have the same
labels, and are exported as one series.

Sources: the OpenMetrics specification 1.0 (https://github.com/OpenObservability/OpenMetrics), and Prometheus' text
format 0.0.4, in which a file for the node exporter has no times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter

from lastro.analysis.history import HistoryReport, HistorySeries
from lastro.grouping import by_key
from lastro.results.history_points import HistoryPoint, StoredSummary


@dataclass(frozen=True, slots=True)
class ExportedMean:
    """A mean of a series at `seconds` since 1970; `labels` are the labels of the series, as text.

    Only the newest mean has `n_alarms`, the number of alarms of all series with these labels."""

    labels: str
    seconds: float
    point: HistoryPoint
    summary: StoredSummary
    n_alarms: int | None = None


_CAMPAIGN = "lastro_campaign"
_GAUGES = (  # (name, meaning, attribute of an `ExportedMean`)
    ("lastro_mean", "Mean of a metric over the valid trials of a treatment in one campaign.", "summary.mean"),
    ("lastro_mean_low", "Lower end of the confidence interval of the mean.", "summary.low"),
    ("lastro_mean_high", "Upper end of the confidence interval of the mean.", "summary.high"),
    ("lastro_mean_trials", "Number of valid trials of the mean.", "summary.n"),
    ("lastro_mean_timestamp_seconds", "When the first trial of the campaign began, in seconds since 1970.", "seconds"),
    ("lastro_unacknowledged_changes", "Changes for the worse in the whole series that nobody has acknowledged.",
     "n_alarms"),
)  # fmt: skip


def prometheus(report: HistoryReport) -> str:
    """Return the newest mean of each series in the text format of Prometheus, without times."""
    newest = [means[-1] for means in _means(report)]
    return "\n".join([*_lines(newest, (f"{_CAMPAIGN}_info", "gauge"), lambda mean: ""), ""])


def openmetrics(report: HistoryReport) -> str:
    """Return all means in the format OpenMetrics, for a backfill, with their times in seconds since 1970."""
    means = [mean for means in _means(report) for mean in means]
    return "\n".join([*_lines(means, (_CAMPAIGN, "info"), lambda mean: f" {mean.seconds:.3f}"), "# EOF", ""])


def _means(report: HistoryReport) -> Iterator[list[ExportedMean]]:
    """Yield a list for each set of labels: the means of the series with these labels, sorted by time, one per time."""
    for labels, same in by_key((_labels(series), series) for series in report.series).items():
        by_time = {mean.seconds: mean for series in same for mean in _means_of(series, labels)}
        *older, newest = (by_time[seconds] for seconds in sorted(by_time))
        yield [*older, replace(newest, n_alarms=sum(len(series.alarms) for series in same))]


def _labels(series: HistorySeries) -> str:
    labels = {
        "study": series.last.study,
        "scenario": series.last.scenario,
        "host": series.last.host,
        "metric": series.metric.name,
        "unit": series.metric.unit,
        "treatment": _listed(series.levels),
        "constants": _listed(series.new_constants),
    }
    return _label_text({name: value for name, value in labels.items() if value})  # an empty label means none


def _means_of(series: HistorySeries, labels: str) -> Iterator[ExportedMean]:
    for point, summary in zip(series.points, series.summaries, strict=True):
        yield ExportedMean(labels, datetime.fromisoformat(point.measured_utc).timestamp(), point, summary)


def _lines(
    means: Sequence[ExportedMean], campaign: tuple[str, str], time: Callable[[ExportedMean], str]
) -> Iterator[str]:
    """Yield the lines of all metric families. `campaign` is the (name, type) of the last one, with the campaigns."""
    for name, meaning, attribute in _GAUGES:
        yield from (f"# HELP {name} {meaning}", f"# TYPE {name} gauge")
        for mean in means:
            if (value := attrgetter(attribute)(mean)) is not None:
                yield f"{name}{{{mean.labels}}} {value!r}{time(mean)}"
    name, kind = campaign
    yield from (f"# HELP {name} Name and label of the campaign of a mean.", f"# TYPE {name} {kind}")
    for mean in means:
        labels = _label_text({"campaign": mean.point.campaign, "label": mean.point.label})
        yield f"{_CAMPAIGN}_info{{{mean.labels},{labels}}} 1{time(mean)}"


def _label_text(labels: Mapping[str, str]) -> str:
    escapes = {ord("\\"): "\\\\", ord('"'): '\\"', ord("\n"): "\\n"}
    return ",".join(f'{name}="{value.translate(escapes)}"' for name, value in labels.items())


def _listed(values: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in values.items())
