"""The judgements of claims as one JSON document, for programs. Its keys are as stable as those of `data.results`.

    format     "lastro-claims/1"
    directory  the campaign's directory
    study      the name of the study
    guest      the virtual machine that was the host (title, emulated, partly), as in `data.results`; null for a real
               host
    file       the claims file
    source     title, authors, year
    confidence of every interval; a claim is significant where p_adjusted is below 1 - confidence
    tally      {verdict: number of claims}, claims on a stand-in included
    claims     [{id, says, where, contradicted_by, note, metric, unit, verdict, stand_in, reason, published, margin,
                 slight, over, p, p_adjusted, n_blocks, strata, all_strata, decided_by, parts}]
               verdict ends in ", stand-in" where the claim was judged on a stand-in
               margin is the largest relative difference that counts as alike, and slight the largest one that is
               "slightly" more or less; null where the claim states none
               over is "worst" if each condition is judged and the worst decides, and "mean" if the mean over all is;
               null for a statement without this choice
               p is known for some untestable claims, too: a recovery without a loss, and a claim that a lower bound
               leaves open; both remain in the family of tests
               decided_by is the label of the part that decides the verdict
               stand_in [{published, measured}]: a published level, and the levels in its place
               contradicted_by {says, says_in, where}: a passage of the same source that contradicts the claim
               note: what differs between the claim as published and as judged; empty without one
               published {ratio, share, at_least, at_most, difference, unit, tolerance, printed}
               parts [{label, measure, effect, difference, bound}]: the comparisons of which the claim consists
               measure is "ratio", "difference", "share", or "level": the mean itself, in the metric's unit
               bound is set where a mean is only a lower bound: the true effect is ">=" or "<=" the value, or
               "unknown" if it may be either
               effect and difference {value, interval {low, high, confidence}, p, df, n, pairing, absent_because}
    by_blocks  [{n_blocks, tally, verdicts}]: with --blocks, the tally and {id: verdict} after so many blocks,
               without ", stand-in"

A value that does not exist is null."""

from __future__ import annotations

from typing import Any

from lastro.analysis.claim_effects import ClaimContrast
from lastro.analysis.claims import Judgement, tally
from lastro.analysis.claims.claim import Contradiction, PublishedFigure, Source
from lastro.builders.claims import JudgedClaims
from lastro.builders.data.encoder import BOUNDS, Forms, encode, pick
from lastro.stats.intervals import Estimate
from lastro.words.claims import reason_text
from lastro.words.language import ENGLISH, Language

FORMAT = "lastro-claims/1"
_BOUNDS = {**BOUNDS, None: "unknown"}
CLAIM_FORMS: Forms = {
    ClaimContrast: lambda part: (
        pick(part, "label measure effect") | {"difference": part.beside, "bound": _BOUNDS[part.bound]}
    ),
    Contradiction: lambda passage: pick(passage, "says says_in where"),
    Estimate: lambda effect: pick(effect, "value interval p df n pairing absent_because"),
    PublishedFigure: lambda figure: pick(figure, "ratio share at_least at_most difference unit tolerance printed"),
    Source: lambda source: pick(source, "title authors year"),
}


def claims_document(judged: JudgedClaims, say: Language = ENGLISH) -> dict[str, Any]:
    """Return the judgements as JSON-serializable data, with the keys of this module's docstring.

    Only the reasons for the verdicts and the notes are in the requested language."""
    report = judged.report
    by_blocks = [{**pick(after, "n_blocks verdicts"), "tally": tally(after.judgements)} for after in judged.by_blocks]
    document = {
        "format": FORMAT,
        "directory": report.directory,
        "study": report.study.name,
        "guest": report.guest,
        "file": judged.claims.file,
        "source": judged.claims.source,
        "confidence": report.study.design.confidence,
        "tally": tally(judged.judgements),
        "claims": [judgement_document(judgement, say) for judgement in judged.judgements],
        "by_blocks": by_blocks or None,
    }
    return encode(document, CLAIM_FORMS)


def judgement_document(judgement: Judgement, say: Language) -> dict[str, Any]:
    """Return one judgement with the keys of `claims` in this module's docstring.

    The caller passes it to `encode` with `CLAIM_FORMS`."""
    claim, effects = judgement.claim, judgement.effects
    return {
        **pick(claim, "id says where contradicted_by"),
        "note": claim.note_text(say.code),
        "metric": claim.statement.metric,
        "unit": judgement.unit,
        "verdict": f"{judgement.verdict}, stand-in" if judgement.stand_in else judgement.verdict,
        "stand_in": judgement.stand_in,
        "reason": reason_text(judgement, say),
        **pick(claim, "published margin slight"),
        "over": claim.statement.decisive_mean,
        **pick(judgement, "p p_adjusted n_blocks"),
        "strata": effects.strata if effects else None,
        "all_strata": effects.all_strata if effects else None,
        "decided_by": judgement.part.label if judgement.part else None,
        "parts": effects.parts if effects else (),
    }
