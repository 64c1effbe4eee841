"""The results of the analysis of a campaign, as frozen data: one `MetricAnalysis` for each metric of the report.

A result that could not be computed is None or empty, with a `Note` of the reason."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from lastro.analysis.campaign import Decision
from lastro.results.samples import Metric
from lastro.stats.anova import Anova
from lastro.stats.autocorrelation import LEAST_FACTOR
from lastro.stats.contrasts import MeanComparison
from lastro.stats.drift import Drift
from lastro.stats.intervals import Estimate, Interval, Summary, alpha_of
from lastro.stats.notes import Note
from lastro.stats.simultaneous import Pair
from lastro.study.design import Treatment
from lastro.study.fraction import FULL, Fraction

Correction = Literal["max-t", "benjamini-hochberg"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelEffect:
    """The effect of a level of a factor, against the factor's reference level.

    Both means are over the combinations of the other factors in which both levels were measured: `cells` of
    `all_cells`. `given` fixes a level of another factor for a simple effect, and is empty for a main effect.
    `comparison` compares the two means; its family is all main effects of the metric, or all simple effects of one
    interaction. `n` has the numbers of trials of the level and of the reference. `floor` is the noise floor of this
    ratio, as a fraction: the noise floor of a comparison of two treatments, scaled to the number of cells in the means.
    `under_floor` is whether the effect is smaller than `floor`; this does not change the decision. `floor` and
    `under_floor` are None if no noise floor is known. `kinds` are the kinds of marks on the values of both levels.
    `aliases` are the main effects and interactions of two factors that a fraction of the design measures together with
    this effect: all numbers are then those of the sum of these effects."""

    factor: str
    level: str
    reference: str
    given: tuple[tuple[str, str], ...]
    comparison: MeanComparison
    kinds: tuple[str, ...] = ()
    decision: Decision = "unknown"
    cells: int
    all_cells: int
    n: tuple[int, int]
    floor: float | None = None
    under_floor: bool | None = None
    aliases: tuple[str, ...] = ()

    @property
    def ratio(self) -> Estimate:
        return self.comparison.ratio

    @property
    def difference(self) -> Estimate:
        return self.comparison.difference

    @property
    def p(self) -> float | None:
        return self.comparison.p

    @property
    def p_adjusted(self) -> float | None:
        return self.comparison.p_adjusted

    @property
    def distance(self) -> float:
        """The distance of the ratio from 1, on logarithms: 0.5 and 2 are equally far. It is 0 without a ratio."""
        value = self.ratio.value
        if value is None or not math.isfinite(value):
            return 0.0
        return abs(math.log(value)) if value > 0 else math.inf


@dataclass(frozen=True, slots=True)
class Interaction:
    """Two factors, `given` and `shown`, whose effects depend on each other.

    `explained` is the fraction of the total variation that the interaction explains. `p_adjusted` is the least p of its
    contrasts, corrected for the contrasts of all two-way interactions of the metric. `effects` are the effects of
    `shown` at each level of `given`. `aliases` are as in `LevelEffect`."""

    given: str
    shown: str
    explained: float
    p_adjusted: float
    effects: tuple[LevelEffect, ...]
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """The comparison of a treatment with its baseline.

    `under_floor` is whether the effect is smaller than the noise floor; None if no noise floor is known."""

    treatment: Treatment
    baseline: Treatment
    ratio: Estimate | None
    difference: Estimate | None
    p: float | None
    p_adjusted: float | None
    under_floor: bool | None
    decision: Decision


@dataclass(frozen=True, slots=True)
class FactorPairs:
    """Comparisons of the levels of one factor, in two families.

    `effects` is {level: its comparison with the reference}, in the family of main effects. `pairs` is {(level, other):
    the comparison of level with other} for levels other than the reference, in the family of such pairs of all factors.
    Each mean is over the combinations of the other factors in which both levels were measured. Pairs without such a
    combination are absent, and levels without an effect are in `left_out`. `strata` is the largest number of
    combinations in an effect, and `all_strata` the number of combinations in the design. `floor` is the noise floor of
    a comparison of two treatments, as a fraction; None if it is not known. `aliases` are as in `LevelEffect`."""

    factor: str
    reference: str
    levels: tuple[str, ...]
    effects: Mapping[str, Pair]
    pairs: Mapping[tuple[str, str], Pair]
    strata: int
    all_strata: int
    left_out: tuple[str, ...] = ()
    floor: float | None = None
    aliases: tuple[str, ...] = ()

    @property
    def others(self) -> tuple[str, ...]:
        """The levels other than the reference."""
        return tuple(level for level in self.levels if level != self.reference)

    def of(self, level: str, to: str = "") -> Pair:
        """Return the comparison of a level with `to`, by default the reference.

        Raises: KeyError when there is no such pair."""
        if level == self.reference:
            return self.effects[to].reversed()
        return self.effects[level] if to in ("", self.reference) else self.pairs[level, to]

    @property
    def in_order(self) -> tuple[tuple[str, str], ...]:
        """The keys of `pairs`, with every two levels only once: (the later level, the earlier level)."""
        return tuple((level, to) for to, level in combinations(self.levels, 2) if (level, to) in self.pairs)

    def under_floor(self, level: str, to: str = "") -> bool:
        """Return whether the difference between two levels is smaller than the noise floor."""
        pair = self.of(level, to)
        if self.floor is None or not pair.relative:
            return False
        return abs(pair.value - 1) < self.floor / math.sqrt(pair.strata)


@dataclass(frozen=True, slots=True)
class SerialDependence:
    """The correlation of consecutive trials: `lag1` and `p` are as in `stats.autocorrelation`, over `n` trials.

    For the treatment that the correlation affects most, the mean of its `trials` trials is only as precise as that of
    `counts_as` independent trials."""

    lag1: float
    p: float
    n: int
    trials: int
    counts_as: float

    @property
    def matters(self) -> bool:
        """True if the variance of a mean exceeds that of independent trials enough to be mentioned."""
        return self.trials > LEAST_FACTOR * self.counts_as


@dataclass(frozen=True, slots=True)
class TwoModes:
    """A second mode of a metric: `n` of its `trials` trials lie apart from the rest.

    `distance` is how far they lie from the other trials of their treatment: a ratio if `relative` (0.8 is 20 % lower),
    else in the unit of the metric. `sds` is this distance in standard deviations of the noise. `counts` has (treatment,
    number of its trials in the second mode, number of all its trials), the largest fraction first."""

    n: int
    trials: int
    distance: float
    relative: bool
    sds: float
    counts: tuple[tuple[Treatment, int, int], ...]


@dataclass(frozen=True, slots=True)
class LostTrials:
    """A treatment of which many trials have no valid value: `lost` of `trials` finished trials.

    `baseline_lost` counts the lost trials of its baseline. `summary` and `ratio` are those of the valid trials. `mean`
    and `bounds` (of the ratio to the baseline) span two cases: each lost trial was as low as the lowest valid trial of
    its treatment, or as high as the highest; for the ratio, lost trials of the baseline are at the opposite end. `mean`
    is None if the treatment has a single value; `bounds` is None if the treatment or its baseline has a single value.
    `holds` is whether the decision and the direction of the comparison are the same in both cases; None without a
    decision."""

    treatment: Treatment
    lost: int
    trials: int
    baseline_lost: int
    summary: Summary | None
    ratio: Estimate | None
    mean: Interval | None
    bounds: Interval | None
    holds: bool | None


@dataclass(frozen=True, slots=True)
class Headline:
    """The data for one sentence on a metric.

    `factor` is the factor that explains most of the variation, with the fraction `explained`; `widest` is the effect
    farthest from 1. `different`, `same` (not distinguishable) and `unknown` count the comparisons with each decision
    after correction."""

    factor: str | None
    explained: float | None
    widest: LevelEffect | None
    different: int
    same: int
    unknown: int


@dataclass(frozen=True, slots=True)
class MetricAnalysis:
    """The analysis of one metric.

    `n` is the number of values. `why_none` is the reason if `anova` is None. `floor` is the noise floor of a comparison
    of two treatments, as a fraction (0.03 is 3 %): equal treatments rarely differ by more. It is None if not known.
    `floor_note` says that the floor was scaled to another number of blocks; None if it was not. `bounded` is the number
    of treatments with values that are only lower bounds; all other results leave these treatments out. `log` is true if
    the model is of logarithms, so that effects multiply. `fraction` is the fraction of the design that was measured."""

    metric: Metric
    n: int
    anova: Anova | None
    why_none: Note | None
    notes: tuple[Note, ...]
    effects: tuple[LevelEffect, ...]
    interactions: tuple[Interaction, ...]
    comparisons: tuple[BaselineComparison, ...]
    correction: Correction
    pairs: tuple[FactorPairs, ...]
    drift: Drift | None
    serial: SerialDependence | None
    second_mode: TwoModes | None
    lost: tuple[LostTrials, ...]
    floor: float | None
    floor_note: Note | None
    headline: Headline
    bounded: int
    log: bool
    fraction: Fraction = FULL


@dataclass(frozen=True, slots=True)
class Analysis:
    """The analysis of every metric, in the order of the report; `confidence` is that of all intervals."""

    metrics: tuple[MetricAnalysis, ...]
    confidence: float

    @property
    def alpha(self) -> float:
        """The level of significance of every test."""
        return alpha_of(self.confidence)
