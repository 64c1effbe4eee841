"""The effect of each level of a factor on a metric: the ratio to the reference level, as dots with intervals."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lastro.analysis.model import LevelEffect, MetricAnalysis
from lastro.analysis.remarks import in_order
from lastro.analysis.verdicts import Verdict, decided
from lastro.figures.rows import FigureRow, RowLayout, fit_rows, set_rows
from lastro.figures.scale import interval_bar
from lastro.figures.style import FAINT, GREY, PALETTE, headed, metric_title, new_figure
from lastro.results.samples import Metric
from lastro.words.language import Language
from lastro.words.numbers import VERDICT_MARKS, axis_numbers, contrast_ratio, no_exponent
from lastro.words.remarks import short, signs_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_RATIOS: tuple[tuple[float, ...], ...] = (
    (0.01, 0.1, 1, 10, 100),
    (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100),
    (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20),
    (0.25, 0.5, 0.7, 1, 1.4, 2, 3, 4),
    (0.4, 0.6, 0.8, 1, 1.2, 1.5, 2),
    (0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3),
    (0.85, 0.9, 0.95, 1, 1.05, 1.1, 1.15),
    (0.94, 0.96, 0.98, 1, 1.02, 1.04, 1.06),
    (0.97, 0.98, 0.99, 1, 1.01, 1.02, 1.03),
)
COLOURS: dict[Verdict, str] = {"better": PALETTE[0], "worse": PALETTE[1], "higher": "black", "lower": "black"}


def draw_effects(analysis: MetricAnalysis, say: Language, confidence: float) -> Figure | None:
    """Draw the main effects of every factor that varied; return None if there is no ratio."""
    if not any(effect.ratio.value is not None for effect in analysis.effects):
        return None
    groups = [(name, list(found)) for name, found in itertools.groupby(analysis.effects, key=lambda e: e.factor)]
    titles = [say("{factor}, against {reference}", factor=name, reference=found[0].reference) for name, found in groups]
    figure = new_figure()
    axes = figure.subplots()
    rows = draw_rows(axes, analysis, list(zip(titles, [found for _, found in groups], strict=True)), say)
    percent = say.number(f"{100 * confidence:g}") + " %"
    how = say("ratio of means with its {confidence} interval, over the levels of all other factors", confidence=percent)
    corrected = say("hollow: not distinguishable from 1 (corrected)")
    marks = mark_words(analysis.effects, say)
    headed(figure, metric_title(analysis.metric, say), f"{how}; {corrected}", floor_words(analysis, say),
           arrow_words(analysis.effects, axes, say), *marks)  # fmt: skip
    fit_rows(figure, [(axes, rows)])
    return figure


def floor_words(analysis: MetricAnalysis, say: Language) -> str:
    """Return what the grey bands are; empty when no noise floor is known."""
    if analysis.floor is None:
        return ""
    share = floor_share(analysis.floor, say)
    return say(
        "grey: noise floor of this host, ± {share} % for one treatment, less for means over several", share=share
    )


def floor_share(floor: float, say: Language) -> str:
    """Return a noise floor in per cent with two digits: '3', '6.1', '130'."""
    return axis_numbers([float(f"{100 * floor:.2g}")], say)[0]


def mark_words(effects: Sequence[LevelEffect], say: Language) -> list[str]:
    """Return the meaning of the signs after ratios: '‡ a cache may hide what is measured'."""
    return [short(kind, say) for kind in in_order(kind for effect in effects for kind in effect.kinds)]


def arrow_words(effects: Sequence[LevelEffect], axes: Axes, say: Language) -> str:
    """Return the meaning of arrow heads; empty if no interval is longer than the axis."""
    low, high = axes.get_xlim()
    intervals = [effect.ratio.interval for effect in effects if effect.ratio.interval is not None]
    if any(interval.low < low or interval.high > high for interval in intervals):
        return say("arrow: the interval extends beyond the axis")
    return ""


def draw_rows(
    axes: Axes, analysis: MetricAnalysis, groups: Sequence[tuple[str, Sequence[LevelEffect]]], say: Language
) -> RowLayout:
    """Draw groups of effects below each other, each under its heading, with ratio, interval and n in words."""
    _log_axis(axes, [effect for _, found in groups for effect in found], say)
    entries: list[tuple[FigureRow, LevelEffect | None]] = []
    for title, found in groups:
        entries.append((FigureRow(title, heading=True), None))
        entries += [(FigureRow(effect.level, _words(analysis.metric, effect, say)), effect) for effect in found]
    rows = set_rows(axes, [entry for entry, _ in entries])
    for y, (_, effect) in zip(rows.places, entries, strict=True):
        if effect is not None:
            _dot(axes, analysis.metric, effect, y)
    axes.axvline(1, color="black", linewidth=0.9)
    axes.set_xlabel(_axis_label(analysis.metric, say))
    return rows


def _dot(axes: Axes, metric: Metric, effect: LevelEffect, y: float) -> None:
    ratio, colour = effect.ratio, COLOURS.get(judged(metric, effect), GREY)
    if effect.floor is not None:
        low, high = _band(effect.floor)
        axes.barh(y, high - low, left=low, height=0.2, color=FAINT, alpha=0.35, linewidth=0)
    if ratio.value is None or ratio.value <= 0:
        return
    if ratio.interval is not None:
        interval_bar(axes, (ratio.interval.low, ratio.interval.high), y, colour)
    fill = colour if effect.decision == "different" else "white"
    low, high = axes.get_xlim()
    if low <= ratio.value <= high:
        axes.plot([ratio.value], [y], marker="o", ms=5.5, color=fill, mec=colour, mew=1.3, linestyle="none", zorder=4)


def _words(metric: Metric, effect: LevelEffect, say: Language) -> str:
    """Return the ratio with its interval, n, and the number of combinations if some are missing."""
    text = say("no ratio")
    if effect.ratio.value is not None and effect.ratio.value > 0:
        ratio = no_exponent(contrast_ratio(effect.ratio, say))
        text = f"{VERDICT_MARKS[judged(metric, effect)]} {ratio}".strip() + signs_of(effect.kinds)
    n = say("n = {n} and {reference}", n=say.integer(effect.n[0]), reference=say.integer(effect.n[1]))
    if effect.difference.pairing == "paired":
        blocks = say.count(effect.difference.n, "block")
        n = say("n = {blocks}, {n} and {reference} trials", blocks=blocks, n=say.integer(effect.n[0]),
                reference=say.integer(effect.n[1]))  # fmt: skip
    some = say("{n} of {all} combinations", n=effect.cells, all=effect.all_cells)
    return "\n".join((text, n, *([some] if effect.cells < effect.all_cells else [])))


def _band(floor: float) -> tuple[float, float]:
    """Return the range of ratios within a noise floor, as far as a logarithmic axis goes."""
    return max(0.01, 1 - floor), 1 + floor


def judged(metric: Metric, effect: LevelEffect) -> Verdict:
    """Return the verdict of the corrected test on an effect."""
    return decided(metric, effect.decision, effect.ratio.value)


def _log_axis(axes: Axes, effects: Sequence[LevelEffect], say: Language) -> None:
    """Set a logarithmic axis around 1 that holds every interval, at most from a hundredth to a hundredfold."""
    ends = [1.0, 1.02, 1 / 1.02]
    for effect in effects:
        ends += _band(effect.floor) if effect.floor is not None else ()
        if (value := effect.ratio.value) is not None and value > 0:
            ends.append(value)
            if effect.ratio.interval is not None:
                ends += [end for end in (effect.ratio.interval.low, effect.ratio.interval.high) if end > 0]
    low, high = (min(100.0, max(0.01, end)) for end in (min(ends), max(ends)))
    room = (high / low) ** 0.06
    ratio_axis(axes, low / room, high * room, say)


def ratio_axis(axes: Axes, low: float, high: float, say: Language) -> None:
    """Set a logarithmic axis with a few round ratios."""
    from matplotlib.ticker import NullLocator

    from lastro.figures.ticks import TickLabels, Ticks

    def text(ratios: Sequence[float]) -> list[str]:
        return [f"×{axis_numbers([ratio], say)[0]}" for ratio in ratios]

    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(Ticks(text, ratio_ladder))
    axes.xaxis.set_major_formatter(TickLabels(text))
    axes.xaxis.set_minor_locator(NullLocator())


def ratio_ladder(low: float, high: float, _: bool) -> Iterator[list[float]]:
    """Yield round ratios between two bounds, spaced naturally on either side of 1; most first."""
    if low < 0.008 or high > 120:
        from lastro.figures.ticks import powers

        yield from powers(low, high)
    inside = [[float(step) for step in steps if low <= step <= high] for steps in _RATIOS]
    finest = next((at for at, steps in enumerate(inside) if len(steps) >= 3), 0)
    yield from inside[finest::-1]
    yield [1.0]


def _axis_label(metric: Metric, say: Language) -> str:
    if metric.better == "neither":
        return say("ratio to the reference level")
    if metric.better == "higher":
        return say("ratio to the reference level (▲ right: better)")
    return say("ratio to the reference level (▲ left: better)")
