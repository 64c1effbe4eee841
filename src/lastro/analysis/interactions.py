"""Two-way interactions of a metric: which there are, and the effects of one factor at each level of the other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, product

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

    They explain at least 1 % of the total variation, and one of their contrasts differs from zero after correction for
    all contrasts of all two-way interactions: by the model of all comparisons, in which each treatment has a variance
    of its own, and not by the F of the analysis of variance, which has one for all."""
    if anova is None or data.model is None:
        return ()
    pairs = [effect for effect in anova.effects if len(effect.factors) == 2]
    contrasts = [list(contrasts_of(data, *pair.factors)) for pair in pairs]
    judged = iter(judge([data.model.estimate(one) for one in chain(*contrasts)], data.confidence))
    found = []
    for effect, own in zip(pairs, contrasts, strict=True):
        ps = [p for _ in own if (p := next(judged).p_adjusted) is not None]
        if effect.explained >= _LEAST_SHARE and ps and min(ps) < alpha_of(data.confidence):
            given, shown = _roles(data, effect.factors)
            simple = level_effects(data, [(shown, {given: at}) for at in data.factors[given]], floor)
            aliases = data.aliases(*effect.factors)
            found.append(Interaction(given, shown, effect.explained, min(ps), simple, aliases))
    return tuple(sorted(found, key=lambda interaction: -interaction.explained)[:_MOST_INTERACTIONS])


def contrasts_of(data: MetricValues, first: str, second: str) -> Iterator[dict[int, float]]:
    """Yield weights of cell means, each of which sums to zero if two factors do not interact.

    There is one for each level of either factor that was measured with earlier levels of both, at the same levels of
    all others; in a complete design these are all degrees of freedom. In a fraction, no treatments may differ in these
    two alone, so the halved factors are averaged over: all cells together are balanced."""
    averaged = data.fraction.halved if {first, second} & data.fraction.halved else frozenset[str]()
    if averaged and not data.fraction.whole:
        return
    matched = [name for name in data.factors if name not in averaged | {first, second}]
    at = by_key(((data.levels[cell][first], data.levels[cell][second]), cell) for cell in data.comparable)
    cells = {
        levels: by_key((tuple(data.levels[cell][name] for name in matched), cell) for cell in own)
        for levels, own in at.items()
    }
    rows, columns = _reference_first(data, first), _reference_first(data, second)
    for i, j in product(range(1, len(rows)), range(1, len(columns))):
        for row, column in product(rows[:i], columns[:j]):
            corners = [(rows[i], columns[j]), (row, column), (rows[i], column), (row, columns[j])]
            found = [cells.get(corner, {}) for corner in corners]
            if shared := set[tuple[str, ...]].intersection(*map(set, found)):
                means = [
                    ({cell: 1 / len(own) / len(shared) for cell in own}, sign)
                    for corner, sign in zip(found, (1.0, 1.0, -1.0, -1.0), strict=True)
                    for own in (corner[key] for key in sorted(shared))
                ]
                yield weighted_sum(means)
                break


def _reference_first(data: MetricValues, factor: str) -> list[str]:
    return sorted(data.factors[factor], key=lambda level: level != data.references[factor])


def _roles(data: MetricValues, pair: tuple[str, ...]) -> tuple[str, str]:
    """Return (the factor whose levels become panels, the factor whose effects are shown).

    Isolation provides the panels, as in Kagami's figures; otherwise the factor with fewer levels does."""
    first, second = sorted(pair, key=lambda name: (name != "isolation", len(data.factors[name])))
    return first, second
