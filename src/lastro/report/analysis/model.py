"""What the analysis of a campaign found, as frozen data: one `MetricAnalysis` for each metric of the report.

What could not be worked out is None or empty, and a `Note` beside it says why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lastro.results.samples import Metric

if TYPE_CHECKING:
    from lastro.stats.anova import Anova, Welch
    from lastro.stats.comparisons import Comparison
    from lastro.stats.contrasts import Contrast
    from lastro.stats.differences import Difference
    from lastro.stats.drift import Drift
    from lastro.stats.intervals import Interval
    from lastro.stats.notes import Note
    from lastro.stats.order import Estimate
    from lastro.stats.ranks import RankTest
    from lastro.stats.ratios import Ratio
    from lastro.stats.residual_checks import Checks
    from lastro.stats.simultaneous import Pair
    from lastro.stats.usl import Usl
    from lastro.study.design import Treatment

Decision = Literal["different", "same", "unknown"]
Correction = Literal["holm", "benjamini-hochberg"]


@dataclass(frozen=True, slots=True)
class LevelEffect:
    """A level of a factor against the factor's reference level, over the cells of the other factors in which both were

    measured: `cells` of `all_cells`. `given` fixes a level of another factor, for a simple effect; empty for a main
    effect. `ratio` is of the two means; `difference` is in the metric's unit and has the p-value, which
    `p_adjusted` corrects (Holm) for all main effects of the metric, or all simple effects of one interaction. `n`
    counts the trials of the level and of the reference. `floor` is the noise floor of this ratio, a share: that of one
    treatment against one, scaled to means over so many; it and `under_floor` are None when no noise floor is known.
    `kinds` are those of the marks on the numbers of either level."""

    factor: str
    level: str
    reference: str
    given: tuple[tuple[str, str], ...]
    ratio: Contrast
    difference: Contrast
    p_adjusted: float | None
    cells: int
    all_cells: int
    n: tuple[int, int]
    floor: float | None = None
    under_floor: bool | None = None
    decision: Decision = "unknown"
    kinds: tuple[str, ...] = ()

    @property
    def distance(self) -> float:
        """How far the ratio is from 1, as a logarithm: a half is as far as a double; 0 where there is none."""
        value = self.ratio.value
        if value is None or not math.isfinite(value):
            return 0.0
        return abs(math.log(value)) if value > 0 else math.inf


@dataclass(frozen=True, slots=True)
class Interaction:
    """Two factors whose effects depend on each other: what it explains of all variation, its p and p adjusted over the

    two-way interactions of the metric, and the effects of `shown` at each level of `given` that make it visible."""

    given: str
    shown: str
    explained: float
    p: float | None
    p_adjusted: float | None
    effects: tuple[LevelEffect, ...]


@dataclass(frozen=True, slots=True)
class RankTwin:
    """The distribution-free view of a comparison: Wilcoxon's signed ranks where paired, Mann and Whitney's else.

    `shift` is Hodges and Lehmann's, treatment minus baseline, in the metric's unit; `delta` is Cliff's, from -1 to 1.
    `can_reject` is whether so few trials could ever reach the level of significance."""

    p: float
    shift: float
    shift_interval: Interval | None
    delta: float
    delta_interval: Interval | None
    can_reject: bool


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """A treatment against its baseline. `agrees` is whether t and rank test, both uncorrected, decide alike; None where

    the rank test cannot decide, and `no_twin` says why. `under_floor` is None when no noise floor is known."""

    treatment: Treatment
    baseline: Treatment
    ratio: Ratio | None
    difference: Difference | None
    p: float | None
    p_adjusted: float | None
    ranks: RankTwin | None
    agrees: bool | None
    no_twin: Note | None
    under_floor: bool | None
    decision: Decision


@dataclass(frozen=True, slots=True)
class LevelPairs:
    """Every pair of levels of one factor, the other factors removed: values are a level's mean in each block.

    Tukey's honest significant difference with the blocks in the model; where variances differ, differences within
    blocks with p by Holm and intervals at Bonferroni's confidence."""

    factor: str
    method: Literal["tukey-hsd", "paired-holm"]
    n_blocks: int
    means: Mapping[str, float]
    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True, slots=True)
class FactorPairs:
    """`pairs` are {(level, other): level against other}; empty where no two blocks have values of all levels.

    They are of the means over `strata` of `all_strata` combinations of the other factors in the design: those in which
    every level was measured. `left_out` are levels with too few valid trials. `floor` is the noise floor of such a
    ratio, a share; None where none is known."""

    factor: str
    reference: str
    levels: tuple[str, ...]
    pairs: Mapping[tuple[str, str], Pair]
    strata: int
    all_strata: int
    left_out: tuple[str, ...] = ()
    floor: float | None = None

    @property
    def others(self) -> tuple[str, ...]:
        """The levels that are set against the reference."""
        return tuple(level for level in self.levels if level != self.reference)

    def of(self, level: str) -> Pair:
        """The level against the reference. Raises: KeyError where `pairs` is empty."""
        return self.pairs[level, self.reference]

    def differs(self, level: str) -> bool:
        """Whether the level differs from the reference, by no less than the noise floor."""
        return self.of(level).differs and not self.hidden(level)

    def hidden(self, level: str) -> bool:
        """Whether its difference from the reference lies below the noise floor."""
        pair = self.of(level)
        return self.floor is not None and pair.relative and abs(pair.value - 1) < self.floor


@dataclass(frozen=True, slots=True)
class CountScaling:
    """The Universal Scalability Law through the trials of one combination of the other factors' levels; `points` are

    (count, value) of every trial."""

    factor: str
    levels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]
    fit: Usl


@dataclass(frozen=True, slots=True)
class Omnibus:
    """Whether the treatments differ at all, without the assumption of one spread (Welch), or of any (Kruskal-Wallis).

    Blocks are not allowed for, so both see less than the analysis of variance."""

    welch: Welch
    ranks: RankTest


@dataclass(frozen=True, slots=True)
class Headline:
    """What a sentence on the metric says: the factor that explains most, the widest effect, and comparisons by decision

    after correction: different, indistinguishable (`same`), unknown."""

    factor: str | None
    explained: float | None
    widest: LevelEffect | None
    different: int
    same: int
    unknown: int


@dataclass(frozen=True, slots=True)
class MetricAnalysis:
    """Everything of one metric.

    `floor` is a share (0.03: 3 %): of one treatment against one, smaller differences are noise; None when it is not
    known. `floor_note` says what was made of it, if anything. `medians` are of every treatment that was measured.
    `bounded` treatments stay out of all else, as they are known by a lower bound only. `joint` are the pairs of levels
    that key findings tell."""

    metric: Metric
    n: int
    anova: Anova | None
    why_none: Note | None
    effects: tuple[LevelEffect, ...]
    interactions: tuple[Interaction, ...]
    comparisons: tuple[BaselineComparison, ...]
    correction: Correction
    pairs: tuple[LevelPairs, ...]
    checks: Checks | None
    drift: Drift | None
    scaling: tuple[CountScaling, ...]
    headline: Headline
    notes: tuple[Note, ...]
    floor: float | None = None
    floor_note: Note | None = None
    omnibus: Omnibus | None = None
    medians: tuple[tuple[Treatment, Estimate], ...] = ()
    bounded: int = 0
    joint: tuple[FactorPairs, ...] = ()

    @property
    def log(self) -> bool:
        """Whether the analysis of variance is of logarithms, in which effects multiply."""
        return self.anova is not None and self.anova.log


@dataclass(frozen=True, slots=True)
class Analysis:
    """One entry for each metric of the report, in its order; `alpha` is the level of significance of every test."""

    metrics: tuple[MetricAnalysis, ...]
    confidence: float

    @property
    def alpha(self) -> float:
        return 1 - self.confidence
