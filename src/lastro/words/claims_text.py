"""Texts on judged claims: measured effects, evidence, the source, and the tally of verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.claim_effects import ClaimEffects
from lastro.analysis.claims import Judgement, Verdict, tally
from lastro.stats.notes import N_
from lastro.words.claims import effect_text
from lastro.words.estimates import p_text
from lastro.words.language import ENGLISH, Language
from lastro.words.numbers import percent

if TYPE_CHECKING:
    from lastro.analysis.claims.claim import Source, Statement

TALLY_WORDS: dict[Verdict, str] = {
    "reproduced": N_("{n} reproduced"),
    "same direction, another size": N_("{n} same direction, another size"),
    "same direction, too imprecise": N_("{n} same direction, too imprecise"),
    "contradicted": N_("{n} contradicted"),
    "not distinguishable here": N_("{n} not distinguishable here"),
    "untestable here": N_("{n} untestable here"),
}


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
    return label + ", ".join(effects) + _scope(judgement.claim.statement, judgement.effects, say)


def _scope(statement: Statement, effects: ClaimEffects, say: Language) -> str:
    """Return ' over all conditions' or ' in the worst condition'; empty if there is no choice between the two."""
    if statement.decisive_mean is None or effects.all_strata < 2:
        return ""
    if statement.decisive_mean == "worst":
        return " " + say("in the worst condition")
    return " " + say("over all conditions") if effects.strata == effects.all_strata else ""


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


def tally_text(judgements: Sequence[Judgement], say: Language = ENGLISH) -> str:
    """Format the tally of verdicts: '27 claims: 20 reproduced, 7 untestable here.'"""
    counts = [say(TALLY_WORDS[verdict], n=n) for verdict, n in tally(judgements).items() if n]
    stand_ins = sum(1 for judgement in judgements if judgement.stand_in)
    among = f" ({say('{n} on a stand-in', n=stand_ins)})" if stand_ins else ""
    text = f"{say.count(len(judgements), 'claim')}: {', '.join(counts)}{among}."
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
