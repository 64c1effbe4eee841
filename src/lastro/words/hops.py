"""The sentence on the cost of each further hop of a chain: the slope of a metric over the length of the chain. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from lastro.analysis.growth import SizeRelation
from lastro.results.samples import Metric
from lastro.stats.notes import N_
from lastro.words.language import Language
from lastro.words.phrases import Amount, join_names, sentence, unit_suffix

_MOST_NAMED = 4  # conditions whose amounts are all written; of more, only the least and the most


def hop_sentences(
    relations: Sequence[tuple[tuple[str, ...], SizeRelation]], metric: Metric, say: Language
) -> tuple[str, ...]:
    """Return a tuple of one sentence on the cost of each further hop, with its interval; empty if no slope is known.

    `relations` are (levels of the other factors, growth of the metric with the length). The sentence also names the
    levels for which each hop costs more, or less, in longer chains."""
    sign = -1 if metric.better == "higher" else 1
    costs: list[tuple[float, str]] = []
    dearer: list[str] = []
    cheaper: list[str] = []
    for levels, relation in relations:
        line, where = relation.line, " · ".join(levels)
        if line is None or line.slope.value is None or line.slope.interval is None:
            continue
        value, ends = sign * line.slope.value, line.slope.interval.mapped(lambda end: sign * end)
        amount = Amount(value, ends.low, ends.high, unit_suffix(metric.unit, say)).text(say)
        if line.direction:
            (dearer if sign * line.direction > 0 else cheaper).append(where or say("here"))
            amount = say("{amount} on average", amount=amount)
        costs.append((value, say("{amount} with {levels}", amount=amount, levels=where) if where else amount))
    if not costs:
        return ()
    text = N_("in {metric}, each further hop costs {amounts}")
    if metric.better == "neither":
        text = N_("each further hop changes {metric} by {amounts}")
    if len(costs) > _MOST_NAMED:
        costs = [min(costs), max(costs)]
        text = N_("in {metric}, each further hop costs between {amounts}")
    clauses = [say(text, amounts=join_names([words for _, words in costs], say), metric=metric.name)]
    if dearer:
        clauses.append(say("of more hops, each costs more ({levels})", levels=join_names(dearer, say)))
    if cheaper:
        clauses.append(say("of more hops, each costs less ({levels})", levels=join_names(cheaper, say)))
    return (sentence(clauses),)
