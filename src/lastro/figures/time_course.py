"""The campaign over time: each metric minus the means of its treatments, with trend, invalid attempts and events.

Below the metrics it shows how much the host was disturbed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.model import Analysis
from lastro.analysis.trends import deviations, parse_utc
from lastro.figures.style import (
    GREY,
    GRID,
    PALETTE,
    SMALL_PT,
    fit,
    headed,
    new_figure,
    numbers_in,
    points,
    titled,
)
from lastro.figures.text import safe
from lastro.stats.notes import N_
from lastro.units import human_duration, significant
from lastro.words.language import Language
from lastro.words.numbers import no_exponent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lastro.stats.drift import Drift

_PANEL_IN = 0.85
_MOST_EVENTS = 40
_NAME_SHARE = 0.05  # of the axis: the room for the name of an event
TREND = N_("dots: each trial minus the mean of its treatment; squares: means of blocks; line and numbers: drift")
HOST_READINGS = {
    "steal_percent": N_("CPU stolen (%)"),
    "foreign_cpus": N_("foreign CPUs"),
    "psi_cpu": N_("CPU pressure (%)"),
}


@dataclass(frozen=True, slots=True)
class _Clock:
    """The position of UTC times on the axis, in units of `unit_s` seconds since the first attempt."""

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
    trend: tuple[tuple[float, float], ...] = ()  # the ends of a line
    blocks: tuple[tuple[float, float], ...] = ()  # the means of the blocks, through which the trend goes


def draw_course(report: CampaignResults, say: Language, analysis: Analysis) -> Figure | None:
    """Draw every attempt at its start time; None without any."""
    clock = _clock(report)
    if clock is None:
        return None
    panels = [
        *_metric_panels(report, clock, say, analysis),
        _duration_panel(report, clock, say),
        *_host_panels(report, clock, say),
    ]
    figure = new_figure()
    stacked = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, panel in zip(stacked, panels, strict=True):
        _draw(axes, panel)
        _mark_events(axes, report, clock, named=axes is stacked[0])
        numbers_in(axes, say, x=True, y=True)
    unit = say("hours since the first trial") if clock.unit_s == 3600 else say("minutes since the first trial")
    stacked[-1].set_xlabel(unit)
    invalid = report.progress.n_invalid_attempts
    how = say("{n} attempts, of which {invalid} invalid (✕)", n=say.integer(len(report.timeline)), invalid=invalid)
    trend = say(TREND) if any(panel.blocks for panel in panels) else ""
    headed(figure, how, trend)
    return fit(figure, list(stacked), _PANEL_IN * len(panels))


def _clock(report: CampaignResults) -> _Clock | None:
    moments = [at for moment in report.timeline if (at := parse_utc(moment.started_utc)) is not None]
    if not moments:
        return None
    hours = (max(moments) - min(moments)).total_seconds() > 3 * 3600
    return _Clock(min(moments), 3600 if hours else 60)


def _metric_panels(report: CampaignResults, clock: _Clock, say: Language, analysis: Analysis) -> Iterator[_Panel]:
    starts = {(a.trial, a.attempt): a.started_utc for a in report.attempts}
    for view, known in zip(report.views, analysis.metrics, strict=True):
        metric, drift = known.metric, known.drift
        found, relative = deviations(view)
        timed = [(at, value) for key, value in found if (at := clock.at(starts.get(key, ""))) is not None]
        if not timed:
            continue
        unit = "%" if relative else metric.unit
        label = f"{metric.name} ({unit})" if unit else metric.name
        if drift is None or drift.slope_per_hour is None or drift.relative != relative:
            yield _Panel("metric", label, timed, ())
            continue
        keys = [(p.trial, p.attempt) for cell in view.cells for p in cell.points]
        first = min(at for key in keys if (at := clock.at(starts.get(key, ""))) is not None)
        per_hour, scale = clock.unit_s / 3600, 100 if relative else 1
        blocks = tuple((first + hour / per_hour, value * scale) for hour, value in drift.points)
        slope = drift.slope_per_hour * scale * per_hour
        label += " · " + _drift_words(drift, unit, scale, say)
        yield _Panel("metric", label, timed, (), _through(blocks, slope), blocks)


def _through(blocks: Sequence[tuple[float, float]], slope: float) -> tuple[tuple[float, float], ...]:
    """Return the ends of Sen's line, which goes through the medians."""
    x, y = (statistics.median(values) for values in zip(*blocks, strict=True))
    return tuple((end, y + slope * (end - x)) for end in (blocks[0][0], blocks[-1][0]))


def _drift_words(drift: Drift, unit: str, scale: float, say: Language) -> str:
    """Return the drift as text: '+0.12 % in 3 min 05 s [−0.05, 0.31], p = 0.31, n = 12'."""
    assert drift.slope_per_hour is not None
    scale *= drift.span_hours
    change = significant(drift.slope_per_hour * scale, 2)
    text = f"{'' if change.startswith('-') else '+'}{change} {unit}".rstrip()
    text += f" in {human_duration(3600 * drift.span_hours)}"
    if drift.interval is not None:
        text += f" [{significant(drift.interval.low * scale, 2)}, {significant(drift.interval.high * scale, 2)}]"
    if drift.p is not None:
        text += ", p < 0.001" if drift.p < 0.001 else f", p = {drift.p:.2f}"
    return say.number(no_exponent(text).replace("-", "−")) + "; " + say("n = {n}", n=drift.n)


def _duration_panel(report: CampaignResults, clock: _Clock, say: Language) -> _Panel:
    timed = [(at, m.duration_s, m.valid) for m in report.timeline if (at := clock.at(m.started_utc)) is not None]
    valid = [(at, duration) for at, duration, good in timed if good]
    invalid = [(at, duration) for at, duration, good in timed if not good]
    return _Panel("duration", say("duration of the trial (s)"), valid, invalid)


def _host_panels(report: CampaignResults, clock: _Clock, say: Language) -> Iterator[_Panel]:
    for name, label in HOST_READINGS.items():
        valid: list[tuple[float, float]] = []
        invalid: list[tuple[float, float]] = []
        for attempt in report.attempts:
            value, at = attempt.noted.host.get(name), clock.at(attempt.started_utc)
            if value is not None and at is not None:
                (valid if attempt.valid else invalid).append((at, value))
        if valid or invalid:
            yield _Panel("host", say(label), valid, invalid)


def _draw(axes: Axes, panel: _Panel) -> None:
    if panel.valid:
        points(
            axes,
            [x for x, _ in panel.valid],
            [y for _, y in panel.valid],
            PALETTE[0],
            2.0 if len(panel.valid) > 300 else 3.2,
            alpha=0.6,
        )
    if panel.invalid:
        x, y = zip(*panel.invalid, strict=True)
        axes.plot(x, y, linestyle="none", marker="X", ms=4.5, mew=0, color=PALETTE[1])
    if panel.kind == "metric":
        axes.axhline(0, color=GREY, linewidth=0.6)
    if panel.blocks:
        x, y = zip(*panel.blocks, strict=True)
        axes.plot(x, y, linestyle="none", marker="s", ms=4, color="white", mec="black", mew=0.9, zorder=4)
        x, y = zip(*panel.trend, strict=True)
        axes.plot(x, y, color="black", linewidth=1.4, zorder=5)
    if panel.kind != "metric":
        highest = max(y for _, y in (*panel.valid, *panel.invalid))
        axes.set_ylim(0, 1.12 * highest if highest > 0 else 1.0)
    titled(axes, panel.label)
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.tick_params(axis="y", length=0)


def _mark_events(axes: Axes, report: CampaignResults, clock: _Clock, *, named: bool) -> None:
    """Mark interruptions and all other events between start and end as vertical lines."""
    left, right = axes.get_xlim()
    before = -math.inf  # the position of the last name
    for at_utc, kind, _ in report.events[:_MOST_EVENTS]:
        x = clock.at(at_utc)
        if x is None or not left <= x <= right:
            continue
        axes.axvline(x, color=GREY, linewidth=0.8, linestyle=(0, (3, 2)))
        if named and x - before > _NAME_SHARE * (right - left):
            before = x
            axes.annotate(
                safe(kind, 24), (x, 1), xycoords=("data", "axes fraction"), fontsize=SMALL_PT - 0.5, color=GREY,
                rotation=90, ha="right", va="top",
            )  # fmt: skip
