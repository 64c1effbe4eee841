"""The verdicts on claims after the first blocks of a campaign. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lastro.analysis.build import build_report
from lastro.analysis.claims import Judgement, Verdict, judge

if TYPE_CHECKING:
    from lastro.analysis.claims.claim import Claims
    from lastro.results.read import CampaignData

_MOST_SHOWN = 12  # numbers of blocks


@dataclass(frozen=True, slots=True)
class VerdictsAfter:
    """The judgements on the claims of a file by the first `n_blocks` blocks of a campaign."""

    n_blocks: int
    judgements: tuple[Judgement, ...]

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """{id of the claim: verdict}"""
        return {judgement.claim.id: judgement.verdict for judgement in self.judgements}


def verdicts_by_blocks(claims: Claims, data: CampaignData) -> tuple[VerdictsAfter, ...]:
    """Judge the claims by the first 2, 3, ... blocks of a campaign, each time as if it had ended there.

    There are at most `_MOST_SHOWN` numbers, spread evenly from 2 to all blocks."""
    blocks = sorted({attempt.block for attempt in data.attempts})
    numbers: Sequence[int] = range(2, len(blocks) + 1)
    if len(numbers) > _MOST_SHOWN:
        step = (len(numbers) - 1) / (_MOST_SHOWN - 1)
        numbers = [numbers[round(at * step)] for at in range(_MOST_SHOWN)]
    after = []
    for n in numbers:
        attempts = [attempt for attempt in data.attempts if attempt.block in blocks[:n]]
        trials = [trial for trial in data.trials if trial.block in blocks[:n]]
        report = build_report(replace(data, attempts=attempts, trials=trials), all_metrics=True)
        after.append(VerdictsAfter(n, judge(claims, report)))
    return tuple(after)
