"""A campaign that grows until a decision is made: what a look after each block settles, and which candidates go on.

Candidates are accepted and rejected as by `decision.choose`, at levels that spend the error over all looks
(`spending`), and stay so. Once it is sure that some candidate holds its limits, two more kinds are dropped, about which
nothing is said but that they are not worth more trials. *Unlikely* ones are hardly the cheapest that holds: the
probability that the best is among all that were dropped as such is spent over the looks, too. *Futile* ones are cheaper
than the recommended, but so near a limit that even all blocks would hardly show that they hold it. The decision is made
when nothing else is in question, except candidates of about the same cost: what the best of them would save, as far as
costs are known, is negligible.

Sources: Kim and Nelson, ACM Trans. Model. Comput. Simul. 11 (2001) 251-273, for dropping candidates one by one; Lan and
Wittes, Biometrics 44 (1988) 579-585, for futility by conditional power; Chick and Inoue, Oper. Res. 49 (2001) 732-743,
for the expected loss. benches/decision_looks.py measures the error
rates and the trials. Loads scipy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from lastro.stats.cell_means import DRAWS, MetricTrials
from lastro.stats.decision import Choice, Limit, Stage, choose
from lastro.stats.settled import Dropped, Settled
from lastro.stats.spending import nominal_level, spent

_FUTILE = 0.1  # probability of being accepted by the end
_NEGLIGIBLE = 0.02  # fraction of a cost


def look(
    metrics: Sequence[MetricTrials],
    limits: Sequence[Limit],
    cost: Mapping[int, float],
    size: tuple[int, int],
    alpha: float,
    fraction: float,
    before: Settled,
) -> tuple[Choice, Settled]:
    """Look at the trials when a `fraction` of the most blocks is there. `size`: the numbers of candidates, conditions.

    Return the choice so far, and what is settled, including what was before."""
    fractions = (*before.fractions, fraction)
    stage = Stage(lambda level: nominal_level(fractions, level), before.accepted, before.rejected)
    choice = choose(metrics, limits, cost, size, alpha, stage)
    dropped = [Dropped(at, "rejected", choice.odds[at].may_hold) for at in choice.rejected if at not in before.gone]
    gone = before.gone | {each.candidate for each in dropped}
    if cost and sum(odds.cheapest for odds in choice.odds) >= 1 - alpha:
        dropped += _unlikely(choice, gone, spent(fraction, alpha) - _lost(before))
    if choice.recommended is not None:
        gone = gone | {each.candidate for each in dropped}
        for at in choice.open_cheaper if fraction < 1 else ():
            chance = _chance_of_acceptance(choice.odds[at].holds, fraction, alpha / size[0])
            if at not in gone and chance < _FUTILE:
                dropped.append(Dropped(at, "futile", chance))
    return choice, Settled(
        fractions, frozenset(choice.accepted), frozenset(choice.rejected), (*before.dropped, *dropped)
    )


def is_made(choice: Choice, settled: Settled) -> bool:
    """Return whether the decision is made.

    It is if no candidate holds. It also is if every open candidate that may be cheaper was dropped, and the cheapest of
    those that hold would save a negligible amount."""
    if choice.recommended is None:
        return choice.outcome == "none"
    return choice.saving <= _NEGLIGIBLE and not set(choice.open_cheaper) - settled.gone


def _unlikely(choice: Choice, gone: frozenset[int], budget: float) -> list[Dropped]:
    """Return the candidates that are least probably the best, as long as they all together hardly are."""
    found = []
    kept = gone | {choice.recommended}
    others = {at: odds.cheapest for at, odds in enumerate(choice.odds) if at not in kept and not odds.missing}
    for at in sorted(others, key=others.__getitem__):
        budget -= max(others[at], 1 / DRAWS)
        if budget < 0:
            break
        found.append(Dropped(at, "unlikely", others[at]))
    return found


def _lost(before: Settled) -> float:
    """Return the probability that the best is among the unlikely candidates that were dropped."""
    return sum(max(each.chance, 1 / DRAWS) for each in before.dropped if each.why == "unlikely")


def _chance_of_acceptance(holds: float, fraction: float, alpha: float) -> float:
    """Return the probability that a candidate is accepted when all blocks are there, predicted from its own."""
    from scipy.stats import norm

    z = float(norm.ppf(min(max(holds, 1 / DRAWS), 1 - 1 / DRAWS)))
    needed = float(norm.ppf(1 - alpha))
    return float(norm.cdf((z / math.sqrt(fraction) - needed) / math.sqrt(1 / fraction - 1)))
