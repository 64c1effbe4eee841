"""The document on a decision: which candidate holds the service levels at the least cost, and how sure it is. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from lastro.analysis.breaking_points import broken_levels
from lastro.analysis.decision import SlaDecision
from lastro.document import Block, Figure, Figures, Fold, Items, Paragraph, Table, Title, section
from lastro.stats.breaking_point import BreakingPoint
from lastro.stats.decision import MOST_BLOCKS, LimitOdds
from lastro.stats.notes import N_
from lastro.study.fraction import Fraction
from lastro.study.service_level import ServiceLevel
from lastro.units import significant
from lastro.words.language import Language
from lastro.words.looks import cost_blocks_text, odds_text, percent_text, stop_text, why_dropped
from lastro.words.phrases import joined

_FEW = 3  # candidates, which a sentence names one by one
# {blocks: (of the candidates stated to hold with 20 to 40 %, the percentage that do; the same of those with 60 to
# 80 %)}, each from the least to the most over the noises of benches/decision_promises.py
_PERCENT_TRUE = {2: ("18–35", "77–90"), 3: ("22–36", "74–81"), 5: ("18–32", "70–80"), 10: ("23–32", "67–79")}
_MET = {True: "✓", False: "✕", None: "?"}
VERDICTS = {
    "accepted": N_("✓ holds"),
    "rejected": N_("✕ does not hold"),
    "open": N_("? undecided"),
    "missing": N_("— not measured"),
}


def decision_blocks(decision: SlaDecision, say: Language) -> Iterator[Block]:
    """Yield the document on a decision: the answer, its tables, what would change it, and what stays unanswered."""
    study = decision.report.study
    yield Title(study.title or study.name, tuple(answer(decision, say)))
    required = joined([requirement.text for requirement in decision.question.required], say)
    more = say("Required: {requirements}.", requirements=required) if required else ""
    yield Paragraph(f"{_question(decision, say)} {more}".strip())
    yield candidates_table(decision, say)
    lacking = tuple(f"{candidate.label}: {'; '.join(candidate.gaps)}" for candidate in decision.lacking)
    yield from section(say("Requirements not met"), Items(lacking))
    if not decision.candidates:
        return
    yield from section(say("What would change the answer"), Items(tuple(_changes(decision, say))))
    yield Fold(say("Each level, where it is met worst"), (_levels_table(decision, say),))
    yield from _breaking(decision, say)
    yield from _looks(decision, say)
    yield from section(say("Not answered"), Items(tuple(_unanswered(decision, say))))
    yield Paragraph(
        say(
            "Probabilities are those of means over blocks like these; another day, or another host, is not in them. A "
            "candidate holds (✓) if it surely keeps all levels in all conditions: the chance that any of the "
            "candidates is called so and does not is at most {alpha}.",
            alpha=percent_text(1 - decision.question.confidence, say),
        )
    )
    yield Paragraph(_reliability(decision, say))


def decision_section(decision: SlaDecision | None, say: Language, figures: tuple[Figure, ...] = ()) -> Iterator[Block]:
    """Yield the section of a report on its decision by service levels; nothing if the campaign has no decision.

    It has the answer, the candidates, the condition in which each service level is met worst, and `figures`."""
    if decision is None:
        return
    sentences = " ".join(answer(decision, say))
    worst = Fold(say("Each level, where it is met worst"), (_levels_table(decision, say),))
    table = candidates_table(decision, say)
    short = say("Decision")
    folds = (Figures(figures), worst, *_breaking(decision, say), *_looks(decision, say))
    note = Paragraph(_reliability(decision, say))
    yield from section(say("Which one?"), Paragraph(sentences), table, *folds, note, anchor="decision", short=short)


def _reliability(decision: SlaDecision, say: Language) -> str:
    """Return how often stated probabilities came true in simulated campaigns of about as many blocks.

    The simulations had 2, 3, 5 or 10 blocks. The sentence is on the largest of these numbers that does not exceed the
    blocks of the campaign."""
    n = max((blocks for blocks in _PERCENT_TRUE if blocks <= decision.n_blocks), default=min(_PERCENT_TRUE))
    unlikely, likely = _PERCENT_TRUE[n]
    return say(
        "In simulated campaigns of {n} blocks, of candidates stated to hold with about 30 %, {few} % did, and of those "
        "with about 70 %, {many} %: few blocks leave open how far blocks differ.",
        n=say.integer(n),
        few=unlikely,
        many=likely,
    )


def short_answer(decision: SlaDecision | None, say: Language) -> tuple[str, ...]:
    """Return the first sentence of the answer, for the opening of a report; empty if the campaign has no decision."""
    return () if decision is None else (next(answer(decision, say)),)


def answer(decision: SlaDecision, say: Language) -> Iterator[str]:
    """Yield the answer: which candidate holds the service levels, with its cost and the wishes that it meets.

    Without a recommended candidate, yield that none holds them, or which one is likeliest and how many more blocks
    would decide."""
    choice = decision.choice
    levels = joined([level.text for level in decision.question.levels], say)
    if choice.recommended is not None:
        odds = choice.odds[choice.recommended]
        name = decision.candidates[choice.recommended].label
        yield say(
            "{candidate} holds {levels} with a probability of {p}.",
            candidate=name,
            levels=levels,
            p=odds_text(odds.holds, say),
        )
        if odds.cost is not None and decision.question.cost is not None:
            yield _on_cost(decision, odds.cost[0], say)
        if decision.question.wished:
            yield _on_wishes(decision, choice.recommended, say)
    elif not decision.candidates:
        required = joined([requirement.text for requirement in decision.question.required], say)
        yield say("No candidate meets all requirements: {requirements}.", requirements=required)
    elif choice.outcome == "none":
        whole = not any(odds.missing for odds in choice.odds)
        none = N_("No candidate holds {levels}.")
        yield say(none if whole else N_("No candidate that was measured holds {levels}."), levels=levels)
    elif (best := choice.likeliest) is None:
        yield say("No candidate was measured in every condition.")
    else:
        yield say(
            "Undecided: no candidate surely holds {levels}. The likeliest is {candidate}, with a probability of {p}.",
            levels=levels,
            candidate=decision.candidates[best].label,
            p=odds_text(choice.odds[best].holds, say),
        )
        half, most = (decision.more_blocks(chance) for chance in (0.5, 0.8))
        if half is None:
            yield say(
                "It lies so near its limit that not even {n} more blocks would decide.", n=say.integer(MOST_BLOCKS)
            )
        elif most is None:
            yield say("About {n} more blocks would decide with a probability of 50 %.", n=say.integer(half))
        else:
            yield say(
                "About {n} more blocks would decide with a probability of 50 %, {most} with 80 %.",
                n=say.integer(half),
                most=say.integer(most),
            )


def _on_cost(decision: SlaDecision, cost: float, say: Language) -> str:
    """Return what the recommended candidate costs, and whether another may cost less."""
    choice, what = decision.choice, decision.question.cost.text if decision.question.cost else ""
    text = say("It costs {cost} ({what})", cost=_number(cost, say), what=what)
    if choice.open_cheaper:
        return say(
            "{text}; {others} may cost less, but may not hold them.", text=text,
            others=_named(decision, choice.open_cheaper, say),
        )  # fmt: skip
    if choice.alike:
        others = _named(decision, choice.alike, say)
        text = say("{text}; {others} may cost no more.", text=text, others=others)
        return f"{text} {cost_blocks_text(decision, say)}".rstrip()
    return say("{text}; nothing cheaper that was measured holds them.", text=text)


def _on_wishes(decision: SlaDecision, at: int, say: Language) -> str:
    """Return which wishes of the study the candidate of index `at`, the recommended one, meets and lacks.

    If the cheapest candidate is another one, also return that the wishes are the reason for the choice."""
    wishes = list(zip(decision.question.wished, decision.candidates[at].wishes, strict=True))
    met = [wish.text for wish, is_met in wishes if is_met]
    lacking = [wish.text for wish, is_met in wishes if not is_met]
    text = say("It has what is wished ({wishes})", wishes=joined(met, say))
    if lacking:
        text = say("It lacks what is wished ({wishes})", wishes=joined(lacking, say))
    if met and lacking:
        text = say(
            "Of what is wished, it has {met}, and lacks {lacking}", met=joined(met, say), lacking=joined(lacking, say)
        )
    if decision.cheapest in (None, at):
        return f"{text}."
    other = decision.candidates[decision.cheapest].label
    return say("{text}, and so comes before {other}.", text=text, other=other)


def _named(decision: SlaDecision, numbers: Sequence[int], say: Language) -> str:
    return joined([decision.candidates[at].label for at in numbers], say, _FEW)


def _question(decision: SlaDecision, say: Language) -> str:
    """Return how many candidates were compared in how many conditions, and the levels that all conditions share."""
    candidates, n = say.count(len(decision.candidates), "candidate"), len(decision.conditions)
    given = ", ".join(f"{name} = {level}" for name, level in decision.given.items())
    where = say("in each of {n} conditions", n=n) if n > 1 else ""
    if where and given:
        return say("{candidates}, {where}, with {given}.", candidates=candidates, where=where, given=given)
    if where:
        return say("{candidates}, {where}.", candidates=candidates, where=where)
    return say("{candidates}, with {given}.", candidates=candidates, given=given) if given else f"{candidates}."


# The tables


def candidates_table(decision: SlaDecision, say: Language) -> Table:
    """Return a table of the candidates, accepted ones first and the cheapest of these at the top.

    Candidates that do not meet a requirement come last."""
    columns = [say("candidate"), "", say("holds"), say("next trial holds")]
    if decision.question.cost is not None:
        columns += [say("cost"), say("cheapest that holds")]
    columns += [say("wishes")] if decision.question.wished else []
    rows = []
    for at in decision.order():
        odds = decision.choice.odds[at]
        verdict = say(VERDICTS[decision.choice.verdict(at)])
        row = [decision.candidates[at].label, verdict, *(odds_text(p, say) for p in (odds.holds, odds.next_holds))]
        if decision.question.cost is not None:
            row += [spread_text(odds.cost, say), odds_text(odds.cheapest, say) if not odds.missing else "—"]
        wishes = zip(decision.question.wished, decision.candidates[at].wishes, strict=True)
        row += [", ".join(f"{_MET[met]} {wish.text}" for wish, met in wishes)] if decision.question.wished else []
        rows.append(tuple(row))
    blank = ("—",) * (len(columns) - 2)
    rows += [(candidate.label, say("✕ requirement not met"), *blank) for candidate in decision.lacking]
    return Table("decision", "", tuple(columns), tuple(rows), frozenset(range(2, len(columns))))


def _levels_table(decision: SlaDecision, say: Language) -> Table:
    rows = tuple(
        (
            decision.candidates[at].label, level.text, decision.conditions[odds.condition] or "—",
            spread_text((odds.mean, odds.low, odds.high), say), odds_text(odds.holds, say),
        )
        for at in decision.order()
        for level, odds in zip(decision.question.levels, decision.choice.odds[at].limits, strict=True)
        if odds is not None
    )  # fmt: skip
    columns = (say("candidate"), say("level"), say("worst condition"), say("mean there"), say("holds"))
    return Table("decision-levels", "", columns, rows, frozenset({3, 4}), frozenset({2}))


def _looks(decision: SlaDecision, say: Language) -> Iterator[Block]:
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
    note = (
        say("Later blocks have only the candidates that are still in question: the others stand with fewer blocks.")
        if design.allocation == "adaptive"
        else say("Every block has all candidates.")
    )
    looks = say(
        "The campaign looked at its trials after each block, {most} at most; all looks together err as rarely as one.",
        most=say.integer(design.most_blocks),
    )
    table = Table("decision-looks", "", columns, tuple(rows), frozenset({0}), note=f"{looks} {note}")
    yield Fold(say("What was decided when"), (table,))


def _breaking(decision: SlaDecision, say: Language) -> Iterator[Block]:
    """Yield a table of the dose at which each service level breaks; nothing if no condition is a factor of numbers."""
    if not (broken_by_dose := list(broken_levels(decision))):
        return
    rows = tuple(
        (
            decision.candidates[broken.candidate].label, broken.given or "—", broken.level.text, broken.factor,
            _dose(broken.point, say),
        )
        for broken in broken_by_dose
    )  # fmt: skip
    columns = (say("candidate"), say("condition"), say("level"), say("along"), say("breaks at"))
    note = say(
        "The mean is taken to change in one direction with the dose. The interval goes from dose to dose that was "
        "measured, since nothing is known of the shape between them."
    )
    yield Table(
        "decision-breaks", say("Where a level breaks"), columns, rows, frozenset({4}), frozenset({1}), note=note
    )


def _dose(point: BreakingPoint | None, say: Language) -> str:
    """Format the dose at which a service level breaks, with its interval between measured doses; a dash for None."""
    if point is None:
        return "—"
    if math.isinf(point.low):
        return (
            say("nowhere known to hold")
            if math.isinf(point.high)
            else say("at {dose} or below", dose=say.number(f"{point.high:g}"))
        )
    if math.isinf(point.high):
        return say("not up to {dose}", dose=say.number(f"{point.low:g}"))
    ends = f"[{point.low:g}, {point.high:g}]"
    return say.number(ends if math.isinf(point.at) else f"{significant(point.at, 3)} {ends}")


# What would change the answer


def _changes(decision: SlaDecision, say: Language) -> Iterator[str]:
    """Yield, for each service level, the strictest limit that the recommended candidate holds almost surely.

    Each sentence also says which other candidate holds a stricter one, if any does. Nothing without a recommended
    candidate."""
    if (best := decision.choice.recommended) is None:
        return
    for number, level in enumerate(decision.question.levels):
        odds = decision.choice.odds[best].limits[number]
        assert odds is not None
        end = _end(level, odds)
        yield say(
            "{metric}: {candidate} holds {bound} as well.",
            metric=level.metric.name,
            candidate=decision.candidates[best].label,
            bound=_bound(level, end, say),
        ) + _stricter_holder(decision, number, best, end, say)


def _stricter_holder(decision: SlaDecision, number: int, best: int, end: float, say: Language) -> str:
    """Return which other accepted candidate holds a stricter limit than `end`, and which limit; or that none does.

    `number` is the index of the service level, and `best` that of the recommended candidate."""
    level = decision.question.levels[number]
    ends = {
        at: _end(level, odds)
        for at in decision.choice.accepted
        if at != best and (odds := decision.choice.odds[at].limits[number]) is not None
    }
    further = {at: far for at, far in ends.items() if (far > end if level.at_least else far < end)}
    if not further:
        return " " + say("Beyond that, no other that holds the levels is surer.")
    furthest = (max if level.at_least else min)(further, key=further.__getitem__)
    return " " + say(
        "Beyond that, {candidate} remains, until {bound}.",
        candidate=decision.candidates[furthest].label,
        bound=_bound(level, further[furthest], say),
    )


def _end(level: ServiceLevel, odds: LimitOdds) -> float:
    """Return the strictest limit that a mean keeps almost surely: the end of its interval next to the limit."""
    return odds.low if level.at_least else odds.high


def _bound(level: ServiceLevel, value: float, say: Language) -> str:
    return f"{'≥' if level.at_least else '≤'} {_number(value, say)} {level.metric.unit}".strip()


def _unanswered(decision: SlaDecision, say: Language) -> Iterator[str]:
    """Yield how many combinations the fraction of the design lacks, and which candidates lack values and why."""
    fraction = Fraction.of(decision.report.study)
    known = [candidate.levels for candidate in (*decision.candidates, *decision.lacking)]
    of_study = math.prod(len({levels[name] for levels in known}) for name in known[0])
    if fraction and (absent := of_study - len(known)):
        yield say(
            "{n} of {all} combinations of {factors} are not in the fraction",
            n=absent, all=of_study, factors=joined(list(known[0]), say),
        )  # fmt: skip
    for candidate, odds in zip(decision.candidates, decision.choice.odds, strict=True):
        if odds.missing:
            what = joined([decision.question.metrics[at] for at in odds.missing], say)
            why = "; ".join(candidate.gaps) or (say(_NOT_ALL) if fraction else say("no valid trial has a value"))
            yield say("{candidate}: {metrics} not measured: {why}", candidate=candidate.label, metrics=what, why=why)


_NOT_ALL = N_("the fraction does not have it in every condition; `lastro decide --under` asks for some of them")


# Numbers


def _number(value: float, say: Language) -> str:
    return say.number(significant(value, 3))


def spread_text(spread: tuple[float, float, float] | None, say: Language) -> str:
    if spread is None:
        return "—"
    middle, low, high = (significant(value, 3) for value in spread)
    return say.number(f"{middle} [{low}, {high}]")
