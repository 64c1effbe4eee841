"""The contrasts of a campaign's cells on which statements are tested: which treatments, and with what weights.

A stratum is one combination of the levels of all factors that the statement does not compare. Means are over the strata
in which every treatment that the statement needs was measured, so that both sides of a comparison have the same
conditions. The numbers of these strata and of all strata are recorded. Pure: a report in, contrasts out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.claim_cells import NOT_ABOVE_ZERO, Comparisons, MetricCells, Untestable, Weights
from lastro.stats.censored import BOTH_ARE_BOUNDS, RATIO_IS_BOUND
from lastro.stats.intervals import Bound, Estimate, alpha_of
from lastro.stats.notes import N_, Note
from lastro.stats.weights import less, weighted_sum
from lastro.study.model import Levels

Measure = Literal["ratio", "difference", "share", "level"]


@dataclass(frozen=True, slots=True)
class ClaimContrast:
    """One of the contrasts that a statement depends on. A statement is true if all of its parts are.

    The judgement is of `effect`, in the unit of `measure`. `beside` is the same effect as a difference in the unit of
    the metric; comparisons have it. `p_for` is the p-value of the hypothesis that the part is false, `p_against` of the
    hypothesis that it is true. So a small `p_for` is evidence for the part, and a small `p_against` evidence against.

    `under_floor`: the effect is smaller than the noise floor of this host, which changes no verdict.

    `incomparable`: why no published difference can be compared with that in the unit of the metric.

    `open_for`: a mean is only a lower bound, and its true value could overturn the evidence for the part.
    `open_against`: it could overturn the evidence against the part. `bound` is the side of `effect` on which the true
    effect lies. See `_opened`."""

    label: str
    measure: Measure
    effect: Estimate
    beside: Estimate | None
    p_for: float | None
    p_against: float | None
    under_floor: bool = False
    open_for: bool = False
    open_against: bool = False
    bound: Bound | None = ""  # None: the true effect may lie on either side
    incomparable: Note | None = None

    @property
    def open(self) -> bool:
        return self.open_for or self.open_against


@dataclass(frozen=True, slots=True)
class ClaimEffects:
    """The parts of a statement, the number of measured strata, and the number of all strata in the design.

    `nothing` is the reason if the data show that there is nothing to judge. The statement still has a p-value, so that
    the number of tests in a file does not depend on their results. `bounded` names the compared treatments for which
    only a lower bound is known; empty without any."""

    parts: tuple[ClaimContrast, ...]
    strata: int
    all_strata: int
    nothing: Note | None = None
    bounded: str = ""


def measured_effects(
    report: CampaignResults,
    metrics: Sequence[str],
    effects: Callable[..., ClaimEffects],
    confidence: float | None = None,
) -> ClaimEffects:
    """Return the effects by the cells of these metrics; `confidence` of the intervals is by default the study's.

    Raises: Untestable, with the reason, when the campaign lacks the data."""
    every = [MetricCells(report, metric, confidence) for metric in metrics]
    measured = effects(*every)
    return replace(measured, bounded=next(filter(None, (cells.bounds_used() for cells in every)), ""))


# Effects of one part


def difference_of(of: Levels, to: Levels, at: Levels, higher: bool, cells: Comparisons) -> ClaimEffects:
    """Test that the mean of one side is higher, or lower, than that of the other."""
    (first, second), used, total = cells.sides([of, to], at)
    label = f"{without_common(of, to)} / {without_common(to, of)}"
    return ClaimEffects((direction(label, first, second, higher, cells),), used, total)


def recovery_of(ideal: Levels, without: Levels, protected: Levels, at: Levels, cells: Comparisons) -> ClaimEffects:
    """Test that a protection recovers a fraction of a loss."""
    sides, used, total = cells.sides([ideal, without, protected], at)
    best, worst, better = sides
    recovered = cells.recovered(best, worst, better)
    loss, gain = recovered.loss, recovered.gain
    higher = (loss.value or 0) > 0
    lost = cells.metric.better == "neither" or higher == (cells.metric.better == "higher")
    name = cells.metric.name
    unclear = N_("there is nothing to recover: the loss of {metric} is not distinguishable from zero")
    nothing = None
    if loss.p is None:
        if loss.absent_because is None:
            raise Untestable(Note(unclear, metric=name))
    elif loss.p >= alpha_of(cells.confidence):
        nothing = Note(unclear, metric=name)
    elif not lost:
        nothing = Note(N_("there is nothing to recover: {metric} is no worse without protection"), metric=name)
    label = f"{without_common(protected, without)} / {without_common(without, protected)}"
    part = _signed(label, "share", recovered.fraction, gain, gain, higher)
    if loss.p is not None and part.p_for is not None and part.p_against is not None:
        # A recovery needs a loss and a gain, and each must be significant (Berger 1982).
        p_loss = loss.p if lost else 1.0
        gaps = ((less(best, worst), loss), (less(better, worst), gain))
        under = any(cells.gap_under_floor(weights, gap.value) for weights, gap in gaps)
        p_for, p_against = max(p_loss, part.p_for), max(p_loss, part.p_against)
        part = replace(part, p_for=p_for, p_against=p_against, under_floor=under)
    if any(any(cells.slack(side)) for side in sides):
        part = _opened(part, (True, True), None)
    return ClaimEffects((part,), used, total, nothing)


# One function for each kind of test


def larger(label: str, upper: Weights, lower: Weights, cells: Comparisons) -> ClaimContrast:
    """Test that one difference is larger than another."""
    effects = less(upper, lower)
    gap = cells.linear(effects)
    under = cells.gap_under_floor(effects, gap.value)
    part = replace(_signed(label, "difference", gap, gap, None, True), under_floor=under)
    return _opened(part, cells.slack(effects), True)


def farther(label: str, upper: Weights, lower: Weights, cells: Comparisons) -> ClaimContrast:
    """Test that one difference is farther from zero than another, regardless of their signs.

    |a| > |b| where a - b and a + b have the same sign. Both must be significant: the larger p counts (Berger 1982)."""
    apart = cells.linear(less(upper, lower))
    together = cells.linear(weighted_sum([(upper, 1.0), (lower, 1.0)]))
    signs = [math.copysign(1.0, cells.linear(each).value or 0.0) for each in (upper, lower)]
    effects = weighted_sum([(upper, signs[0]), (lower, -signs[1])])
    gap = cells.linear(effects)
    part = ClaimContrast(
        label, "difference", gap, None, None, None, under_floor=cells.gap_under_floor(effects, gap.value)
    )
    if apart.p is not None and together.p is not None:
        p, same = max(apart.p, together.p), (apart.value or 0.0) * (together.value or 0.0)
        part = replace(part, p_for=p if same > 0 else 1.0, p_against=p if same < 0 else 1.0)
    return _opened(part, (True, True), None) if any(cells.slack(effects)) else part


def level(label: str, of: Weights, low: float, high: float, cells: Comparisons) -> ClaimContrast:
    """Test a stated level: two finite ends by two one-sided tests (equivalence), a bound by one test."""
    mean = cells.linear(of)
    above_low, above_high = (_above(of, end, cells) for end in (low, high))
    if above_low is None or above_high is None:
        return ClaimContrast(label, "level", mean, None, None, None)
    sides = 2 if math.isfinite(low) and math.isfinite(high) else 1
    outside = min(1.0, sides * min(above_high, 1 - above_low))
    part = ClaimContrast(label, "level", mean, None, max(above_low, 1 - above_high), outside)
    return _opened(part, cells.slack(of), None if sides == 2 else math.isinf(high))


def ratio_beyond(label: str, of: Weights, to: Weights, bound: float, above: bool, cells: Comparisons) -> ClaimContrast:
    """Test that the ratio of two means lies above a bound, or below it."""
    _require_positive(to, cells)
    found, above_bound = cells.compared(of, to), cells.one_sided_p(of, to, bound)
    if found.ratio.value is None or above_bound is None:
        return ClaimContrast(label, "ratio", found.ratio, found.difference, None, None)
    p = above_bound if above else 1 - above_bound
    part = ClaimContrast(label, "ratio", found.ratio, found.difference, p, 1 - p)
    return _opened(part, (True, True), None) if any(map(any, map(cells.slack, (of, to)))) else part


def direction(label: str, of: Weights, to: Weights, higher: bool, cells: Comparisons) -> ClaimContrast:
    """Test for a difference of the stated sign; show the effect as a ratio if there is one."""
    compared = cells.compared(of, to)
    gap, ratio = compared.difference, compared.ratio
    slack = cells.slack(less(of, to))
    if ratio.value is None or ratio.value <= 0:
        return _opened(_signed(label, "difference", gap, gap, None, higher), slack, higher)
    part = _signed(label, "ratio", ratio, gap, gap, higher)
    under = cells.under_floor(less(of, to), ratio.value - 1)
    return _opened(replace(part, under_floor=under), slack, higher)


def _opened(part: ClaimContrast, slack: tuple[bool, bool], higher: bool | None) -> ClaimContrast:
    """Return the part with its open sides, for an effect of means that are only lower bounds.

    `slack` is whether the true effect may lie above the measured one, and whether it may lie below. A sign still holds
    if the true effect can only lie further on the same side. An equivalence or a fraction (`higher` is None) is open on
    both sides. The size of the effect is not known, so it has no interval."""
    above, below = slack
    if not (above or below):
        return part
    undone = {True: (below, above), False: (above, below), None: (True, True)}[higher]
    bound: Bound | None = None if (above and below) or higher is None else "≥" if above else "≤"
    why = Note(RATIO_IS_BOUND if bound else BOTH_ARE_BOUNDS)
    effect = replace(part.effect, interval=None, absent_because=part.effect.absent_because or why)
    beside = part.beside and replace(part.beside, interval=None, absent_because=why)
    return replace(part, effect=effect, beside=beside, open_for=undone[0], open_against=undone[1], bound=bound)


def _signed(
    label: str, measure: Measure, effect: Estimate, tested: Estimate, beside: Estimate | None, higher: bool
) -> ClaimContrast:
    """Return a part judged by the sign of the `tested` contrast.

    Its p counts for the statement if the contrast has the stated sign, and against the statement otherwise."""
    if tested.p is None or tested.value is None:
        return ClaimContrast(label, measure, effect, beside, None, None)
    so = tested.value > 0 if higher else tested.value < 0
    return ClaimContrast(label, measure, effect, beside, tested.p if so else 1.0, 1.0 if so else tested.p)


def equivalence(label: str, of: Weights, to: Weights, margin: float, cells: Comparisons) -> ClaimContrast:
    """Test by two one-sided tests that the ratio lies within 1/(1 + margin) and 1 + margin (Schuirmann 1987)."""
    comparison = cells.compared(of, to)
    return _bounded(label, comparison.ratio, comparison.difference, of, to, (1 / (1 + margin), 1 + margin), cells)


def deviation(label: str, off: Weights, mean: Weights, margin: float, cells: Comparisons) -> ClaimContrast:
    """Test by two one-sided tests that a deviation from zero lies within ± `margin`, a fraction of the mean."""
    return _bounded(label, cells.share(off, mean), cells.linear(off), off, mean, (-margin, margin), cells)


def _bounded(
    label: str,
    effect: Estimate,
    beside: Estimate,
    of: Weights,
    to: Weights,
    bounds: tuple[float, float],
    cells: Comparisons,
) -> ClaimContrast:
    _require_positive(to, cells)
    part = ClaimContrast(label, "ratio" if bounds[0] > 0 else "share", effect, beside, None, None)
    above_low, above_high = (cells.one_sided_p(of, to, bound) for bound in bounds)
    if effect.value is not None and above_low is not None and above_high is not None:
        gap = (less(of, to), effect.value - 1) if bounds[0] > 0 else (of, effect.value)
        inside, outside = max(above_low, 1 - above_high), min(1.0, 2 * min(above_high, 1 - above_low))
        part = replace(part, p_for=inside, p_against=outside, under_floor=cells.under_floor(*gap))
    return _opened(part, (True, True), None) if any(any(cells.slack(side)) for side in (of, to)) else part


def _require_positive(to: Weights, cells: Comparisons) -> None:
    """Raise Untestable when the mean below a ratio is not above zero."""
    if not cells.is_positive(to):
        raise Untestable(Note(NOT_ABOVE_ZERO, metric=cells.metric.name))


def _above(of: Weights, level: float, cells: Comparisons) -> float | None:
    """Return the p of the hypothesis that a mean is not above a level, which may be infinite."""
    return float(level > 0) if math.isinf(level) else cells.p_above(of, level)


def without_common(side: Levels, other: Levels) -> str:
    """Return the levels in which one side differs from the other."""
    return " · ".join(", ".join(map(str, levels)) for name, levels in side.items() if levels != other.get(name))
