"""Looks at a campaign that grows until a decision is made: which candidates are decided, and which need more trials.

Candidates are accepted and rejected as by `decision.choose`, at levels that spend the error probability over all looks
(`spending`). Both decisions are final. Once some candidate surely holds its limits, two more kinds of candidates are
dropped because they are not worth more trials. *Unlikely* candidates are hardly the cheapest that holds all limits;
the probability that the best candidate is dropped as unlikely is also spent over the looks. *Futile* candidates are
cheaper than the recommended one, but so near a limit that even all blocks would hardly show that they hold it. The
decision is made when the only open candidates cost about as much as the recommended one, so that the expected saving by
the best of them is negligible.

Sources: Kim and Nelson, ACM Trans. Model. Comput. Simul. 11 (2001) 251-273, for dropping candidates one by one; Lan and
Wittes, Biometrics 44 (1988) 579-585, for futility by conditional power; Chick and Inoue, Oper. Res. 49 (2001) 732-743,
for the expected loss. benches/decision_looks.py measures the error rates and the trials. Loads scipy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from lastro.stats.cell_means import DRAWS, MetricTrials
from lastro.stats.decision import Choice, Limit, Stage, choose
from lastro.stats.look_state import DroppedCandidate, LookState
from lastro.stats.spending import nominal_level, spent

_FUTILE = 0.1  # probability of being accepted by the end
_NEGLIGIBLE = 0.02  # fraction of a cost


def take_look(
    metrics: Sequence[MetricTrials],
    limits: Sequence[Limit],
    cost: Mapping[int, float],
    size: tuple[int, int],
    alpha: float,
    fraction: float,
    before: LookState,
) -> tuple[Choice, LookState]:
    """Judge the candidates when a `fraction` of the maximum number of blocks has run.

    `before` is the state after the earlier looks. The other arguments are those of `decision.choose`. Return the choice
    that follows from the data so far, and the state after this look."""
    fractions = (*before.fractions, fraction)
    stage = Stage(lambda level: nominal_level(fractions, level), before.accepted, before.rejected)
    choice = choose(metrics, limits, cost, size, alpha, stage)
    dropped = [
        DroppedCandidate(at, "rejected", choice.odds[at].may_hold) for at in choice.rejected if at not in before.gone
    ]
    gone = before.gone | {drop.candidate for drop in dropped}
    if cost and sum(odds.cheapest for odds in choice.odds) >= 1 - alpha:
        used = sum(max(drop.chance, 1 / DRAWS) for drop in before.dropped if drop.why == "unlikely")
        dropped += _unlikely(choice, gone, spent(fraction, alpha) - used)
    if choice.recommended is not None and fraction < 1:
        n_candidates, _ = size
        gone = gone | {drop.candidate for drop in dropped}
        for at in choice.open_cheaper:
            chance = _chance_of_acceptance(choice.odds[at].holds, fraction, alpha / n_candidates)
            if at not in gone and chance < _FUTILE:
                dropped.append(DroppedCandidate(at, "futile", chance))
    accepted, rejected = frozenset(choice.accepted), frozenset(choice.rejected)
    return choice, LookState(fractions, accepted, rejected, (*before.dropped, *dropped))


def is_decision_made(choice: Choice, settled: LookState) -> bool:
    """Return whether the decision is made, so that no more trials are needed.

    It is made if no candidate holds all limits. It is also made if every open candidate that may be cheaper than the
    recommended one was dropped, and the truly cheapest accepted candidate would save only a negligible amount."""
    if choice.recommended is None:
        return choice.outcome == "none"
    return choice.saving <= _NEGLIGIBLE and not set(choice.open_cheaper) - settled.gone


def _unlikely(choice: Choice, gone: frozenset[int], budget: float) -> list[DroppedCandidate]:
    """Return the candidates to drop because they are hardly the cheapest that holds all limits, the unlikeliest first.

    Their probabilities of being the cheapest add up to at most `budget`, the probability with which this look may drop
    the best candidate. Candidates in `gone` were dropped before."""
    dropped = []
    excluded = gone | {choice.recommended}
    cheapest = {at: odds.cheapest for at, odds in enumerate(choice.odds) if at not in excluded and not odds.missing}
    for at in sorted(cheapest, key=cheapest.__getitem__):
        budget -= max(cheapest[at], 1 / DRAWS)
        if budget < 0:
            break
        dropped.append(DroppedCandidate(at, "unlikely", cheapest[at]))
    return dropped


def _chance_of_acceptance(holds: float, fraction: float, alpha: float) -> float:
    """Return the probability that a candidate will be accepted once all blocks have run (conditional power).

    `holds` is the probability that it holds its limits, after this `fraction` of the blocks."""
    from scipy.stats import norm

    z = float(norm.ppf(min(max(holds, 1 / DRAWS), 1 - 1 / DRAWS)))
    needed = float(norm.ppf(1 - alpha))
    return float(norm.cdf((z / math.sqrt(fraction) - needed) / math.sqrt(1 / fraction - 1)))
