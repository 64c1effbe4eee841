"""The table of claims for a terminal: published and measured side by side, the verdict with its mark, and why."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lastro.report.claim_words import VERDICT_MARKS, VERDICT_WORDS, Verdict, effect_text, p_text, published_text
from lastro.report.claims import Judgement, tally
from lastro.report.language import ENGLISH, Language
from lastro.report.model import Report
from lastro.report.terminal import plain
from lastro.study.claims import Claims, Source

STYLES: dict[Verdict, str] = {
    "reproduced": "green",
    "same direction only": "cyan",
    "contradicted": "red",
    "not distinguishable here": "yellow",
    "untestable here": "dim",
}


def render_claims(
    claims: Claims, judgements: Sequence[Judgement], report: Report, say: Language = ENGLISH
) -> RenderableType:
    """Title, tally, a row for each claim with the reason of its verdict, and how to read it."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 1, 0), header_style="bold", expand=False)
    for heading, ratio in ((say("claim"), 5), (say("published"), 3), (say("measured here"), 4), (say("verdict"), 3)):
        table.add_column(heading, ratio=ratio, overflow="fold", min_width=9)
    for one in judgements:
        published = plain(published_text(one.claim.published, say))
        table.add_row(_claim(one, say), published, _measured(one, say), _verdict(one, say))
    lines: list[RenderableType] = [
        Text(plain(source_text(claims.source) or claims.file), style="bold"),
        Text(tally_text(judgements, say)),
        Text(),
        table,
        Text(explanation(report, say), style="dim"),
    ]
    return Group(*lines)


def source_text(source: Source) -> str:
    """'Authors, Title (2017)'."""
    text = ", ".join(part for part in (source.authors, source.title) if part)
    return f"{text} ({source.year})" if source.year else text


def tally_text(judgements: Sequence[Judgement], say: Language = ENGLISH) -> str:
    """'27 claims: 20 reproduced, 7 untestable here'."""
    counts = [f"{n} {say(VERDICT_WORDS[verdict])}" for verdict, n in tally(judgements).items() if n]
    return f"{say.count(len(judgements), 'claim')}: {', '.join(counts)}"


def explanation(report: Report, say: Language = ENGLISH) -> str:
    """How to read the table, in a paragraph."""
    return say(
        "Effects have their {confidence} intervals; p is raw, then adjusted by Holm's method for the number of claims. "
        "A claim is reproduced when the effect has its direction and, where a figure was published, its whole interval "
        "lies within the tolerance.",
        confidence=f"{report.study.design.confidence:.0%}",
    )


def _claim(one: Judgement, say: Language) -> Text:
    text = Text(plain(one.claim.text(say.code)))
    where = " · ".join(part for part in (one.claim.statement.metric, one.claim.where) if part)
    return text.append(f"\n{plain(where)}", style="dim")


def _measured(one: Judgement, say: Language) -> Text:
    part = one.part
    if part is None:
        return Text(say("nothing"), style="dim")
    text = Text(effect_text(part.measure, part.effect, one.unit, say))
    if part.beside is not None:
        text.append(f"\n{effect_text('difference', part.beside, one.unit, say)}")
    said = [plain(part.label)] if one.effects and len(one.effects.parts) > 1 else []
    if one.p is not None:
        said.append(f"p {_equal(p_text(one.p, say))}, {_equal(p_text(one.p_adjusted, say))}")
    said.append(f"n = {part.effect.n}")
    return text.append("\n" + "; ".join(said), style="dim")


def _equal(p: str) -> str:
    return p if p.startswith("<") else f"= {p}"


def _verdict(one: Judgement, say: Language) -> Text:
    head = Text(f"{VERDICT_MARKS[one.verdict]} {say(VERDICT_WORDS[one.verdict])}", style=STYLES[one.verdict])
    return head.append(f"\n{plain(one.reason)}", style="dim" if one.verdict != "untestable here" else "")
