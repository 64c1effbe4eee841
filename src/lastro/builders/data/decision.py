"""A decision as one JSON document, for programs.

    format      "lastro-decision/1"
    verdict     "recommended", "none" or "undecided"; recommended is the label of a candidate, or null
    levels      [{metric, unit, limit, at_least}]
    cost        {metric: weight}, or null; required [requirement]; wished [requirement]
    conditions  [label]; given {factor: level} in every condition
    confidence  that of all intervals, and of the choice
    more_blocks [number, or null above 1,000]: with so many more, the likeliest candidate is decided on with a
                probability of 50 % and of 80 %; null where one is recommended or none holds
    candidates  [{label, levels {factor: level}, verdict, holds, may_hold, next_holds, cheapest,
                cost {value, low, high}, limits [{condition, mean, low, high, holds}], missing [metric],
                gaps [reason], wishes [true, false, or null if it is not known]}], as in the table
                holds: the probability that all means hold; may_hold: the same where a bound proves nothing against it
    looks       [{block, at_utc, recommended, accepted [label], rejected [label], dropped [{candidate, why, chance}],
                stop}]: of a campaign that ran until its decision, what was found after which block. why is
                "rejected" (chance: to hold all levels), "unlikely" (to be the cheapest that holds) or "futile" (to be
                accepted after all blocks); stop is "decided", "most blocks", "time", or empty where it went on
    breaks      [{candidate, factor, given, metric, at, low, high}]: at which dose a level breaks;
                null where an end is beyond the doses that were measured, and everywhere without a value at each dose
    lacking     [{label, levels, gaps}]: what is no candidate, since it does not meet a requirement, or is not known to

A value that does not exist is null, never absent and never NaN."""

from __future__ import annotations

from typing import Any

from lastro.analysis.breaking_points import BrokenLevel, broken_levels
from lastro.analysis.decision import SlaDecision
from lastro.analysis.suite_decision import SuiteDecision
from lastro.builders.data.encoder import encode, only
from lastro.results.looks import Look

FORMAT, SUITE_FORMAT = "lastro-decision/1", "lastro-suite-decision/1"
_VERDICTS = {"accepted": "holds", "rejected": "does not hold", "open": "undecided", "missing": "not measured"}


def document(decision: SlaDecision) -> dict[str, Any]:
    """Return the answer as JSON-serializable data."""
    return encode(_document(decision), {})


def _document(decision: SlaDecision) -> dict[str, Any]:
    choice, best = decision.choice, decision.choice.recommended
    return {
        "format": FORMAT,
        "verdict": choice.outcome,
        "recommended": None if best is None else decision.candidates[best].label,
        "levels": [
            {"metric": level.metric.name, "unit": level.metric.unit, **only(level, "limit at_least")}
            for level in decision.question.levels
        ],
        "cost": decision.question.cost and decision.question.cost.weights,
        "required": [each.text for each in decision.question.required],
        "wished": [each.text for each in decision.question.wished],
        "conditions": decision.conditions,
        "given": decision.given,
        "confidence": decision.question.confidence,
        "more_blocks": None if choice.likeliest is None else [decision.more_blocks(each) for each in (0.5, 0.8)],
        "candidates": [_candidate(decision, at) for at in decision.order()],
        "lacking": [only(each, "label levels gaps") for each in decision.lacking],
        "breaks": [_broken(decision, each) for each in broken_levels(decision)],
        "looks": [_look(decision, each) for each in decision.looks],
    }


def suite_document(decision: SuiteDecision) -> dict[str, Any]:
    """Return the choice over the studies of a suite: {format, reference, leader, candidates, studies, left_out}.

    A spread is [middle, low, high]. `goodness` of a study is {candidate: spread, or null}, and `levels` its decision by
    service levels, as for a single campaign, or null."""
    names = decision.candidates
    whole = {
        "format": SUITE_FORMAT,
        "confidence": decision.confidence,
        "reference": names[decision.reference],
        "leader": None if decision.leader is None else names[decision.leader],
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
    return encode(whole, {})


def _broken(decision: SlaDecision, broken: BrokenLevel) -> dict[str, Any]:
    point = only(broken.point, "at low high") if broken.point else dict.fromkeys(("at", "low", "high"))
    label = decision.candidates[broken.candidate].label
    return {"candidate": label, **only(broken, "factor given"), "metric": broken.level.metric.name, **point}


def _candidate(decision: SlaDecision, at: int) -> dict[str, Any]:
    candidate, odds = decision.candidates[at], decision.choice.odds[at]
    return {
        **only(candidate, "label levels"),
        "verdict": _VERDICTS[decision.choice.verdict(at)],
        **only(odds, "holds may_hold next_holds cheapest"),
        "cost": odds.cost and dict(zip(("value", "low", "high"), odds.cost, strict=True)),
        "limits": [
            each and {"condition": decision.conditions[each.condition], **only(each, "mean low high holds")}
            for each in odds.limits
        ],
        "missing": [decision.question.metrics[each] for each in odds.missing],
        **only(candidate, "gaps wishes"),
    }


def _look(decision: SlaDecision, look: Look) -> dict[str, Any]:
    labels = [candidate.label for candidate in decision.candidates]
    return {
        **only(look, "block at_utc stop"),
        "recommended": None if look.recommended is None else labels[look.recommended],
        "accepted": [labels[at] for at in look.accepted],
        "rejected": [labels[at] for at in look.rejected],
        "dropped": [{"candidate": labels[each.candidate], **only(each, "why chance")} for each in look.dropped],
    }
