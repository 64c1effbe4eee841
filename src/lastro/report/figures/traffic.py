"""Packets of the routing protocol on all links in each second, and the load of the host.

Packets are shown from the first start on, and around the cut of links; the host from the first start on. There is a
panel for each treatment, with its valid trials aligned at that second."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from lastro.analysis.campaign import Report, Row
from lastro.report.figures.style import (
    GRID,
    SMALL_PT,
    colour_of,
    fit,
    headed,
    is_narrow,
    legend,
    new_figure,
    numbers_in,
    width_of,
)
from lastro.report.figures.text import chars, wrapped
from lastro.report.language import Language
from lastro.results.samples import Series
from lastro.stats.intervals import sample_mean
from lastro.stats.notes import N_

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lastro.results.store import Attempt

Moment = Literal["cpu", "begin", "cut"]
MOST_PANELS = 36
TITLES: dict[Moment, str] = {
    "cpu": N_("CPU of the host from the first start on"),
    "begin": N_("OSPF packets from the first start on"),
    "cut": N_("OSPF packets after a cut"),
}
_BEGINS: dict[Moment, str] = {"cpu": "begin", "begin": "begin", "cut": "cut"}  # marks
_ENDS: dict[Moment, str] = {"cpu": "converged", "begin": "converged", "cut": "recovered"}
_AXES = {"begin": N_("seconds since the first start"), "cut": N_("seconds since the links were cut")}  # by mark
_BEFORE_S: dict[Moment, int] = {"cpu": 0, "begin": 0, "cut": 5}
_SUFFIX = " packets"  # of the name of a series
_OTHER = N_("other OSPF packets")
_LINES = (N_("hello"), N_("link-state update"), _OTHER)
_CPU = N_("host CPU")  # a series, and its line
_PANEL_IN = 0.9

Counts = dict[str, list[tuple[float, ...]]]  # line -> for each trial, a value for each second


def draw_traffic(report: Report, moment: Moment, say: Language) -> Figure | None:
    """Draw means over the valid trials, and the band from the smallest to the largest; None without such a time."""
    attempts = _attempts(report, moment)
    rows = [row for row in report.rows if attempts.get(row.treatment.index)]
    counts = [(row, _counts(report, attempts[row.treatment.index], moment)) for row in rows[:MOST_PANELS]]
    panels = [(row, found) for row, found in counts if found]
    if not panels:
        return None
    figure = new_figure()
    across = min(2 if is_narrow(figure) else 3, len(panels))
    deep = math.ceil(len(panels) / across)
    grid = list(figure.subplots(deep, across, sharex=True, sharey=True, squeeze=False).flat)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    room = chars(width_of(figure) / across - 0.35, SMALL_PT)
    for at, (axes, (row, found)) in enumerate(zip(grid, panels, strict=False)):
        _panel(axes, found, moment, say, named=at == 0)
        if moment == "cut":
            _mark_events(axes, attempts[row.treatment.index])
        n = len(next(iter(found.values())))
        axes.set_title(_label(report, row, n, room, say), loc="left", fontsize=SMALL_PT)
        axes.tick_params(labelsize=SMALL_PT, labelbottom=at + across >= len(panels))
        numbers_in(axes, say, x=True, y=True)
    figure.supylabel(say("busy, % of all CPUs") if moment == "cpu" else say("packets per second"), fontsize=SMALL_PT)
    named, _ = grid[0].get_legend_handles_labels()
    legend(figure, named, say(_AXES[_BEGINS[moment]]), most=len(_LINES))
    how = say("on all links: mean of the valid trials; band: minimum and maximum")
    if moment == "cpu":
        how = say("without Lastro itself: mean of the valid trials; band: minimum and maximum")
    left = len(rows) - MOST_PANELS
    events = say("line: the cut; dashed: the links are back (mean)") if moment == "cut" else ""
    some = say("{n} of {all} treatments", n=MOST_PANELS, all=len(rows)) if left > 0 else ""
    headed(figure, say(TITLES[moment]), how, events, some)
    return fit(figure, grid[::across], _PANEL_IN * deep)


def _attempts(report: Report, moment: Moment) -> dict[int, list[Attempt]]:
    """Return, by treatment, the valid attempts that noted the moment."""
    found: dict[int, list[Attempt]] = {}
    for attempt in report.attempts:
        if attempt.valid and _BEGINS[moment] in attempt.noted.marks_s:
            found.setdefault(attempt.treatment, []).append(attempt)
    return found


def _counts(report: Report, attempts: Sequence[Attempt], moment: Moment) -> Counts:
    """Return the series of all trials, cut to the shortest, so that each mean is over all trials."""
    stored = report.later_series([(attempt.trial, attempt.attempt) for attempt in attempts])
    found: Counts = {line: [] for line in ((_CPU,) if moment == "cpu" else _LINES)}
    for attempt, series in zip(attempts, stored, strict=True):
        at_s, end_s = attempt.noted.marks_s.get(_BEGINS[moment]), attempt.noted.marks_s.get(_ENDS[moment])
        own = _of_cpu(series) if moment == "cpu" else _by_line(series)
        if at_s is None or not own:
            continue
        first = int(at_s) - _BEFORE_S[moment]
        for line, seconds in own.items():
            shown = seconds[max(0, first) : None if end_s is None else int(end_s) + 1]
            found[line].append((0.0,) * max(0, -first) + shown)
    shortest = min((len(seconds) for trials in found.values() for seconds in trials), default=0)
    return {line: [seconds[:shortest] for seconds in trials] for line, trials in found.items()} if shortest else {}


def _of_cpu(series: Sequence[Series]) -> dict[str, tuple[float, ...]]:
    return {each.name: each.values for each in series if each.name == _CPU and each.values}


def _by_line(series: Sequence[Series]) -> dict[str, tuple[float, ...]]:
    """Return packets of each line in each second; empty without a count of packets."""
    found: dict[str, tuple[float, ...]] = {}
    for each in series:
        if each.name.endswith(_SUFFIX) and each.unit == "1/s":
            kind = each.name.removesuffix(_SUFFIX)
            line = kind if kind in _LINES else _OTHER
            before = found.get(line, (0.0,) * len(each.values))
            found[line] = tuple(a + b for a, b in zip(before, each.values, strict=False))
    return found if len(found) == len(_LINES) else {}


def _panel(axes: Axes, counts: Counts, moment: Moment, say: Language, *, named: bool) -> None:
    for number, (line, trials) in enumerate(counts.items()):
        seconds = list(zip(*trials, strict=True))
        at = [second - _BEFORE_S[moment] for second in range(len(seconds))]
        means = [sample_mean(second) for second in seconds]
        axes.plot(at, means, color=colour_of(number), linewidth=1.0, label=say(line) if named else None)
        least, most = [min(second) for second in seconds], [max(second) for second in seconds]
        axes.fill_between(at, least, most, color=colour_of(number), alpha=0.2, linewidth=0)
    axes.set_ylim(bottom=0)
    axes.grid(color=GRID, linewidth=0.6)


def _mark_events(axes: Axes, attempts: Sequence[Attempt]) -> None:
    """Mark the cut, and the mean time at which links were back, which differs between trials."""
    gone = [
        marks_s["back"] - marks_s["cut"]
        for attempt in attempts
        for marks_s in [attempt.noted.marks_s]
        if "cut" in marks_s and "back" in marks_s
    ]
    axes.axvline(0, color="black", linewidth=0.8)
    if gone:
        axes.axvline(sample_mean(gone), color="black", linewidth=0.8, linestyle=(0, (3, 2)))


def _label(report: Report, row: Row, n: int, room: float, say: Language) -> str:
    levels = [str(row.treatment.levels[factor.name]) for factor in report.varying]
    return "\n".join((*([wrapped(" · ".join(levels), room)] if levels else []), say("n = {n}", n=say.integer(n))))
