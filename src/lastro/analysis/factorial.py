"""The analysis of variance of one metric, and its two-way interactions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain, combinations, islice, product

from lastro.analysis.effects import level_effects
from lastro.analysis.metric_values import MetricValues
from lastro.analysis.model import Interaction
from lastro.grouping import by_key
from lastro.stats.anova import Anova, anova
from lastro.stats.families import judge
from lastro.stats.intervals import alpha_of
from lastro.stats.notes import N_, Note
from lastro.stats.weights import weighted_sum

# {blocks: percent of campaigns with a false mark if one treatment is 5 times as noisy}: benches/statistics_promises.py
_FALSE_MARKS = {2: "11", 3: "6"}
_MOST_NUMBERS = 40_000_000  # entries of the model matrix: 320 MB
_LEAST_SHARE = 0.01  # an interaction that explains a smaller fraction of the total variation is not worth a figure
_MOST_INTERACTIONS = 6


def analyse_variance(data: MetricValues) -> tuple[Anova | None, Note | None, tuple[Note, ...]]:
    """Return the analysis of variance or None, the reason why there is none or None, and notes on the analysis.

    The analysis is of Type II. Blocks are a factor if there are several. It includes interactions up to the highest
    order that the data allow, and is on the scale (values or logarithms) of the model of the metric."""
    if why := _reason_for_none(data):
        return None, why, ()
    treatments, blocks, values = zip(*data.trials(), strict=True)
    factors = {name: [data.levels[index][name] for index in treatments] for name in data.factors}
    block = blocks if len(data.blocks) > 1 else None
    order = _highest_order(data)
    if order < 1:
        return None, Note(N_("too few trials to distinguish the effects of the factors from noise")), ()
    log = data.model is not None and data.model.log
    table = anova(values, factors, block=block, order=order, repeats=data.fraction.repeats, log=log)
    return table, None, tuple(_notes(data, order, table))


def _notes(data: MetricValues, order: int, anova: Anova) -> Iterator[Note]:
    """Yield notes on interactions that the analysis leaves out, and on its scale."""
    if order < len(data.factors):
        why = N_("interactions of more than {order} factors are left in the residual: combinations are missing")
        if data.complete:
            why = N_("interactions of more than {order} factors are left in the residual: too few trials for them")
        yield Note(why, order=order)
    if anova.log:
        yield Note(N_("on the logarithms of the values, which fit better: effects multiply"))


def _reason_for_none(data: MetricValues) -> Note | None:
    """Return the reason why no analysis of variance is possible; None if one is."""
    if not data.cells:
        return Note(N_("no valid value"))
    if not data.factors:
        return Note(N_("no factor has two measured levels"))
    if not data.fraction.whole:
        return Note(N_("treatments of the fraction are missing, so that the effects of its factors overlap"))
    values = {value for cell in data.cells.values() for value in cell.values()}
    if len(values) == 1:
        return Note(N_("every value is the same"))
    if max(map(len, data.cells.values())) < 2 and len(data.factors) < 2:
        return Note(N_("one trial of each treatment: effects are not distinguishable from noise"))
    return None


def _highest_order(data: MetricValues) -> int:
    """Return the highest order of interactions that leaves degrees of freedom to estimate the noise; 0 if none does.

    Order 1 is main effects only. If cells are missing, it is at most two: higher orders have too few."""
    highest, df = len(data.factors) if data.complete else min(2, len(data.factors)), 0
    for order in range(1, highest + 1):
        for group in combinations(data.factors, order):
            df += 0 if data.fraction.repeats(group) else math.prod(len(data.factors[name]) - 1 for name in group)
        if data.n - len(data.blocks) - df <= 0 or data.n * df > _MOST_NUMBERS:
            return order - 1
    return highest


def spread_notes(data: MetricValues) -> tuple[Note, ...]:
    """Return a note on how much the spreads of treatments differ; empty if it cannot be computed."""
    variances = data.model.blocked.own_variances if data.model is not None else ()
    if len(variances) < 2 or min(variances) <= 0:
        return ()
    ratio, blocks = f"{math.sqrt(max(variances) / min(variances)):.1f}", len(data.blocks)
    if blocks not in _FALSE_MARKS:
        allowed = N_(
            "the largest spread of a treatment is {ratio} times the smallest: effects and comparisons allow for it"
        )
        return (Note(allowed, ratio=ratio),)
    text = N_(
        "the largest spread of a treatment is {ratio} times the smallest, but {blocks} blocks show nothing of how "
        "noisy each treatment is: of simulated campaigns in which one is 5 times as noisy as the others, {rate} % have "
        "a false mark"
    )
    return (Note(text, ratio=ratio, blocks=blocks, rate=_FALSE_MARKS[blocks]),)


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
            # Isolation provides the panels, as in Kagami's figures; otherwise the factor with fewer levels does.
            given, shown = sorted(effect.factors, key=lambda name: (name != "isolation", len(data.factors[name])))
            simple = level_effects(data, [(shown, {given: level}) for level in data.factors[given]], floor)
            aliases = data.aliases(*effect.factors)
            result.append(Interaction(given, shown, effect.explained, min(ps), simple, aliases))
    return tuple(sorted(result, key=lambda interaction: -interaction.explained)[:_MOST_INTERACTIONS])


def contrasts_of(data: MetricValues, first: str, second: str) -> Iterator[dict[int, float]]:
    """Yield contrasts {treatment: weight} that are zero if two factors do not interact.

    For levels i and j of the two factors, the contrast is (i, j) + (i', j') - (i, j') - (i', j). The levels i' and j'
    are the first earlier ones for which all four were measured at some common levels of the other factors. In a
    complete design, the contrasts use all degrees of freedom of the interaction. In a fraction, there may be no
    treatments that differ only in these two factors. So means are taken over the halved factors. These means are
    balanced only if the fraction is whole; if it is not, nothing is yielded."""
    averaged = data.fraction.halved if {first, second} & data.fraction.halved else frozenset[str]()
    if averaged and not data.fraction.whole:
        return
    matched = [name for name in data.factors if name not in averaged | {first, second}]
    by_pair = by_key(((data.levels[cell][first], data.levels[cell][second]), cell) for cell in data.comparable)
    cells = {
        pair: by_key((tuple(data.levels[cell][name] for name in matched), cell) for cell in of_pair)
        for pair, of_pair in by_pair.items()
    }
    rows, columns = (
        sorted(data.factors[name], key=lambda level: level != data.references[name]) for name in (first, second)
    )
    for i, j in product(range(1, len(rows)), range(1, len(columns))):
        for row, column in product(rows[:i], columns[:j]):
            pairs = [(rows[i], columns[j]), (row, column), (rows[i], column), (row, columns[j])]
            corners = [cells.get(pair, {}) for pair in pairs]
            shared = sorted(set[tuple[str, ...]].intersection(*map(set, corners)))
            if shared:
                means = [
                    (dict.fromkeys(corner[key], 1 / len(corner[key]) / len(shared)), sign)
                    for corner, sign in zip(corners, (1.0, 1.0, -1.0, -1.0), strict=True)
                    for key in shared
                ]
                yield weighted_sum(means)
                break  # the first earlier pair is enough
