"""The wording of the answer to whether a variant is worse than the reference. Pure."""

from __future__ import annotations

import math

from lastro.analysis.variants import CHANCE, VariantAnswer, VariantPair
from lastro.results.samples import Metric
from lastro.stats.notes import N_
from lastro.stats.variants import VariantChange
from lastro.units import significant
from lastro.words.language import Language
from lastro.words.numbers import STATUS_WORDS, fixed, percent

_SLOWER = (N_("{variant} is slower by {change}{where}"), N_("{variant} is faster by {change}{where}"))
_WORSE = (N_("{variant} is worse by {change}{where}"), N_("{variant} is better by {change}{where}"))
_BOUNDED = N_("only lower bounds")
_OF_TIME = ("bit/s", "B/s", "/s", "s")  # endings of units in which a change is called faster or slower


def headline(answer: VariantAnswer, say: Language) -> str:
    """Return the answer in one line: worse, better, no worse, undecided, or that nothing could be compared."""
    metric, outcome = answer.metric, answer.outcome
    if not answer.measured:
        why = "; ".join(dict.fromkeys(missing_text(pair, say) for pair in answer.pairs))
        return say("nothing could be compared: {why}", why=why)
    (worst, change), more = answer.measured[0], len(answer.measured) > 1
    if outcome == "worse":
        confirmed = say.count(answer.new_blocks, "new block")
        text = changed(worst, change, metric, say, more=more)
        return say("{told}, confirmed by {blocks}", told=text, blocks=confirmed) if answer.alarm else text
    if outcome in ("unconfirmed", "alarm"):
        blocks, new = say.count(answer.alarm or 0, "block"), say.count(answer.new_blocks, "new block")
        text = N_("undecided: an alarm after {blocks} was not confirmed by {new}")
        if not answer.new_blocks:
            text = N_("undecided: an alarm after {blocks}, and no time was left to try it again")
        if outcome == "alarm":
            text = N_("undecided: an alarm after {blocks} is being tried again on new blocks")
        return say(text, blocks=blocks, new=new)
    if unmeasured := [pair for pair in answer.pairs if pair.is_lost]:
        where = f" ({unmeasured[0].label})" if unmeasured[0].label else ""
        return say("undecided: {variant} could not be measured{where}", variant=unmeasured[0].variant, where=where)
    if outcome == "no worse":
        return _no_worse(answer, say)
    if (more_blocks := answer.more_blocks) is None:
        text = N_("not enough, and more blocks would hardly decide: the noise is too large for {margin}")
        return say(text, margin=percent(answer.test.margin, say))
    text = N_("not enough: {blocks} decides with {chance}")
    if more_blocks > 1:
        text = N_("not enough: {blocks} decide with {chance}")
    return say(text, blocks=say.count(more_blocks, "more block"), chance=percent(CHANCE, say))


def _no_worse(answer: VariantAnswer, say: Language) -> str:
    """Return the answer if no pair is worse: the best clear improvement, or the largest change that is possible."""
    pairs, more = answer.measured, len(answer.measured) > 1
    best, change = min(pairs, key=lambda measured: measured[1].high)
    if change.high < 0 and -change.low > answer.test.margin:
        return changed(best, change, answer.metric, say, more=more)
    most = max(change.most for _, change in pairs)
    if most <= answer.test.margin:
        return say("no change larger than {most}", most=percent(most, say, digits=2))
    worst = max(change.high for _, change in pairs)
    if worst <= 0:
        return say("no change for the worse")
    return say("no change for the worse larger than {most}", most=percent(worst, say, digits=2))


def changed(pair: VariantPair, change: VariantChange, metric: Metric, say: Language, *, more: bool) -> str:
    """Return 'after is slower by 3.1 % [1.9, 4.4]', with the treatment if `more` than one pair was measured."""
    words = _SLOWER if metric.unit.endswith(_OF_TIME) else _WORSE
    where = f" ({pair.label})" if more and pair.label else ""
    worse = (change.loss.value or 0.0) > 0
    return say(words[not worse], variant=pair.variant, change=size_text(change, say, worse=worse), where=where)


def size_text(change: VariantChange, say: Language, *, worse: bool = True) -> str:
    """Format a change in percent with its interval; a positive number is a loss or, if not `worse`, a gain."""
    if change.loss.value is None:
        return say("no ratio")
    scale = 100 if worse else -100
    value, ends = scale * change.loss.value, sorted((scale * change.low, scale * change.high))
    if not all(map(math.isfinite, ends)):
        return say.number(f"{significant(value, 2)} %") + f" {say('unbounded')}"
    half = max((ends[1] - ends[0]) / 2, 1e-3)
    decimals = max(0, min(3, 1 - math.floor(math.log10(half))))
    return say.number(f"{fixed(value, decimals)} % [{fixed(ends[0], decimals)}, {fixed(ends[1], decimals)}]")


def missing_text(pair: VariantPair, say: Language) -> str:
    """Return why a pair could not be compared; empty if it was."""
    if pair.missing is None:
        return ""
    name, why = pair.missing
    return f"{name}: {say(_BOUNDED if why == 'bounded' else STATUS_WORDS.get(why, why))}"
