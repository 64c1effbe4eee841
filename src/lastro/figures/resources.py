"""The resources of each role of the testbed: CPU seconds and memory of a trial, by the levels of the leading factor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from lastro.analysis.campaign import CampaignResults
from lastro.figures.scale import from_zero
from lastro.figures.style import PALETTE
from lastro.figures.text import lines_of, wrapped
from lastro.figures.xy import Item, Plot, PlotAxis, PlotLine, PlotNote, PlotPanel, Whiskers, drawn
from lastro.stats.intervals import Summary, describe
from lastro.stats.notes import N_
from lastro.words.language import Language

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LINE_IN, _NAME_CHARS = 0.15, 18
_MOST_ROLES = 12
_LEADING = ("platform", "isolation", "function", "attachment")
# Name in the notes, label here, and how many units of the notes make one unit shown.
QUANTITIES = (("cpu_s", N_("CPU time (s)"), 1.0), ("memory_bytes", N_("memory (MiB)"), 2.0**20))

Used = dict[str, dict[str, dict[str, list[float]]]]  # role -> level -> quantity -> values of the trials


def draw_resources(report: CampaignResults, say: Language) -> Figure | None:
    """Draw means with intervals, and n; None where no valid trial noted its resources."""
    factor, levels, confidence = *_leading(report), report.study.design.confidence
    used = _gather(report, factor)
    quantities = [each for each in QUANTITIES if any(each[0] in of for role in used.values() for of in role.values())]
    if not quantities:
        return None
    places = list(_places(used, levels))
    names = [
        (y, wrapped(role if level == "" else level, _NAME_CHARS)) for y, role, level in places if level is not None
    ]
    bottom, top = places[-1][0] + 0.8 * _LINE_IN, -0.8 * _LINE_IN
    panels: list[PlotPanel] = []
    arrows: list[str] = []
    for name, label, unit in quantities:
        found = {
            (role, level): describe([value / unit for value in values], confidence, non_negative=True)
            for role, of_level in used.items()
            for level, of in of_level.items()
            if (values := of.get(name))
        }
        ends = from_zero(found.values(), 1.07)
        arrows += ends.words(say(label), say)
        panels.append(PlotPanel(list(_items(places, found, say)), x=PlotAxis.of(ends, say(label))))
    percent = say.number(f"{100 * confidence:g}") + " %"
    by = say("by {factor}", factor=factor) if factor else ""
    title = f"{say('Resources that each role used in a trial')} {by}".strip()
    how = [say("mean of the valid trials with its {confidence} interval", confidence=percent), *dict.fromkeys(arrows)]
    y = PlotAxis(low=bottom, high=top, ticks=names, grid=False)
    return drawn(Plot(panels, title, how, PlotAxis(), y, bottom - top, across=2, narrow_across=1), say)


def _leading(report: CampaignResults) -> tuple[str, tuple[str, ...]]:
    """Return the factor by which resources are shown, and its levels; ('', ('',)) when no such factor varies."""
    for name in _LEADING:
        for factor in report.varying:
            if factor.name == name:
                return name, tuple(str(level) for level in factor.levels)
    return "", ("",)


def _gather(report: CampaignResults, factor: str) -> Used:
    """Collect the resources that valid trials recorded."""
    levels = {row.treatment.index: str(row.treatment.levels.get(factor, "")) for row in report.rows}
    used: Used = {}
    for attempt in report.attempts:
        for role, amounts in attempt.noted.usage.items() if attempt.valid else ():
            for name in (name for name, _, _ in QUANTITIES if name in amounts):
                if role in used or len(used) < _MOST_ROLES:
                    of_level = used.setdefault(role, {}).setdefault(levels[attempt.treatment], {})
                    of_level.setdefault(name, []).append(amounts[name])
    return used


def _places(used: Used, levels: Sequence[str]) -> Iterator[tuple[float, str, str | None]]:
    """Yield (inches from the top, role, level); the level of a role's heading is None. Rows fit their names."""
    y = 0.0
    for role in used:
        if levels != ("",):
            yield y, role, None
            y += _LINE_IN + 0.04
        for level in levels:
            half_in = _LINE_IN * (lines_of(wrapped(level, _NAME_CHARS)) - 1) / 2
            yield y + half_in, role, level
            y += 2 * half_in + _LINE_IN + 0.04
        y += 0.08


def _items(
    places: Sequence[tuple[float, str, str | None]], found: Mapping[tuple[str, str], Summary], say: Language
) -> Iterator[Item]:
    for y, role, level in places:
        if level is None:
            yield PlotNote(0.0, y, role, {"fontweight": "bold", "fontsize": 7.5, "color": "black"})
        elif (summary := found.get((role, level))) is None:
            yield PlotNote(0.02, y, "✕")
        else:
            if summary.interval is not None:
                yield Whiskers({y: (summary.interval.low, summary.interval.high)}, PALETTE[0], "x", 1.8)
            dot = {"marker": "o", "ms": 4.2, "color": PALETTE[0], "mec": "white", "mew": 0.5, "zorder": 4}
            yield PlotLine([summary.mean], [y], dot)
            yield PlotNote(1.03, y, say("n = {n}", n=say.integer(summary.n)))
