"""A decision as one JSON document, for programs.

    format      "lastro-decision/1"
    verdict     "recommended", "none" or "undecided"; recommended is the label of a candidate, or null
    levels      [{metric, unit, limit, at_least}]
    cost        {metric: weight}, or null; required [requirement]; wished [requirement]
    conditions  [label]; given {factor: level} in every condition
    confidence  of all intervals, and of the choice
    more_blocks [number with 50 %, number with 80 %]: how many more blocks decide on the likeliest candidate with
                these probabilities, each null above 1,000; null where a candidate is recommended or none holds,
                and for several campaigns
    cost_blocks [number with 50 %, number with 80 %]: how many more blocks of the recommended candidate and of those of
                like cost decide which costs less, each null above 1,000; null if there are none of like cost, or
                if a wish decided between them, and for several campaigns
    campaigns   the number of campaigns: what they differ in is part of all probabilities
    candidates  [{label, levels {factor: level}, verdict, holds, may_hold, next_holds, cheapest,
                cost {value, low, high}, limits [{condition, mean, low, high, holds}], missing [metric],
                gaps [reason], wishes [true, false, or null if it is not known]}], in the order of the table
                holds: the probability that all means hold their limits; may_hold: the same if values of which only a
                lower bound is known count as holding; next_holds: the probability that one more trial in each
                condition holds all limits; cheapest: the probability that it holds all and costs the least of those;
                limits: for each of levels, the condition in which it is met worst, the mean there, and the probability
                that all conditions hold it; missing: metrics that lack a value in some condition; gaps: why conditions
                have no valid trial; wishes: whether it meets each of wished
    changes     [{metric, limit, beyond {candidate, limit}}], for each of levels: the strictest limit that the
                recommended candidate holds almost surely. beyond: another candidate that holds the levels, and the
                stricter limit that it holds; null if there is none. Empty without a recommended candidate
    looks       [{block, at_utc, recommended, accepted [label], rejected [label], dropped [{candidate, why, chance}],
                stop}]: the interim decision after each block, for a campaign that ran until its decision. why is
                "rejected" (chance: to hold all levels), "unlikely" (to be the cheapest that holds) or "futile" (to be
                accepted after all blocks); stop is "decided", "most blocks", "time", or empty where it went on
    breaks      [{candidate, factor, given, metric, doses [least, greatest], at, low, high}]: at which dose (level of
                factor) a candidate no longer holds the limit of a metric; an end is null where it is beyond the doses
                that were measured, and all three numbers are null if a dose has no value. If low is the greatest dose,
                the limit never broke up to there
    lacking     [{label, levels, gaps}]: the combinations that are no candidates, because they do not meet a
                requirement, or are not known to meet it

A value that does not exist is null, never absent and never NaN."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from lastro.analysis.breaking_points import BrokenLevel, StrictestLimit, broken_levels, strictest_limits
from lastro.analysis.decision import SlaDecision, levels_text
from lastro.analysis.suite_decision import SuiteDecision
from lastro.builders.data.encoder import encode, pick
from lastro.results.looks import Look
from lastro.stats.intervals import Estimate

FORMAT, SUITE_FORMAT = "lastro-decision/1", "lastro-suite-decision/1"
_VERDICTS = {"accepted": "holds", "rejected": "does not hold", "open": "undecided", "missing": "not measured"}


def document(decision: SlaDecision) -> dict[str, Any]:
    """Return the decision as JSON-serializable data, with the keys of this module's docstring."""
    return encode(_document(decision), {})


def _document(decision: SlaDecision) -> dict[str, Any]:
    choice, best = decision.choice, decision.choice.recommended
    more_blocks = None
    if choice.likeliest is not None and decision.n_campaigns <= 1:
        more_blocks = [decision.more_blocks(chance) for chance in (0.5, 0.8)]
    return {
        "format": FORMAT,
        "verdict": choice.outcome,
        "recommended": None if best is None else decision.candidates[best].label,
        "levels": [
            {"metric": level.metric.name, "unit": level.metric.unit, **pick(level, "limit at_least")}
            for level in decision.question.levels
        ],
        "cost": decision.question.cost and decision.question.cost.weights,
        "required": [requirement.text for requirement in decision.question.required],
        "wished": [wish.text for wish in decision.question.wished],
        "conditions": [levels_text(condition) for condition in decision.conditions],
        "given": decision.given,
        "confidence": decision.question.confidence,
        "more_blocks": more_blocks,
        "cost_blocks": decision.cost_blocks,
        "campaigns": decision.n_campaigns,
        "candidates": [_candidate(decision, at) for at in decision.order()],
        "lacking": [pick(candidate, "label levels gaps") for candidate in decision.lacking],
        "changes": [_change(decision, strictest) for strictest in strictest_limits(decision)],
        "breaks": [_broken(decision, broken) for broken in broken_levels(decision)],
        "looks": [_look(decision, look) for look in decision.looks],
    }


def suite_document(decision: SuiteDecision) -> dict[str, Any]:
    """Return the choice over the studies of a suite: {format, reference, leader, verdict, candidates, …}.

    The verdict is "kept" if a candidate keeps the service levels of all studies, "none" if each that was measured
    surely breaks a level of some study, "undecided", or null without service levels. A spread is [middle, low, high].
    For each study, `goodness` is {candidate: spread or null}, and `levels` is its decision by service levels, with the
    keys of this module's docstring, or null."""
    names = decision.candidates
    choice = {
        "format": SUITE_FORMAT,
        "confidence": decision.confidence,
        "reference": names[decision.reference],
        "leader": None if decision.leader is None else names[decision.leader],
        "verdict": decision.levels_outcome,
        "candidates": [
            {"label": name, "score": score, "best": best, "keeps_all_levels": decision.keeps_all(at)}
            for at, (name, score, best) in enumerate(zip(names, decision.scores, decision.best, strict=True))
        ],
        "studies": [
            {
                "name": column.name, "metric": column.metric.name, "weight": column.weight,
                "goodness": dict(zip(names, column.goodness, strict=True)),
                "levels": column.decision and _document(column.decision),
            }
            for column in decision.columns
        ],
        "left_out": decision.left_out,
    }  # fmt: skip
    return encode(choice, {Estimate: attrgetter("spread")})


def _change(decision: SlaDecision, strictest: StrictestLimit) -> dict[str, Any]:
    beyond = None
    if strictest.beyond is not None:
        at, limit = strictest.beyond
        beyond = {"candidate": decision.candidates[at].label, "limit": limit}
    return {"metric": strictest.level.metric.name, "limit": strictest.limit, "beyond": beyond}


def _broken(decision: SlaDecision, broken: BrokenLevel) -> dict[str, Any]:
    point = dict(zip(("at", "low", "high"), broken.point.spread if broken.point else (None,) * 3, strict=True))
    label = decision.candidates[broken.candidate].label
    return {"candidate": label, **pick(broken, "factor given doses"), "metric": broken.level.metric.name, **point}


def _candidate(decision: SlaDecision, at: int) -> dict[str, Any]:
    candidate, odds = decision.candidates[at], decision.choice.odds[at]
    return {
        **pick(candidate, "label levels"),
        "verdict": _VERDICTS[decision.choice.verdict(at)],
        **pick(odds, "holds may_hold next_holds cheapest"),
        "cost": odds.cost and dict(zip(("value", "low", "high"), odds.cost.spread, strict=True)),
        "limits": [
            limit
            and {
                "condition": levels_text(decision.conditions[limit.condition]),
                **dict(zip(("mean", "low", "high"), limit.mean.spread, strict=True)),
                "holds": limit.holds,
            }
            for limit in odds.limits
        ],
        "missing": [decision.question.metrics[number] for number in odds.missing],
        **pick(candidate, "gaps wishes"),
    }


def _look(decision: SlaDecision, look: Look) -> dict[str, Any]:
    labels = [candidate.label for candidate in decision.candidates]
    return {
        **pick(look, "block at_utc stop"),
        "recommended": None if look.recommended is None else labels[look.recommended],
        "accepted": [labels[at] for at in look.accepted],
        "rejected": [labels[at] for at in look.rejected],
        "dropped": [{"candidate": labels[drop.candidate], **pick(drop, "why chance")} for drop in look.dropped],
    }
