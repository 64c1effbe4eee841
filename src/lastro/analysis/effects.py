"""The effect of each level of a factor on a metric, against the reference level and averaged over the other factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lastro.analysis.build import decide
from lastro.analysis.campaign import MetricView
from lastro.analysis.measured import MetricValues, Sides
from lastro.analysis.model import Interaction, LevelEffect
from lastro.analysis.remarks import in_order
from lastro.stats.adjust import holm
from lastro.stats.anova import Anova
from lastro.stats.contrasts import MeanComparison, compare
from lastro.stats.intervals import alpha_of
from lastro.stats.noise_floor import scaled, within
from lastro.stats.weights import less

LEAST_SHARE = 0.01  # an interaction that explains a smaller fraction of the total variation is not worth a figure
_MOST_INTERACTIONS = 6


def main_effects(data: MetricValues, floor: float | None = None) -> tuple[LevelEffect, ...]:
    """Compare every level of every factor that varied with the factor's reference level, as one family."""
    return _effects(data, [(factor, level, {}) for factor in data.factors for level in _others(data, factor)], floor)


def interactions(data: MetricValues, anova: Anova | None, floor: float | None = None) -> tuple[Interaction, ...]:
    """Return the two-way interactions worth showing, largest first.

    They explain at least 1 % of the total variation and are significant after Holm's correction for their number."""
    if anova is None:
        return ()
    pairs = [effect for effect in anova.effects if len(effect.factors) == 2]
    adjusted = holm([effect.p for effect in pairs])
    found = []
    for effect, p_adjusted in zip(pairs, adjusted, strict=True):
        if effect.explained >= LEAST_SHARE and p_adjusted is not None and p_adjusted < alpha_of(data.confidence):
            given, shown = _roles(data, effect.factors)
            wanted = [(shown, level, {given: at}) for at in data.factors[given] for level in _others(data, shown)]
            simple = _effects(data, wanted, floor)
            found.append(Interaction(given, shown, effect.explained, effect.p, p_adjusted, simple))
    return tuple(sorted(found, key=lambda interaction: -interaction.explained)[:_MOST_INTERACTIONS])


def _effects(
    data: MetricValues, wanted: Sequence[tuple[str, str, dict[str, str]]], floor: float | None
) -> tuple[LevelEffect, ...]:
    """Compare levels with the references of their factors, each given as (factor, level, levels of other factors)."""
    if data.model is None:
        return ()
    sides = [
        each
        for factor, level, given in wanted
        for each in data.sides(factor, [(level, data.references[factor])], given)
    ]
    found = compare(data.model, sides, data.confidence)
    return tuple(_effect(data, *each, floor) for each in zip(wanted, sides, found, strict=True))


def _effect(
    data: MetricValues,
    of: tuple[str, str, dict[str, str]],
    sides: Sides,
    comparison: MeanComparison,
    floor: float | None,
) -> LevelEffect:
    factor, level, given = of
    weights = less(*sides).values()
    ratio = comparison.ratio.value
    return LevelEffect(
        factor=factor,
        level=level,
        reference=data.references[factor],
        given=tuple(given.items()),
        comparison=comparison,
        decision=decide(comparison.p_adjusted, alpha_of(data.confidence)),
        cells=len(sides[0]),
        all_cells=len(data.combinations(factor, given)),
        n=(_values(data, sides[0]), _values(data, sides[1])),
        floor=None if floor is None else scaled(floor, weights),
        under_floor=within(floor, None if ratio is None else ratio - 1, weights),
    )


def _others(data: MetricValues, factor: str) -> list[str]:
    return [level for level in data.factors[factor] if level != data.references[factor]]


def _values(data: MetricValues, treatments: dict[int, float]) -> int:
    return sum(len(data.cells[index]) for index in treatments)


def _roles(data: MetricValues, pair: Sequence[str]) -> tuple[str, str]:
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
