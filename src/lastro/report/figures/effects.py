"""What each level of a factor does to a metric: the ratio to the factor's reference level, as dots with intervals."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lastro.report.analysis.model import LevelEffect, MetricAnalysis
from lastro.report.figures.style import (
    FAINT,
    GREY,
    GRID,
    PALETTE,
    SMALL_PT,
    headed,
    metric_title,
    new_figure,
    numbers_in,
    safe,
    wrapped,
)
from lastro.report.language import Language
from lastro.report.numbers import VERDICT_MARKS, Verdict, contrast_ratio, decided
from lastro.report.remarks import in_order, short, signs_of
from lastro.results.samples import Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW_IN = 0.32
COLOURS: dict[Verdict, str] = {"better": PALETTE[0], "worse": PALETTE[1], "higher": "black", "lower": "black"}


def draw_effects(analysis: MetricAnalysis, say: Language, confidence: float) -> Figure | None:
    """Main effects of every factor that varied; None where there is no ratio at all."""
    if not any(effect.ratio.value is not None for effect in analysis.effects):
        return None
    groups = [(name, list(found)) for name, found in itertools.groupby(analysis.effects, key=lambda e: e.factor)]
    titles = [say("{factor}, against {reference}", factor=name, reference=found[0].reference) for name, found in groups]
    figure = new_figure(_ROW_IN * (len(analysis.effects) + len(groups)) + 1.35)
    axes = figure.subplots()
    draw_rows(axes, analysis, list(zip(titles, [found for _, found in groups], strict=True)), say)
    percent = say.number(f"{100 * confidence:g}") + " %"
    how = say("ratio of means with its {confidence} interval, over the levels of all other factors", confidence=percent)
    corrected = say("hollow: not distinguishable from 1 (Holm)")
    marks = mark_words(analysis.effects, say)
    headed(figure, metric_title(analysis.metric, say), f"{how}; {corrected}", floor_words(analysis, say), *marks)
    return figure


def floor_words(analysis: MetricAnalysis, say: Language) -> str:
    """What the grey bands are; empty without a calibration."""
    if analysis.floor is None:
        return ""
    share = say.number(f"{100 * analysis.floor:.2g}")
    return say("grey: noise floor of this host, ± {share} % of one treatment, less of means over several", share=share)


def mark_words(effects: Sequence[LevelEffect], say: Language) -> list[str]:
    """What the signs after ratios mean: '‡ a cache may hide what is measured'."""
    return [short(kind, say) for kind in in_order(kind for effect in effects for kind in effect.kinds)]


def draw_rows(
    axes: Axes, analysis: MetricAnalysis, groups: Sequence[tuple[str, Sequence[LevelEffect]]], say: Language
) -> None:
    """Groups of effects below each other, each under its heading, with ratio, interval and n in words at the right."""
    y, ticks, labels = 0.0, [], []
    _log_axis(axes, [effect for _, found in groups for effect in found])
    for title, found in groups:
        place: Any = ("axes fraction", "data")
        axes.annotate(
            safe(title, 70), (0, y), xycoords=place, va="center", fontsize=8, fontweight="bold",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )  # fmt: skip
        for effect in found:
            y += 1
            _row(axes, analysis.metric, effect, y, say)
            ticks.append(y)
            labels.append(wrapped(effect.level, 20))
        y += 1
    axes.set_yticks(ticks, labels)
    axes.set_ylim(y - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.axvline(1, color="black", linewidth=0.9)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_xlabel(_axis_label(analysis.metric, say))
    numbers_in(axes, say)


def _row(axes: Axes, metric: Metric, effect: LevelEffect, y: float, say: Language) -> None:
    ratio = effect.ratio
    said = judged(metric, effect)
    text = ""
    if effect.floor is not None:
        low, high = _band(effect.floor)
        axes.barh(y, high - low, left=low, height=0.9, color=FAINT, alpha=0.35, linewidth=0)
    if ratio.value is not None and ratio.value > 0:
        colour = COLOURS.get(said, GREY)
        if ratio.interval is not None:
            low = max(ratio.interval.low, 1e-12)
            axes.plot([low, ratio.interval.high], [y, y], color=colour, linewidth=1.8, solid_capstyle="butt")
        fill = colour if effect.decision == "different" else "white"
        axes.plot([ratio.value], [y], marker="o", ms=5.5, color=fill, mec=colour, mew=1.3, linestyle="none", zorder=4)
        text = f"{VERDICT_MARKS[said]} {contrast_ratio(ratio, say)}".strip() + signs_of(effect.kinds)
    else:
        text = say("no ratio")
    n = say("n = {n} and {reference}", n=say.integer(effect.n[0]), reference=say.integer(effect.n[1]))
    if effect.difference.pairing == "paired":
        blocks = say.count(effect.difference.n, "block")
        n = say("n = {blocks}, {n} and {reference} trials", blocks=blocks, n=say.integer(effect.n[0]),
                reference=say.integer(effect.n[1]))  # fmt: skip
    if effect.cells < effect.all_cells:
        n += "\n" + say("{n} of {all} combinations", n=effect.cells, all=effect.all_cells)
    place: Any = ("axes fraction", "data")
    axes.annotate(
        f"{text}\n{n}", (1.02, y), xycoords=place, va="center", fontsize=SMALL_PT, color="black", annotation_clip=False,
        linespacing=1.15,
    )  # fmt: skip


def _band(floor: float) -> tuple[float, float]:
    """The ratios that a noise floor hides, as far as a logarithmic axis goes."""
    return max(0.01, 1 - floor), 1 + floor


def judged(metric: Metric, effect: LevelEffect) -> Verdict:
    """What the corrected test says of an effect."""
    return decided(metric, effect.decision, effect.ratio.value)


def _log_axis(axes: Axes, effects: Sequence[LevelEffect]) -> None:
    """A logarithmic axis with 1 inside, wide enough for every interval, at most from a hundredth to a hundredfold."""
    ends = [1.0, 1.02, 1 / 1.02]
    for effect in effects:
        ends += _band(effect.floor) if effect.floor is not None else ()
        if (value := effect.ratio.value) is not None and value > 0:
            ends.append(value)
            if effect.ratio.interval is not None:
                ends += [end for end in (effect.ratio.interval.low, effect.ratio.interval.high) if end > 0]
    low, high = (min(100.0, max(0.01, end)) for end in (min(ends), max(ends)))
    room = (high / low) ** 0.06
    ratio_axis(axes, low / room, high * room)


def ratio_axis(axes: Axes, low: float, high: float) -> None:
    """A logarithmic axis with a few round ratios."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.set_xticks(ratio_ticks(low, high))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"×{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def ratio_ticks(low: float, high: float) -> list[float]:
    """A few round ratios between two bounds, as far apart on either side of 1 as people would choose them."""
    for steps in (
        (0.01, 0.1, 1, 10, 100),
        (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100),
        (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20),
        (0.25, 0.5, 0.7, 1, 1.4, 2, 3, 4),
        (0.4, 0.6, 0.8, 1, 1.2, 1.5, 2),
        (0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3),
        (0.85, 0.9, 0.95, 1, 1.05, 1.1, 1.15),
        (0.94, 0.96, 0.98, 1, 1.02, 1.04, 1.06),
        (0.97, 0.98, 0.99, 1, 1.01, 1.02, 1.03),
    ):
        inside = [float(step) for step in steps if low <= step <= high]
        if len(inside) >= 3:
            return inside
    return [1.0]


def _axis_label(metric: Metric, say: Language) -> str:
    if metric.better == "neither":
        return say("ratio to the reference level")
    if metric.better == "higher":
        return say("ratio to the reference level (▲ right: better)")
    return say("ratio to the reference level (▲ left: better)")
