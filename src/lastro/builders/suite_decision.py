"""The document on a suite's best platform over all studies, beside the one that the suite's source recommends. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from lastro.analysis.decision import SlaDecision
from lastro.analysis.suite_decision import PLATFORM, SuiteDecision, surest_variant
from lastro.builders.decision import source_text
from lastro.builders.decision_tables import VERDICTS, WORST, spread_text, value_text
from lastro.document import Block, Items, Paragraph, Table, Title, section
from lastro.papers import Recommended
from lastro.stats.intervals import alpha_of
from lastro.words.language import Language
from lastro.words.looks import odds_text
from lastro.words.numbers import percent
from lastro.words.phrases import join_names


def suite_decision_blocks(
    title: str, decision: SuiteDecision, recommended: Recommended | None, say: Language
) -> Iterator[Block]:
    """Yield the document on the choice over a suite: the answer as its title, and below it the blocks of `_body`."""
    yield Title(title, tuple(_answer(decision, recommended, say)), kicker=say("Decision"))
    yield from _body(decision, say)


def suite_decision_section(
    decision: SuiteDecision | None, recommended: Recommended | None, say: Language
) -> Iterator[Block]:
    """Yield the section of the page of a suite on its best platform; nothing if no study compares platforms."""
    if decision is not None:
        blocks = (Paragraph(" ".join(_answer(decision, recommended, say))), *_body(decision, say))
        yield from section(say("Which platform?"), *blocks, anchor="decision", short=say("Decision"))


def _body(decision: SuiteDecision, say: Language) -> Iterator[Block]:
    yield _table(decision, say)
    if any(column.decision for column in decision.columns):
        yield _levels_table(decision, say)
    yield Paragraph(
        say(
            "How many times as good as {reference} each platform is: the ratio of means, inverted where less is "
            "better, with {confidence} intervals. Each study counts by one metric, and by the first options of a "
            "platform that it lists and measured. The score is the weighted geometric mean.",
            reference=decision.candidates[decision.reference],
            confidence=percent(decision.confidence, say),
        )
    )
    gaps = tuple(f"{name}: {say(why)}" for name, why in decision.left_out.items())
    yield Items(gaps, title=say("Studies that do not count"))


def _answer(decision: SuiteDecision, recommended: Recommended | None, say: Language) -> Iterator[str]:
    """Yield the best candidate with its score, what the source recommends, and which candidates keep all levels."""
    names, studies = decision.candidates, say.count(len(decision.columns), "study")
    leader, reference = decision.leader, names[decision.reference]
    if leader is None:
        yield say("No candidate was measured in every study.")
    else:
        yield say(
            "Over {studies}, {candidate} is the best beside {reference} with a probability of {p}: {score} times as "
            "good.",
            studies=studies,
            candidate=names[leader],
            reference=reference,
            p=odds_text(decision.best[leader], say),
            score=spread_text(decision.scores[leader], say),
        )
    if recommended is not None and PLATFORM in recommended.levels:
        yield _on_source(decision, recommended, say)
    match decision.levels_outcome:
        case "kept":
            keeping_all = [name for at, name in enumerate(names) if decision.keeps_all(at)]
            yield say(
                "In all studies with levels, {candidates} surely keep them.", candidates=join_names(keeping_all, say)
            )
        case "none":
            yield say("Each candidate that was measured surely breaks a level of some study.")
        case "undecided":
            yield say("No candidate surely keeps the levels of all studies.")


def _on_source(decision: SuiteDecision, recommended: Recommended, say: Language) -> str:
    """Return which platforms the source of a suite recommends, and how probably they are the best on this host."""
    source, platforms = source_text(recommended, say), recommended.levels[PLATFORM]
    named = [at for at, name in enumerate(decision.candidates) if name in platforms and decision.scores[at]]
    p = sum(decision.best[at] for at in named)
    if not named or decision.leader is None:
        return f"{source} {say('That was not measured here.')}"
    if p >= decision.confidence:
        here = say("This host says so, too, with a probability of {p}.", p=odds_text(p, say))
    elif p <= alpha_of(decision.confidence):
        here = say("By speed alone, this host says otherwise: the probability is {p}.", p=odds_text(p, say))
    else:
        here = say("This host leaves that open: the probability is {p}.", p=odds_text(p, say))
    return f"{source} {here}"


def _table(decision: SuiteDecision, say: Language) -> Table:
    weighted = len({column.weight for column in decision.columns}) > 1
    shown = sorted(range(len(decision.candidates)), key=lambda at: (at != decision.reference, -decision.best[at]))
    head = [say("study"), say("metric"), *([say("weight")] if weighted else [])]
    rows = [
        (
            column.name, column.metric.name, *([say.number(f"{column.weight:g}")] if weighted else []),
            *(spread_text(column.goodness[at], say) for at in shown if at != decision.reference),
        )
        for column in decision.columns
    ]  # fmt: skip
    others = [at for at in shown if at != decision.reference]
    blank = ("",) * (len(head) - 1)
    rows.append((say("score"), *blank, *(spread_text(decision.scores[at], say) for at in others)))
    rows.append((say("is the best"), *blank, *(odds_text(decision.best[at], say) for at in others)))
    columns = (*head, *(decision.candidates[at] for at in others))
    return Table("suite-decision", "", columns, tuple(rows), frozenset(range(2, len(columns))), whole=True)


def _levels_table(decision: SuiteDecision, say: Language) -> Table:
    columns = (say("study"), say("levels"), *decision.candidates)
    rows = []
    for column in decision.columns:
        if decided := column.decision:
            levels = join_names([level.text for level in decided.question.levels], say)
            rows.append((column.name, levels, *(_met_text(decided, name, say) for name in decision.candidates)))
    long = frozenset({1})
    return Table("suite-levels", say("Service levels"), columns, tuple(rows), long=long, note=say(WORST), whole=True)


def _met_text(decision: SlaDecision, platform: str, say: Language) -> str:
    """Format the verdict on a platform and its worst mean for each service level: '✓ holds: 2100 (> 99 %)'.

    Return a dash for a platform that is not a candidate."""
    if (at := surest_variant(decision, platform)) is None:
        return "—"
    verdict, odds = decision.choice.verdict(at), decision.choice.odds[at]
    values = "" if odds.missing else f": {'; '.join(value_text(limit, say) for limit in odds.limits)}"
    return f"{say(VERDICTS[verdict])}{values}"
