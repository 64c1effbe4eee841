"""The comparison of two campaigns of one study, as frozen data: cells, differences, the outcome of the gate. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

from lastro.analysis.campaign import CAMPAIGNS_IN, CampaignResults, Cell, MeasuredIn, Row
from lastro.analysis.campaign_spread import BetweenCampaigns, seconds_between
from lastro.analysis.verdicts import Verdict, direction
from lastro.results.samples import Metric
from lastro.stats.autocorrelation import LEAST_FACTOR
from lastro.stats.intervals import Estimate, alpha_of
from lastro.stats.margins import GateTest, RatioTest
from lastro.stats.notes import Note
from lastro.stats.sampled import SampledMean
from lastro.study.model import Level, Study

Levels = tuple[tuple[str, Level], ...]
Side = Literal["A", "B"]
Outcome = Literal["regressed", "shown", "undecided", ""]


class MissingSide(NamedTuple):
    """A campaign whose cell cannot be compared: it has no values, or some are only lower bounds."""

    side: Side
    row: Row
    cell: Cell


@dataclass(frozen=True, slots=True)
class ComparedCell:
    """One treatment and metric in both campaigns: their values, the ratio of their means, and its test.

    `a` and `b` have one value for each valid trial, in the unit of the metric. `ratio` is None if the mean of A is
    negative; if that mean is zero, the ratio has no value. Both cases are tested as differences. `absent` lists the
    campaigns that lack comparable values. `no_test` is the reason why existing values cannot be tested, if any.
    `p_adjusted` is corrected for all cells. `judged` is the result of the gate, with its `margin`; None without a gate,
    or if the metric has no better direction. `lost` is true if A has values for this treatment and B has none.
    `factors` multiply the variances of the means of A and of B, because neighbouring trials are correlated
    (`trends.TrialOrder`). `means` are these means, both divided by a common power of two; None where a campaign lacks
    comparable values. `marks` are the kinds of remarks on the values of A and of B."""

    metric: Metric
    levels: Levels
    a: tuple[float, ...]
    b: tuple[float, ...]
    ratio: Estimate | None
    test: RatioTest | None
    absent: tuple[MissingSide, ...] = ()
    no_test: Note | None = None
    p_adjusted: float | None = None
    judged: GateTest | None = None
    margin: float = 0.0
    lost: bool = False
    alpha: float = 0.05
    factors: tuple[float, ...] = (1.0, 1.0)
    means: tuple[SampledMean, SampledMean] | None = None
    marks: tuple[frozenset[str], ...] = (frozenset(), frozenset())

    @property
    def regressed(self) -> bool:
        return self.judged is not None and self.judged.regressed

    @property
    def least_found(self) -> float:
        """The least loss that the gate would have found with a power of 80 %; infinite if it might miss any loss."""
        return math.inf if self.judged is None else self.judged.least_found

    @property
    def outcome(self) -> Outcome:
        """The outcome of the gate for this cell; empty where it does not judge.

        "regressed", or "shown" if the interval of the ratio excludes a loss of more than the margin, or "undecided"."""
        if self.judged is None:
            return ""
        if self.judged.regressed:
            return "regressed"
        is_excluded = self.allowed_loss is not None and self.allowed_loss <= self.margin
        return "shown" if is_excluded else "undecided"

    @property
    def verdict(self) -> Verdict:
        """The verdict by the corrected p; empty where nothing was tested."""
        if self.p_adjusted is None or self.test is None:
            return ""
        if self.p_adjusted > self.alpha:
            return "same"
        # Take the direction from the test: a mean of zero has no ratio.
        return direction(self.metric, math.inf if self.test.t > 0 else 0.0)

    @property
    def loss(self) -> float:
        """The loss from A to B, as a logarithm: positive if B is worse; a sort key of the comparison.

        It is infinite if a mean is zero, and minus infinity if nothing was tested. If the metric has no better
        direction, it is the absolute change."""
        value = self.ratio.value if self.ratio is not None else None
        if value is not None and value > 0:
            change = math.log(value)
        elif self.test is None:
            return -math.inf
        else:
            change = math.copysign(math.inf, self.test.t) if self.test.t else 0.0
        return {"lower": change, "higher": -change, "neither": abs(change)}[self.metric.better]

    @property
    def allowed_loss(self) -> float | None:
        """The largest relative loss that is within the interval of the ratio; infinite if the interval is unbounded.

        None if the gate does not judge this cell, or if it has no ratio."""
        if self.judged is None or self.ratio is None or self.ratio.value is None:
            return None
        if self.ratio.interval is None:
            return math.inf
        return self.ratio.interval.high - 1 if self.metric.better == "lower" else 1 - self.ratio.interval.low


@dataclass(frozen=True, slots=True)
class UnmatchedTreatments:
    """Treatments of one campaign that the other campaign does not have.

    `lacking` are the levels that the other campaign lacks. If it is empty, the other campaign has all of their levels
    but excludes these combinations of them."""

    only_in: Side
    levels: tuple[Levels, ...]
    lacking: Levels


class CampaignDifference(NamedTuple):
    """A difference between the campaigns in provenance, settings or design.

    `a` and `b` are the values of the item `what`; None where a campaign does not have it."""

    kind: Literal["provenance", "profile", "setting", "design"]
    what: str
    a: str | None
    b: str | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of two campaigns, A and B.

    `cells` are in order from worst to best; cells that could not be compared come last. `between` is the spread between
    equal campaigns that A has stored, or else B; None where neither has. `changed_host` are the differences between the
    hosts that fail the gate; None unless it judges them."""

    a: CampaignResults
    b: CampaignResults
    metrics: tuple[Metric, ...]
    cells: tuple[ComparedCell, ...]
    one_sided: tuple[UnmatchedTreatments, ...]
    differences: tuple[CampaignDifference, ...]
    confidence: float
    margin: float | None
    between: BetweenCampaigns | None = None
    changed_host: tuple[CampaignDifference, ...] | None = None

    @property
    def apart_s(self) -> float | None:
        """The time between the starts of the two campaigns, in seconds; None if it is not known."""
        return seconds_between(self.a.progress.first_utc, self.b.progress.first_utc)

    @property
    def without_spread(self) -> tuple[Metric, ...]:
        """The metrics whose spread between equal campaigns is not known."""
        known = self.between.spreads if self.between else {}
        return tuple(metric for metric in self.metrics if metric.name not in known)

    @property
    def study(self) -> Study:
        return self.a.study

    @property
    def sides(self) -> tuple[tuple[Side, CampaignResults], ...]:
        return ("A", self.a), ("B", self.b)

    @property
    def guest(self) -> MeasuredIn | None:
        """The guests among both campaigns; None if both ran on real hosts."""
        return MeasuredIn.among([self.a.guest, self.b.guest], CAMPAIGNS_IN)

    @property
    def alpha(self) -> float:
        return alpha_of(self.confidence)

    @property
    def n_tests(self) -> int:
        return sum(cell.p_adjusted is not None for cell in self.cells)

    @property
    def dependent(self) -> dict[tuple[Side, Metric], float]:
        """{(campaign, metric): the largest factor}, where neighbouring trials are correlated enough to matter."""
        largest: dict[tuple[Side, Metric], float] = {}
        for cell in self.cells:
            for (side, _), factor in zip(self.sides, cell.factors, strict=True):
                largest[side, cell.metric] = max(factor, largest.get((side, cell.metric), 1.0))
        return {at: factor for at, factor in largest.items() if factor > LEAST_FACTOR}

    @property
    def n_judged(self) -> int:
        return sum(cell.judged is not None for cell in self.cells)

    @property
    def not_judged(self) -> tuple[ComparedCell, ...]:
        """The cells that the gate could not judge, of metrics with a better direction; empty without a gate."""
        if self.margin is None:
            return ()
        return tuple(cell for cell in self.cells if cell.judged is None and cell.metric.better != "neither")

    @property
    def most_allowed(self) -> tuple[float, ComparedCell] | None:
        """The largest loss that the interval of a cell does not exclude, as a fraction, and that cell.

        None if all intervals exclude any loss, or without a gate."""
        losses = [(loss, cell) for cell in self.cells if (loss := cell.allowed_loss) is not None and loss > 0]
        return max(losses, key=lambda loss_and_cell: loss_and_cell[0], default=None)

    @property
    def sensitivity(self) -> tuple[ComparedCell, ...]:
        """The cells that the gate judges, the smallest detectable loss first."""
        return tuple(sorted((cell for cell in self.cells if cell.judged), key=lambda cell: cell.least_found))

    @property
    def undecided(self) -> tuple[ComparedCell, ...]:
        """The cells that may have regressed: their outcome is "undecided", or the gate could not judge them."""
        return (*(cell for cell in self.cells if cell.outcome == "undecided"), *self.not_judged)

    @property
    def outcome(self) -> Outcome:
        """The outcome of the gate: regressed if any cell is, and undecided if any other is; empty without a gate."""
        if self.margin is None:
            return ""
        if self.regressions:
            return "regressed"
        return "undecided" if self.undecided else "shown"

    @property
    def regressions(self) -> tuple[ComparedCell, ...]:
        return tuple(cell for cell in self.cells if cell.regressed)

    @property
    def lost(self) -> tuple[ComparedCell, ...]:
        """The cells that have values in A and none in B."""
        return tuple(cell for cell in self.cells if cell.lost)
