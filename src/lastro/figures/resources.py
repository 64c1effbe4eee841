"""The resources of each role of the testbed: CPU seconds and memory of a trial, by the levels of the leading factor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lastro.analysis.campaign import CampaignResults
from lastro.figures.scale import AxisEnds, interval_bar, over
from lastro.figures.style import (
    GREY,
    GRID,
    PALETTE,
    SMALL_PT,
    fit,
    headed,
    is_narrow,
    new_figure,
    numbers_in,
)
from lastro.figures.text import lines_of, wrapped
from lastro.stats.intervals import Summary, describe
from lastro.stats.notes import N_
from lastro.words.language import Language

if TYPE_CHECKING:
    from matplotlib.axes import Axes
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
    figure = new_figure()
    panels = (len(quantities), 1) if is_narrow(figure) else (1, len(quantities))
    beside = list(figure.subplots(*panels, squeeze=False).flat)
    arrows: dict[str, None] = {}
    for axes, (name, label, unit) in zip(beside, quantities, strict=True):
        found = {
            (role, level): describe([value / unit for value in values], confidence, non_negative=True)
            for role, of_level in used.items()
            for level, of in of_level.items()
            if (values := of.get(name))
        }
        ends = _reach(list(found.values()))
        axes.set_xlim(ends.low, ends.high)
        arrows.update(dict.fromkeys(ends.words(say(label), say)))
        for y, role, level in places:
            if level is not None:
                _dot(axes, y, found.get((role, level)), say)
        axes.set_xlabel(say(label))
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color=GRID, linewidth=0.6)
        numbers_in(axes, say)
        _label(axes, places, named=axes is beside[0] or is_narrow(figure))
    percent = say.number(f"{100 * confidence:g}") + " %"
    by = say("by {factor}", factor=factor) if factor else ""
    title = say("Resources that each role used in a trial")
    how = say("mean of the valid trials with its {confidence} interval", confidence=percent)
    headed(figure, f"{title} {by}".strip(), how, *arrows)
    stacked = beside[: panels[0]]
    return fit(figure, stacked, len(stacked) * (places[-1][0] + 1.6 * _LINE_IN))


def _reach(found: Sequence[Summary]) -> AxisEnds:
    """Return an axis from zero to beyond every interval."""
    intervals = [(each.interval.low, each.interval.high) for each in found if each.interval is not None]
    high = max([0.0, *(each.mean for each in found), *(end for _, end in intervals)])
    return over(intervals, AxisEnds(0.0, 1.07 * high or 1.0), bounded=True)


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


def _dot(axes: Axes, y: float, found: Summary | None, say: Language) -> None:
    place: Any = ("axes fraction", "data")
    if found is None:
        axes.annotate("✕", (0.02, y), xycoords=place, va="center", fontsize=SMALL_PT, color=GREY)
        return
    if found.interval is not None:
        interval_bar(axes, (found.interval.low, found.interval.high), y, PALETTE[0])
    axes.plot([found.mean], [y], marker="o", ms=4.2, color=PALETTE[0], mec="white", mew=0.5, zorder=4)
    n = say("n = {n}", n=say.integer(found.n))
    axes.annotate(n, (1.03, y), xycoords=place, va="center", fontsize=SMALL_PT - 0.5, color=GREY, annotation_clip=False)


def _label(axes: Axes, places: Sequence[tuple[float, str, str | None]], *, named: bool) -> None:
    headings = any(level is None for _, _, level in places)
    texts = [role if level is None or not headings else level for _, role, level in places]
    axes.set_yticks([y for y, _, _ in places], [wrapped(text, _NAME_CHARS) if named else "" for text in texts])
    for tick, (_, _, level) in zip(axes.get_yticklabels(), places, strict=True):
        if headings and level is None:
            tick.set_fontweight("bold")
    axes.set_ylim(places[-1][0] + 0.8 * _LINE_IN, -0.8 * _LINE_IN)
