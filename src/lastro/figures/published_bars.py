"""A figure of bars as a source has it, with this campaign's means, and its published figures as marks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lastro.analysis.as_published import MatchedBars, PublishedBar, PublishedPanel
from lastro.figures.scale import interval_bar
from lastro.figures.style import (
    GREY,
    GRID,
    SMALL_PT,
    axis_title,
    colour_of,
    fit,
    headed,
    is_narrow,
    legend,
    new_figure,
    numbers_in,
    width_of,
)
from lastro.figures.text import chars, em, lines_of, wrapped
from lastro.words.language import Language
from lastro.words.published import marks_of, side_text, title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL_IN = 1.8
_AXIS_IN = 0.6  # at the left of a panel, for its numbers and its name
_GROUP = 0.8  # of the distance between two groups, for the bars of one


def draw_bars(found: MatchedBars, confidence: float, say: Language) -> Figure | None:
    """Draw the panels beside each other, or stacked on a narrow figure; None where no bar was measured."""
    if not any(each.here.mean is not None for panel in found.panels for each in panel.bars):
        return None
    figure = new_figure()
    beside = width_of(figure) / len(found.panels) - _AXIS_IN
    across = len(found.panels) if not is_narrow(figure) and _fits(found, beside, say) else 1
    deep = math.ceil(len(found.panels) / across)
    grid = list(figure.subplots(deep, across, squeeze=False).flat)
    labels = _labels(found, width_of(figure) / across - _AXIS_IN, say)
    names = dict.fromkeys(name for group in found.figure.groups for name in group)
    for axes, panel in zip(grid, found.panels, strict=True):
        _panel(axes, panel, len(found.figure.bars), say)
        axes.set_xticks(range(len(labels)), labels)
        axes.set_xlabel(" · ".join(names), fontsize=SMALL_PT)
        axes.set_ylabel(wrapped(axis_title(panel.metric), chars(_PANEL_IN, 8.5), 90))
        axes.tick_params(labelsize=SMALL_PT)
        axes.tick_params(axis="x", length=0)
        numbers_in(axes, say, x=False, y=True)
    legend(figure, [*_handles(found, say)], most=3)
    percent = say.number(f"{100 * confidence:g}") + " %"
    missing = any(each.here.mean is None for panel in found.panels for each in panel.bars)
    headed(
        figure, title_of(found.figure.passage, say),
        say("bar: mean of this campaign with its {confidence} interval", confidence=percent), _marks_words(found, say),
        say("missing: not measured here, and the table has the reasons") if missing else "",
    )  # fmt: skip
    return fit(figure, grid[::across], _PANEL_IN * deep + 0.12 * deep * (max(map(lines_of, labels)) - 1))


def _labels(found: MatchedBars, room_in: float, say: Language) -> list[str]:
    groups = found.figure.groups
    return [wrapped(side_text(group, say, short=True), chars(room_in / len(groups), SMALL_PT)) for group in groups]


def _fits(found: MatchedBars, room_in: float, say: Language) -> bool:
    """Return whether the longest word of the labels fits below its group."""
    words = [word for group in found.figure.groups for word in side_text(group, say, short=True).split()]
    return max(map(em, words)) * SMALL_PT / 72 < room_in / len(found.figure.groups)


def _marks_words(found: MatchedBars, say: Language) -> str:
    marks = [mark for panel in found.panels for mark in marks_of(panel)]
    if any(mark.relative for mark in marks):
        return say("diamond: the published ratio or difference, applied to the mean that the source compares with")
    return say("diamond: published") if marks else ""


def _panel(axes: Axes, panel: PublishedPanel, n_bars: int, say: Language) -> None:
    tops = [end for each in panel.bars for end in _ends(each)]
    axes.set_ylim(min(0.0, *tops) * 1.08, (max(0.0, *tops) or 1.0) * 1.08)
    width = _GROUP / n_bars
    for each in panel.bars:
        at = each.group if each.bar is None else each.group + (each.bar - (n_bars - 1) / 2) * width
        if each.bar is not None:
            _bar(axes, each, at, width, say)
        if each.mark is not None:
            if each.bar is None:
                ends = [each.group - _GROUP / 2, each.group + _GROUP / 2]
                axes.plot(ends, [each.mark.value] * 2, color=GREY, linewidth=1.0, zorder=3.8)
            axes.plot([at], [each.mark.value], marker="D", ms=4.5, color="white", mec="black", mew=1.1, zorder=4)
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.axhline(0, color=GREY, linewidth=0.8)


def _bar(axes: Axes, each: PublishedBar, at: float, width: float, say: Language) -> None:
    assert each.bar is not None
    mean = each.here.mean
    if mean is None or mean.value is None:
        axes.text(at, 0, f" {say('missing')}", rotation=90, ha="center", va="bottom", fontsize=SMALL_PT, color=GREY)
        return
    axes.bar(at, mean.value, width * 0.92, color=colour_of(each.bar), alpha=0.75, linewidth=0)
    if mean.interval is not None:
        ends = (mean.interval.low, mean.interval.high)
        interval_bar(axes, ends, at, "black", along="y", width_pt=1.0, caps=True)


def _ends(each: PublishedBar) -> Iterator[float]:
    """Yield the values that the axis must hold; an interval may reach twice as far as its mean."""
    mean = each.here.mean
    if mean is not None and mean.value is not None and each.bar is not None:
        yield mean.value
        if mean.interval is not None:
            yield min(mean.interval.high, 2 * abs(mean.value))
    if each.mark is not None:
        yield each.mark.value
    yield 0.0


def _handles(found: MatchedBars, say: Language) -> Iterator[object]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    for number, side in enumerate(found.figure.bars if any(found.figure.bars) else ()):
        yield Patch(color=colour_of(number), alpha=0.75, linewidth=0, label=side_text(side, say))
    if any(map(marks_of, found.panels)):
        yield Line2D([], [], marker="D", ms=4.5, color="white", mec="black", mew=1.1, linestyle="none",
                     label=say("published"))  # fmt: skip
