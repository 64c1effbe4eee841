"""A figure of published and measured values, a row per claim; claims with the same measure and unit share an axis."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from lastro.analysis.claim_effects import Measure
from lastro.analysis.claims import Judgement, has_magnitude, judged_measure, tolerated
from lastro.figures.matplotlib_types import Figure
from lastro.figures.rows import FigureRow, RowBand, RowDot, RowPanel, draw_rows
from lastro.figures.scale import AxisEnds, with_overflow
from lastro.figures.style import GREY
from lastro.grouping import by_key
from lastro.results.samples import Metric
from lastro.stats.intervals import Estimate
from lastro.words.claims import VERDICTS, effect_text
from lastro.words.language import Language
from lastro.words.numbers import no_exponent

Group = tuple[Measure, str]  # measure and unit


def draw_claims(judgements: Sequence[Judgement], say: Language, metrics: Sequence[Metric] = ()) -> Figure | None:
    """Draw the claims that have a measured effect; None if no claim has one."""
    effects = ((judgement, _judged_effect(judgement)) for judgement in judgements)
    measured = ((judgement, effect[0]) for judgement, effect in effects if effect is not None)
    groups = by_key(
        ((measure, judgement.unit if measure in ("difference", "level") else ""), judgement)
        for judgement, measure in measured
    )
    if not groups:
        return None
    panels = [_panel(group, judgements_of_group, metrics, say) for group, judgements_of_group in groups.items()]
    arrows = dict.fromkeys(
        word for (_, unit), panel in zip(groups, panels, strict=True) for word in panel.ends.words(unit, say)
    )
    shown_verdicts = {judgement.verdict for judgements_of_group in groups.values() for judgement in judgements_of_group}
    marks = ", ".join(f"{mark} {say(verdict)}" for verdict, (mark, *_) in VERDICTS.items() if verdict in shown_verdicts)
    how = say("diamond: published, with its tolerance; dot: measured here, with its interval")
    return draw_rows(panels, say("Published and measured"), [how, marks, *arrows], say)


def _judged_effect(judgement: Judgement) -> tuple[Measure, Estimate] | None:
    """Return (measure, effect) by which a claim is drawn; None without an effect that has a value.

    They are in the measure of the published figure if the campaign has an effect in it, otherwise in the measure of the
    test."""
    part = judgement.part
    if part is None:
        return None
    measure = judged_measure(judgement.claim, part)
    if measure == "difference" != part.measure and part.beside is not None and part.beside.value is not None:
        return measure, part.beside
    return (part.measure, part.effect) if part.effect.value is not None else None


def _panel(group: Group, judgements: Sequence[Judgement], metrics: Sequence[Metric], say: Language) -> RowPanel:
    """Return the panel of the claims with one measure and unit, a row for each."""
    measure, unit = group
    scale = 100.0 if measure == "share" else 1.0
    ends = _axis_ends(judgements, measure, unit, metrics)
    rows = []
    for judgement in judgements:
        judged = _judged_effect(judgement)
        assert judgement.part is not None and judged is not None and judged[1].value is not None
        effect, interval = judged[1], judged[1].interval
        dot = RowDot(judged[1].value * scale, (interval.low * scale, interval.high * scale) if interval else None)
        mark = VERDICTS[judgement.verdict][0]
        text = no_exponent(effect_text(measure, effect, unit, say, judgement.part.bound))
        n = say("n = {n}", n=say.integer(effect.n)) + (f", {say('stand-in')}" if judgement.stand_in else "")
        rows.append(FigureRow(judgement.claim.id, f"{mark} {text}\n{n}", [*_published(judgement, measure, scale), dot]))
    texts = {"ratio": say("ratio"), "share": say("loss recovered (%)"), "level": say("mean ({unit})", unit=unit)}
    difference = say("difference ({unit})", unit=unit) if unit else say("difference")
    return RowPanel(rows, ends, texts.get(measure, difference), 1.0 if measure == "ratio" else 0.0)


def _axis_ends(judgements: Sequence[Judgement], measure: str, unit: str, metrics: Sequence[Metric]) -> AxisEnds:
    """Return the ends of an axis with room for all effects, published values and tolerances.

    Intervals extend it at either end by at most half of the range of these values."""
    scale = 100.0 if measure == "share" else 1.0
    values, ends = [1.0 if measure == "ratio" else 0.0], []
    for judgement in judgements:
        values += [end for end in judgement.claim.statement.limits or () if math.isfinite(end)]
        if (judged := _judged_effect(judgement)) is not None and judged[1].value is not None:
            values.append(judged[1].value * scale)
            if interval := judged[1].interval:
                ends.append((interval.low * scale, interval.high * scale))
        if judgement.part is not None and judged_measure(judgement.claim, judgement.part) == measure:
            values += [end * scale for end in tolerated(judgement.claim) if math.isfinite(end)]
    room = 0.5 * (max(values) - min(values)) or 0.1
    low = max(min(min(values), *(low for low, _ in ends), math.inf), min(values) - room)
    high = min(max(max(values), *(high for _, high in ends), -math.inf), max(values) + room)
    if measure == "ratio" and min(values) > 0:
        return with_overflow(ends, AxisEnds(max(low, 0.7 * min(values)) / 1.04, high * 1.04, log=True))
    known = {metric.name: metric for metric in metrics}
    measured = {judgement.claim.statement.metric for judgement in judgements}
    non_negative = all(known.get(name, Metric(name, unit, "neither", "")).non_negative for name in measured)
    bounded = measure == "level" and min(values) >= 0 and non_negative
    return with_overflow(ends, AxisEnds(0.0 if bounded else low - 0.05 * room, high + 0.05 * room), bounded)


def _published(judgement: Judgement, measure: str, scale: float) -> Iterator[RowBand | RowDot]:
    """Yield a band for the published tolerance or range of allowed values, and a diamond for a published value.

    A claim of a range of levels, or of a slight change, has only the band. Nothing if the claim states no magnitude in
    this measure."""
    published = judgement.claim.published
    if limits := judgement.claim.statement.limits:
        yield RowBand(*limits, 0.16, 0.55)
    elif (
        judgement.part is not None
        and judged_measure(judgement.claim, judgement.part) == measure
        and has_magnitude(judgement.claim)
    ):
        slight = judgement.claim.slight is not None  # begins at ×1
        low, high = (end if math.isfinite(end) or not slight else 1.0 for end in tolerated(judgement.claim))
        yield RowBand(low * scale, high * scale, 0.16, 0.55)
        if published is not None and not slight and published.tolerance is not None:
            diamond = {"marker": "D", "color": "white", "mec": GREY, "mew": 1.2, "zorder": 3.5}
            yield RowDot(published.judged[1] * scale, look=diamond)
