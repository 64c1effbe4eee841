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

    Both means are over the combinations of the other factors in which both levels were measured."""

    factor: str
    level: str
    reference: str
    given: tuple[tuple[str, str], ...]  # fixes a level of another factor for a simple effect; empty for a main effect
    # Of the two means; its family is all main effects of the metric, or all simple effects of one interaction.
    comparison: MeanComparison
    kinds: tuple[str, ...] = ()  # of marks on the values of both levels
    decision: Decision = "unknown"
    cells: int  # number of combinations in the means
    all_cells: int  # number of measured combinations of the other factors
    n: tuple[int, int]  # numbers of trials of the level and of the reference
    # Noise floor of this ratio, as a fraction: the noise floor of a comparison of two treatments, scaled to the number
    # of cells in the means. None if it is not known.
    floor: float | None = None
    under_floor: bool | None = None  # smaller than `floor`, which does not change the decision; None if `floor` is
    # Main effects and interactions of two factors that a fraction of the design measures together with this effect: all
    # numbers are then those of the sum of these effects.
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
    """Two factors, `given` and `shown`, whose effects depend on each other."""

    given: str
    shown: str
    explained: float  # fraction of the total variation that the interaction explains
    # The least p of the contrasts, corrected for the contrasts of all two-way interactions of the metric.
    p_adjusted: float
    effects: tuple[LevelEffect, ...]  # of `shown` at each level of `given`
    aliases: tuple[str, ...] = ()  # as in `LevelEffect`


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

    Each mean is over the combinations of the other factors in which both levels were measured. Pairs without such a
    combination are absent."""

    factor: str
    reference: str
    levels: tuple[str, ...]
    effects: Mapping[str, Pair]  # {level: its comparison with the reference}, in the family of main effects
    # {(level, other): comparison of level with other} for levels other than the reference, in the family of such pairs
    # of all factors.
    pairs: Mapping[tuple[str, str], Pair]
    strata: int  # the largest number of combinations in an effect
    all_strata: int  # number of combinations in the design
    left_out: tuple[str, ...] = ()  # levels without an effect
    floor: float | None = None  # noise floor of a comparison of two treatments, as a fraction; None if it is not known
    aliases: tuple[str, ...] = ()  # as in `LevelEffect`

    @property
    def others(self) -> tuple[str, ...]:
        """The levels other than the reference."""
        return tuple(level for level in self.levels if level != self.reference)

    def of(self, level: str, to: str = "") -> Pair:
        """Return the comparison of a level with `to`, by default the reference. Raises: KeyError without one."""
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

    One treatment is affected most: the mean of its `trials` trials is only as precise as a mean of `counts_as`
    independent trials."""

    lag1: float
    p: float
    n: int
    trials: int
    counts_as: float

    @property
    def matters(self) -> bool:
        """True if the correlation increases the variance of a mean enough to be mentioned."""
        return self.trials > LEAST_FACTOR * self.counts_as


@dataclass(frozen=True, slots=True)
class TwoModes:
    """A second mode of a metric: `n` of its `trials` trials differ from the rest by a common distance."""

    n: int
    trials: int
    distance: float  # from the other trials of the same treatment
    relative: bool  # `distance` is a ratio (0.8 is 20 % lower); else it is in the unit of the metric
    sds: float  # `distance` in standard deviations of the noise
    # (treatment, number of its trials in the second mode, number of all its trials), the largest fraction first.
    counts: tuple[tuple[Treatment, int, int], ...]


@dataclass(frozen=True, slots=True)
class LostTrials:
    """A treatment of which many trials have no valid value: `lost` of `trials` finished trials.

    `mean` and `bounds` span two cases: each lost trial was as low as the lowest valid trial of its treatment, or as
    high as the highest. For the ratio, lost trials of the baseline are at the opposite end."""

    treatment: Treatment
    lost: int
    trials: int
    baseline_lost: int  # number of lost trials of the baseline
    summary: Summary | None  # of the valid trials
    ratio: Estimate | None  # of the valid trials
    mean: Interval | None  # None if the treatment has a single value
    bounds: Interval | None  # of the ratio to the baseline; None if either has a single value
    # Whether decision and direction of the comparison are the same in both cases; None without a decision.
    holds: bool | None


@dataclass(frozen=True, slots=True)
class Headline:
    """The data for one sentence on a metric."""

    factor: str | None  # the factor that explains most of the variation
    explained: float | None  # fraction of the variation that `factor` explains
    widest: LevelEffect | None  # the effect farthest from 1
    different: int  # number of comparisons with this decision after correction; `same` and `unknown` alike
    same: int  # not distinguishable
    unknown: int


@dataclass(frozen=True, slots=True)
class MetricAnalysis:
    """The analysis of one metric.

    All results but `bounded` leave out treatments with values that are only lower bounds."""

    metric: Metric
    n: int  # number of values
    anova: Anova | None
    why_none: Note | None  # why `anova` is None
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
    # Noise floor of a comparison of two treatments, as a fraction (0.03 is 3 %): equal treatments rarely differ by
    # more. None if it is not known.
    floor: float | None
    floor_note: Note | None  # the floor was scaled to another number of blocks; None if it was not
    headline: Headline
    bounded: int  # number of treatments with values that are only lower bounds
    log: bool  # the model is of logarithms, so that effects multiply
    fraction: Fraction = FULL  # of the design that was measured


@dataclass(frozen=True, slots=True)
class Analysis:
    """The analysis of every metric, in the order of the report; all intervals have the same `confidence`."""

    metrics: tuple[MetricAnalysis, ...]
    confidence: float

    @property
    def alpha(self) -> float:
        """The level of significance of every test."""
        return alpha_of(self.confidence)
