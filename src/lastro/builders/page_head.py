"""What follows the title of a page on one campaign or several: notices, and key numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lastro.analysis.campaign import CampaignResults
from lastro.document import Block, CommandLine, Paragraph
from lastro.words import campaign as words
from lastro.words.language import Language


def notices(say: Language, *, unfinished: bool) -> Iterator[Block]:
    """Yield a note on texts that are not translated, and for an unfinished campaign or suite how to continue it."""
    if say.code != "en":
        yield Paragraph(say(words.AS_WRITTEN), dim=True)
    if unfinished:
        yield CommandLine(say(words.CONTINUE).removesuffix(":"), "lastro resume", say("unfinished"))


def tiles_of(reports: Sequence[CampaignResults], say: Language) -> tuple[tuple[str, str, str], ...]:
    """Return the key numbers below a title as (number, label, kind): of treatments, and of trials in each state.

    `kind` is the state, which selects the colour of the number; it is empty for treatments, and where the number is
    zero."""
    states = (
        ("valid", say("valid trials")),
        ("invalid", say("invalid trials")),
        ("unavailable", say("trials unavailable here")),
    )
    tiles = [(sum(len(report.rows) for report in reports), say("treatments"), "")]
    tiles += [(sum(report.progress.counts.get(state, 0) for report in reports), text, state) for state, text in states]
    waiting = sum(map(words.waiting, reports))
    tiles += [(waiting, say("trials not run yet"), "pending")] if waiting else []
    return tuple((say.integer(number), text, kind if number else "") for number, text, kind in tiles)
