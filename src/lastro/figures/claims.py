"""Published and measured values, claim by claim; values of the same measure are on one axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lastro.analysis.claims import Judgement, has_magnitude, judged_measure, tolerated
from lastro.figures.effects import ratio_axis
from lastro.figures.rows import FigureRow, RowLayout, fit_rows, set_rows
from lastro.figures.scale import AxisEnds, interval_bar, over
from lastro.figures.style import FAINT, GREY, PALETTE, headed, new_figure, numbers_in
from lastro.results.samples import Metric
from lastro.words.claims import VERDICT_MARKS, VERDICT_WORDS, effect_text
from lastro.words.language import Language
from lastro.words.numbers import no_exponent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lastro.stats.contrasts import Contrast

_BAND_IN = 0.16

Group = tuple[str, str]  # measure and unit


def draw_claims(judgements: Sequence[Judgement], say: Language, metrics: Sequence[Metric] = ()) -> Figure | None:
    """Draw the claims with a measured effect; None when there is none. The table of claims has all claims."""
    groups: dict[Group, list[Judgement]] = {}
    for one in judgements:
        if one.part is not None and judged_effect(one)[1] is not None:
            measure, _ = judged_effect(one)
            groups.setdefault((measure, one.unit if measure in ("difference", "level") else ""), []).append(one)
    if not groups:
        return None
    figure = new_figure()
    stacked = figure.subplots(len(groups), 1, squeeze=False)[:, 0]
    drawn: list[tuple[Axes, RowLayout]] = []
    arrows: dict[str, None] = {}
    for axes, (group, found) in zip(stacked, groups.items(), strict=True):
        found_reach = _reach(found, *group, metrics)
        drawn.append((axes, _panel(axes, group, found, found_reach, say)))
        arrows.update(dict.fromkeys(found_reach.words(group[1], say)))
    there = {one.verdict for found in groups.values() for one in found}
    marks = ", ".join(f"{mark} {say(VERDICT_WORDS[v])}" for v, mark in VERDICT_MARKS.items() if v in there)
    headed(
        figure, say("Published and measured"),
        say("diamond: published, with its tolerance; dot: measured here, with its interval"), marks, *arrows,
    )  # fmt: skip
    fit_rows(figure, drawn)
    return figure


def judged_effect(one: Judgement) -> tuple[str, Contrast | None]:
    """Return the measure in which a claim is drawn (that of the published figure, if any), and the effect in it."""
    part = one.part
    if part is None:
        return "", None
    measure = judged_measure(one.claim, part)
    if measure == part.measure:
        return measure, part.effect if part.effect.value is not None else None
    if measure == "difference" and part.beside is not None and part.beside.value is not None:
        return measure, part.beside
    return part.measure, part.effect if part.effect.value is not None else None


def _panel(axes: Axes, group: Group, found: Sequence[Judgement], ends: AxisEnds, say: Language) -> RowLayout:
    measure, unit = group
    scale = 100.0 if measure == "share" else 1.0
    if ends.log:
        ratio_axis(axes, ends.low, ends.high, say)
    else:
        axes.set_xlim(ends.low, ends.high)
        numbers_in(axes, say)
    effects = [effect for one in found if (effect := judged_effect(one)[1]) is not None]
    rows = set_rows(axes, [FigureRow(one.claim.id, _words(one, *group, say)) for one in found])
    for y, one, effect in zip(rows.places, found, effects, strict=True):
        assert effect.value is not None
        _published(axes, one, measure, y, scale, (ends.low, ends.high))
        if effect.interval is not None:
            interval_bar(axes, (effect.interval.low * scale, effect.interval.high * scale), y, PALETTE[0])
        axes.plot([effect.value * scale], [y], marker="o", ms=5, color=PALETTE[0], mec="white", mew=0.6, zorder=4)
    axes.axvline(1.0 if measure == "ratio" else 0.0, color="black", linewidth=0.9)
    axes.set_xlim(ends.low, ends.high)
    axes.set_xlabel(_axis(measure, unit, say))
    return rows


def _words(one: Judgement, measure: str, unit: str, say: Language) -> str:
    """Return the verdict's mark, the effect with its interval, and n."""
    _, effect = judged_effect(one)
    assert one.part is not None and effect is not None
    text = no_exponent(effect_text(measure, effect, unit, say, one.part.bound))  # type: ignore[arg-type]
    stand_in = f", {say('stand-in')}" if one.stand_in else ""
    return f"{VERDICT_MARKS[one.verdict]} {text}\n" + say("n = {n}", n=say.integer(effect.n)) + stand_in


def _reach(found: Sequence[Judgement], measure: str, unit: str, metrics: Sequence[Metric]) -> AxisEnds:
    """Return the ends of the axis: all effects, published figures and tolerances, and long intervals in part."""
    scale = 100.0 if measure == "share" else 1.0
    at, ends = [1.0 if measure == "ratio" else 0.0], []
    for one in found:
        _, effect = judged_effect(one)
        at += [end for end in one.claim.statement.limits or () if math.isfinite(end)]
        if effect is not None and effect.value is not None:
            at.append(effect.value * scale)
            if effect.interval is not None:
                ends.append((effect.interval.low * scale, effect.interval.high * scale))
        if one.part is not None and judged_measure(one.claim, one.part) == measure:
            at += [end * scale for end in tolerated(one.claim) if math.isfinite(end)]
    room = 0.5 * (max(at) - min(at)) or 0.1
    low = max(min(min(at), *(low for low, _ in ends), math.inf), min(at) - room)
    high = min(max(max(at), *(high for _, high in ends), -math.inf), max(at) + room)
    if measure == "ratio" and min(at) > 0:
        return over(ends, AxisEnds(max(low, 0.7 * min(at)) / 1.04, high * 1.04, log=True))
    bounded = measure == "level" and min(at) >= 0 and all(_of_amount(one, unit, metrics) for one in found)
    return over(ends, AxisEnds(0.0 if bounded else low - 0.05 * room, high + 0.05 * room), bounded)


def _of_amount(one: Judgement, unit: str, metrics: Sequence[Metric]) -> bool:
    """Return whether a claim is on the level of a metric that cannot be below zero."""
    name = one.claim.statement.metric
    return next((each for each in metrics if each.name == name), Metric(name, unit, "neither", "")).non_negative


def _published(axes: Axes, one: Judgement, measure: str, y: float, scale: float, reach: tuple[float, float]) -> None:
    """Draw the published figure and its tolerance; for a level and for "slightly", the range in which it may lie."""
    published = one.claim.published
    if limits := one.claim.statement.limits:
        ends = [end if math.isfinite(end) else beyond for end, beyond in zip(limits, reach, strict=True)]
        axes.barh(y, ends[1] - ends[0], left=ends[0], height=_BAND_IN, color=FAINT, alpha=0.55)
        return
    if one.part is None or judged_measure(one.claim, one.part) != measure or not has_magnitude(one.claim):
        return
    slight = one.claim.slight is not None
    beyond = (1.0, 1.0) if slight else reach  # "slightly" begins at ×1
    ends = [
        end * scale if math.isfinite(end) else open_end
        for end, open_end in zip(tolerated(one.claim), beyond, strict=True)
    ]
    low, high = ends
    axes.barh(y, high - low, left=low, height=_BAND_IN, color=FAINT, alpha=0.55)
    if published is None or slight or published.tolerance is None:
        return
    axes.plot(
        [published.judged[1] * scale],
        [y],
        marker="D",
        ms=5,
        color="white",
        mec=GREY,
        mew=1.2,
        linestyle="none",
        zorder=3.5,
    )


def _axis(measure: str, unit: str, say: Language) -> str:
    if measure == "ratio":
        return say("ratio")
    if measure == "share":
        return say("loss recovered (%)")
    if measure == "level":
        return say("mean ({unit})", unit=unit)
    return say("difference ({unit})", unit=unit) if unit else say("difference")
