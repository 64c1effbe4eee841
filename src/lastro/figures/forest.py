"""The forest plot: the ratio on each host, their mean over hosts, and the interval of the ratio on a new host."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial

from lastro.analysis.host_effects import HostEffect
from lastro.analysis.pooled_study import PooledEffect, PooledStudy
from lastro.figures import FigurePlan
from lastro.figures.effects import COLOURS
from lastro.figures.matplotlib_types import Figure
from lastro.figures.rows import FigureRow, RowBand, RowDot, RowPanel, draw_rows
from lastro.figures.scale import AxisEnds, ends_of, with_overflow
from lastro.figures.style import FAINT, GREY, file_stem, metric_title
from lastro.words.campaign import place_of, title_with_place
from lastro.words.language import Language
from lastro.words.numbers import VERDICT_MARKS, no_exponent, percent, ratio_range, ratio_text

_WIDEST = 100.0  # the axis reaches at most from a hundredth to a hundredfold


def forest_plans(pooled: PooledStudy, say: Language) -> Iterator[FigurePlan]:
    """Yield the plan of a forest plot for each metric and factor; its `draw` returns None if no host has a ratio.

    If a host was a guest, each title says so."""
    measured = place_of([host.report.guest for host in pooled.hosts], say)
    for at, metric in enumerate(pooled.metrics):
        for factor, effects in itertools.groupby(pooled.of(metric), key=lambda effect: effect.factor):
            title = say("Effects of {factor} on {metric}, host by host", factor=factor, metric=metric.name)
            draw = partial(draw_forest, pooled, list(effects), say)
            name = file_stem("forest", metric.name, factor)
            yield FigurePlan("forest", at, name, title_with_place(title, measured), draw, factor)


def draw_forest(pooled: PooledStudy, effects: Sequence[PooledEffect], say: Language) -> Figure | None:
    """Draw effects of one factor on one metric below each other; None if no host has a ratio."""
    if not any(host_effect.effect for effect in effects for host_effect in effect.hosts):
        return None
    first, ends = effects[0], _ends(effects)
    rows = [row for effect in effects for row in _rows(pooled, effect, say)]
    level = percent(pooled.confidence, say)
    how = [say("dot: one host, with its {confidence} interval", confidence=level)]
    if any(effect.pooled for effect in effects):
        how.append(say("diamond: mean over hosts, as wide as its interval; grey bar: the ratio on a new host"))
    panel = RowPanel(rows, ends, say("ratio to the reference level"), 1.0)
    title = f"{first.factor}: {metric_title(first.metric, say)}"
    return draw_rows([panel], title, [*how, *ends.words(first.metric.name, say)], say)


def ratio_on(effect: HostEffect, say: Language) -> str:
    """Format the ratio on one host, or why that host has none."""
    return ratio_text(effect.ratio, say) if effect.ratio else "; ".join(map(say.note, effect.absent_because))


def _rows(pooled: PooledStudy, effect: PooledEffect, say: Language) -> Iterator[FigureRow]:
    """Yield the rows of an effect: a heading, one per host and, if pooled, the mean and the range for a new host."""
    title = say("{level}, against {reference}", level=effect.level, reference=effect.reference)
    yield FigureRow(title, heading=True)
    for host_effect in effect.hosts:
        dots = []
        if host_effect.ratio is not None:
            value, low, high = host_effect.ratio.spread
            dots.append(RowDot(value, (low, high), GREY, {"ms": 4.5}, 1.3))
        yield FigureRow(pooled.hosts[host_effect.host].name, no_exponent(ratio_on(host_effect, say)), dots)
    mean, prediction = effect.mean, effect.prediction
    if mean is not None and prediction is not None:
        words = f"{VERDICT_MARKS[effect.verdict]} {no_exponent(ratio_text(mean, say))}".strip()
        diamond = RowDot(mean.value or 1.0, ends_of(mean.interval), COLOURS.get(effect.verdict, "black"), diamond=True)
        yield FigureRow(say("mean over hosts"), words, [diamond])
        # The interval is as grey as the band: it adds arrow heads where the band is longer than the axis.
        bar: list[RowBand | RowDot] = [
            RowBand(prediction.low, prediction.high, 0.12, 1.0),
            RowDot(None, (prediction.low, prediction.high), FAINT),
        ]
        yield FigureRow(say("new host"), no_exponent(ratio_range(prediction, say)), bar)


def _ends(effects: Sequence[PooledEffect]) -> AxisEnds:
    """Return the ends of a logarithmic axis with room for every ratio.

    Intervals extend it at either end by at most three times the (logarithmic) range of the ratios."""
    on_hosts = [host.ratio.spread for effect in effects for host in effect.hosts if host.ratio is not None]
    ratios = [1.0, 1.02, 1 / 1.02, *(ratio for ratio, _, _ in on_hosts)]
    intervals = [(low, high) for _, low, high in on_hosts]
    intervals += [(effect.prediction.low, effect.prediction.high) for effect in effects if effect.prediction]
    ends = [end for interval_ends in intervals for end in interval_ends]
    spare = (max(ratios) / min(ratios)) ** 3
    low = max(min([*ratios, *ends]), min(ratios) / spare, 1 / _WIDEST)
    high = min(max([*ratios, *ends]), max(ratios) * spare, _WIDEST)
    room = (high / low) ** 0.06
    return with_overflow(intervals, AxisEnds(low / room, high * room, log=True))
