"""How many blocks would decide on the claims that a campaign leaves open, and the verdicts after its first blocks.

A claim is decided if the interval of each of its open parts excludes the values at which the verdict would change: zero
effect for a direction, the margin of an equivalence, the ends of a figure's tolerance. `stats.simultaneous` predicts
with which probability more blocks have this result. The correction for other claims is assumed to stay the same.
Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lastro.analysis.advice import LIKELY, SURE
from lastro.analysis.build import build_report
from lastro.analysis.claim_effects import Measure
from lastro.analysis.claims import Judgement, Verdict, judge, judged_measure, magnitude_agrees, tolerated
from lastro.stats.intervals import Estimate, t_quantile
from lastro.stats.notes import N_, Note
from lastro.stats.simultaneous import Outlook, least_blocks

if TYPE_CHECKING:
    from lastro.analysis.claims.claim import Claims
    from lastro.results.read import CampaignData

_MOST_SHOWN = 12  # numbers of blocks
_NO_PREDICTION = N_("its test is not that of one interval, so no number of blocks is predicted")
_NO_SPREAD = N_("its spread is not known")


@dataclass(frozen=True, slots=True)
class ClaimAdvice:
    """How many blocks in total a campaign needs to decide on a claim that it leaves open.

    `likely` and `sure` are the numbers of blocks that suffice with probability `LIKELY` and `SURE`; None above 1,000,
    or if no number can be predicted, for which `absent_because` then has the reason."""

    judgement: Judgement
    likely: int | None
    sure: int | None
    absent_because: Note | None = None


# A part of a claim, with the values in ascending order that its interval must exclude to decide on the part.
_OpenPart = tuple[Outlook, Sequence[float]]


def advise_on_claims(judgements: Iterable[Judgement], alpha: float) -> tuple[ClaimAdvice, ...]:
    """Return the advice on each claim that is too imprecise or not distinguishable, for tests of the level `alpha`."""
    undecided = ("same direction, too imprecise", "not distinguishable here")
    return tuple(_advice(judgement, alpha) for judgement in judgements if judgement.verdict in undecided)


def _advice(judgement: Judgement, alpha: float) -> ClaimAdvice:
    # Blocks can only be predicted if the tests of a claim reject exactly if an interval excludes a bound. The tests of
    # recoveries and extremes do not.
    claim, part = judgement.claim, judgement.part
    is_direction = part is not None and part.measure in ("ratio", "difference") and not claim.statement.states_figure
    is_by_interval = is_direction or claim.statement.limits is not None or claim.statement.is_equivalence(claim)
    if judgement.verdict == "not distinguishable here" and not is_by_interval:
        return ClaimAdvice(judgement, None, None, Note(_NO_PREDICTION))
    parts = [*_open_parts(judgement, alpha)]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return ClaimAdvice(judgement, None, None, Note(_NO_SPREAD))

    def decided(n: int) -> float:
        return math.prod(outlook.excludes(ends, n) for outlook, ends in known)

    likely, sure = (least_blocks(decided, chance, judgement.n_blocks + 1) for chance in (LIKELY, SURE))
    return ClaimAdvice(judgement, likely, sure)


def _open_parts(judgement: Judgement, alpha: float) -> Iterator[_OpenPart | None]:
    """Yield each open part of a claim; None for a part whose spread is not known."""
    claim = judgement.claim
    parts = judgement.effects.parts if judgement.effects else ()
    if judgement.verdict == "same direction, too imprecise":
        for part in parts:
            if not magnitude_agrees(claim, part):
                measure = judged_measure(claim, part)
                estimate = part.effect if part.measure == measure else part.beside
                yield _open_part(estimate, measure, tolerated(claim), 1 - alpha, judgement.n_blocks)
        return
    # The correction for other claims multiplies the level of significance by p / corrected p.
    level = alpha * (judgement.p / judgement.p_adjusted) if judgement.p and judgement.p_adjusted else alpha
    one_sided = claim.statement.limits is not None or claim.statement.is_equivalence(claim)
    for part in parts:
        if (part.p_for or 0.0) >= level and len(parts) * (part.p_against or 0.0) >= level:
            ends = _ends(judgement, part.measure)
            confidence = 1 - (2 * level if one_sided else level)
            yield _open_part(part.effect, part.measure, ends, confidence, judgement.n_blocks)


def _ends(judgement: Judgement, measure: Measure) -> Sequence[float]:
    """Return the values that an interval of this measure must exclude for a verdict."""
    claim = judgement.claim
    if claim.statement.limits is not None:
        return claim.statement.limits
    if claim.statement.is_equivalence(claim):
        margin = claim.margin or 0.0
        return (1 / (1 + margin), 1 + margin) if measure == "ratio" else (-margin, margin)
    return (1.0,) if measure == "ratio" else (0.0,)


def _open_part(
    estimate: Estimate | None, measure: Measure, ends: Sequence[float], confidence: float, n_blocks: int
) -> _OpenPart | None:
    """Return the outlook of an open part and those `ends`, which its interval must exclude, that are finite.

    Ratios are taken as logarithms. None if the spread of the estimate is not known, or if no end is finite."""
    if estimate is None or estimate.value is None or estimate.interval is None or not estimate.df:
        return None
    low, value, high = estimate.interval.low, estimate.value, estimate.interval.high
    finite = [end for end in ends if math.isfinite(end)]
    if measure == "ratio":
        if low <= 0:
            return None
        low, value, high = map(math.log, (low, value, high))
        finite = [math.log(end) for end in finite if end > 0]
    error = (high - low) / 2 / t_quantile(estimate.interval.confidence, estimate.df)
    if not error or not finite:
        return None
    return Outlook(value, error, estimate.df, n_blocks, confidence), finite


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
        first = {*blocks[:n]}
        attempts = [attempt for attempt in data.attempts if attempt.block in first]
        trials = [trial for trial in data.trials if trial.block in first]
        report = build_report(replace(data, attempts=attempts, trials=trials), all_metrics=True)
        after.append(VerdictsAfter(n, judge(claims, report)))
    return tuple(after)
