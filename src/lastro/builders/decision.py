"""The document on a decision: which candidate holds the service levels at the least cost, and how sure it is. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from lastro.analysis.breaking_points import strictest_limits
from lastro.analysis.decision import Deployment, SlaDecision, levels_text
from lastro.builders.decision_tables import breaking_blocks, candidates_table, levels_table, looks_blocks, number_text
from lastro.document import Block, Figure, Figures, Fold, Items, Paragraph, Title, section
from lastro.stats.notes import N_
from lastro.stats.simultaneous import MOST_BLOCKS
from lastro.study.fraction import Fraction
from lastro.study.levels import NONE, split_options
from lastro.study.service_level import ServiceLevel
from lastro.words.campaign import premises
from lastro.words.language import Language
from lastro.words.looks import cost_blocks_text, odds_text
from lastro.words.numbers import percent
from lastro.words.phrases import join_names

if TYPE_CHECKING:
    from lastro.papers import Recommended

_FEW = 3  # candidates, which a sentence names one by one
# {blocks: (percentage that held of the candidates stated to hold with 20 to 40 %, the same for those with 60 to 80 %)};
# each range is over the noises of benches/decision_promises.py.
_PERCENT_TRUE = {2: ("19–36", "78–91"), 3: ("22–36", "73–80"), 5: ("20–33", "70–80"), 10: ("22–32", "68–81")}


def decision_blocks(
    decision: SlaDecision, say: Language, recommended: Recommended | None, figures: tuple[Figure, ...] = ()
) -> Iterator[Block]:
    """Yield the document on a decision: the answer as its title, and below it the blocks of `_body`.

    `recommended` is what the source of the study recommends."""
    report = decision.report
    title = report.study.title or report.study.name
    lead = " ".join(premises(report, say))
    yield Title(title, tuple(_whole_answer(decision, recommended, say)), lead, say("Decision"))
    yield from _body(decision, say, figures)


def decision_section(
    decision: SlaDecision | None, say: Language, recommended: Recommended | None, figures: tuple[Figure, ...]
) -> Iterator[Block]:
    """Yield the section of a report on its decision by service levels: the answer, and below it the blocks of `_body`.

    Nothing if the campaign has no decision."""
    if decision is not None:
        sentences = Paragraph(" ".join(_whole_answer(decision, recommended, say)))
        blocks = (sentences, *_body(decision, say, figures))
        yield from section(say("Which one?"), *blocks, anchor="decision", short=say("Decision"))


def _body(decision: SlaDecision, say: Language, figures: tuple[Figure, ...]) -> Iterator[Block]:
    """Yield the blocks below the answer: the tables, `figures`, what would change it, and what stays unanswered.

    It has no headings, so that it can be a section of a report."""
    required = join_names([requirement.text for requirement in decision.question.required], say)
    more = say("Required: {requirements}.", requirements=required) if required else ""
    yield Paragraph(f"{_question(decision, say)} {more}".strip())
    yield candidates_table(decision, say)
    yield Figures(figures)
    lacking = tuple(f"{candidate.label}: {'; '.join(map(say.note, candidate.gaps))}" for candidate in decision.lacking)
    yield Items(lacking, title=say("Requirements not met"))
    if not decision.candidates:
        return
    yield Items(tuple(_changes(decision, say)), title=say("What would change the answer"))
    yield Fold(say("Each level, where it is met worst"), (levels_table(decision, say),))
    yield from breaking_blocks(decision, say)
    yield from looks_blocks(decision, say)
    yield Items(tuple(_unanswered(decision, say)), title=say("Not answered"))
    yield Paragraph(" ".join(_on_probabilities(decision, say)))


def _on_probabilities(decision: SlaDecision, say: Language) -> Iterator[str]:
    """Yield what the stated probabilities are about, what "holds" promises, and how often probabilities came true.

    They came true in simulated campaigns of 2, 3, 5 or 10 blocks. The sentence is on the largest of these numbers that
    does not exceed the blocks of the campaign; there is none for several campaigns."""
    if decision.n_campaigns > 1:
        yield say(
            "Probabilities are those of means over campaigns like these {n}, and the next trial is one of another "
            "campaign: how far campaigns differ is in them, and from so few it is known badly. Another host is not in "
            "them.",
            n=say.integer(decision.n_campaigns),
        )
    else:
        yield say(
            "Probabilities are those of means over blocks like these; another day, or another host, is not in them."
        )
    yield say(
        "A candidate holds (✓) if it surely keeps all levels in all conditions: the chance that any of the candidates "
        "is called so and does not is at most {alpha}.",
        alpha=percent(decision.question.alpha, say),
    )
    if decision.n_campaigns <= 1:
        n = max((blocks for blocks in _PERCENT_TRUE if blocks <= decision.n_blocks), default=min(_PERCENT_TRUE))
        unlikely, likely = _PERCENT_TRUE[n]
        yield say(
            "In simulated campaigns of {n} blocks, of candidates stated to hold with about 30 %, {few} % did, and of "
            "those with about 70 %, {many} %: few blocks leave open how far blocks differ.",
            n=say.integer(n), few=unlikely, many=likely,
        )  # fmt: skip


def short_answer(decision: SlaDecision | None, say: Language) -> tuple[str, ...]:
    """Return the first sentence of the answer, for the opening of a report; empty if the campaign has no decision."""
    return () if decision is None else (next(decision_answer(decision, say)),)


def decision_answer(decision: SlaDecision, say: Language) -> Iterator[str]:
    """Yield the answer: which candidate holds the service levels, where it is worst, its cost, and its wishes.

    Without a recommended candidate, yield that none holds them, or which one is likeliest and how many more blocks
    would decide."""
    choice = decision.choice
    levels = join_names([level.text for level in decision.question.levels], say)
    levels = " ".join(filter(None, (levels, _place(decision.given, say))))
    if (best := choice.recommended) is not None:
        label, p = decision.candidates[best].label, _probability(decision, best, say)
        yield say("{candidate} holds {levels} with a probability of {p}.", candidate=label, levels=levels, p=p)
        if (cost := choice.odds[best].cost) is not None and decision.question.cost is not None:
            yield _on_cost(decision, cost.spread[0], say)
        if decision.question.wished:
            yield _on_wishes(decision, best, say)
    elif not decision.candidates:
        required = join_names([requirement.text for requirement in decision.question.required], say)
        yield say("No candidate meets all requirements: {requirements}.", requirements=required)
    elif choice.outcome == "none":
        none = N_("No candidate holds {levels}.")
        if any(odds.missing for odds in choice.odds):
            none = N_("No candidate that was measured holds {levels}.")
        yield say(none, levels=levels)
    elif (likeliest := choice.likeliest) is None:
        yield say("No candidate was measured in every condition.")
    else:
        label, p = decision.candidates[likeliest].label, _probability(decision, likeliest, say)
        text = N_(
            "Undecided: no candidate surely holds {levels}. The likeliest is {candidate}, with a probability of {p}."
        )
        yield say(text, levels=levels, candidate=label, p=p)
        yield _more_blocks_text(decision, say)


def _more_blocks_text(decision: SlaDecision, say: Language) -> str:
    """Return how many more blocks would decide on the likeliest candidate, or that more campaigns may decide."""
    if decision.n_campaigns > 1:
        return say("More campaigns may decide: more blocks do not show how far campaigns differ.")
    choice, at = decision.choice, decision.choice.likeliest
    half, most = (decision.more_blocks(chance, at) for chance in (0.5, 0.8))
    if half is None and at is not None and choice.odds[at].tail.unknown > decision.question.alpha:
        return say("Some of its values are only bounds, so more blocks would not decide.")
    if half is None:
        return say("It lies so near its limit that not even {n} more blocks would decide.", n=say.integer(MOST_BLOCKS))
    blocks = say.count(half, "more block")
    if most is None:
        return say("About {blocks} would decide with a probability of 50 %.", blocks=blocks)
    text = N_("About {blocks} would decide with a probability of 50 %, {most} with 80 %.")
    return say(text, blocks=blocks, most=say.integer(most))


def _whole_answer(decision: SlaDecision, recommended: Recommended | None, say: Language) -> Iterator[str]:
    yield from decision_answer(decision, say)
    if recommended is not None and (here := _on_source(decision, recommended, say)):
        yield f"{source_text(recommended, say)} {here}"


def source_text(recommended: Recommended, say: Language) -> str:
    """Return the sentence on what the source of a study or a suite recommends, where and why."""
    combinations = [" · ".join(levels) for levels in itertools.product(*recommended.levels.values())]
    levels, passage = join_names(combinations, say), recommended.passage[say.code]
    because = recommended.because[say.code]
    return say(
        "The source recommends {levels} ({passage}): {because}.", levels=levels, passage=passage, because=because
    )


def _on_source(decision: SlaDecision, recommended: Recommended, say: Language) -> str:
    """Return whether this host agrees with the source of the study; empty if the question is about other factors."""
    choice, candidates = decision.choice, decision.candidates
    if not recommended.levels.keys() <= next(iter((*candidates, *decision.lacking))).levels.keys():
        return ""

    def is_named(candidate: Deployment) -> bool:
        chosen = ((split_options(candidate.levels[name])[0], levels) for name, levels in recommended.levels.items())
        return all(level in levels for level, levels in chosen)

    named = [at for at, candidate in enumerate(candidates) if is_named(candidate) and not choice.odds[at].missing]
    holding = [at for at in choice.accepted if at in named]
    if not named:
        if any(map(is_named, decision.lacking)):
            return say("That does not meet the requirements.")
        return say("That was not measured here.")
    if holding:
        label, best = candidates[holding[0]].label, choice.recommended
        if best is None or decision.question.cost is None or {best, *choice.alike}.intersection(holding):
            return say("This host agrees: {candidate} holds the levels.", candidate=label)
        text = N_("{candidate} holds the levels here, too, but costs more than {best}.")
        return say(text, candidate=label, best=candidates[best].label)
    surest = max(named, key=lambda at: (at not in choice.rejected, choice.odds[at].holds))
    if surest in choice.rejected:
        return say("This host says otherwise: here, that does not hold the levels.")
    text = N_("This host leaves that open: {candidate} holds the levels with a probability of {p}.")
    return say(text, candidate=candidates[surest].label, p=odds_text(choice.odds[surest].holds, say))


def _probability(decision: SlaDecision, at: int, say: Language) -> str:
    """Return how probably a candidate holds all levels and, of several conditions, in which one it is worst."""
    p = odds_text(decision.choice.odds[at].holds, say)
    nearest = decision.nearest_limit(at)
    if len(decision.conditions) < 2 or nearest is None:
        return p
    return say("{p}, worst {where}", p=p, where=_place(decision.conditions[nearest.condition], say))


def _place(levels: Mapping[str, str], say: Language) -> str:
    """Return a condition as a part of a sentence: 'beside disk, with function = nat'; empty without levels."""
    texts = []
    if neighbour := levels.get("anomaly"):
        texts.append(
            say("without a neighbour") if neighbour == NONE else say("beside {neighbour}", neighbour=neighbour)
        )
    if others := {name: level for name, level in levels.items() if name != "anomaly"}:
        texts.append(say("with {given}", given=levels_text(others)))
    return ", ".join(texts)


def _on_cost(decision: SlaDecision, cost: float, say: Language) -> str:
    """Return what the recommended candidate costs, and whether another may cost less."""
    choice = decision.choice
    what = decision.question.cost.text if decision.question.cost else ""
    text = say("It costs {cost} ({what})", cost=number_text(cost, say), what=what)
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
    has, lacks = join_names(met, say), join_names(lacking, say)
    text = say("It has what is wished ({wishes})", wishes=has)
    if lacking:
        text = say("It lacks what is wished ({wishes})", wishes=lacks)
    if met and lacking:
        text = say("Of what is wished, it has {met}, and lacks {lacking}", met=has, lacking=lacks)
    if decision.cheapest in (None, at):
        return f"{text}."
    other = decision.candidates[decision.cheapest].label
    return say("{text}, and so comes before {other}.", text=text, other=other)


def _named(decision: SlaDecision, numbers: Sequence[int], say: Language) -> str:
    return join_names([decision.candidates[at].label for at in numbers], say, _FEW)


def _question(decision: SlaDecision, say: Language) -> str:
    """Return how many candidates were compared in how many conditions, and the levels that all conditions share."""
    candidates = say.count(len(decision.candidates), "candidate")
    n = len(decision.conditions)
    given = levels_text(decision.given)
    where = say("in each of {n} conditions", n=n) if n > 1 else ""
    if where and given:
        return say("{candidates}, {where}, with {given}.", candidates=candidates, where=where, given=given)
    if where:
        return say("{candidates}, {where}.", candidates=candidates, where=where)
    return say("{candidates}, with {given}.", candidates=candidates, given=given) if given else f"{candidates}."


def _changes(decision: SlaDecision, say: Language) -> Iterator[str]:
    """Yield how strict the limit of each service level may become, and which other candidate holds a stricter one.

    Nothing without a recommended candidate."""
    for strictest in strictest_limits(decision):
        level, best = strictest.level, decision.choice.recommended
        assert best is not None
        then = say("Beyond that, no other that holds the levels is surer.")
        if strictest.beyond is not None:
            other, limit = strictest.beyond
            label, bound = decision.candidates[other].label, _bound(level, limit, say)
            then = say("Beyond that, {candidate} remains, until {bound}.", candidate=label, bound=bound)
        label, bound = decision.candidates[best].label, _bound(level, strictest.limit, say)
        holds = say(
            "{metric}: {candidate} holds {bound} as well.", metric=level.metric.name, candidate=label, bound=bound
        )
        yield f"{holds} {then}"


def _bound(level: ServiceLevel, value: float, say: Language) -> str:
    return f"{'≥' if level.at_least else '≤'} {number_text(value, say)} {level.metric.unit}".strip()


def _unanswered(decision: SlaDecision, say: Language) -> Iterator[str]:
    """Yield how many combinations the fraction of the design lacks, and which candidates lack values and why."""
    fraction = Fraction.of(decision.report.study)
    known = [candidate.levels for candidate in (*decision.candidates, *decision.lacking)]
    of_study = math.prod(len({levels[name] for levels in known}) for name in known[0])
    if fraction and (absent := of_study - len(known)):
        yield say(
            "{n} of {all} combinations of {factors} are not in the fraction",
            n=absent, all=of_study, factors=join_names(list(known[0]), say),
        )  # fmt: skip
    for candidate, odds in zip(decision.candidates, decision.choice.odds, strict=True):
        if odds.missing:
            what = join_names([decision.question.metrics[at] for at in odds.missing], say)
            why = _NOT_ALL if fraction else N_("no valid trial has a value")
            why = "; ".join(map(say.note, candidate.gaps)) or say(why)
            yield say("{candidate}: {metrics} not measured: {why}", candidate=candidate.label, metrics=what, why=why)


_NOT_ALL = N_("the fraction does not have it in every condition; `lastro decide --under` asks for some of them")
