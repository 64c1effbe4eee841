"""What a source published, and what was measured here: claim by claim, those of one kind of measure on one axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lastro.report.claim_words import VERDICT_MARKS, VERDICT_WORDS, effect_text
from lastro.report.claims import Judgement
from lastro.report.figures.effects import ratio_axis
from lastro.report.figures.style import FAINT, GREY, GRID, PALETTE, SMALL_PT, headed, new_figure, numbers_in, wrapped
from lastro.report.language import Language
from lastro.study.claims import Absolute

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lastro.stats.contrasts import Contrast

_ROW_IN = 0.38

Group = tuple[str, str]  # measure and unit


def draw_claims(judgements: Sequence[Judgement], say: Language) -> Figure | None:
    """Claims with a measured effect; None when there is none. The others stand in the table of claims."""
    groups: dict[Group, list[Judgement]] = {}
    for one in judgements:
        if one.part is not None and judged_effect(one)[1] is not None:
            measure, _ = judged_effect(one)
            groups.setdefault((measure, one.unit if measure in ("difference", "level") else ""), []).append(one)
    if not groups:
        return None
    sizes = [len(found) + 1.2 for found in groups.values()]
    figure = new_figure(_ROW_IN * sum(sizes) + 1.3)
    stacked = figure.subplots(len(groups), 1, squeeze=False, gridspec_kw={"height_ratios": sizes})[:, 0]
    for axes, (group, found) in zip(stacked, groups.items(), strict=True):
        _panel(axes, group, found, say)
    there = {one.verdict for found in groups.values() for one in found}
    marks = ", ".join(f"{mark} {say(VERDICT_WORDS[v])}" for v, mark in VERDICT_MARKS.items() if v in there)
    headed(
        figure, say("Published and measured"),
        say("diamond: published, with its tolerance; dot: measured here, with its interval"), marks,
    )  # fmt: skip
    return figure


def judged_effect(one: Judgement) -> tuple[str, Contrast | None]:
    """The measure in which a claim is drawn, that of the published figure where there is one, and the effect in it."""
    part, published = one.part, one.claim.published
    if part is None:
        return "", None
    measure = published.judged[0] if published is not None and published.tolerance is not None else part.measure
    if measure == part.measure:
        return measure, part.effect if part.effect.value is not None else None
    if measure == "difference" and part.beside is not None and part.beside.value is not None:
        return measure, part.beside
    return part.measure, part.effect if part.effect.value is not None else None


def _panel(axes: Axes, group: Group, found: Sequence[Judgement], say: Language) -> None:
    measure, unit = group
    scale = 100.0 if measure == "share" else 1.0
    low, high = _reach(found, measure, scale)
    if measure == "ratio" and low > 0:
        ratio_axis(axes, low, high)
    for y, one in enumerate(found):
        _, effect = judged_effect(one)
        assert one.part is not None and effect is not None and effect.value is not None
        _published(axes, one, measure, y, scale, (low, high))
        if effect.interval is not None:
            _interval(axes, effect.interval.low * scale, effect.interval.high * scale, (low, high), y)
        axes.plot([effect.value * scale], [y], marker="o", ms=5, color=PALETTE[0], mec="white", mew=0.6, zorder=4)
        text = f"{VERDICT_MARKS[one.verdict]} {effect_text(measure, effect, unit, say, one.part.bound)}"  # type: ignore[arg-type]
        n = say("n = {n}", n=say.integer(effect.n))
        place: Any = ("axes fraction", "data")
        axes.annotate(
            f"{wrapped(text, 26)}\n{n}", (1.02, y), xycoords=place, va="center", fontsize=SMALL_PT,
            annotation_clip=False,
        )  # fmt: skip
    axes.axvline(1.0 if measure == "ratio" else 0.0, color="black", linewidth=0.9)
    axes.set_yticks(range(len(found)), [wrapped(one.claim.id, 20) for one in found])
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.set_xlim(low, high)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    if measure != "ratio" or low <= 0:
        axes.locator_params(axis="x", nbins=4)
    axes.set_xlabel(_axis(measure, unit, say))
    numbers_in(axes, say)


def _reach(found: Sequence[Judgement], measure: str, scale: float) -> tuple[float, float]:
    """The ends of the axis: every effect, published figure and tolerance; intervals as far as half of that beyond."""
    at = [1.0 if measure == "ratio" else 0.0]
    ends = []
    for one in found:
        _, effect = judged_effect(one)
        published, statement = one.claim.published, one.claim.statement
        if isinstance(statement, Absolute):
            at += [end for end in (statement.low, statement.high) if math.isfinite(end)]
        if effect is not None and effect.value is not None:
            at.append(effect.value * scale)
            if effect.interval is not None:
                ends += [effect.interval.low * scale, effect.interval.high * scale]
        if published is not None and published.judged[0] == measure:
            reach = published.tolerance or 0.0
            at += [(published.judged[1] - reach) * scale, (published.judged[1] + reach) * scale]
    room = 0.5 * (max(at) - min(at)) or 0.1
    low = max(min([*at, *ends]), min(at) - room)
    high = min(max([*at, *ends]), max(at) + room)
    if measure == "ratio" and min(at) > 0:
        low = max(low, 0.7 * min(at))
        return low / 1.04, high * 1.04
    return low - 0.05 * room, high + 0.05 * room


def _interval(axes: Axes, low: float, high: float, reach: tuple[float, float], y: int) -> None:
    """A bar; an arrow head where it goes on beyond the axis."""
    ends = [max(low, reach[0]), min(high, reach[1])]
    axes.plot(ends, [y, y], color=PALETTE[0], linewidth=2, solid_capstyle="butt", zorder=3)
    for end, beyond, marker in ((reach[0], low < reach[0], "<"), (reach[1], high > reach[1], ">")):
        if beyond:
            axes.plot([end], [y], marker=marker, ms=5, color=PALETTE[0], mew=0, clip_on=False, zorder=3)


def _published(axes: Axes, one: Judgement, measure: str, y: int, scale: float, reach: tuple[float, float]) -> None:
    """Its figure and the tolerance; of a level, where its mean may lie."""
    published, statement = one.claim.published, one.claim.statement
    if isinstance(statement, Absolute):
        ends = [
            end if math.isfinite(end) else beyond
            for end, beyond in zip((statement.low, statement.high), reach, strict=True)
        ]
        axes.barh(y, ends[1] - ends[0], left=ends[0], height=0.6, color=FAINT, alpha=0.55)
        return
    if published is None or published.judged[0] != measure:
        return
    figure = published.judged[1] * scale
    if published.tolerance is not None:
        around = published.tolerance * scale
        axes.barh(y, 2 * around, left=figure - around, height=0.6, color=FAINT, alpha=0.55)
    axes.plot([figure], [y], marker="D", ms=5, color="white", mec=GREY, mew=1.2, linestyle="none", zorder=3.5)


def _axis(measure: str, unit: str, say: Language) -> str:
    if measure == "ratio":
        return say("ratio")
    if measure == "share":
        return say("share recovered (%)")
    if measure == "level":
        return say("mean ({unit})", unit=unit)
    return say("difference ({unit})", unit=unit) if unit else say("difference")
