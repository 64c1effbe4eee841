"""The campaign over time: each metric minus the means of its treatments, with trend, invalid attempts and events.

Below the metrics it shows how much the host was disturbed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.model import Analysis
from lastro.analysis.trends import deviations, parse_utc
from lastro.figures.matplotlib_types import Figure
from lastro.figures.style import GREY, PALETTE
from lastro.figures.text import safe
from lastro.figures.xy import Item, Look, PanelRule, Plot, PlotAxis, PlotLine, PlotNote, PlotPanel, dot_look, draw_plot
from lastro.stats.notes import N_
from lastro.units import human_duration, significant
from lastro.words.estimates import p_text
from lastro.words.language import Language
from lastro.words.numbers import no_exponent

_MOST_EVENTS = 40
_NAME_SHARE = 0.05  # of the axis: the room for the name of an event
_ROOM = 0.05  # of the axis, before the first attempt and after the last
TREND = N_("dots: each trial minus the mean of its treatment; squares: means of blocks; line and numbers: drift")
HOST_READINGS = {
    "steal_percent": N_("CPU stolen (%)"),
    "foreign_cpus": N_("foreign CPUs"),
    "psi_cpu": N_("CPU pressure (%)"),
}

_ZERO = (PanelRule("y", 0, {"color": GREY, "linewidth": 0.6}),)
_BLOCK: Look = {"linestyle": "none", "marker": "s", "ms": 4, "color": "white", "mec": "black", "mew": 0.9, "zorder": 4}
_DRIFT: Look = {"color": "black", "linewidth": 1.4, "zorder": 5}

Timed = Sequence[tuple[float, float]]  # (time, value)


@dataclass(frozen=True, slots=True)
class _Clock:
    """A conversion of UTC times to positions on the time axis.

    A position is in units of `unit_s` seconds since `origin`, the start of the first attempt. It is None for a text
    that is not a time."""

    origin: datetime
    unit_s: int

    def at(self, utc: str) -> float | None:
        moment = parse_utc(utc)
        return None if moment is None else (moment - self.origin).total_seconds() / self.unit_s


def draw_course(report: CampaignResults, say: Language, analysis: Analysis) -> Figure | None:
    """Draw each metric, the duration and each reading of the host against the start time of the attempt.

    None if no attempt has a start time."""
    moments = [at for attempt in report.attempts if (at := parse_utc(attempt.started_utc)) is not None]
    if not moments:
        return None
    hours = (max(moments) - min(moments)).total_seconds() > 3 * 3600
    clock = _Clock(min(moments), 3600 if hours else 60)
    last = (max(moments) - clock.origin).total_seconds() / clock.unit_s
    room = _ROOM * last or 1.0
    text = say("hours since the first trial") if hours else say("minutes since the first trial")
    x = PlotAxis(text, -room, last + room)
    metrics = list(_metric_panels(report, clock, say, analysis))
    events = list(_events(report, clock, (-room, last + room)))
    rules = [event for event in events if isinstance(event, PanelRule)]
    panels = [
        replace(panel, items=[*panel.items, *(rules if at else events)])
        for at, panel in enumerate((*metrics, *_host_panels(report, clock, say)))
    ]
    invalid = report.progress.n_invalid_attempts
    how = say("{n} attempts, of which {invalid} invalid (✕)", n=say.integer(len(report.attempts)), invalid=invalid)
    trend = say(TREND) if any(len(panel.items) > len(_ZERO) + 1 for panel in metrics) else ""
    return draw_plot(Plot(panels, how, [trend], x, PlotAxis(), 0.85), say)


def _metric_panels(report: CampaignResults, clock: _Clock, say: Language, analysis: Analysis) -> Iterator[PlotPanel]:
    """Yield a panel for each metric with values: how far each trial is from the mean of its treatment, and the drift.

    The horizontal axis is time."""
    starts = {(a.trial, a.attempt): a.started_utc for a in report.attempts}
    for view, known in zip(report.views, analysis.metrics, strict=True):
        metric, drift = known.metric, known.drift
        deviating, relative = deviations(view)
        timed = [(at, value) for key, value in deviating if (at := clock.at(starts.get(key, ""))) is not None]
        if not timed:
            continue
        unit = "%" if relative else metric.unit
        label = f"{metric.name} ({unit})" if unit else metric.name
        if drift is None or drift.slope_per_hour.value is None or drift.relative != relative:
            yield PlotPanel([_attempts(timed), *_ZERO], [label], y=PlotAxis())
            continue
        keys = [(p.trial, p.attempt) for cell in view.cells for p in cell.points]
        first = min(at for key in keys if (at := clock.at(starts.get(key, ""))) is not None)
        per_hour, scale = clock.unit_s / 3600, 100 if relative else 1
        x = [first + hour / per_hour for hour, _ in drift.points]
        y = [value * scale for _, value in drift.points]
        slope, ends = drift.slope_per_hour.value * scale * per_hour, [x[0], x[-1]]
        # Sen's line goes through the medians.
        line = [statistics.median(y) + slope * (end - statistics.median(x)) for end in ends]
        items: list[Item] = [_attempts(timed), *_ZERO, PlotLine(x, y, _BLOCK), PlotLine(ends, line, _DRIFT)]
        # The title has the drift as text: '+0.12 % in 3 min 05 s [−0.05, 0.31], p = 0.31; n = 12'.
        total = drift.slope_per_hour
        change, low, high = (significant(scale * drift.span_hours * number, 2) for number in total.spread)
        text = f"{'' if change.startswith('-') else '+'}{change} {unit}".rstrip()
        text += f" in {human_duration(3600 * drift.span_hours)} [{low}, {high}], p {p_text(total.p, sign=True)}"
        title = f"{label} · {say.number(no_exponent(text).replace('-', '−'))}; {say('n = {n}', n=total.n)}"
        yield PlotPanel(items, [title], y=PlotAxis())


def _host_panels(report: CampaignResults, clock: _Clock, say: Language) -> Iterator[PlotPanel]:
    yield _amounts(
        say("duration of the trial (s)"),
        [(at, m.duration_s, m.valid) for m in report.attempts if (at := clock.at(m.started_utc)) is not None],
    )
    for name, label in HOST_READINGS.items():
        amounts = [
            (at, value, attempt.valid)
            for attempt in report.attempts
            if (value := attempt.typed_notes.host.get(name)) is not None
            and (at := clock.at(attempt.started_utc)) is not None
        ]
        if amounts:
            yield _amounts(say(label), amounts)


def _amounts(label: str, points: Sequence[tuple[float, float, bool]]) -> PlotPanel:
    """Return a panel of points (time, value, is valid) above 0, in which invalid attempts are crosses."""
    invalid = [(at, value) for at, value, valid in points if not valid]
    cross: Look = {"linestyle": "none", "marker": "X", "ms": 4.5, "mew": 0, "color": PALETTE[1]}
    items = [_attempts([(at, value) for at, value, valid in points if valid])]
    items.append(PlotLine([at for at, _ in invalid], [value for _, value in invalid], cross))
    highest = max(value for _, value, _ in points)
    return PlotPanel(items, [label], y=PlotAxis(low=0, high=1.12 * highest if highest > 0 else 1.0))


def _attempts(timed: Timed) -> PlotLine:
    look = dot_look(PALETTE[0], 2.0 if len(timed) > 300 else 3.2)
    return PlotLine([at for at, _ in timed], [value for _, value in timed], look)


def _events(report: CampaignResults, clock: _Clock, ends: tuple[float, float]) -> Iterator[PanelRule | PlotNote]:
    """Yield a vertical line for each event between both ends of the axis, and its name where there is room."""
    before = -math.inf  # the position of the last name
    for at_utc, kind, _ in report.events[:_MOST_EVENTS]:
        x = clock.at(at_utc)
        if x is None or not ends[0] <= x <= ends[1]:
            continue
        yield PanelRule("x", x, {"color": GREY, "linewidth": 0.8, "linestyle": (0, (3, 2))})
        if x - before > _NAME_SHARE * (ends[1] - ends[0]):
            before = x
            yield PlotNote(x, 1, safe(kind, 24), {"rotation": 90, "ha": "right", "va": "top"}, fraction="y")
