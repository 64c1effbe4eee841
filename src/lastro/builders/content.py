"""The content of a document in any format: the report, its analysis, the judged claims and the language."""

from __future__ import annotations

from dataclasses import dataclass

from lastro.analysis.as_published import AsPublished
from lastro.analysis.campaign import CampaignResults
from lastro.analysis.claims import Judgement
from lastro.analysis.model import Analysis
from lastro.words.language import Language


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a document, before its format is chosen.

    `say` is its language. `claims_tally` sums up `judgements` in a line, and `claims_note` explains their table.
    `published` are the tables and figures that the source of the claims printed; None if the claims file has none."""

    report: CampaignResults
    analysis: Analysis
    say: Language
    judgements: tuple[Judgement, ...] = ()
    claims_tally: str = ""
    claims_note: str = ""
    published: AsPublished | None = None

    @property
    def under_floor(self) -> frozenset[tuple[int, int]]:
        """The (treatment index, metric index) of each ratio to a baseline that is below the noise floor of the host."""
        return frozenset(
            (comparison.treatment.index, index)
            for index, metric in enumerate(self.analysis.metrics)
            for comparison in metric.comparisons
            if comparison.under_floor
        )
