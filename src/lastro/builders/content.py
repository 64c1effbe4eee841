"""The content of a document in any format, and what follows its title: notices, and key numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from lastro.analysis import analyse
from lastro.analysis.as_published import MatchedPublication
from lastro.analysis.campaign import CampaignResults
from lastro.analysis.claims import Judgement
from lastro.analysis.effects import baseline_comparisons
from lastro.analysis.metric_values import values_of
from lastro.analysis.model import Analysis
from lastro.analysis.noise_floor import applicable_floor
from lastro.document import Block, CommandLine, Paragraph
from lastro.words import campaign as words
from lastro.words.language import Language


@dataclass(frozen=True)
class Content:
    """The content of a document, before its format is chosen."""

    report: CampaignResults
    analysed: Analysis | None  # the analysis of the report; if None, `analysis` computes it on first use
    say: Language
    judgements: tuple[Judgement, ...] = ()
    claims_tally: str = ""  # sums up `judgements` in a line
    claims_note: str = ""  # explains the table of `judgements`
    # Tables and figures that the source of the claims printed; None if the claims file has none.
    published: MatchedPublication | None = None

    @cached_property
    def analysis(self) -> Analysis:
        return self.analysed or analyse(self.report)

    @cached_property
    def under_floor(self) -> frozenset[tuple[int, int]]:
        """The (treatment index, metric index) of each ratio to a baseline that is below the noise floor of the host."""
        cells = set()
        for view in self.report.views:
            if floor := applicable_floor(view):
                comparisons, _ = baseline_comparisons(view, values_of(view), floor.share)
                cells |= {
                    (comparison.treatment.index, view.index) for comparison in comparisons if comparison.under_floor
                }
        return frozenset(cells)


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
    states = [("valid", say("valid trials")), ("invalid", say("invalid trials"))]
    states.append(("unavailable", say("trials unavailable here")))
    tiles = [(sum(len(report.rows) for report in reports), say("treatments"), "")]
    tiles += [(sum(report.progress.counts.get(state, 0) for report in reports), text, state) for state, text in states]
    waiting = sum(map(words.waiting, reports))
    tiles += [(waiting, say("trials not run yet"), "pending")] if waiting else []
    return tuple((say.integer(number), text, kind if number else "") for number, text, kind in tiles)
