"""The fraction of each metric's variation that each effect explains, as Jain draws it: one bar for each metric."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lastro.analysis.model import Analysis, MetricAnalysis
from lastro.figures.style import PALETTE, SMALL_PT, WIDE_IN, is_narrow, page_in
from lastro.figures.text import lines_of, safe, wrapped
from lastro.figures.xy import Item, Look, PanelRule, Plot, PlotAxis, PlotBar, PlotNote, PlotPanel, drawn
from lastro.words.language import Language

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEAST_NAMED = 0.005  # of all variation in some metric; smaller effects are summed
_LEAST_WRITTEN = 0.06  # the narrowest part of a wide figure that its number fits into
_WHOLE = 0.9995  # shares whose sum rounds to less than 100.0 % do not add up
# The last colour of the palette is close to that of the residual.
_FILLS = PALETTE[:6]
_HATCHES = ("", "", "", "", "", "", "////", "||||", "xxxx")  # no dots: each is a circle of many curves
_OTHERS: Look = {"facecolor": "#F2F2F2", "edgecolor": "#555555", "hatch": "++", "linewidth": 0.4}
_BLOCK: Look = {"facecolor": "#C9C9C9", "edgecolor": "#555555", "hatch": "---", "linewidth": 0.4}
_NOISE: Look = {"facecolor": "#E9E9E9", "edgecolor": "#999999", "hatch": "//", "linewidth": 0.4}

Share = tuple[str, float, Look]  # effect, fraction of all variation, how it is drawn


def draw_variation(analysis: Analysis, say: Language) -> Figure | None:
    """Draw stacked fractions of every metric that has an analysis of variance; None when none has."""
    metrics = [metric for metric in analysis.metrics if metric.anova is not None and metric.anova.total_ss > 0]
    if not metrics:
        return None
    named = _named(metrics)
    labels = [f"{wrapped(m.metric.name, 13 if is_narrow() else 18)}\nn = {say.integer(m.n)}" for m in metrics]
    row_in = max(0.48, 0.06 + 0.14 * max(map(lines_of, labels)))
    items: list[Item] = [PanelRule("x", 1, {"color": "black", "linewidth": 0.7})]
    longest, white = 1.0, {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85}
    number: Look = {"ha": "center", "fontsize": SMALL_PT, "color": "black", "bbox": white}
    for at, metric in enumerate(metrics):
        left = 0.0
        for _, share, look in _shares(metric, named, say):
            items.append(PlotBar(at, (left, left + share), 0.3 / row_in, look, "x"))
            if share >= _LEAST_WRITTEN * WIDE_IN / page_in():
                items.append(PlotNote(left + share / 2, at, f"{100 * share:.0f}", number, fraction=None))
            left += share
        longest = max(longest, left)
    logs = [metric.metric.name for metric in metrics if metric.log]
    how = [say("on logarithms: {metrics}", metrics=", ".join(logs)) if logs else "", _sums(metrics, say)]
    plot = Plot(
        [PlotPanel(items)], say("Variation explained by each effect"), how,
        PlotAxis(
            say("percentage of the total variation"), 0, 1.0 if longest < 1 / _WHOLE else 1.02 * longest,
            ticks=[(percent / 100, str(percent)) for percent in (0, 25, 50, 75, 100)], grid=False,
        ),
        PlotAxis(low=len(metrics) - 0.5, high=-0.5, ticks=list(enumerate(labels)), grid=False), row_in * len(metrics),
        legend=[(safe(name, 60), look) for name, _, look in _shares(metrics[0], named, say)],
    )  # fmt: skip
    return drawn(plot, say)


def _sums(metrics: Sequence[MetricAnalysis], say: Language) -> str:
    """Return why bars do not end at 100 %, and where they end; empty if all end there."""
    sums = {
        metric.metric.name: metric.anova.residual.explained + math.fsum(e.explained for e in metric.anova.effects)
        for metric in metrics
        if metric.anova is not None
    }
    apart = [f"{name} {100 * total:.1f} %" for name, total in sums.items() if not _WHOLE < total < 1 / _WHOLE]
    if not apart:
        return ""
    found = say.number("; ".join(apart))
    return say("unbalanced: effects overlap, so percentages do not add up to 100 %: {sums}", sums=found)


def _named(metrics: Sequence[MetricAnalysis]) -> list[str]:
    """Return the effects with a colour of their own, in the order of the table: the largest in any metric."""
    widest: dict[str, float] = {}
    for metric in metrics:
        for effect in metric.anova.effects if metric.anova else ():
            if effect.factors != ("block",):
                widest[effect.name] = max(widest.get(effect.name, 0.0), effect.explained)
    leading = sorted(widest, key=lambda name: -widest[name])[: len(_HATCHES)]
    return [name for name in widest if name in leading and widest[name] >= _LEAST_NAMED]


def _shares(metric: MetricAnalysis, named: Sequence[str], say: Language) -> list[Share]:
    """Return the parts of one bar, from the left: named effects, all other interactions together, blocks, residual."""
    assert metric.anova is not None
    explained = {effect.name: effect.explained for effect in metric.anova.effects}
    block = explained.pop("block", 0.0)
    fills = [{"facecolor": _FILLS[at % len(_FILLS)], "hatch": hatch} for at, hatch in enumerate(_HATCHES)]
    parts: list[Share] = [
        (name, explained.get(name, 0.0), {**fill, "edgecolor": "white", "linewidth": 0.7})
        for name, fill in zip(named, fills, strict=False)
    ]
    rest = sum(share for name, share in explained.items() if name not in named)
    return [
        *parts,
        (say("all other effects"), rest, _OTHERS),
        (say("blocks"), block, _BLOCK),
        (say("residual"), metric.anova.residual.explained, _NOISE),
    ]
