"""The campaign over time: each metric less the means of its treatments, with the trend; what was not valid, what

else happened, and below how much the host was disturbed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lastro.report.analysis.model import Analysis
from lastro.report.analysis.trends import parse_utc
from lastro.report.figures.style import GREY, GRID, PALETTE, SMALL_PT, headed, new_figure, numbers_in, points, safe
from lastro.report.language import N_, Language
from lastro.report.model import Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL_IN = 1.25
_MOST_EVENTS = 40
HOST_READINGS = {
    "steal_percent": N_("CPU stolen (%)"),
    "foreign_cpus": N_("foreign CPUs"),
    "psi_cpu_percent": N_("CPU pressure (%)"),
}


@dataclass(frozen=True, slots=True)
class _Clock:
    """Where UTC times fall on the axis: `unit_s` seconds each since the first attempt."""

    origin: datetime
    unit_s: int

    def at(self, utc: str) -> float | None:
        moment = parse_utc(utc)
        return None if moment is None else (moment - self.origin).total_seconds() / self.unit_s


@dataclass(frozen=True, slots=True)
class _Panel:
    """`kind` is 'metric', 'duration' or 'host'; `valid` and `invalid` are (time, value)."""

    kind: str
    label: str
    valid: Sequence[tuple[float, float]]
    invalid: Sequence[tuple[float, float]]


def draw_course(report: Report, say: Language, analysis: Analysis | None = None) -> Figure | None:
    """Every attempt by when it began; None without any."""
    clock = _clock(report)
    if clock is None:
        return None
    panels = [
        *_metric_panels(report, clock, say),
        _duration_panel(report, clock, say),
        *_host_panels(report, clock, say),
    ]
    figure = new_figure(_PANEL_IN * len(panels) + 1.1)
    stacked = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, panel in zip(stacked, panels, strict=True):
        _draw(axes, panel)
        _mark_events(axes, report, clock, named=axes is stacked[0])
        numbers_in(axes, say, x=True, y=True)
    unit = say("hours since the first trial") if clock.unit_s == 3600 else say("minutes since the first trial")
    stacked[-1].set_xlabel(unit)
    invalid = report.progress.n_invalid_attempts
    how = say("{n} attempts, of which {invalid} invalid (✕)", n=say.integer(len(report.timeline)), invalid=invalid)
    trend = say("dots: a trial less the mean of its treatment; line: trend") if len(panels) > 1 else ""
    headed(figure, how, trend)
    return figure


def _clock(report: Report) -> _Clock | None:
    moments = [at for moment in report.timeline if (at := parse_utc(moment.started_utc)) is not None]
    if not moments:
        return None
    hours = (max(moments) - min(moments)).total_seconds() > 3 * 3600
    return _Clock(min(moments), 3600 if hours else 60)


def _metric_panels(report: Report, clock: _Clock, say: Language) -> Iterator[_Panel]:
    starts = {(a.trial, a.attempt): a.started_utc for a in report.attempts}
    for index, metric in enumerate(report.metrics):
        found, relative = deviations(report, index)
        timed = [(at, value) for key, value in found if (at := clock.at(starts.get(key, ""))) is not None]
        if timed:
            unit = "%" if relative else metric.unit
            yield _Panel("metric", f"{metric.name} ({unit})" if unit else metric.name, timed, ())


def deviations(report: Report, index: int) -> tuple[list[tuple[tuple[int, int], float]], bool]:
    """((trial, attempt), deviation from the mean of its treatment) of every trial whose treatment has several; in per

    cent of that mean where all means are above zero, else in the metric's unit."""
    cells = [cell for row in report.rows if (cell := row.cells[index]).summary and len(cell.points) > 1]
    relative = all(cell.summary is not None and cell.summary.mean > 0 for cell in cells)
    found = []
    for cell in cells:
        assert cell.summary is not None
        mean = cell.summary.mean
        scale = 100 / mean if relative else 1.0
        found += [((point.trial, point.attempt), (point.value - mean) * scale) for point in cell.points]
    return found, relative


def _duration_panel(report: Report, clock: _Clock, say: Language) -> _Panel:
    timed = [(at, m.duration_s, m.valid) for m in report.timeline if (at := clock.at(m.started_utc)) is not None]
    valid = [(at, duration) for at, duration, good in timed if good]
    invalid = [(at, duration) for at, duration, good in timed if not good]
    return _Panel("duration", say("duration of the trial (s)"), valid, invalid)


def _host_panels(report: Report, clock: _Clock, say: Language) -> Iterator[_Panel]:
    for name, label in HOST_READINGS.items():
        valid: list[tuple[float, float]] = []
        invalid: list[tuple[float, float]] = []
        for attempt in report.attempts:
            value, at = _host_reading(attempt.notes, name), clock.at(attempt.started_utc)
            if value is not None and at is not None:
                (valid if attempt.valid else invalid).append((at, value))
        if valid or invalid:
            yield _Panel("host", say(label), valid, invalid)


def _host_reading(notes: Mapping[str, Any], name: str) -> float | None:
    """A number that an attempt noted of its host; notes are read with suspicion."""
    host = notes.get("host")
    value = host.get(name) if isinstance(host, Mapping) else None
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None


def _draw(axes: Axes, panel: _Panel) -> None:
    if panel.valid:
        points(axes, [x for x, _ in panel.valid], [y for _, y in panel.valid], PALETTE[0], 2.0, alpha=0.6)
    if panel.invalid:
        x, y = zip(*panel.invalid, strict=True)
        axes.plot(x, y, linestyle="none", marker="X", ms=4.5, mew=0, color=PALETTE[1])
    if panel.kind == "metric":
        axes.axhline(0, color=GREY, linewidth=0.6)
        _trend(axes, panel.valid)
    else:
        highest = max(y for _, y in (*panel.valid, *panel.invalid))
        axes.set_ylim(0, 1.12 * highest if highest > 0 else 1.0)
    axes.set_title(safe(panel.label, 70), loc="left")
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.locator_params(axis="y", nbins=4)
    axes.tick_params(axis="y", length=0)


def _trend(axes: Axes, timed: Sequence[tuple[float, float]]) -> None:
    """The least-squares line through the deviations, over the time in which there are any."""
    n = len(timed)
    centre = math.fsum(x for x, _ in timed) / n
    spread = math.fsum((x - centre) ** 2 for x, _ in timed)
    if n < 3 or spread == 0:
        return
    slope = math.fsum((x - centre) * y for x, y in timed) / spread
    mean = math.fsum(y for _, y in timed) / n
    ends = [min(x for x, _ in timed), max(x for x, _ in timed)]
    axes.plot(ends, [mean + slope * (x - centre) for x in ends], color="black", linewidth=1.4, zorder=4)


def _mark_events(axes: Axes, report: Report, clock: _Clock, *, named: bool) -> None:
    """Interruptions and whatever else happened between start and end, as vertical lines."""
    left, right = axes.get_xlim()
    for at_utc, kind, _ in report.events[:_MOST_EVENTS]:
        x = clock.at(at_utc)
        if x is None or not left <= x <= right:
            continue
        axes.axvline(x, color=GREY, linewidth=0.8, linestyle=(0, (3, 2)))
        if named:
            axes.annotate(
                safe(kind, 24), (x, 1), xycoords=("data", "axes fraction"), fontsize=SMALL_PT - 0.5, color=GREY,
                rotation=90, ha="right", va="top",
            )  # fmt: skip
