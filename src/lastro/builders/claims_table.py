"""The table of claims for a terminal: the published and measured effects, the verdict and the reason for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.claims import Judgement, Verdict
from lastro.analysis.claims.claim import Claims
from lastro.plain import plain
from lastro.words.campaign import premises
from lastro.words.claims import contradiction_text, published_text, reason_text, verdict_text
from lastro.words.claims_text import evidence_text, explanation, measured_text, source_text, tally_text
from lastro.words.language import ENGLISH, Language

STYLES: dict[Verdict, str] = {
    "reproduced": "green",
    "same direction, another size": "magenta",
    "same direction, too imprecise": "cyan",
    "contradicted": "red",
    "not distinguishable here": "yellow",
    "untestable here": "dim",
}


def render_claims(
    claims: Claims, judgements: Sequence[Judgement], report: CampaignResults, say: Language = ENGLISH
) -> RenderableType:
    """Render the title, the tally, a row for each claim with the reason for its verdict, and how to read the table."""
    table = _table()
    for one in judgements:
        table.add_row(_verdict(one, say), _claim(one, say))
    lines: list[RenderableType] = [
        Text(plain(source_text(claims.source) or claims.file), style="bold"),
        Text(tally_text(judgements, say)),
        *(Text(plain(sentence), style="yellow") for sentence in premises(report, say)),
        Text(),
        table,
        Text(explanation(report, say), style="dim"),
    ]
    return Group(*lines)


def render_suite_claims(
    title: str,
    studies: Mapping[str, tuple[Sequence[Judgement], CampaignResults]],
    waiting: Sequence[str],
    say: Language,
) -> RenderableType:
    """Render the claims of several campaigns, with a column for their studies.

    Studies in `waiting` have claims but no campaign yet."""
    table = _table("study")
    for name, (judgements, _) in studies.items():
        for one in judgements:
            table.add_row(Text(name, style="bold"), _verdict(one, say), _claim(one, say))
    everything = [one for judgements, _ in studies.values() for one in judgements]
    changes = [sentence for _, report in studies.values() for sentence in premises(report, say)]
    return Group(
        Text(plain(title), style="bold"),
        Text(tally_text(everything, say)),
        *(Text(plain(sentence), style="yellow") for sentence in dict.fromkeys(changes)),
        Text(),
        table,
        *(Text(explanation(report, say), style="dim") for _, report in list(studies.values())[:1]),
        Text(say("The claims of each study are a separate family."), style="dim"),
        *(Text(say("Study {study} has not started: its claims are not judged.", study=name)) for name in waiting),
    )


def _table(*first: str) -> Table:
    """Return an empty table: a column for each name in `first`, then the verdict, then the claim."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 1, 0), show_header=False)
    for _ in (*first, "verdict"):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _verdict(one: Judgement, say: Language) -> Text:
    return Text(verdict_text(one, say), style=STYLES[one.verdict])


def _claim(one: Judgement, say: Language) -> RenderableType:
    """Render the claim and its place in the source, the published and measured figures, and the reason."""
    where = " · ".join(part for part in (one.claim.statement.metric, one.claim.where) if part)
    figures = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    figures.add_column(no_wrap=True, style="dim")
    figures.add_column(overflow="fold")
    if one.claim.published is not None:
        figures.add_row(say("published"), plain(published_text(one.claim.published, say)))
    if one.part is not None:
        figures.add_row(say("measured"), plain(measured_text(one, say)))
    evidence = evidence_text(one, say)
    figures.add_row(say("why"), plain(reason_text(one, say)) + (f" ({evidence})" if evidence else ""))
    if contradiction := contradiction_text(one.claim, say):
        figures.add_row(say("but"), Text(plain(contradiction), style="yellow"))
    if note := one.claim.noted(say.code):
        figures.add_row(say("note"), plain(note))
    return Group(Text(plain(one.claim.text(say.code)), style="bold"), Text(plain(where), style="dim"), figures)
