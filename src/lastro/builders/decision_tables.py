"""The tables of a decision: its candidates, service levels, interim decisions and breaking points. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

from lastro.analysis.breaking_points import BrokenLevel, broken_levels
from lastro.analysis.decision import SlaDecision, levels_text
from lastro.document import Block, Fold, Table
from lastro.stats.decision import LimitOdds
from lastro.stats.intervals import Estimate
from lastro.stats.notes import N_
from lastro.units import significant
from lastro.words.language import Language
from lastro.words.looks import odds_text, stop_text, why_dropped

_MOST_LEVELS = 3  # service levels that have a column each in the table of candidates
_MET = {True: "✓", False: "✕", None: "?"}
VERDICTS = {
    "accepted": N_("✓ holds"),
    "rejected": N_("✕ does not hold"),
    "open": N_("? undecided"),
    "missing": N_("— not measured"),
}
WORST = N_("Of each level: the mean where it is met worst, and the probability that it is held in every condition.")


def candidates_table(decision: SlaDecision, say: Language) -> Table:
    """Return a table of the candidates, accepted ones first and the cheapest of these at the top.

    Each of up to three service levels has a column. Candidates that do not meet a requirement come last."""
    question = decision.question
    levels = question.levels if len(question.levels) <= _MOST_LEVELS else ()
    of_levels = ["{} ({})".format(*level.text.split(" ", 1)) for level in levels]
    columns = [say("candidate"), "", say("holds"), *of_levels, say("next trial holds")]
    if question.cost is not None:
        columns += [say("cost"), say("cheapest that holds")]
    columns += [say("wishes")] if question.wished else []
    rows = []
    for at in decision.order():
        odds = decision.choice.odds[at]
        verdict = say(VERDICTS[decision.choice.verdict(at)])
        values = [value_text(limit, say) for limit in odds.limits[: len(levels)]]
        row = [decision.candidates[at].label, verdict, odds_text(odds.holds, say), *values]
        row.append(odds_text(odds.next_holds, say))
        if question.cost is not None:
            row += [spread_text(odds.cost, say), odds_text(odds.cheapest, say) if not odds.missing else "—"]
        wishes = zip(question.wished, decision.candidates[at].wishes, strict=True)
        row += [", ".join(f"{_MET[met]} {wish.text}" for wish, met in wishes)] if question.wished else []
        rows.append(tuple(row))
    blank = ("—",) * (len(columns) - 2)
    rows += [(candidate.label, say("✕ requirement not met"), *blank) for candidate in decision.lacking]
    note = say(WORST) if levels else ""
    numbers = frozenset(range(2, len(columns) - bool(question.wished)))
    return Table("decision", "", tuple(columns), tuple(rows), numbers, note=note, stacked=True)


def levels_table(decision: SlaDecision, say: Language) -> Table:
    rows = tuple(
        (
            decision.candidates[at].label, level.text, levels_text(decision.conditions[odds.condition]) or "—",
            spread_text(odds.mean, say), odds_text(odds.holds, say),
        )
        for at in decision.order()
        for level, odds in zip(decision.question.levels, decision.choice.odds[at].limits, strict=True)
        if odds is not None
    )  # fmt: skip
    columns = (say("candidate"), say("level"), say("worst condition"), say("mean there"), say("holds"))
    return Table("decision-levels", "", columns, rows, frozenset({3, 4}), frozenset({2}))


def looks_blocks(decision: SlaDecision, say: Language) -> Iterator[Block]:
    """Yield a table of the interim decision after each block; nothing unless the campaign ran until its decision."""
    if not decision.looks:
        return
    design = decision.report.study.design
    rows = []
    for look in decision.looks:
        recommended = decision.candidates[look.recommended].label if look.recommended is not None else "—"
        dropped = [
            f"{decision.candidates[drop.candidate].label}: {why_dropped(decision, drop, say)}" for drop in look.dropped
        ]
        rows.append((say.integer(look.block), recommended, "; ".join(dropped) or "—", stop_text(look, say)))
    columns = (say("block"), say("recommended"), say("no longer in question"), say("end"))
    note = say("Every block has all candidates.")
    if design.allocation == "adaptive":
        note = say(
            "Later blocks have only the candidates that are still in question: the others stand with fewer blocks."
        )
    looks = say(
        "The campaign looked at its trials after each block, {most} at most; all looks together err as rarely as one.",
        most=say.integer(design.most_blocks),
    )
    table = Table("decision-looks", "", columns, tuple(rows), frozenset({0}), note=f"{looks} {note}")
    yield Fold(say("What was decided when"), (table,))


def breaking_blocks(decision: SlaDecision, say: Language) -> Iterator[Block]:
    """Yield a table of the dose at which each service level breaks; nothing if no condition is a numeric factor."""
    if not (broken_by_dose := list(broken_levels(decision))):
        return
    rows = tuple(
        (
            decision.candidates[broken.candidate].label, broken.given or "—", broken.level.text, broken.factor,
            dose_text(broken, say),
        )
        for broken in broken_by_dose
    )  # fmt: skip
    columns = (say("candidate"), say("condition"), say("level"), say("along"), say("breaks at"))
    note = say(
        "The mean is taken to change in one direction with the dose. The interval goes from dose to dose that was "
        "measured, since nothing is known of the shape between them. Nor is anything known beyond these doses: > is "
        "above the greatest, or never."
    )
    yield Table(
        "decision-breaks", say("Where a level breaks"), columns, rows, frozenset({4}), frozenset({1}), note=note
    )


def dose_text(broken: BrokenLevel, say: Language) -> str:
    """Format the dose at which a service level breaks, with its interval between measured doses; a dash for None.

    Nothing is known beyond the measured doses: 'never broke up to 100', '80 [50, > 100]'."""
    point, (least, greatest) = broken.point, broken.doses
    if point is None:
        return "—"
    at, low, high = point.spread
    if low == greatest:
        return say("never broke up to {dose}", dose=say.number(f"{greatest:g}"))
    if math.isinf(low) and math.isfinite(high):
        return say("at {dose} or below", dose=say.number(f"{high:g}"))

    def text(dose: float, digits: str) -> str:
        if math.isfinite(dose):
            return digits
        return f"> {greatest:g}" if dose > 0 else f"≤ {least:g}"

    ends = ", ".join(text(end, f"{end:g}") for end in (low, high))
    return say.number(f"{text(at, significant(at, 3))} [{ends}]")


def number_text(value: float, say: Language) -> str:
    return say.number(significant(value, 3))


def spread_text(estimate: Estimate | None, say: Language) -> str:
    if estimate is None:
        return "—"
    middle, low, high = (significant(value, 3) for value in estimate.spread)
    return say.number(f"{middle} [{low}, {high}]")


def value_text(odds: LimitOdds | None, say: Language) -> str:
    """Format how a candidate compares with a limit where it is worst: '16900 (> 99 %)'; a dash for None."""
    return "—" if odds is None else f"{number_text(odds.mean.spread[0], say)} ({odds_text(odds.holds, say)})"
