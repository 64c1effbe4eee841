"""The document on the claims of a campaign or a suite: the published and measured effects, the verdicts and reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.claims import Judgement, Verdict
from lastro.document import Block, Heading, Items, Notes, Paragraph, Span, Text, Title
from lastro.words.campaign import premises
from lastro.words.claims import contradiction_text, published_text, reason_text, verdict_text
from lastro.words.claims_text import evidence_text, explanation, measured_text, tally_text
from lastro.words.language import Language

_KINDS: dict[Verdict, str] = {
    "reproduced": "better",
    "same direction, another size": "lower",
    "same direction, too imprecise": "lower",
    "contradicted": "worse",
    "not distinguishable here": "warning",
    "untestable here": "dim",
}

Judged = tuple[Sequence[Judgement], CampaignResults]  # the judged claims of a study, and the results that decide them


def claims_blocks(
    title: str, studies: Mapping[str, Judged], say: Language, *, suite: bool = False, waiting: Sequence[str] = ()
) -> Iterator[Block]:
    """Yield the title, the tally, a note on each claim, and how to read the notes.

    `studies` is {name: (judged claims, results that decide them)}. For a suite, each study has a heading, and `waiting`
    names the studies that have claims but no campaign yet."""
    reports = [report for _, report in studies.values()]
    yield Title(title)
    yield Paragraph(tally_text([judgement for judgements, _ in studies.values() for judgement in judgements], say))
    warnings = dict.fromkeys(sentence for report in reports for sentence in premises(report, say))
    yield Items(tuple(warnings), tag="note")
    for name, (judgements, _) in studies.items():
        if suite:
            yield Heading(name)
        yield Notes("", tuple(("", tuple(_lines(judgement, say))) for judgement in judgements))
    if reports:
        yield Paragraph(explanation(reports[0], say), dim=True)
    if suite:
        yield Paragraph(say("The claims of each study are a separate family."), dim=True)
    for name in waiting:
        yield Paragraph(say("Study {study} has not started: its claims are not judged.", study=name))


def _lines(judgement: Judgement, say: Language) -> Iterator[Text]:
    """Yield the lines of a note: verdict and claim, place in the source, published and measured figures, and reason."""
    claim, evidence = judgement.claim, evidence_text(judgement, say)
    yield (
        Span(verdict_text(judgement, say), _KINDS[judgement.verdict]),
        Span(": "),
        Span(claim.text(say.code), "strong"),
    )
    yield (Span(" · ".join(filter(None, (claim.statement.metric, claim.where))), "dim"),)
    for name, text in (
        (say("published"), published_text(claim.published, say)),
        (say("measured"), measured_text(judgement, say)),
        (say("why"), reason_text(judgement, say) + (f" ({evidence})" if evidence else "")),
        (say("but"), contradiction_text(claim, say)),
        (say("note"), claim.noted(say.code)),
    ):
        if text:
            yield Span(f"{name}: ", "dim"), Span(text)
