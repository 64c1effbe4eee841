"""The content of a document in any format: the report, its analysis, the judged claims and the language."""

from __future__ import annotations

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
