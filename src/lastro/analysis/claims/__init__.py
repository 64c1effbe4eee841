"""Judge each claim of a file by a campaign.

The rule, which docs/explanation-claims.md explains in full:

0. A published level of which the campaign has no valid trial is replaced by its stand-in, if the claim has one.
1. A claim becomes contrasts of the campaign's cells, over the strata in which everything that it compares was measured.
   If there is nothing to compare, or if fewer than two blocks were run, it is untestable here.
2. Each claim has two p-values: of the hypothesis that it is false, and of the hypothesis that its contrary is false.
   A claim with several parts is true if every part is true, so the largest p counts. Its contrary is true if the
   contrary of any part is true, so the smallest p counts, times the number of parts. A part that states a sign is
   tested against zero; a part that states equivalence is tested against its margin, by two one-sided tests. A recovery
   needs a loss and a gain: the larger of their p-values counts.
3. The smaller of the two is the claim's p. The claims of a file are one family: p is adjusted by Holm's method over all
   claims that could be tested. If p is not below 1 - confidence, the claim is not distinguishable here. A recovery
   without a loss is untestable here, but stays in the family. If a mean is only a lower bound because the study ended
   the search for it, the claim is untestable here if the true mean could change its verdict; it stays in the family. A
   sign that the true mean could only confirm is judged; its magnitude is then only a bound.
4. Otherwise, if the data support the contrary, the claim is contradicted.
5. Otherwise, the claim is reproduced if no figure was published with it, or if the whole interval of the effect lies
   within the tolerance of the published figure. If not, the effect has the same direction: it has another size if the
   whole interval lies outside of the tolerance, and is too imprecise to compare if only a part does. The figure of
   "slightly" is a bound of the ratio. A published difference in a unit that depends on the speed of the processor is
   not compared with measurements in an emulated guest.

Sources: Schuirmann, J. Pharmacokinet. Biopharm. 15 (1987) 657-680 (two one-sided tests); Berger, Technometrics 24
(1982) 295-300 (every part at its full level); Holm, Scand. J. Statist. 6 (1979) 65-70.

Pure: it takes the results of a campaign and returns judgements."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.claim_cells import Untestable
from lastro.analysis.claim_effects import ClaimContrast, ClaimEffects, Measure, measured_effects
from lastro.analysis.claims.stand_ins import Substitution, with_stand_ins
from lastro.results.samples import depends_on_speed
from lastro.stats.families import holm
from lastro.stats.intervals import Estimate, Interval
from lastro.stats.notes import N_, Note

if TYPE_CHECKING:
    from lastro.analysis.claims.claim import Claim, Claims

Verdict = Literal[
    "reproduced",
    "same direction, another size",
    "same direction, too imprecise",
    "contradicted",
    "not distinguishable here",
    "untestable here",
]


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement of this campaign on one claim, with everything that a table of claims needs.

    For an untestable claim, `part` and `effects` may be None. A recovery without a loss, and a claim that a lower bound
    leaves open, have p-values although they are untestable."""

    claim: Claim  # states the levels of `stand_in`, if any
    verdict: Verdict = "untestable here"
    unit: str = ""
    effects: ClaimEffects | None = None  # all parts of the claim
    part: ClaimContrast | None = None  # the part that decided the verdict
    p: float | None = None  # uncorrected
    p_adjusted: float | None = None  # corrected by Holm's method over the claims of the file
    n_blocks: int = 0  # number of blocks with valid trials
    why_not: tuple[Note, ...] = ()  # reasons why the claim is untestable
    p_is_significant: bool = False  # whether `p` is significant without the correction
    stand_in: tuple[Substitution, ...] = ()  # levels that replaced published levels
    supports: bool = False  # `p` is evidence for the claim; if false, evidence against it
    is_open: bool = False  # the true value of a mean that is only a lower bound could overturn the evidence


def judge(claims: Claims, report: CampaignResults) -> tuple[Judgement, ...]:
    """Judge each claim, in the order of the file, by the rule in this module's docstring.

    An emulated guest does not have the speed of a host. So a claim about a level is untestable in it, and effects on a
    metric that depends on the speed of a processor are marked as incomparable."""
    emulated = None
    if report.guest is not None and report.guest.emulated:
        emulated = Note(_PARTLY_EMULATED if report.guest.partly else _EMULATED)

    def effects(claim: Claim) -> ClaimEffects:
        statement = claim.statement
        if statement.limits and emulated:
            raise Untestable(emulated)
        measured = measured_effects(report, statement.metrics, partial(statement.effects, claim))
        unit = next(metric.unit for metric in report.metrics if metric.name == statement.metric)
        if emulated and depends_on_speed(unit):
            return replace(measured, parts=tuple(replace(part, incomparable=emulated) for part in measured.parts))
        return measured

    return judge_by(claims, [report], effects)


_EMULATED = N_("it is about a figure of a host, and the host was a guest emulated in software")
_PARTLY_EMULATED = N_("it is about a figure of a host, and some of it was measured in a guest emulated in software")


def judge_by(
    claims: Claims, reports: Sequence[CampaignResults], effects: Callable[[Claim], ClaimEffects]
) -> tuple[Judgement, ...]:
    """Judge each claim by its effects in one or several reports of the same study.

    `effects` returns the effects of a claim, and raises Untestable if the reports lack the data for the claim."""
    n_blocks = sum(len(report.blocks) for report in reports)
    tested = [_test_or_stand_in(claim, reports, effects, n_blocks) for claim in claims.claims]
    adjusted = holm([judgement.p for judgement in tested])
    with_p = zip(tested, adjusted, strict=True)
    return tuple(_with_verdict(judgement, p, reports[0], n_blocks) for judgement, p in with_p)


def _test_or_stand_in(
    claim: Claim, reports: Sequence[CampaignResults], effects: Callable[[Claim], ClaimEffects], n_blocks: int
) -> Judgement:
    """Test a claim, with stand-ins for published levels that were not measured.

    If the claim cannot be tested with stand-ins either, the reasons in the result are about the published levels."""
    statement, stand_in = with_stand_ins(claim.statement, claim.stand_in, reports)
    judgement = _test(claim.with_statement(statement), effects, n_blocks)
    if not stand_in:
        return judgement
    is_tested = judgement.effects is not None or judgement.p is not None
    return replace(judgement, stand_in=stand_in) if is_tested else _test(claim, effects, n_blocks)


def _test(claim: Claim, effects_of_claim: Callable[[Claim], ClaimEffects], n_blocks: int) -> Judgement:
    """Return the judgement of a claim before the correction for other claims: with `p`, and no verdict yet."""
    try:
        effects = effects_of_claim(claim)
    except Untestable as untestable:
        return Judgement(claim, why_not=untestable.why)
    if n_blocks < 2:  # there are values, but no intervals
        return Judgement(claim, effects=effects, part=effects.parts[0], why_not=(too_few_blocks(n_blocks),))
    for part in effects.parts:
        if part.p_for is None or part.p_against is None:
            return Judgement(claim, effects=effects, part=part, why_not=(why_absent(part.effect),))
    p_for = max(part.p_for or 0.0 for part in effects.parts)
    against = [part for part in effects.parts if not part.open_against] or effects.parts
    worst = min(against, key=lambda part: part.p_against or 0.0)
    p_against = min(1.0, len(effects.parts) * (worst.p_against or 0.0))
    if effects.nothing and not effects.bounded:
        return Judgement(claim, p=min(p_for, p_against), why_not=(effects.nothing,))
    if p_for > p_against:
        return Judgement(claim, effects=effects, part=worst, p=p_against, is_open=worst.open_against)
    weakest = max(effects.parts, key=lambda part: part.p_for or 0.0)
    is_open = any(part.open_for for part in effects.parts)
    return Judgement(claim, effects=effects, part=weakest, p=p_for, supports=True, is_open=is_open)


def too_few_blocks(n: int) -> Note:
    """Return the reason why nothing can be tested with `n` blocks."""
    return Note(N_("n = {n}: the spread is not known with fewer than two blocks"), n=n)


def why_absent(*effects: Estimate | None) -> Note:
    """Return the reason of the first effect that states why it has no p-value or interval."""
    reasons = (effect.absent_because for effect in effects if effect is not None)
    return next(filter(None, reasons), Note(N_("there is no interval")))


def _with_verdict(tested: Judgement, p_adjusted: float | None, report: CampaignResults, n_blocks: int) -> Judgement:
    """Return the judgement of a tested claim with its corrected p-value, and the verdict that follows from it."""
    alpha = report.study.design.alpha
    metric = tested.claim.statement.metric
    if tested.supports and tested.effects and p_adjusted is not None and p_adjusted < alpha:
        tested = replace(tested, part=_farthest_off(tested.claim, tested.effects) or tested.part)
    judgement = replace(
        tested,
        unit=next((known.unit for known in report.metrics if known.name == metric), ""),
        p_adjusted=p_adjusted,
        n_blocks=n_blocks,
        p_is_significant=tested.p is not None and tested.p < alpha,
    )
    verdict = _verdict(judgement, alpha)
    if judgement.effects and judgement.p is not None:
        # The true value of a mean that is only a lower bound could overturn the evidence, or make an effect
        # distinguishable that is not distinguishable here.
        has_open_part = any(part.open for part in judgement.effects.parts)
        if judgement.is_open or (verdict == "not distinguishable here" and has_open_part):
            why = Note(_LOWER_BOUND, levels=judgement.effects.bounded)
            return replace(judgement, effects=None, part=None, why_not=(why,))
    return replace(judgement, verdict=verdict)


def _verdict(judgement: Judgement, alpha: float) -> Verdict:
    """Return the verdict by steps 3 to 5 of the rule in the module's docstring, without regard to lower bounds."""
    if judgement.part is None or judgement.p is None or judgement.p_adjusted is None:
        return "untestable here"
    if judgement.p_adjusted >= alpha:
        return "not distinguishable here"
    if not judgement.supports:
        return "contradicted"
    if magnitude_agrees(judgement.claim, judgement.part):
        return "reproduced"
    if magnitude_differs(judgement.claim, judgement.part):
        return "same direction, another size"
    return "same direction, too imprecise"


_LOWER_BOUND = N_(
    "only a lower bound is known for {levels} (the study ended the search), and the true value could change the verdict"
)


def _farthest_off(claim: Claim, effects: ClaimEffects) -> ClaimContrast | None:
    """Return the part that agrees least with the published figure; None if all agree. One outside comes first."""
    low, high = tolerated(claim)

    def distance(part: ClaimContrast) -> tuple[bool, float]:
        interval = judged_interval(claim, part)
        return magnitude_differs(claim, part), max(low - interval.low, interval.high - high) if interval else 0.0

    return max((part for part in effects.parts if not magnitude_agrees(claim, part)), key=distance, default=None)


def magnitude_agrees(claim: Claim, part: ClaimContrast) -> bool:
    """Return whether the whole interval of the effect lies within the tolerance of the published figure.

    True without a figure. Also true if the claim states the figure itself, because its tests judge the figure."""
    if claim.statement.states_figure:
        return True
    low, high = tolerated(claim)
    interval = judged_interval(claim, part)
    return not has_magnitude(claim) or (interval is not None and low <= interval.low and interval.high <= high)


def magnitude_differs(claim: Claim, part: ClaimContrast) -> bool:
    """Return whether the whole interval of the effect lies outside of the tolerance of the published figure."""
    low, high = tolerated(claim)
    interval = judged_interval(claim, part)
    return interval is not None and (interval.high < low or interval.low > high)


def has_magnitude(claim: Claim) -> bool:
    """Return whether the size of the effect is judged, not only its direction: by a published figure or "slightly"."""
    return any(map(math.isfinite, tolerated(claim)))


def tolerated(claim: Claim) -> tuple[float, float]:
    """Return the smallest and largest effect that agree with the published figure; infinite without a figure.

    For "slightly", only one end is finite; on the other side, the test of the direction judges."""
    if claim.slight is not None:
        higher = claim.direction == "higher"
        return (-math.inf, 1 + claim.slight) if higher else (1 / (1 + claim.slight), math.inf)
    return claim.published.tolerated if claim.published else (-math.inf, math.inf)


def judged_measure(claim: Claim, part: ClaimContrast) -> Measure:
    """Return the measure of the published figure; without a figure, the measure of the effect."""
    if claim.slight is not None:
        return "ratio"
    return claim.published.judged[0] if claim.published and has_magnitude(claim) else part.measure


def judged_interval(claim: Claim, part: ClaimContrast) -> Interval | None:
    """Return the interval of the effect, in the measure of the published figure if there is one.

    None if the effect has no interval in this measure, or if it is a difference that is incomparable."""
    measure = judged_measure(claim, part)
    if measure == "difference" and part.incomparable:
        return None
    if part.measure == measure:
        return part.effect.interval
    return part.beside.interval if measure == "difference" and part.beside is not None else None


def tally(judgements: Iterable[Judgement]) -> dict[Verdict, int]:
    """Return {verdict: number of claims}, in the order from reproduced to untestable."""
    verdicts = [judgement.verdict for judgement in judgements]
    return {verdict: verdicts.count(verdict) for verdict in get_args(Verdict)}
