"""Effects on a metric: of levels and pairs of levels over others, and of treatments against baselines."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations

from lastro.analysis.build import decision_by_p
from lastro.analysis.campaign import MetricView
from lastro.analysis.metric_values import MetricValues, Sides
from lastro.analysis.model import BaselineComparison, Correction, FactorPairs, Headline, LevelEffect
from lastro.analysis.remarks import ALIASED, in_order
from lastro.stats.anova import Anova
from lastro.stats.contrasts import MeanComparison, compare
from lastro.stats.families import MOST_PLANNED
from lastro.stats.intervals import alpha_of
from lastro.stats.noise_floor import floor_of_contrast, is_below_floor
from lastro.stats.simultaneous import Pair
from lastro.stats.weights import minus

MOST_LEVELS = 40  # of a factor whose levels are compared in pairs: 200 levels have 19,900 pairs, which take a minute
LEAST_BLOCKS = 2  # for an interval of a difference


def main_effects(data: MetricValues, floor: float | None = None) -> tuple[LevelEffect, ...]:
    """Compare the levels of every varying factor with the factor's reference level; all comparisons are one family."""
    return level_effects(data, [(factor, {}) for factor in data.factors], floor)


def level_effects(
    data: MetricValues, wanted: Sequence[tuple[str, dict[str, str]]], floor: float | None
) -> tuple[LevelEffect, ...]:
    """Compare all levels of factors with their reference levels; all comparisons are one family.

    An entry of `wanted` is (factor, {other factor: level}): only treatments with these levels of the other factors
    count. `floor` is the noise floor of a comparison of two treatments, as a fraction; None if it is not known."""
    if data.model is None:
        return ()
    begun, sides = list[partial[LevelEffect]](), list[Sides]()
    for factor, given in wanted:
        reference = data.references[factor]
        others = [level for level in data.factors[factor] if level != reference]
        aliases = [*data.aliases(factor), *(alias for name in given for alias in data.aliases(factor, name))]
        of_factor = partial(
            LevelEffect,
            factor=factor,
            reference=reference,
            given=tuple(given.items()),
            all_cells=len(data.combinations(factor, given)),
            kinds=(ALIASED,) if aliases else (),
            aliases=tuple(dict.fromkeys(aliases)),
        )
        begun += [partial(of_factor, level=level) for level in others]
        sides += data.sides(factor, [(level, reference) for level in others], given)
    effects = []
    for of_level, (of, to), comparison in zip(begun, sides, compare(data.model, sides, data.confidence), strict=True):
        weights, ratio = minus(of, to).values(), comparison.ratio.value
        effects.append(
            of_level(
                comparison=comparison,
                decision=decision_by_p(comparison.p_adjusted, alpha_of(data.confidence)),
                cells=len(of),
                n=(sum(len(data.cells[index]) for index in of), sum(len(data.cells[index]) for index in to)),
                floor=None if floor is None else floor_of_contrast(floor, weights),
                under_floor=is_below_floor(floor, None if ratio is None else ratio - 1, weights),
            )
        )
    return tuple(effects)


def with_marks(view: MetricView, effects: Sequence[LevelEffect]) -> tuple[LevelEffect, ...]:
    """Return the effects, each with the kinds of marks on the values from which it is computed.

    These are the values of treatments with the level or the reference level of the effect, and its `given` levels."""
    if not any(cell.marks for cell in view.cells):
        return tuple(effects)
    marked = []
    for effect in effects:
        kinds = in_order(
            mark.kind
            for row, cell in view
            if str(row.treatment.levels[effect.factor]) in (effect.level, effect.reference)
            and all(str(row.treatment.levels[name]) == level for name, level in effect.given)
            for mark in cell.marks
        )
        marked.append(replace(effect, kinds=(*kinds, *effect.kinds)))
    return tuple(marked)


def baseline_comparisons(
    view: MetricView, data: MetricValues, floor: float | None = None
) -> tuple[tuple[BaselineComparison, ...], Correction]:
    """Return the comparisons of treatments with their baselines, and the method of their multiplicity correction.

    The comparisons are those in the cells of the report, in the order of its rows. Up to twenty (planned) comparisons
    are corrected by the distribution of the largest |t|; more than twenty, by Benjamini and Hochberg's method."""
    treated = [row for row in view.report.rows if row.treatment.index in data.cells and not row.is_baseline]
    rows = [row for row in treated if row.baseline is not None and row.baseline.index in data.cells]
    correction: Correction = "max-t" if len(rows) <= MOST_PLANNED else "benjamini-hochberg"
    comparisons = []
    for row in rows:
        cell, baseline = view.of(row), row.baseline
        test = cell.comparison
        assert baseline is not None and test is not None
        under = is_below_floor(floor, None if test.ratio.value is None else test.ratio.value - 1, (1, -1))
        ps = (test.p, test.p_adjusted)
        comparisons.append(
            BaselineComparison(row.treatment, baseline, cell.ratio, test.difference, *ps, under, cell.decision)
        )
    return tuple(comparisons), correction


def headline(
    anova: Anova | None, effects: Sequence[LevelEffect], comparisons: Sequence[BaselineComparison]
) -> Headline:
    """Return the headline of a metric: the factor that explains most, the widest effect, and counts of decisions.

    The widest effect is the significant effect whose ratio is farthest from 1 or, if none is significant, the farthest
    of all. The decisions are those on the comparisons with baselines."""
    factors = [effect for effect in anova.effects if len(effect.factors) == 1] if anova else []
    factors = [effect for effect in factors if effect.name != "block"]
    leading = max(factors, key=lambda effect: effect.explained, default=None)
    differing = [effect for effect in effects if effect.decision == "different"]
    candidates = differing or [effect for effect in effects if effect.ratio.value is not None]
    decided = Counter(comparison.decision for comparison in comparisons)
    return Headline(
        factor=leading.name if leading else None,
        explained=leading.explained if leading else None,
        widest=max(candidates, key=lambda effect: effect.distance, default=None),
        different=decided["different"],
        same=decided["same"],
        unknown=decided["unknown"],
    )


def factor_pairs(
    data: MetricValues, effects: Sequence[LevelEffect], floor: float | None = None
) -> tuple[FactorPairs, ...]:
    """Compare the levels of each factor: with the reference level (`effects`), and the others in pairs, as one family.

    A factor with more than `MOST_LEVELS` levels has only the comparisons with the reference. `floor` is the noise floor
    of a comparison of two treatments, as a fraction. Empty if the metric has no model."""
    if data.model is None:
        return ()
    measured = []
    for factor, levels in data.factors.items():
        others = [level for level in levels if level != data.references[factor]]
        wanted = [(b, a) for a, b in combinations(others, 2)] if len(levels) <= MOST_LEVELS else []
        for (level, other), sides in zip(wanted, data.sides(factor, wanted), strict=True):
            if any(sides):
                measured.append((factor, level, other, sides))
    comparisons = compare(data.model, [sides for *_, sides in measured], data.confidence)
    means = {index: math.fsum(cell.values()) / len(cell) for index, cell in data.cells.items()}
    alpha = alpha_of(data.confidence)
    pairs: dict[str, dict[tuple[str, str], Pair]] = {factor: {} for factor in data.factors}
    for (factor, level, other, sides), comparison in zip(measured, comparisons, strict=True):
        if comparison.error is not None:
            pairs[factor][level, other] = _pair(comparison, sides, means, alpha)
            pairs[factor][other, level] = _pair(comparison.reversed(), sides, means, alpha)
    result = []
    for factor, levels in data.factors.items():
        reference = data.references[factor]
        of_factor = [effect for effect in effects if effect.factor == factor and effect.comparison.error is not None]
        sides_of_effects = data.sides(factor, [(effect.level, reference) for effect in of_factor])
        with_reference = {
            effect.level: _pair(effect.comparison, sides, means, alpha)
            for effect, sides in zip(of_factor, sides_of_effects, strict=True)
        }
        # Levels without an effect are left out of both kinds of comparison.
        compared = {reference, *with_reference} if with_reference else set()
        result.append(
            FactorPairs(
                factor=factor,
                reference=reference,
                levels=tuple(level for level in levels if level in compared),
                effects=with_reference,
                pairs={both: pair for both, pair in pairs[factor].items() if compared.issuperset(both)},
                strata=max((pair.strata for pair in with_reference.values()), default=0),
                all_strata=data.planned_combinations(factor),
                left_out=tuple(level for level in levels if level not in compared) if compared else (),
                floor=floor,
                aliases=data.aliases(factor),
            )
        )
    return tuple(result)


def _pair(comparison: MeanComparison, sides: Sides, means: Mapping[int, float], alpha: float) -> Pair:
    """Return the pair of two compared levels; its scale is the average of the absolute values of their means."""
    of_sides = [math.fsum(weight * means[at] for at, weight in side.items()) for side in sides]
    return Pair(comparison, math.fsum(map(abs, of_sides)) / 2, len(sides[0]), alpha)
