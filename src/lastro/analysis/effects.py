"""The effect of each level of a factor on a metric, against the reference level and averaged over the other factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lastro.analysis.campaign import MetricView
from lastro.analysis.measured import Measured
from lastro.analysis.model import Decision, Interaction, LevelEffect
from lastro.analysis.remarks import in_order
from lastro.stats.adjust import holm
from lastro.stats.anova import Anova
from lastro.stats.contrasts import linear, ratio_of_linears
from lastro.stats.noise_floor import scaled, within

LEAST_SHARE = 0.01  # an interaction that explains a smaller fraction of the total variation is not worth a figure
_MOST_INTERACTIONS = 6


def main_effects(data: Measured, floor: float | None = None) -> tuple[LevelEffect, ...]:
    """Compare every level of every factor that varied with the factor's reference level."""
    effects = [
        _effect(data, factor, level, {}, floor)
        for factor, levels in data.factors.items()
        for level in levels
        if level != data.references[factor]
    ]
    return _decided(effects, data.confidence)


def interactions(data: Measured, anova: Anova | None, floor: float | None = None) -> tuple[Interaction, ...]:
    """Return the two-way interactions worth showing, largest first.

    They explain at least 1 % of the total variation and are significant after Holm's correction for their number."""
    if anova is None:
        return ()
    pairs = [effect for effect in anova.effects if len(effect.factors) == 2]
    adjusted = holm([effect.p for effect in pairs])
    found = []
    for effect, p_adjusted in zip(pairs, adjusted, strict=True):
        if effect.explained >= LEAST_SHARE and p_adjusted is not None and p_adjusted < 1 - data.confidence:
            given, shown = _roles(data, effect.factors)
            simple = _simple_effects(data, given, shown, floor)
            found.append(Interaction(given, shown, effect.explained, effect.p, p_adjusted, simple))
    return tuple(sorted(found, key=lambda interaction: -interaction.explained)[:_MOST_INTERACTIONS])


def decide(p_adjusted: float | None, alpha: float) -> Decision:
    """Return "different" if the corrected test is significant, and "unknown" without a test."""
    if p_adjusted is None:
        return "unknown"
    return "different" if p_adjusted < alpha else "same"


def _effect(data: Measured, factor: str, level: str, given: dict[str, str], floor: float | None) -> LevelEffect:
    reference = data.references[factor]
    combinations = data.combinations(factor, given)
    both = [at for at in combinations if level in at and reference in at]
    treated = {at[level]: 1 / len(both) for at in both}
    untreated = {at[reference]: 1 / len(both) for at in both}
    weights = treated | {index: -weight for index, weight in untreated.items()}
    ratio = ratio_of_linears(treated, untreated, data.cells, data.confidence)
    away = None if ratio.value is None else ratio.value - 1
    difference = linear(weights, data.cells, data.confidence)
    return LevelEffect(
        factor=factor,
        level=level,
        reference=reference,
        given=tuple(given.items()),
        ratio=ratio,
        difference=difference,
        p=difference.p,
        cells=len(both),
        all_cells=len(combinations),
        n=(_values(data, treated), _values(data, untreated)),
        floor=None if floor is None else scaled(floor, weights.values()),
        under_floor=within(floor, away, weights.values()),
    )


def _values(data: Measured, treatments: dict[int, float]) -> int:
    return sum(len(data.cells[index]) for index in treatments)


def _simple_effects(data: Measured, given: str, shown: str, floor: float | None) -> tuple[LevelEffect, ...]:
    effects = [
        _effect(data, shown, level, {given: at}, floor)
        for at in data.factors[given]
        for level in data.factors[shown]
        if level != data.references[shown]
    ]
    return _decided(effects, data.confidence)


def _decided(effects: Sequence[LevelEffect], confidence: float) -> tuple[LevelEffect, ...]:
    adjusted = holm([effect.p for effect in effects])
    return tuple(
        replace(effect, p_adjusted=p, decision=decide(p, 1 - confidence))
        for effect, p in zip(effects, adjusted, strict=True)
    )


def _roles(data: Measured, pair: Sequence[str]) -> tuple[str, str]:
    """Return (the factor whose levels become panels, the factor whose effects are shown).

    Isolation provides the panels, as in Kagami's figures; otherwise the factor with fewer levels does."""
    first, second = sorted(pair, key=lambda name: (name != "isolation", len(data.factors[name])))
    return first, second


def marked(view: MetricView, effects: Sequence[LevelEffect]) -> tuple[LevelEffect, ...]:
    """Return the effects, each with the kinds of marks on the values from which it is computed."""
    if not any(cell.marks for cell in view.cells):
        return tuple(effects)
    return tuple(replace(effect, kinds=_kinds(view, effect)) for effect in effects)


def _kinds(view: MetricView, effect: LevelEffect) -> tuple[str, ...]:
    levels, given = {effect.level, effect.reference}, dict(effect.given)
    return in_order(
        mark.kind
        for row, cell in view
        if str(row.treatment.levels[effect.factor]) in levels
        and all(str(row.treatment.levels[name]) == level for name, level in given.items())
        for mark in cell.marks
    )
