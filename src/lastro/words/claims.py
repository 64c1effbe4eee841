"""The wording of a judgement of a claim: the published figure, the measured effect, and the reason for the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.claim_effects import ClaimContrast, Measure
from lastro.analysis.claims import Judgement, has_magnitude, judged_interval, magnitude_differs, tally, tolerated
from lastro.stats.intervals import Bound, Estimate
from lastro.stats.notes import N_, Note
from lastro.units import significant
from lastro.words.estimates import estimate_text, p_text
from lastro.words.language import ENGLISH, Language
from lastro.words.numbers import MINUS, percent, ratio_text

if TYPE_CHECKING:
    from lastro.analysis.claims.claim import Claim, PublishedFigure, Source

# {verdict: (its mark, the kind of its span, the message for a number of claims)}; the verdict is a message, too.
VERDICTS: Mapping[str, tuple[str, str, str]] = {
    N_("reproduced"): ("✓", "better", N_("{n} reproduced")),
    N_("same direction, another size"): ("≠", "lower", N_("{n} same direction, another size")),
    N_("same direction, too imprecise"): ("↗", "lower", N_("{n} same direction, too imprecise")),
    N_("contradicted"): ("✕", "worse", N_("{n} contradicted")),
    N_("not distinguishable here"): ("≈", "warning", N_("{n} not distinguishable here")),
    N_("untestable here"): ("–", "dim", N_("{n} untestable here")),
}


def verdict_text(judgement: Judgement, say: Language = ENGLISH) -> str:
    """Format the verdict with its mark: '✓ reproduced', or '✓ reproduced, stand-in' if a stand-in was measured."""
    word = f"{VERDICTS[judgement.verdict][0]} {say(judgement.verdict)}"
    return f"{word}, {say('stand-in')}" if judgement.stand_in else word


def published_text(published: PublishedFigure | None, say: Language = ENGLISH) -> str:
    """Format a published figure, such as '×0.8961 ± 0.052, −312.39 Mbit/s'; empty if `published` is None.

    The figure that decides the claim comes first, with its tolerance. Without a tolerance, return the bound, '≥ ×1.5',
    or the figure as the source printed it, in “”."""
    if published is None:
        return ""
    measure, figure = published.judged
    if published.tolerance is None:
        if published.at_least is None and published.at_most is None:
            return f"“{published.printed}”" if published.printed else ""
        bound = "≤" if published.at_least is None else "≥"
        return say.number(f"{bound} {_shown(measure, figure, published.unit)}")
    scale = 100.0 if measure == "share" else 1.0
    texts = [f"{_shown(measure, figure, published.unit)} ± {significant(published.tolerance * scale, 2)}"]
    if measure == "ratio" and published.difference is not None:
        texts.append(_shown("difference", published.difference, published.unit))
    return ", ".join(map(say.number, texts))


def effect_text(
    measure: Measure, effect: Estimate, unit: str, say: Language = ENGLISH, bound: Bound | None = ""
) -> str:
    """Format an effect: '×1.051 [1.047, 1.055]', '+312 [290, 334] Mbit/s', '62.6 % [58.1, 67.0]'.

    Without an interval, return '×1.05 (no interval)'; with a `bound`, '≥ ×1.7'. If `bound` is None, the true effect may
    be on either side of the value, so return 'no ratio' or 'no value'."""
    if effect.value is None or bound is None:
        return say("no ratio") if measure == "ratio" else say("no value")
    if measure == "ratio":
        if effect.interval is None and not effect.unbounded and not bound:
            number_alone = say.number(f"×{significant(effect.value, 3)}".replace("-", MINUS))
            return f"{number_alone} ({say('no interval')})"
        return ratio_text(replace(effect, bound=bound), say)
    scale, ending = (100, " %") if measure == "share" else (1, f" {unit}" if unit else "")
    if effect.interval is None:
        number = float(significant(effect.value * scale))
        number_alone = say.number(_signed(number) if measure != "level" else f"{number:g}".replace("-", MINUS)) + ending
        return f"{bound} {number_alone}" if bound else f"{number_alone} ({say('no interval')})"
    text = estimate_text(effect.value * scale, effect.interval.mapped(lambda end: end * scale), say)
    return f"{'+' if measure == 'difference' and not text.startswith(MINUS) else ''}{text}{ending}"


def reason_text(judgement: Judgement, say: Language = ENGLISH) -> str:
    """Return the reason for the verdict on a claim, after the stand-ins on which it was judged, if any.

    If the claim was not judged over all conditions of the design, the text also says over how many."""
    text = N_("stand-in: {measured} in place of {published}")
    stand_ins = [
        say(text, measured=", ".join(map(str, stand_in.measured)), published=stand_in.published)
        for stand_in in judgement.stand_in
    ]
    return "; ".join([*stand_ins, _reason(judgement, say)])


def _reason(judgement: Judgement, say: Language) -> str:
    """Return the reason for a verdict: the position of the interval, or why the claim is untestable."""
    claim, part, effects = judgement.claim, judgement.part, judgement.effects
    if judgement.verdict == "untestable here" or effects is None or part is None:
        return "; ".join(map(say.note, judgement.why_not))
    words = claim.statement.words(claim)
    values = {"levels": part.label, "figure": claim.statement.figure(claim)}
    if judgement.verdict == "reproduced":
        text = _magnitude_reproduced(claim, say) or say.note(Note(words.reproduced, **values))
    elif judgement.verdict.startswith("same direction"):
        text = _direction_only(claim, part, say)
    elif judgement.verdict == "contradicted":
        text = say.note(Note(words.contradicted, **values))
    else:
        text = say.note(Note(words.undecided, **values))
        if judgement.p_is_significant:
            text += " " + say("after correction for the number of claims")
        if not claim.statement.states_figure and claim.slight is None and magnitude_differs(claim, part):
            text += "; " + say("an effect as large as the published one would have been detected")
    if part.under_floor and not claim.statement.is_equivalence(claim):
        text += "; " + say("the effect is smaller than the noise floor of this host")
    if effects.strata < effects.all_strata:
        text += "; " + say("over {n} of {all} conditions of the design", n=effects.strata, all=effects.all_strata)
    return text


def _magnitude_reproduced(claim: Claim, say: Language) -> str:
    """Return how a reproduced effect agrees with the published magnitude; empty for a claim without a magnitude."""
    if claim.slight is not None:
        return say("the whole interval lies below a difference of {bound}", bound=_slight(claim, say))
    if claim.statement.states_figure or not has_magnitude(claim):
        return ""
    if _is_bound(claim):
        return say("the whole interval lies within the published bound")
    return say("the whole interval lies within the tolerance of the published figure")


def _direction_only(claim: Claim, part: ClaimContrast, say: Language) -> str:
    """Return why only the direction of a claim was reproduced: how its interval misses the published magnitude."""
    low, high = tolerated(claim)
    interval = judged_interval(claim, part)
    if interval is None and part.incomparable and claim.published and claim.published.judged[0] == "difference":
        return say.note(part.incomparable)
    if interval is None and part.bound:
        return say("only a bound on the magnitude is known, because a mean is only a lower bound")
    if interval is None:
        return say("there is no interval for the magnitude")
    if claim.slight is not None and magnitude_differs(claim, part):
        return say("the whole interval lies beyond a difference of {bound}", bound=_slight(claim, say))
    if claim.slight is not None:
        return say("the interval reaches beyond a difference of {bound}", bound=_slight(claim, say))
    if _is_bound(claim) and magnitude_differs(claim, part):
        return say("the whole interval lies beyond the published bound")
    if _is_bound(claim):
        return say("the interval reaches beyond the published bound")
    if interval.high < low:
        return say("the whole interval lies below the tolerance of the published figure")
    if interval.low > high:
        return say("the whole interval lies above the tolerance of the published figure")
    return say("the interval reaches beyond the tolerance of the published figure")


def contradiction_text(claim: Claim, say: Language = ENGLISH) -> str:
    """Return a text with the passage in which the source itself contradicts the claim; empty if there is none."""
    contradiction = claim.contradicted_by
    if contradiction is None:
        return ""
    passage = contradiction.text(say.code)
    return say("the source contradicts itself: {passage} ({where})", passage=passage, where=contradiction.where)


def _is_bound(claim: Claim) -> bool:
    return claim.published is not None and claim.published.tolerance is None


def _slight(claim: Claim, say: Language) -> str:
    return percent(claim.slight or 0.0, say)


def _shown(measure: Measure, value: float, unit: str) -> str:
    if measure == "ratio":
        return f"×{value:g}"
    return percent(value) if measure == "share" else f"{_signed(value)} {unit}"


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{value:g}".replace("-", MINUS)


def measured_text(judgement: Judgement, say: Language = ENGLISH) -> str:
    """Format the measured effect: '×1.048 [1.046, 1.049], +139 [136, 142] Mbit/s'; empty if nothing was tested.

    Of a claim with several parts, it is the effect in the part that decides the verdict, after the levels of that part.
    If a claim can be about all conditions or the worst one, the text says which."""
    part = judgement.part
    if part is None or judgement.effects is None:
        return ""
    effects = [effect_text(part.measure, part.effect, judgement.unit, say, part.bound)]
    if part.beside is not None:
        effects.append(effect_text("difference", part.beside, judgement.unit, say, part.bound))
    label = f"{part.label}: " if len(judgement.effects.parts) > 1 else ""
    text, over = label + ", ".join(effects), judgement.claim.statement.decisive_mean
    if over is None or judgement.effects.all_strata < 2:
        return text
    if over == "worst":
        return f"{text} {say('in the worst condition')}"
    return f"{text} {say('over all conditions')}" if judgement.effects.strata == judgement.effects.all_strata else text


def evidence_text(judgement: Judgement, say: Language = ENGLISH) -> str:
    """Format the evidence: 'p < 0.001, adjusted = 0.004; 12 blocks'; empty if the claim was not tested."""
    if judgement.part is None or judgement.p is None:
        return ""
    effect = judgement.part.effect
    ps = say("p {p}, adjusted {adjusted}", p=_equal(judgement.p, say), adjusted=_equal(judgement.p_adjusted, say))
    n = say.count(effect.n, "block") if effect.pairing == "paired" else say.count(effect.n, "value")
    return f"{ps}; {n}"


def _equal(p: float | None, say: Language) -> str:
    text = p_text(p, say)
    return text if text.startswith("<") else f"= {text}"


def source_text(source: Source) -> str:
    """Format the source of the claims: 'Authors, Title (2017)'."""
    text = ", ".join(part for part in (source.authors, source.title) if part)
    return f"{text} ({source.year})" if source.year else text


def counts_text(judgements: Sequence[Judgement], say: Language) -> str:
    """Return how many claims have each verdict: '20 reproduced, 7 untestable here'."""
    return ", ".join(say(VERDICTS[verdict][2], n=n) for verdict, n in tally(judgements).items() if n)


def tally_text(judgements: Sequence[Judgement], say: Language = ENGLISH) -> str:
    """Format the tally of verdicts: '27 claims: 20 reproduced, 7 untestable here.'"""
    stand_ins = sum(1 for judgement in judgements if judgement.stand_in)
    among = f" ({say('{n} on a stand-in', n=stand_ins)})" if stand_ins else ""
    text = f"{say.count(len(judgements), 'claim')}: {counts_text(judgements, say)}{among}."
    if judgements and all(judgement.n_blocks < 2 for judgement in judgements):
        text += f" {say('Claims are tested from two blocks on: run the study with --replicates 2 or more.')}"
    return text


def explanation(report: CampaignResults, say: Language = ENGLISH) -> str:
    """Return a paragraph on how to read intervals, p and verdicts in a table of claims."""
    return say(
        "Effects have their {confidence} intervals; p is raw, then adjusted by Holm's method for the number of claims. "
        "A claim is reproduced when the effect has its direction and, where a figure was published, its whole interval "
        "lies within the tolerance.",
        confidence=percent(report.study.design.confidence, say),
    )
