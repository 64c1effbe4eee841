"""The advice on the number of replicates, as a document and as JSON. Pure.

    format      "lastro-advice/1"
    directory, precision, confidence, of ("ratio to the baseline" or "mean"), replicates (of this campaign), block_s
    guest       the virtual machine that was the host {title, emulated, partly}, as in `lastro results --json`
    assurance   {likely, sure}: the stated probability that each number of blocks is enough
    blocks      {likely, sure}: the number that is enough for every metric with a known spread (all of its intervals)
    duration_s  {likely, sure}: the duration of these blocks
    metrics     [{metric, precision, blocks, absent_because}]; blocks {intervals, n, half_width, likely, sure, low,
                high, widest}, likely and sure {blocks, assurance, reached}
    claims      [{id, verdict, likely, sure, absent_because}]: the claims that this campaign leaves open, and how many
                blocks decide on each

A value that does not exist is null."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any

from lastro.analysis.advice import LIKELY, PROBABLE, SURE, VAGUE, Advice, DecisionAdvice, MetricAdvice
from lastro.analysis.claims.advice import ClaimAdvice
from lastro.builders.data.encoder import Forms, encode, pick
from lastro.builders.decision import decision_answer
from lastro.document import Block, Items, Paragraph, Table, Title
from lastro.grouping import by_key
from lastro.results.samples import Metric
from lastro.stats.notes import N_
from lastro.stats.simultaneous import MOST_BLOCKS
from lastro.units import human_duration
from lastro.words.campaign import guest_sentences, place_of
from lastro.words.claims import measured_text, verdict_text
from lastro.words.language import Language
from lastro.words.looks import odds_text
from lastro.words.numbers import percent
from lastro.words.phrases import join_names

_FORMS: Forms = {
    Metric: attrgetter("name"),
    ClaimAdvice: lambda advice: {
        "id": advice.judgement.claim.id,
        "verdict": advice.judgement.verdict,
        **pick(advice, "likely sure absent_because"),
    },
}


def advice_blocks(advice: Advice, say: Language) -> Iterator[Block]:
    """Yield the document on the number of blocks that a precision requires: a table, its legend, a recommendation."""
    where = place_of([advice.guest], say) or say("here")
    planned = []
    if advice.block_s is not None:
        blocks, time = say.count(advice.replicates, "block"), human_duration(advice.block_s)
        planned.append(say("{blocks} planned; a block takes {time} {where}", blocks=blocks, time=time, where=where))
    yield Title(advice.title)
    yield Items((*guest_sentences(advice.guest, say), *planned))
    quantities = say("ratios to the baseline") if advice.of_ratio else say("means")
    precisions = by_key((metric.precision, metric.metric.name) for metric in advice.metrics)
    named = [f"±{percent(precision, say, digits=2)} ({', '.join(names)})" for precision, names in precisions.items()]
    yield Paragraph(
        say(
            "Blocks for {confidence} intervals of at most {precision} around the {what}:",
            confidence=percent(advice.confidence, say),
            precision=join_names(named, say) if len(named) > 1 else f"±{percent(min(precisions), say, digits=2)}",
            what=quantities,
        )
    )
    columns = (
        say("metric"), say("ratios") if advice.of_ratio else say("means"), "n", say("half width"), say("blocks needed"),
        say("on average"), say("time"), say("decided by"),
    )  # fmt: skip
    yield Table("advice", "", columns, tuple(_row(advice, metric, say) for metric in advice.metrics))
    legend = say(
        "Blocks needed: with the first number, all {what} of a metric are this precise in the report with a "
        "probability of {likely}; with the second, of {sure}. Both allow for chance in this campaign and in the next. "
        "On average: the number that the true noise requires lies within these limits with a probability of "
        "{probable}. Half width: the largest half width in this campaign.",
        what=quantities,
        likely=percent(LIKELY, say),
        sure=percent(SURE, say),
        probable=percent(PROBABLE, say),
    )
    yield from map(Paragraph, (legend, *_conclusion(advice, say)))


def _row(advice: Advice, metric: MetricAdvice, say: Language) -> tuple[str, ...]:
    blocks = metric.blocks
    if blocks is None:
        return (metric.metric.name, *[""] * 6, say.note(metric.absent_because) if metric.absent_because else "")
    seconds = advice.duration_s(blocks.sure.blocks)
    return (
        metric.metric.name,
        str(blocks.intervals),
        str(blocks.n),
        say("none") if math.isinf(blocks.half_width) else f"±{percent(blocks.half_width, say, digits=2)}",
        f"{_blocks_text(blocks.likely.blocks, say)} / {_blocks_text(blocks.sure.blocks, say)}",
        say("{low} to {high}", low=_blocks_text(blocks.low, say), high=_blocks_text(blocks.high, say)),
        human_duration(seconds) if seconds is not None else "",
        blocks.widest,
    )


def _blocks_text(n: int | None, say: Language) -> str:
    return say("over 1,000,000") if n is None else say.integer(n)


def _conclusion(advice: Advice, say: Language) -> Iterator[str]:
    """Yield the recommended number of blocks, also without the most demanding metric; or why there is none."""
    sure = advice.sure_blocks
    if advice.vague:
        yield say(
            "This campaign is too small to know the number for {metrics}: what the noise requires is uncertain by a "
            "factor of more than {factor}. The second number allows for that, so it may be far too large. Repeat the "
            "advice with more blocks.",
            metrics=", ".join(advice.vague),
            factor=f"{VAGUE:g}",
        )
    if sure is None:
        yield say("No number of blocks can be recommended: see the table.")
        return
    seconds = advice.duration_s(sure)
    what = N_("For each metric, with a probability of {sure} each: replicates = {blocks}{time}.")
    if advice.unknown:
        what = N_("For each metric except {others}, with a probability of {sure} each: replicates = {blocks}{time}.")
    time = say(", about {time}", time=human_duration(seconds)) if seconds is not None else ""
    recommended = say(what, others=", ".join(advice.unknown), sure=percent(SURE, say), blocks=sure, time=time)
    needed = sorted((metric.blocks.sure.blocks or 0, metric.metric.name) for metric in advice.metrics if metric.blocks)
    if len(needed) > 1 and needed[-2][0] < needed[-1][0]:
        recommended += " " + say("Without {metric}, {blocks} are enough.", metric=needed[-1][1], blocks=needed[-2][0])
    yield recommended


# By the claims about a study


def claim_advice_blocks(claims: Sequence[ClaimAdvice], say: Language) -> Iterator[Block]:
    """Yield a table of the claims that the campaign leaves open, with the number of blocks that decides on each.

    Nothing if there are none."""
    if not claims:
        return
    columns = (
        say("claim"), say("verdict"), say("measured"),
        *(say("blocks needed, {chance}", chance=percent(chance, say)) for chance in (LIKELY, SURE)),
    )  # fmt: skip
    rows = []
    for advice in claims:
        blocks = _more_blocks_text(advice.likely, say), _more_blocks_text(advice.sure, say)
        if advice.absent_because:
            blocks = "—", say.note(advice.absent_because)
        judgement = advice.judgement
        rows.append((judgement.claim.id, verdict_text(judgement, say), measured_text(judgement, say), *blocks))
    title, right = say("Claims that are still open"), frozenset({3, 4})
    yield Table("claims-advice", title, columns, tuple(rows), right, frozenset({2}))
    yield Paragraph(
        say(
            "With so many blocks in all, this campaign decides on a claim with these probabilities: its interval then "
            "contains nothing that would change the verdict."
        )
    )


# By the service levels of a study


def decision_advice_blocks(advice: DecisionAdvice, say: Language) -> Iterator[Block]:
    """Yield the decision so far, and how many more blocks each open candidate needs until it is decided.

    Only candidates that could change the answer are listed."""
    decision = advice.decision
    study = decision.report.study
    yield Title(study.title or study.name, tuple(decision_answer(decision, say)))
    if not advice.open:
        none = N_("No more blocks are needed: nothing that is open could change the answer.")
        if decision.choice.alike_less:
            none = N_("No candidate is open: more blocks would only show which of those of like cost costs less.")
        yield Paragraph(say(none))
        return
    columns = (
        say("candidate"), say("holds"), say("more blocks, {chance}", chance=percent(LIKELY, say)),
        say("more blocks, {chance}", chance=percent(SURE, say)), say("time"),
    )  # fmt: skip
    rows = []
    for each in advice.open:
        blocks = [_more_blocks_text(n, say) for n in (each.likely, each.sure)]
        time = "—" if each.sure is None or advice.block_s is None else human_duration(each.sure * advice.block_s)
        rows.append((each.label, odds_text(each.holds, say), *blocks, time))
    yield Table("decision-advice", "", columns, tuple(rows), frozenset({1, 2, 3, 4}))
    yield Paragraph(
        say(
            "With so many more blocks, a candidate is decided on with these probabilities; the time is that of the "
            "second number, with all candidates that still get trials. `lastro run --until decided` stops by itself. "
            "For a precision of ratios: --precision 5%."
        )
    )


def _more_blocks_text(n: int | None, say: Language) -> str:
    return say("over {n}", n=say.integer(MOST_BLOCKS)) if n is None else say.integer(n)


def decision_advice_document(advice: DecisionAdvice, claims: Sequence[ClaimAdvice]) -> dict[str, Any]:
    """Return {format, verdict, n_blocks, block_s, open [{label, holds, likely, sure}], cost_blocks, claims}.

    `open` are the candidates that are not decided. `likely` and `sure` are the numbers of further blocks that decide on
    a candidate with the probabilities `LIKELY` and `SURE`; null above 1,000. `cost_blocks` are as in `data.decision`,
    and `claims` as in this module's docstring."""
    decision = advice.decision
    head = {"format": "lastro-decision-advice/1", "verdict": decision.choice.outcome, "n_blocks": decision.n_blocks}
    return encode(
        {**head, **pick(advice, "block_s open"), "cost_blocks": decision.cost_blocks, "claims": claims}, _FORMS
    )


def document(advice: Advice, claims: Sequence[ClaimAdvice] = ()) -> dict[str, Any]:
    """Return the advice as JSON-serializable data, with the keys of this module's docstring."""
    likely, sure = advice.likely_blocks, advice.sure_blocks
    chapters = {
        "format": "lastro-advice/1",
        **pick(advice, "directory precision confidence guest"),
        "of": "ratio to the baseline" if advice.of_ratio else "mean",
        **pick(advice, "replicates block_s"),
        "assurance": {"likely": LIKELY, "sure": SURE},
        "blocks": {"likely": likely, "sure": sure},
        "duration_s": {"likely": advice.duration_s(likely), "sure": advice.duration_s(sure)},
        **pick(advice, "metrics"),
        "claims": claims,
    }
    return encode(chapters, _FORMS)
