"""The wording of interim decisions ("looks") in a campaign that runs until its decision is made. Pure."""

from __future__ import annotations

import math

from lastro.analysis.decision import SlaDecision
from lastro.results.looks import Look
from lastro.stats.look_state import DroppedCandidate
from lastro.stats.notes import N_
from lastro.stats.simultaneous import MOST_BLOCKS
from lastro.units import significant
from lastro.words.language import ENGLISH, Language
from lastro.words.numbers import percent
from lastro.words.phrases import join_names

_MOST_NAMED = 4
_SURE = 0.8  # probability with which more blocks decide
_STOPS = {
    "decided": N_("the decision is made"),
    "most blocks": N_("there are no more blocks"),
    "time": N_("another block would exceed the time"),
}


def odds_text(p: float, say: Language) -> str:
    """Format a probability in percent; NaN becomes '—'.

    The extremes are '> 99 %' and '< 1 %', because simulation cannot resolve more."""
    if math.isnan(p):
        return "—"
    if p > 0.995:
        return "> " + percent(0.99, say)
    return "< " + percent(0.01, say) if p < 0.005 else percent(p, say, decimals=0)


def cost_blocks_text(decision: SlaDecision, say: Language) -> str:
    """Return how many more blocks decide which of the candidates of like cost costs less; empty if there is one."""
    others = decision.choice.alike_less
    if not others or decision.n_campaigns > 1:
        return ""
    more = decision.more_blocks_on_cost(_SURE)
    if more is None:
        return say("Not even {n} more blocks would show which costs less.", n=say.integer(MOST_BLOCKS))
    text = N_("About {blocks} of these two would decide with a probability of {p}.")
    if len(others) > 1:
        text = N_("About {blocks} of these {k} would decide on each cost with a probability of {p}.")
    return say(text, blocks=say.count(more, "more block"), k=len(others) + 1, p=percent(_SURE, say))


def why_dropped(decision: SlaDecision, dropped: DroppedCandidate, say: Language) -> str:
    """Return the reason why a candidate was dropped, to follow its name.

    For example, 'holds latency ≤ 1 ms with a probability of < 1 %'."""
    p = odds_text(dropped.chance, say)
    if dropped.why == "unlikely":
        return say("has a probability of {p} of being the cheapest that holds", p=p)
    if dropped.why == "futile":
        return say("would be known to hold after all blocks with a probability of {p}", p=p)
    odds = decision.choice.odds[dropped.candidate].limits
    known = [  # (probability that the level holds, its text)
        (limit.holds, level.text)
        for limit, level in zip(odds, decision.question.levels, strict=True)
        if limit is not None
    ]
    _, level = min(known, default=(0.0, "—"))
    return say("holds {level} with a probability of {p}", level=level, p=p)


def stop_text(look: Look, say: Language) -> str:
    """Return why a campaign stopped after this interim decision; empty if it continued."""
    return say(_STOPS[look.stop]) if look.stop else ""


def decision_state(decision: SlaDecision | None, dropped: frozenset[int]) -> str:
    """Return the state of a decision, in English, for the progress display.

    It names the recommended or likeliest candidate, and the candidates that are still open. `dropped` are the indices
    of candidates that are no longer measured."""
    if decision is None:
        return "too few valid trials for a decision"
    choice = decision.choice
    lead = choice.recommended if choice.recommended is not None else choice.likeliest
    if lead is None:
        return "no candidate was measured in every condition"
    holds = odds_text(choice.odds[lead].holds, ENGLISH)
    cost = choice.odds[lead].cost
    at_cost = f", cost {significant(cost.spread[0], 3)}" if cost and decision.question.cost else ""
    leading = f"{decision.candidates[lead].label} leads (holds with {holds}{at_cost})"
    if choice.recommended is None:
        open_ones = [at for at, _ in enumerate(choice.odds) if choice.verdict(at) == "open"]
        words = "undecided"
    else:
        open_ones = [*choice.open_cheaper, *choice.alike]
        words = "may cost less"
    open_ones = [at for at in open_ones if at not in dropped and at != lead]
    named = [f"{decision.candidates[at].label} ({odds_text(choice.odds[at].holds, ENGLISH)})" for at in open_ones]
    return f"{leading}; {words}: {join_names(named, ENGLISH, _MOST_NAMED)}" if named else leading
