"""Figures of the effects of levels on a metric, overall and at each level of another factor: ratios with intervals."""

from __future__ import annotations

from collections.abc import Sequence

from lastro.analysis.model import Interaction, LevelEffect, MetricAnalysis
from lastro.analysis.remarks import in_order
from lastro.analysis.verdicts import Verdict, verdict_on_ratio
from lastro.figures.matplotlib_types import Figure
from lastro.figures.rows import FigureRow, RowBand, RowDot, RowPanel, draw_rows
from lastro.figures.scale import AxisEnds, ends_of, with_overflow
from lastro.figures.style import GREY, PALETTE, metric_title
from lastro.grouping import by_key
from lastro.results.samples import Metric
from lastro.stats.notes import N_
from lastro.words.language import Language
from lastro.words.numbers import VERDICT_MARKS, axis_numbers, no_exponent, percent, ratio_text
from lastro.words.remarks import short, signs_of

_MOST_ROWS = 100
COLOURS: dict[Verdict, str] = {"better": PALETTE[0], "worse": PALETTE[1], "higher": "black", "lower": "black"}


def draw_effects(analysis: MetricAnalysis, say: Language, confidence: float) -> Figure | None:
    """Draw the main effects of every factor that varied; return None if no effect has a ratio."""
    if not any(effect.ratio.value is not None for effect in analysis.effects):
        return None
    groups = [
        (say("{factor}, against {reference}", factor=name, reference=effects[0].reference), effects)
        for name, effects in by_key((effect.factor, effect) for effect in analysis.effects).items()
    ]
    level = percent(confidence, say)
    how = say("ratio of means with its {confidence} interval, over the levels of all other factors", confidence=level)
    corrected = say("hollow: not distinguishable from 1 (corrected)")
    return _draw_groups(analysis, groups, metric_title(analysis.metric, say), f"{how}; {corrected}", say)


def draw_interaction(
    analysis: MetricAnalysis, interaction: Interaction, say: Language, confidence: float
) -> Figure | None:
    """Draw the effects of the factor `interaction.shown` at each level of `interaction.given`; None without effects."""
    if not interaction.effects:
        return None
    groups = [
        (say("{factor} = {level}", factor=interaction.given, level=level), effects)
        for level, effects in by_key((effect.given[0][1], effect) for effect in interaction.effects).items()
    ]
    level = percent(confidence, say)
    what = say(
        "effect of {shown} (against {reference}) under each {given}",
        shown=interaction.shown, reference=interaction.effects[0].reference, given=interaction.given,
    )  # fmt: skip
    how = say("ratio of means with its {confidence} interval; hollow: not distinguishable from 1", confidence=level)
    share = say.number(f"{100 * interaction.explained:.1f}")
    explains = say("the interaction explains {share} % of all variation", share=share)
    return _draw_groups(analysis, groups, f"{metric_title(analysis.metric, say)}: {what}", f"{how}; {explains}", say)


def mark_texts(effects: Sequence[LevelEffect], say: Language) -> list[str]:
    """Return a text for each sign that follows a ratio: '‡ a cache may hide what is measured'."""
    return [short(kind, say) for kind in in_order(kind for effect in effects for kind in effect.kinds)]


def effect_verdict(metric: Metric, effect: LevelEffect) -> Verdict:
    """Return the verdict on an effect after correction for multiple comparisons."""
    return verdict_on_ratio(metric, effect.decision, effect.ratio.value)


def _draw_groups(
    analysis: MetricAnalysis, groups: Sequence[tuple[str, Sequence[LevelEffect]]], title: str, how: str, say: Language
) -> Figure:
    """Draw groups of effects below each other, with the ratio, its interval and n of each effect as text.

    `groups` are (heading, effects). Of more than a hundred effects, only the hundred largest are drawn."""
    metric, rows = analysis.metric, []
    effects = [effect for _, group in groups for effect in group]
    shown_note = ""
    if len(effects) > _MOST_ROWS:
        text, n_all = N_("the {n} largest of {all} effects; the table has all"), say.integer(len(effects))
        shown_note = say(text, n=_MOST_ROWS, all=n_all)
        least = sorted(effect.distance for effect in effects)[-_MOST_ROWS]
        effects = [effect for effect in effects if effect.distance >= least]
        groups = [(heading, [effect for effect in group if effect.distance >= least]) for heading, group in groups]
        groups = [(heading, group) for heading, group in groups if group]
    for heading, group in groups:
        rows.append(FigureRow(heading, heading=True))
        rows += [FigureRow(effect.level, _words(metric, effect, say), _marks(metric, effect)) for effect in group]
    ends = _ends(effects)
    axis = {
        "neither": say("ratio to the reference level"),
        "higher": say("ratio to the reference level (▲ right: better)"),
        "lower": say("ratio to the reference level (▲ left: better)"),
    }[metric.better]
    floor = ""
    if analysis.floor is not None:
        (share,) = axis_numbers([float(f"{100 * analysis.floor:.2g}")], say)
        text = N_("grey: noise floor of this host, ± {share} % for one treatment, less for means over several")
        floor = say(text, share=share)
    lines = [how, shown_note, floor, *ends.words(metric.name, say), *mark_texts(effects, say)]
    return draw_rows([RowPanel(rows, ends, axis, 1.0)], title, lines, say)


def _marks(metric: Metric, effect: LevelEffect) -> list[RowBand | RowDot]:
    """Return a band for the noise floor, and a dot for the ratio, hollow if it does not differ significantly from 1."""
    ratio, colour = effect.ratio, COLOURS.get(effect_verdict(metric, effect), GREY)
    marks: list[RowBand | RowDot] = []
    if effect.floor is not None:
        marks.append(RowBand(*_band(effect.floor), height_in=0.2, alpha=0.35))
    if ratio.value is not None and ratio.value > 0:
        fill = colour if effect.decision == "different" else "white"
        marks.append(
            RowDot(ratio.value, ends_of(ratio.interval), colour, {"ms": 5.5, "color": fill, "mec": colour, "mew": 1.3})
        )
    return marks


def _words(metric: Metric, effect: LevelEffect, say: Language) -> str:
    """Return the text of a row: the ratio with its interval, n, and '3 of 4 combinations' if some are missing."""
    text = say("no ratio")
    if effect.ratio.value is not None and effect.ratio.value > 0:
        ratio = no_exponent(ratio_text(effect.ratio, say))
        text = f"{VERDICT_MARKS[effect_verdict(metric, effect)]} {ratio}".strip() + signs_of(effect.kinds)
    n = say("n = {n} and {reference}", n=say.integer(effect.n[0]), reference=say.integer(effect.n[1]))
    if effect.difference.pairing == "paired":
        blocks = say.count(effect.difference.n, "block")
        n = say("n = {blocks}, {n} and {reference} trials", blocks=blocks, n=say.integer(effect.n[0]),
                reference=say.integer(effect.n[1]))  # fmt: skip
    some = say("{n} of {all} combinations", n=effect.cells, all=effect.all_cells)
    return "\n".join((text, n, *([some] if effect.cells < effect.all_cells else [])))


def _band(floor: float) -> tuple[float, float]:
    """Return the lowest and the highest ratio within a noise floor; the lowest is at least 0.01."""
    return max(0.01, 1 - floor), 1 + floor


def _ends(effects: Sequence[LevelEffect]) -> AxisEnds:
    """Return the ends of a logarithmic axis around 1 with room for every interval, at most from 0.01 to 100."""
    at, intervals = [1.0, 1.02, 1 / 1.02], []
    for effect in effects:
        at += _band(effect.floor) if effect.floor is not None else ()
        if (value := effect.ratio.value) is not None and value > 0:
            at.append(value)
            if ends := ends_of(effect.ratio.interval):
                intervals.append(ends)
                at += [end for end in ends if end > 0]
    low, high = (min(100.0, max(0.01, end)) for end in (min(at), max(at)))
    room = (high / low) ** 0.06
    return with_overflow(intervals, AxisEnds(low / room, high * room, log=True))
