"""The document on the claims of a campaign or a suite: the published and measured effects, the verdicts and reasons.

On request, it has the verdicts after the first blocks, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import lastro.words.claims as words
from lastro.analysis.campaign import CampaignResults
from lastro.analysis.claims import Judgement, tally
from lastro.analysis.claims.advice import VerdictsAfter
from lastro.document import Block, Heading, Items, Notes, Paragraph, Span, Table, Text, Title
from lastro.words.campaign import premises
from lastro.words.language import Language

if TYPE_CHECKING:
    from lastro.analysis.claims.claim import Claims


@dataclass(frozen=True, slots=True)
class JudgedClaims:
    """The claims about a campaign and their judgements; `report` has all metrics, since claims may be about any.

    `by_blocks` are the verdicts after the first blocks, if they were asked for."""

    claims: Claims
    judgements: tuple[Judgement, ...]
    report: CampaignResults
    by_blocks: tuple[VerdictsAfter, ...] = ()


def claims_blocks(
    title: str, studies: Mapping[str, JudgedClaims], say: Language, *, suite: bool = False, waiting: Sequence[str] = ()
) -> Iterator[Block]:
    """Yield the title, the tally, a note on each claim, verdicts after the first blocks, and how to read all this.

    `studies` is {name: its judged claims}. For a suite, each study has a heading, and `waiting` names the studies that
    have claims but no campaign yet."""
    reports = [study.report for study in studies.values()]
    yield Title(title)
    yield Paragraph(words.tally_text([judgement for study in studies.values() for judgement in study.judgements], say))
    warnings = dict.fromkeys(sentence for report in reports for sentence in premises(report, say))
    yield Items(tuple(warnings), tag="note")
    for name, study in studies.items():
        if suite:
            yield Heading(name)
        yield Notes("", tuple(("", tuple(_lines(judgement, say))) for judgement in study.judgements))
        yield from _by_blocks(study.by_blocks, say)
    if reports:
        yield Paragraph(words.explanation(reports[0], say), dim=True)
    if suite:
        yield Paragraph(say("The claims of each study are a separate family."), dim=True)
    for name in waiting:
        yield Paragraph(say("Study {study} has not started: its claims are not judged.", study=name))


def _by_blocks(by_blocks: Sequence[VerdictsAfter], say: Language) -> Iterator[Block]:
    """Yield tables by the number of blocks: how many claims have each verdict, and the claims whose verdict changed."""
    if not by_blocks:
        return
    right = frozenset(range(1, len(by_blocks) + 1))
    columns = tuple(str(after.n_blocks) for after in by_blocks)
    tallies = [tally(after.judgements) for after in by_blocks]
    verdicts = tuple(
        (f"{words.VERDICTS[verdict][0]} {say(verdict)}", *(str(counts[verdict] or "") for counts in tallies))
        for verdict in tallies[-1]
        if any(counts[verdict] for counts in tallies)
    )
    title = say("Verdicts after the first blocks")
    yield Table("verdicts-by-blocks", title, (say("blocks"), *columns), verdicts, right, whole=True)
    changed = tuple(
        (claim, *(words.VERDICTS[after.verdicts[claim]][0] for after in by_blocks))
        for claim in by_blocks[-1].verdicts
        if len({after.verdicts[claim] for after in by_blocks}) > 1
    )
    if changed:
        yield Table("changed-verdicts", say("Claims whose verdict changed"), (say("claim"), *columns), changed, right)
    else:
        yield Paragraph(say("No verdict changed."))
    yield Paragraph(
        say(
            "Each column judges the claims as if the campaign had ended there. A campaign that is stopped as soon as "
            "its verdicts please reports false effects more often than these verdicts allow for."
        ),
        dim=True,
    )


def _lines(judgement: Judgement, say: Language) -> Iterator[Text]:
    """Yield the lines of a note: verdict and claim, place in the source, published and measured figures, and reason."""
    claim, evidence = judgement.claim, words.evidence_text(judgement, say)
    yield (
        Span(words.verdict_text(judgement, say), words.VERDICTS[judgement.verdict][1]),
        Span(": "),
        Span(claim.text(say.code), "strong"),
    )
    yield (Span(" · ".join(filter(None, (claim.statement.metric, claim.where))), "dim"),)
    for name, text in (
        (say("published"), words.published_text(claim.published, say)),
        (say("measured"), words.measured_text(judgement, say)),
        (say("why"), words.reason_text(judgement, say) + (f" ({evidence})" if evidence else "")),
        (say("but"), words.contradiction_text(claim, say)),
        (say("note"), claim.note_text(say.code)),
    ):
        if text:
            yield Span(f"{name}: ", "dim"), Span(text)
