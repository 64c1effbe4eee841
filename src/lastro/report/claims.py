"""The verdict of a campaign on each claim of a file.

The rule, which docs/explanation-claims.md tells in full:

1. A claim becomes contrasts of the campaign's cells, over the strata in which all that it compares was measured. Where
   there is nothing to compare, or fewer than two blocks were run, it is untestable here.
2. Each claim has two p-values: of the hypothesis that it is not so, and of the one that its contrary is not so. A claim
   with several parts is so when every part is (the largest p counts), and its contrary when that of any part is (the
   smallest p counts, times their number). Parts that state a sign are tested against zero; parts that state likeness by
   two one-sided tests against their margin.
   A recovery needs a loss and a gain: the larger of their p-values counts.
3. The smaller of the two is the claim's p. The claims of a file are one family: p is adjusted by Holm's method over all
   that could be tested. Where it is not below 1 - confidence, the claim is not distinguishable here; a recovery of what
   was not lost is untestable here, but stays in the family. A claim is not distinguishable either where what it stands
   on lies under the noise floor that `lastro noise-floor` found on this host; it hides no likeness, but its contrary.
   Where a mean is only a lower bound, as the study ended the search for it, a claim is untestable here when what lies
   beyond the bound could change its verdict; it stays in the family. A sign that it could only confirm stands, and the
   magnitude is then no more than a bound.
4. Else, when the contrary is what was found, the claim is contradicted.
5. Else the claim is reproduced, if no figure was published with it, or if the whole interval of the effect lies within
   the tolerance of the published figure; if not, it holds in the same direction only.

Sources: Schuirmann, J. Pharmacokinet. Biopharm. 15 (1987) 657-680 (two one-sided tests); Berger, Technometrics 24
(1982) 295-300 (every part at its full level); Holm, Scand. J. Statist. 6 (1979) 65-70.

Pure: a report in, judgements out."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lastro.report.claim_cells import Untestable
from lastro.report.claim_effects import Effects, Part, effects_of
from lastro.report.claim_words import Verdict, judged_interval, reason_words, tolerated
from lastro.report.language import ENGLISH, N_, Language
from lastro.report.model import Report
from lastro.stats.adjust import holm
from lastro.stats.notes import Note
from lastro.study.claims import Claim, Claims


@dataclass(frozen=True, slots=True)
class Judgement:
    """A claim and what this campaign says of it: all that a table of claims needs.

    `part` is the part of the claim that decided, None when it is untestable; of one part of one part, the only one.
    `effects` has them all. `p` is raw, `p_adjusted` is Holm's over the claims of the file; a recovery of what was not
    lost, and what a lower bound leaves open, have them though they are untestable. `n_blocks` counts the blocks that
    the campaign has valid trials in. `reason` is a sentence, in the language that was asked for."""

    claim: Claim
    verdict: Verdict
    reason: str
    unit: str
    effects: Effects | None
    part: Part | None
    p: float | None
    p_adjusted: float | None
    n_blocks: int


@dataclass(frozen=True, slots=True)
class _Tested:
    """A claim after its tests and before the correction for their number."""

    claim: Claim
    effects: Effects | None = None
    part: Part | None = None
    p: float | None = None
    so: bool = False
    hidden: bool = False
    open: bool = False
    why_not: str = ""


def judge(claims: Claims, report: Report, say: Language = ENGLISH) -> tuple[Judgement, ...]:
    """A judgement for each claim, in their order. See the module for the rule."""
    blocks = {p.block for row in report.rows for cell in row.cells for p in cell.points}
    tested = [_test(claim, report, len(blocks), say) for claim in claims.claims]
    adjusted = holm([one.p for one in tested])
    return tuple(_judgement(one, p, report, len(blocks), say) for one, p in zip(tested, adjusted, strict=True))


def _test(claim: Claim, report: Report, n_blocks: int, say: Language) -> _Tested:
    if n_blocks < 2:
        why = say("n = {n}: nothing is known of the spread with fewer than two blocks", n=n_blocks)
        effects = _first_look(claim, report, say) if n_blocks else None
        return _Tested(claim, effects, effects.parts[0] if effects else None, why_not=why)
    try:
        effects = effects_of(claim.statement, claim.margin, report, say)
    except Untestable as untestable:
        return _Tested(claim, why_not=str(untestable))
    for part in effects.parts:
        if part.p_for is None or part.p_against is None:
            return _Tested(claim, effects, part, why_not=_why_absent(part, say))
    p_for = max(part.p_for or 0.0 for part in effects.parts)
    # What the floor hides says nothing against a claim as long as another part may.
    unhidden = [part for part in effects.parts if not part.hidden_against] or effects.parts
    against = [part for part in unhidden if not part.open_against] or unhidden
    worst = min(against, key=lambda part: part.p_against or 0.0)
    p_against = min(1.0, len(effects.parts) * (worst.p_against or 0.0))
    if effects.nothing and not effects.bounded:
        return _Tested(claim, p=min(p_for, p_against), why_not=effects.nothing)
    if p_for > p_against:
        return _Tested(claim, effects, worst, p_against, hidden=worst.hidden_against, open=worst.open_against)
    weakest = max(effects.parts, key=lambda part: part.p_for or 0.0)
    hidden = next((part for part in effects.parts if part.hidden_for), None)
    undone = any(part.open_for for part in effects.parts)
    return _Tested(claim, effects, hidden or weakest, p_for, so=True, hidden=hidden is not None, open=undone)


def _first_look(claim: Claim, report: Report, say: Language) -> Effects | None:
    """The effects of a single block, without intervals, if there are any."""
    try:
        return effects_of(claim.statement, claim.margin, report, say)
    except Untestable:
        return None


def _why_absent(part: Part, say: Language) -> str:
    why = part.effect.absent_because
    return say.note(why) if isinstance(why, Note) else why or say("there is no interval")


def _judgement(one: _Tested, p_adjusted: float | None, report: Report, n_blocks: int, say: Language) -> Judgement:
    alpha = 1 - report.study.design.confidence
    metric = next((metric for metric in report.metrics if metric.name == one.claim.statement.metric), None)
    verdict = _verdict(one, p_adjusted, alpha)
    if one.effects and _undecided(one, verdict):
        why = say(_LOWER_BOUND, levels=one.effects.bounded)
        one, verdict = _Tested(one.claim, p=one.p, why_not=why), "untestable here"
    reason = one.why_not
    if verdict != "untestable here" and one.effects and one.part and one.p is not None:
        told = {"corrected": one.p < alpha, "hidden": one.hidden}
        reason = reason_words(one.claim, verdict, one.effects, one.part, say, **told)
    unit = metric.unit if metric else ""
    return Judgement(one.claim, verdict, reason, unit, one.effects, one.part, one.p, p_adjusted, n_blocks)


def _verdict(one: _Tested, p_adjusted: float | None, alpha: float) -> Verdict:
    if one.part is None or one.p is None or p_adjusted is None:
        return "untestable here"
    if p_adjusted >= alpha or one.hidden:
        return "not distinguishable here"
    if not one.so:
        return "contradicted"
    return "reproduced" if magnitude_agrees(one.claim, one.part) else "same direction only"


_LOWER_BOUND = N_(
    "of what it compares, a lower bound is all that is known ({levels}: the study ended the search), and what lies "
    "beyond it could change the verdict"
)


def _undecided(one: _Tested, verdict: Verdict) -> bool:
    """Whether the truth beyond a lower bound could change the verdict; what is not told apart might be, with it."""
    if one.effects is None or one.p is None:
        return False
    return one.open or (verdict == "not distinguishable here" and any(part.open for part in one.effects.parts))


def magnitude_agrees(claim: Claim, part: Part) -> bool:
    """Whether the whole interval of the effect lies within the tolerance of the published figure, if there is one."""
    low, high = tolerated(claim)
    found = judged_interval(claim, part)
    return low == -math.inf or (found is not None and low <= found.low and found.high <= high)
