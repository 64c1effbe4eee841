"""Two-way interactions of a metric, and the effects of one factor at each level of the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, product

from lastro.analysis.effects import level_effects
from lastro.analysis.metric_values import MetricValues
from lastro.analysis.model import Interaction
from lastro.grouping import by_key
from lastro.stats.anova import Anova
from lastro.stats.families import judge
from lastro.stats.intervals import alpha_of
from lastro.stats.weights import weighted_sum

_LEAST_SHARE = 0.01  # an interaction that explains a smaller fraction of the total variation is not worth a figure
_MOST_INTERACTIONS = 6


def interactions(data: MetricValues, anova: Anova | None, floor: float | None = None) -> tuple[Interaction, ...]:
    """Return the two-way interactions worth showing, largest first.

    Each explains at least 1 % of the total variation, and one of its contrasts differs significantly from zero,
    corrected for all contrasts of all two-way interactions. The test is by the model of the comparisons, in which
    treatments differ in variance, and not by the F of the analysis of variance, which assumes one variance."""
    if anova is None or data.model is None:
        return ()
    pairs = [effect for effect in anova.effects if len(effect.factors) == 2]
    contrasts = [list(contrasts_of(data, *pair.factors)) for pair in pairs]
    tests = iter(judge([data.model.estimate(weights) for weights in chain(*contrasts)], data.confidence))
    result = []
    for effect, of_effect in zip(pairs, contrasts, strict=True):
        ps = [test.p_adjusted for test in islice(tests, len(of_effect)) if test.p_adjusted is not None]
        if effect.explained >= _LEAST_SHARE and ps and min(ps) < alpha_of(data.confidence):
            given, shown = _roles(data, effect.factors)
            simple = level_effects(data, [(shown, {given: level}) for level in data.factors[given]], floor)
            aliases = data.aliases(*effect.factors)
            result.append(Interaction(given, shown, effect.explained, min(ps), simple, aliases))
    return tuple(sorted(result, key=lambda interaction: -interaction.explained)[:_MOST_INTERACTIONS])


Weights = dict[int, float]  # {treatment: weight}


def contrasts_of(data: MetricValues, first: str, second: str) -> Iterator[Weights]:
    """Yield contrasts {treatment: weight} that are zero if two factors do not interact.

    Each contrast is of four combinations of a level of each factor and an earlier level of each factor, all measured at
    the same levels of all other factors. In a complete design, the contrasts use all degrees of freedom of the
    interaction. In a fraction, there may be no treatments that differ only in these two factors. So means are over the
    halved factors, which is balanced if the fraction is whole. If it is not whole, nothing is yielded."""
    averaged = data.fraction.halved if {first, second} & data.fraction.halved else frozenset[str]()
    if averaged and not data.fraction.whole:
        return
    matched = [name for name in data.factors if name not in averaged | {first, second}]
    by_pair = by_key(((data.levels[cell][first], data.levels[cell][second]), cell) for cell in data.comparable)
    cells = {
        pair: by_key((tuple(data.levels[cell][name] for name in matched), cell) for cell in of_pair)
        for pair, of_pair in by_pair.items()
    }
    rows, columns = _reference_first(data, first), _reference_first(data, second)
    for i, j in product(range(1, len(rows)), range(1, len(columns))):
        for row, column in product(rows[:i], columns[:j]):
            pairs = [(rows[i], columns[j]), (row, column), (rows[i], column), (row, columns[j])]
            corners = [cells.get(pair, {}) for pair in pairs]
            shared = sorted(set[tuple[str, ...]].intersection(*map(set, corners)))
            if shared:
                yield _contrast(corners, shared)
                break


def _contrast(corners: Sequence[Mapping[tuple[str, ...], list[int]]], shared: Sequence[tuple[str, ...]]) -> Weights:
    """Return the contrast of four corners: the sum of the first two, minus the sum of the last two.

    A corner is {levels of the other factors: treatments}; its mean is over the `shared` levels of the other factors."""
    means = []
    for corner, sign in zip(corners, (1.0, 1.0, -1.0, -1.0), strict=True):
        for key in shared:
            weight = 1 / len(corner[key]) / len(shared)
            means.append((dict.fromkeys(corner[key], weight), sign))
    return weighted_sum(means)


def _reference_first(data: MetricValues, factor: str) -> list[str]:
    """Return the measured levels of a factor, with the reference level first."""
    return sorted(data.factors[factor], key=lambda level: level != data.references[factor])


def _roles(data: MetricValues, pair: tuple[str, ...]) -> tuple[str, str]:
    """Return (the factor whose levels become panels, the factor whose effects are shown).

    Isolation provides the panels, as in Kagami's figures; otherwise the factor with fewer levels does."""
    first, second = sorted(pair, key=lambda name: (name != "isolation", len(data.factors[name])))
    return first, second
