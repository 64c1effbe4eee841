"""The contrasts of cell means that test the statements of claims.

A stratum is one combination of the levels of all factors that the statement does not compare. Means are over the strata
in which every treatment that the statement needs was measured, so that both sides of a comparison have the same
conditions. Pure: it takes the results of a campaign and returns contrasts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.claim_cells import NOT_ABOVE_ZERO, Comparisons, MetricCells, Untestable, Weights
from lastro.stats.intervals import BOTH_ARE_BOUNDS, RATIO_IS_BOUND, Bound, Estimate, alpha_of
from lastro.stats.notes import N_, Note
from lastro.stats.weights import minus, weighted_sum
from lastro.study.model import Levels

Measure = Literal["ratio", "difference", "share", "level"]


@dataclass(frozen=True, slots=True)
class ClaimContrast:
    """A part of a statement: a contrast with its test. A statement is true if all of its parts are.

    A small `p_for` is evidence for the part, and a small `p_against` is evidence against it. If a mean is only a lower
    bound, its true value may be higher: see `open_for`, `open_against` and `bound`."""

    label: str
    measure: Measure  # what `effect` is: a ratio, difference, share or level
    effect: Estimate  # the tested effect
    beside: Estimate | None  # the effect as a difference in the metric's unit; None unless two means are compared
    p_for: float | None = None  # p-value of the hypothesis that the part is false
    p_against: float | None = None  # p-value of the hypothesis that the part is true
    under_floor: bool = False  # smaller than this host's noise floor, which does not change the verdict
    open_for: bool = False  # the true mean could overturn the evidence for the part
    open_against: bool = False  # the true mean could overturn the evidence against the part
    # "≥": the true effect is at least `effect`; "≤": at most `effect`; None: it may lie on either side.
    bound: Bound | None = ""
    incomparable: Note | None = None  # why a published difference cannot be compared with `beside`; None if it can

    @property
    def open(self) -> bool:
        return self.open_for or self.open_against


@dataclass(frozen=True, slots=True)
class ClaimEffects:
    """The parts of a statement, the number of measured strata, and the number of all strata in the design.

    `nothing` is the reason if the data show that there is nothing to judge, else None. Such a statement still has a
    p-value, so that the number of tests does not depend on the results of the tests. `bounded` describes the compared
    treatments whose values are only lower bounds; empty if there are none."""

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
    """Return the result of `effects`, called with the `MetricCells` of each metric, and set its field `bounded`.

    `confidence` is the confidence of the intervals, by default the study's. Raises: Untestable, with the reason, if the
    campaign lacks the data."""
    of_metrics = [MetricCells(report, metric, confidence) for metric in metrics]
    measured = effects(*of_metrics)
    return replace(measured, bounded=next(filter(None, (cells.bounds_used() for cells in of_metrics)), ""))


def direction_effects(of: Levels, to: Levels, at: Levels, higher: bool, cells: Comparisons) -> ClaimEffects:
    """Test that the mean of `of` is higher (or lower) than that of `to`, under the conditions `at`."""
    (first, second), n_measured, n_conditions = cells.sides([of, to], at)
    label = f"{without_common(of, to)} / {without_common(to, of)}"
    return ClaimEffects((direction_contrast(label, first, second, higher, cells),), n_measured, n_conditions)


def recovery_effects(ideal: Levels, without: Levels, protected: Levels, at: Levels, cells: Comparisons) -> ClaimEffects:
    """Test that `protected` recovers a part of the loss from `ideal` to `without`, under the conditions `at`.

    `nothing` is set if the loss is not significant, or if it is a gain. Raises: Untestable if the loss has no test."""
    sides, n_measured, n_conditions = cells.sides([ideal, without, protected], at)
    best, worst, better = sides
    recovered = cells.recovered(best, worst, better)
    loss, gain = recovered.loss, recovered.gain
    higher = (loss.value or 0) > 0
    is_loss = cells.metric.better == "neither" or higher == (cells.metric.better == "higher")
    name = cells.metric.name
    unclear = N_("there is nothing to recover: the loss of {metric} is not distinguishable from zero")
    nothing = None
    if loss.p is None:
        if loss.absent_because is None:
            raise Untestable(Note(unclear, metric=name))
    elif loss.p >= alpha_of(cells.confidence):
        nothing = Note(unclear, metric=name)
    elif not is_loss:
        nothing = Note(N_("there is nothing to recover: {metric} is no worse without protection"), metric=name)
    label = f"{without_common(protected, without)} / {without_common(without, protected)}"
    part = _signed(label, "share", recovered.fraction, gain, gain, higher)
    if loss.p is not None and part.p_for is not None and part.p_against is not None:
        # A recovery needs a loss and a gain, and each must be significant (Berger 1982).
        p_loss = loss.p if is_loss else 1.0
        gaps = ((minus(best, worst), loss), (minus(better, worst), gain))
        under = any(cells.gap_under_floor(weights, gap.value) for weights, gap in gaps)
        p_for, p_against = max(p_loss, part.p_for), max(p_loss, part.p_against)
        part = replace(part, p_for=p_for, p_against=p_against, under_floor=under)
    return ClaimEffects((_open_if_bounded(part, sides, cells),), n_measured, n_conditions, nothing)


def larger_contrast(label: str, upper: Weights, lower: Weights, cells: Comparisons) -> ClaimContrast:
    """Test that one difference of means, `upper`, is larger than another, `lower`."""
    effects = minus(upper, lower)
    gap = cells.sum_of_means(effects)
    under = cells.gap_under_floor(effects, gap.value)
    part = replace(_signed(label, "difference", gap, gap, None, True), under_floor=under)
    return _opened(part, cells.slack(effects), True)


def farther_contrast(label: str, upper: Weights, lower: Weights, cells: Comparisons) -> ClaimContrast:
    """Test that one difference of means, a, is farther from zero than another, b, regardless of their signs.

    |a| > |b| if a - b and a + b have the same sign. Both must be significant, so the larger p counts (Berger 1982)."""
    apart = cells.sum_of_means(minus(upper, lower))
    together = cells.sum_of_means(weighted_sum([(upper, 1.0), (lower, 1.0)]))
    signs = [math.copysign(1.0, cells.sum_of_means(weights).value or 0.0) for weights in (upper, lower)]
    effects = weighted_sum([(upper, signs[0]), (lower, -signs[1])])
    gap = cells.sum_of_means(effects)
    part = ClaimContrast(label, "difference", gap, None, under_floor=cells.gap_under_floor(effects, gap.value))
    if apart.p is not None and together.p is not None:
        p = max(apart.p, together.p)
        same = (apart.value or 0.0) * (together.value or 0.0)
        part = replace(part, p_for=p if same > 0 else 1.0, p_against=p if same < 0 else 1.0)
    return _open_if_bounded(part, [effects], cells)


def level(label: str, of: Weights, low: float, high: float, cells: Comparisons) -> ClaimContrast:
    """Test that a mean lies between `low` and `high`, by two one-sided tests, or one if an end is infinite."""
    mean = cells.sum_of_means(of)
    above_low, above_high = (float(end > 0) if math.isinf(end) else cells.p_above(of, end) for end in (low, high))
    if above_low is None or above_high is None:
        return ClaimContrast(label, "level", mean, None)
    n_tests = 2 if math.isfinite(low) and math.isfinite(high) else 1
    p_inside = max(above_low, 1 - above_high)
    p_outside = min(1.0, n_tests * min(above_high, 1 - above_low))
    part = ClaimContrast(label, "level", mean, None, p_for=p_inside, p_against=p_outside)
    stated_sign = None if n_tests == 2 else math.isinf(high)
    return _opened(part, cells.slack(of), stated_sign)


def ratio_contrast(
    label: str, of: Weights, to: Weights, bound: float, above: bool, cells: Comparisons
) -> ClaimContrast:
    """Test that the ratio of two means lies above a bound (if `above`, else below it).

    Raises: Untestable if the mean of `to` is not above zero."""
    _require_positive(to, cells)
    comparison, p_above = cells.compared(of, to), cells.one_sided_p(of, to, bound)
    ratio, difference = comparison.ratio, comparison.difference
    if ratio.value is None or p_above is None:
        return ClaimContrast(label, "ratio", ratio, difference)
    p = p_above if above else 1 - p_above
    return _open_if_bounded(ClaimContrast(label, "ratio", ratio, difference, p, 1 - p), [of, to], cells)


def direction_contrast(label: str, of: Weights, to: Weights, higher: bool, cells: Comparisons) -> ClaimContrast:
    """Test that mean `of` is higher (if `higher`, else lower) than mean `to`.

    The effect is the ratio of the means if it is above zero, else their difference."""
    comparison = cells.compared(of, to)
    gap, ratio = comparison.difference, comparison.ratio
    slack = cells.slack(minus(of, to))
    if ratio.value is None or ratio.value <= 0:
        return _opened(_signed(label, "difference", gap, gap, None, higher), slack, higher)
    part = _signed(label, "ratio", ratio, gap, gap, higher)
    under = cells.under_floor(minus(of, to), ratio.value - 1)
    return _opened(replace(part, under_floor=under), slack, higher)


def _opened(part: ClaimContrast, slack: tuple[bool, bool], higher: bool | None) -> ClaimContrast:
    """Return the part, marked as open if means that are only lower bounds could overturn its evidence.

    `slack` is whether the true effect may lie above the measured one, and whether it may lie below. The part is open
    for (or against) the claim if the true effect could take away its evidence for (or against) it. If the claim states
    a rise (`higher` is true), only a lower true effect takes away evidence for it, and only a higher one evidence
    against it; the reverse for a fall. An equivalence or a fraction (`higher` is None) is always open for and against.
    The size of the effect is not known, so its interval is removed."""
    above, below = slack
    if not (above or below):
        return part
    bound: Bound | None = None
    open_for, open_against = True, True
    if higher is not None:
        open_for, open_against = (below, above) if higher else (above, below)
        if above != below:
            bound = "≥" if above else "≤"
    why = Note(RATIO_IS_BOUND if bound else BOTH_ARE_BOUNDS)
    effect = replace(part.effect, interval=None, absent_because=part.effect.absent_because or why)
    beside = part.beside and replace(part.beside, interval=None, absent_because=why)
    return replace(part, effect=effect, beside=beside, open_for=open_for, open_against=open_against, bound=bound)


def _open_if_bounded(part: ClaimContrast, sides: Sequence[Weights], cells: Comparisons) -> ClaimContrast:
    """Return the part, marked as open both for and against if the mean of any side is only a lower bound."""
    return _opened(part, (True, True), None) if any(any(cells.slack(side)) for side in sides) else part


def _signed(
    label: str, measure: Measure, effect: Estimate, tested: Estimate, beside: Estimate | None, higher: bool
) -> ClaimContrast:
    """Return a part that states the sign of the `tested` contrast: above zero if `higher`, else below."""
    if tested.p is None or tested.value is None:
        return ClaimContrast(label, measure, effect, beside)
    has_sign = tested.value > 0 if higher else tested.value < 0
    p_for, p_against = (tested.p, 1.0) if has_sign else (1.0, tested.p)
    return ClaimContrast(label, measure, effect, beside, p_for, p_against)


def equivalence_contrast(label: str, of: Weights, to: Weights, margin: float, cells: Comparisons) -> ClaimContrast:
    """Test by two one-sided tests (Schuirmann 1987) that `of` / `to` is between 1/(1 + margin) and 1 + margin."""
    comparison = cells.compared(of, to)
    return _within_bounds(label, comparison.ratio, comparison.difference, of, to, (1 / (1 + margin), 1 + margin), cells)


def deviation(label: str, off: Weights, mean: Weights, margin: float, cells: Comparisons) -> ClaimContrast:
    """Test by two one-sided tests that the deviation `off` from zero is within ± `margin` times `mean`."""
    ratio, difference = cells.ratio_of_sums(off, mean), cells.sum_of_means(off)
    return _within_bounds(label, ratio, difference, off, mean, (-margin, margin), cells)


def _within_bounds(
    label: str,
    effect: Estimate,
    beside: Estimate,
    of: Weights,
    to: Weights,
    bounds: tuple[float, float],
    cells: Comparisons,
) -> ClaimContrast:
    """Return a contrast that tests whether `of` / `to` lies between two bounds.

    `effect` is the measured quotient, and `beside` the same as a difference. The measure is "ratio" if both bounds are
    above zero, else "share". Raises: Untestable if the mean of `to` is not above zero."""
    _require_positive(to, cells)
    is_ratio = bounds[0] > 0
    part = ClaimContrast(label, "ratio" if is_ratio else "share", effect, beside)
    above_low, above_high = (cells.one_sided_p(of, to, bound) for bound in bounds)
    if effect.value is not None and above_low is not None and above_high is not None:
        p_inside = max(above_low, 1 - above_high)
        p_outside = min(1.0, 2 * min(above_high, 1 - above_low))
        contrast, deviation = (minus(of, to), effect.value - 1) if is_ratio else (of, effect.value)
        under_floor = cells.under_floor(contrast, deviation)
        part = replace(part, p_for=p_inside, p_against=p_outside, under_floor=under_floor)
    return _open_if_bounded(part, [of, to], cells)


def _require_positive(to: Weights, cells: Comparisons) -> None:
    """Raise Untestable if the denominator of a ratio is not above zero."""
    if not cells.is_positive(to):
        raise Untestable(Note(NOT_ABOVE_ZERO, metric=cells.metric.name))


def without_common(side: Levels, other: Levels) -> str:
    """Return the levels of `side` for the factors in which it differs from `other`: 'docker · cgroups'."""
    return " · ".join(", ".join(map(str, levels)) for name, levels in side.items() if levels != other.get(name))
