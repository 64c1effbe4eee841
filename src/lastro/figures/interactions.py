"""Interactions, where the effect of one factor depends on another: its effects under each level of the other."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from lastro.analysis.model import Interaction, MetricAnalysis
from lastro.figures.effects import arrow_words, draw_rows, floor_words, mark_words
from lastro.figures.rows import fit_rows
from lastro.figures.style import headed, metric_title, new_figure
from lastro.words.language import Language

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_interaction(
    analysis: MetricAnalysis, interaction: Interaction, say: Language, confidence: float
) -> Figure | None:
    """Draw dots with intervals, grouped by level of `given`, as in published figures of isolation and anomaly."""
    if not interaction.effects:
        return None
    groups = [
        (say("{factor} = {level}", factor=interaction.given, level=level), list(found))
        for level, found in itertools.groupby(interaction.effects, key=lambda effect: effect.given[0][1])
    ]
    figure = new_figure()
    axes = figure.subplots()
    rows = draw_rows(axes, analysis, groups, say)
    percent = say.number(f"{100 * confidence:g}") + " %"
    what = say(
        "effect of {shown} (against {reference}) under each {given}",
        shown=interaction.shown, reference=interaction.effects[0].reference, given=interaction.given,
    )  # fmt: skip
    share = say.number(f"{100 * interaction.explained:.1f}")
    how = say("ratio of means with its {confidence} interval; hollow: not distinguishable from 1", confidence=percent)
    explains = say("the interaction explains {share} % of all variation", share=share)
    marks = mark_words(interaction.effects, say)
    title = f"{metric_title(analysis.metric, say)}: {what}"
    arrows = arrow_words(interaction.effects, axes, say)
    headed(figure, title, f"{how}; {explains}", floor_words(analysis, say), arrows, *marks)
    fit_rows(figure, [(axes, rows)])
    return figure
