"""Comparisons of weighted sums of cell means by the model of a metric, with intervals that agree with their tests.

On logarithms, the ratio of two sides is the ratio of their geometric means, and the difference is (ratio - 1) times the
mean of the second side. Otherwise means are arithmetic, and the ratio has Fieller's interval: the ratios r for which
the test of "first side - r second side = 0" does not reject.

Sources: Fieller, J. R. Stat. Soc. B 16 (1954) 175-185; and those of `block_model` and `families`."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from lastro.stats.families import EstimateTest, judge
from lastro.stats.intervals import Estimate, Interval, Pairing
from lastro.stats.notes import UNBOUNDED, ZERO_DENOMINATOR, Note
from lastro.stats.student import t_p
from lastro.stats.weights import minus

if TYPE_CHECKING:
    from lastro.stats.block_model import BlockModel, CellEstimate

K = TypeVar("K", bound=Hashable)
Sides = tuple[Mapping[K, float], Mapping[K, float]]

# The reasons why an estimate is absent; the catalogues translate them.
NO_WEIGHT = "no cell has a weight"
ONE_VALUE = "a cell with one value: an interval needs 2 trials or more in each"
APART = "no common treatment links the two campaigns"
NO_SPREAD = "nothing varied, in too few blocks to exclude chance"


@dataclass(frozen=True, slots=True)
class MeanComparison:
    """A comparison of two sides: ratio and difference, whose intervals are corrected for the family of comparisons."""

    ratio: Estimate
    difference: Estimate
    p: float | None  # uncorrected
    p_adjusted: float | None  # corrected for the family of comparisons
    error: float | None  # standard error of the difference, or of the difference of logarithms if `log`
    critical: float | None  # the critical value, in standard errors
    log: bool

    def differs(self, alpha: float) -> bool:
        """Return whether the two sides differ significantly, corrected for the family."""
        return self.p_adjusted is not None and self.p_adjusted < alpha

    def reversed(self) -> MeanComparison:
        """Return this comparison with its sides exchanged: the ratio inverted, and the difference negated."""
        ratio = self.ratio
        if ratio.interval is None or ratio.interval.low <= 0:
            ratio = ratio.without(ratio.absent_because or Note(UNBOUNDED))
        inverse = ratio.mapped(lambda value: 1 / value) if ratio.value else replace(ratio, value=None)
        return replace(self, ratio=inverse, difference=self.difference.mapped(lambda value: -value))


def compare(
    model: BlockModel, sides: Sequence[Sides[K]], confidence: float, *, planned: bool = True
) -> tuple[MeanComparison, ...]:
    """Compare the first side of each pair with the second; all comparisons together are one family.

    A side is {cell: weight}, with weights that sum to 1. A pair of empty sides gives a comparison without values, which
    does not count towards the family. `planned` is as in `families.judge`. Raises: KeyError for unknown cells."""
    gaps = [model.estimate(minus(of, to)) if model.log else model.difference(of, to) for of, to in sides]
    judged = judge(gaps, confidence, planned=planned)
    return tuple(
        _comparison(model, pair, gap, test, confidence) for pair, gap, test in zip(sides, gaps, judged, strict=True)
    )


def compare_one(model: BlockModel, of: Mapping[K, float], to: Mapping[K, float], confidence: float) -> MeanComparison:
    """Compare one side with another, without a correction for further comparisons."""
    return compare(model, [(of, to)], confidence)[0]


def log_ratio(model: BlockModel, of: Mapping[K, float], to: Mapping[K, float]) -> CellEstimate | None:
    """Estimate the logarithm of the ratio of two weighted means; None if one of them is not above zero.

    If the model is not of logarithms, the error comes from the delta method (the first-order expansion at the means).
    """
    gap = model.estimate(minus(of, to))
    if model.log or gap.unlinked:
        return gap
    a, b = model.estimate(of).value, model.estimate(to).value
    if min(a, b) <= 0:
        return None
    relative = [{key: weight / mean for key, weight in side.items()} for side, mean in ((of, a), (to, b))]
    return replace(model.estimate(minus(*relative)), value=math.log(a / b))


def sum_of_means(model: BlockModel, weights: Mapping[K, float], confidence: float) -> Estimate:
    """Return a weighted sum of arithmetic means, in the unit of the values, with an uncorrected p and interval.

    The weights {treated: 1, baseline: -1} give a difference. The value is None if all weights are zero, or if no
    common cells link the campaigns that measured the cells."""
    if not any(weights.values()):
        return _absent(Note(NO_WEIGHT))
    estimate = model.linear.estimate(weights)
    if estimate.unlinked:
        return _absent(Note(APART))
    (judged,) = judge([estimate], confidence)
    contrast = _sum_estimate(estimate, judged, confidence)
    return contrast.above_zero() if model.linear.is_bounded_by_zero(weights) else contrast


def sum_of_model_means(model: BlockModel, weights: Mapping[K, float], confidence: float) -> Estimate:
    """Return a weighted sum of means, in the unit of the values; means are geometric if the model is of logarithms.

    The error of geometric means comes from the first-order expansion at the means: effects of blocks multiply, so a
    slow block also changes differences."""
    if not model.log:
        return sum_of_means(model, weights, confidence)
    terms = {key: weight * exponential(model.estimate({key: 1.0}).value) for key, weight in weights.items() if weight}
    estimate = replace(model.estimate(terms), value=math.fsum(terms.values()))
    (judged,) = judge([estimate], confidence)
    return _sum_estimate(estimate, judged, confidence)


def ratio_of_sums(model: BlockModel, of: Mapping[K, float], to: Mapping[K, float], confidence: float) -> Estimate:
    """Return the ratio of two weighted sums of arithmetic means, either of which may be a difference.

    p tests the hypothesis that the numerator is zero. If the denominator is not distinguishable from zero, the ratio is
    unbounded and has no interval."""
    numerator = model.linear.estimate(of)
    if numerator.unlinked or model.linear.estimate(to).unlinked:
        return _absent(Note(APART))
    (alone,) = judge([numerator], confidence)
    (judged,) = judge([replace(numerator, df=model.linear.difference(of, to).df)], confidence)
    # Only the degrees of freedom and the number of values are used of this sum, so any weights for the cells will do.
    weights = {key: abs(of.get(key, 0.0)) + abs(to.get(key, 0.0)) for key in dict.fromkeys((*of, *to))}
    return _ratio_estimate(model, (of, to), replace(judged, p=alone.p), model.linear.estimate(weights), confidence)


def one_sided_p(model: BlockModel, of: Mapping[K, float], to: Mapping[K, float], bound: float) -> float | None:
    """Return the p of the hypothesis that `of` is at most `bound` times `to`; None without a standard error.

    Geometric means are compared if the model is of logarithms, the weights of each side sum to 1, and the bound is
    above zero; otherwise arithmetic means."""
    if model.log and bound > 0 and all(math.isclose(sum(side.values()), 1.0) for side in (of, to)):
        gap = model.estimate(minus(of, to))
        return _upper_p(replace(gap, value=gap.value - math.log(bound)))
    return _upper_p(model.linear.estimate(minus(of, {key: bound * weight for key, weight in to.items()})))


def p_above(model: BlockModel, of: Mapping[K, float], level: float) -> float | None:
    """Return the p of an arithmetic mean being at most `level`; None without a standard error."""
    mean = model.linear.estimate(of)
    return _upper_p(replace(mean, value=mean.value - level))


def _upper_p(estimate: CellEstimate) -> float | None:
    """Return the p of the hypothesis that the estimated quantity is at most zero; None without a standard error."""
    if estimate.error is None:
        return None
    distance = math.copysign(max(0.0, abs(estimate.value) - estimate.bias), estimate.value)
    if estimate.error:
        return t_p(distance, estimate.error, estimate.df, estimate.least_p, "above")
    if distance == 0:
        return 0.5
    return estimate.least_p / 2 if distance > 0 else 1 - estimate.least_p / 2


def _comparison(
    model: BlockModel, sides: Sides[K], gap: CellEstimate, judged: EstimateTest, confidence: float
) -> MeanComparison:
    """Return the comparison of two sides, given their estimated difference `gap` and its test `judged`."""
    of, to = sides
    if gap.unlinked or not any(of.values()):
        nothing = _absent(Note(APART if gap.unlinked else NO_WEIGHT))
        return MeanComparison(nothing, nothing, None, None, None, None, model.log)
    if model.log:
        mean = exponential(model.estimate(to).value)
        ratio = _sum_estimate(gap, judged, confidence).mapped(exponential)
        difference = ratio.mapped(lambda value: mean * (value - 1))
    else:
        ratio = _ratio_estimate(model, sides, judged, gap, confidence)
        difference = _sum_estimate(gap, judged, confidence)
    return MeanComparison(ratio, difference, judged.p, judged.p_adjusted, gap.error, judged.critical, model.log)


def _sum_estimate(estimate: CellEstimate, judged: EstimateTest, confidence: float) -> Estimate:
    """Return a weighted sum with the interval that agrees with its test; none if that has no critical value."""
    interval = None
    if estimate.error is not None and judged.critical is not None and math.isfinite(judged.critical):
        half = judged.critical * estimate.error + estimate.bias
        interval = Interval.around(estimate.value, half, confidence)
    return _with_test(estimate, judged, estimate.value, interval)


def _ratio_estimate(
    model: BlockModel, sides: Sides[K], judged: EstimateTest, gap: CellEstimate, confidence: float
) -> Estimate:
    """Return the ratio of two sides by arithmetic means, with Fieller's interval at the critical value of their test.

    `gap` has the degrees of freedom and the number of values. The interval is absent if the test has no finite critical
    value, or if the denominator is not distinguishable from zero."""
    critical = judged.critical
    known = critical is not None and math.isfinite(critical)
    value, interval = model.linear.ratio(*sides, critical if critical and known else 0.0)
    interval = None if interval is None or not known else replace(interval, confidence=confidence)
    ratio = _with_test(gap, judged, value, interval)
    if value is None:
        return replace(ratio, absent_because=Note(ZERO_DENOMINATOR))
    if known and interval is None:
        return replace(ratio, absent_because=Note(UNBOUNDED))
    return ratio


def _with_test(
    estimate: CellEstimate, judged: EstimateTest, value: float | None, interval: Interval | None
) -> Estimate:
    """Return a value and its interval with the test of `estimate`, and the reason if the interval is absent."""
    why = None
    if estimate.error is None:
        why = Note(ONE_VALUE)
    elif judged.critical is not None and math.isinf(judged.critical):
        why = Note(NO_SPREAD)
    pairing: Pairing = "paired" if estimate.paired else "unpaired"
    df = None if estimate.error is None else estimate.df
    return Estimate(value, interval, estimate.n, why, p=judged.p, df=df, pairing=pairing)


def _absent(why: Note) -> Estimate:
    return Estimate(None, None, 0, why)


def exponential(value: float) -> float:
    """Return e to the power of `value`, limited to finite floats above zero."""
    return math.exp(min(700.0, max(-700.0, value)))
