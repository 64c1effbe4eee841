"""The comparison of two campaigns of one study, as frozen data: cells, differences, the outcome of the gate. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

from lastro.analysis.campaign import CAMPAIGNS_IN, CampaignResults, Cell, MeasuredIn, Row
from lastro.analysis.noise_floor import BetweenCampaigns, seconds_between
from lastro.analysis.verdicts import Verdict, verdict_on_change
from lastro.results.samples import Metric
from lastro.stats.autocorrelation import LEAST_FACTOR
from lastro.stats.intervals import Estimate, alpha_of
from lastro.stats.margins import GateTest, RatioTest
from lastro.stats.notes import Note
from lastro.stats.sampled_mean import SampledMean
from lastro.study.margins import Margins
from lastro.study.model import Level, Study

Levels = tuple[tuple[str, Level], ...]
Side = Literal["A", "B"]
Outcome = Literal["regressed", "shown", "undecided", ""]


class MissingSide(NamedTuple):
    """A side of a comparison whose cell cannot be compared: it has no values, or some are only lower bounds."""

    side: Side
    row: Row
    cell: Cell


@dataclass(frozen=True, slots=True)
class ComparedCell:
    """One treatment and metric in both campaigns: their values, the ratio of their means, and its test."""

    metric: Metric
    levels: Levels
    a: tuple[float, ...]  # a value for each valid trial, in the unit of the metric; `b` alike
    b: tuple[float, ...]
    # None if a side is absent or the mean of A is negative; without a value if the mean of A is zero.
    ratio: Estimate | None
    test: RatioTest | None  # of no difference, even if the mean of A is negative or zero; None if nothing was tested
    absent: tuple[MissingSide, ...] = ()  # the sides without comparable values
    no_test: Note | None = None  # why existing values cannot be tested; None if they can
    p_adjusted: float | None = None  # p-value of `test`, corrected for all cells
    # The result of the gate, with its `margin`; None without a gate, for an untested cell, or if the metric has no
    # better direction.
    judged: GateTest | None = None
    margin: float = 0.0
    lost: bool = False  # whether A has values for this treatment and B has none
    alpha: float = 0.05
    # Factors by which the variances of the means of A and of B grow, because consecutive trials are correlated
    # (`trends.TrialOrder`).
    factors: tuple[float, ...] = (1.0, 1.0)
    # Of A and of B, both divided by a common power of two; None if the values are not comparable.
    means: tuple[SampledMean, SampledMean] | None = None
    marks: tuple[frozenset[str], ...] = (frozenset(), frozenset())  # kinds of remarks on the values of A and of B

    @property
    def regressed(self) -> bool:
        return self.judged is not None and self.judged.regressed

    @property
    def least_found(self) -> float:
        """The smallest loss that the gate would have detected with a power of 80 %, as a fraction.

        Infinite if the gate might miss a loss of any size, or does not judge this cell."""
        return math.inf if self.judged is None else self.judged.least_found

    @property
    def outcome(self) -> Outcome:
        """The outcome of the gate for this cell; empty where it does not judge.

        "regressed" if the cell regressed, "shown" if the interval of the ratio excludes a loss of more than the margin
        (the absence of a regression is shown), else "undecided"."""
        if self.judged is None:
            return ""
        if self.judged.regressed:
            return "regressed"
        is_excluded = self.allowed_loss is not None and self.allowed_loss <= self.margin
        return "shown" if is_excluded else "undecided"

    @property
    def verdict(self) -> Verdict:
        """How B differs from A by the corrected p-value: "worse", "same" and so on; empty where nothing was tested."""
        if self.p_adjusted is None or self.test is None:
            return ""
        if self.p_adjusted > self.alpha:
            return "same"
        # Take the direction from the test: a mean of zero has no ratio.
        return verdict_on_change(self.metric, math.inf if self.test.t > 0 else 0.0)

    @property
    def loss(self) -> float:
        """The loss from A to B, as a logarithm, positive if B is worse: a sort key for cells.

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
        """The largest relative loss in the interval of the ratio; infinite without an interval, None if not judged."""
        if self.judged is None or self.ratio is None or self.ratio.value is None:
            return None
        if self.ratio.interval is None:
            return math.inf
        return self.ratio.interval.high - 1 if self.metric.better == "lower" else 1 - self.ratio.interval.low


@dataclass(frozen=True, slots=True)
class UnmatchedTreatments:
    """Treatments of one campaign that the other campaign does not have.

    `levels` has the levels of each of these treatments. `lacking` are the levels among them that the other campaign
    does not have at all. If it is empty, the other campaign has all levels, but not in these combinations."""

    only_in: Side
    levels: tuple[Levels, ...]
    lacking: Levels


class CampaignDifference(NamedTuple):
    """A difference between the campaigns in provenance, settings or design.

    `what` names the item that differs. `a` and `b` are its values in campaigns A and B; None if a campaign lacks it."""

    kind: Literal["provenance", "profile", "setting", "design"]
    what: str
    a: str | None
    b: str | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of two campaigns, A and B."""

    a: CampaignResults
    b: CampaignResults
    metrics: tuple[Metric, ...]
    cells: tuple[ComparedCell, ...]  # from worst to best; cells that could not be compared come last
    one_sided: tuple[UnmatchedTreatments, ...]  # treatments that only one campaign has
    differences: tuple[CampaignDifference, ...]
    confidence: float
    margins: Margins | None  # of the gate; None without a gate
    # Spread between equal campaigns that A has stored, or else B; None if neither has.
    between: BetweenCampaigns | None = None
    # Differences between the hosts that make the gate fail; None if the gate does not judge hosts.
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
        """{(campaign, metric): largest variance factor of a cell}, where consecutive trials correlate noticeably."""
        largest: dict[tuple[Side, Metric], float] = {}
        for cell in self.cells:
            for (side, _), factor in zip(self.sides, cell.factors, strict=True):
                largest[side, cell.metric] = max(factor, largest.get((side, cell.metric), 1.0))
        return {at: factor for at, factor in largest.items() if factor > LEAST_FACTOR}

    @property
    def judged_margins(self) -> dict[str, float]:
        """{name of a metric that the gate judges: its margin}; empty without a gate."""
        return self.margins.judged(self.metrics) if self.margins else {}

    @property
    def n_judged(self) -> int:
        return sum(cell.judged is not None for cell in self.cells)

    @property
    def not_judged(self) -> tuple[ComparedCell, ...]:
        """The cells that the gate could not judge, of metrics with a better direction; empty without a gate."""
        if self.margins is None:
            return ()
        return tuple(cell for cell in self.cells if cell.judged is None and cell.metric.better != "neither")

    @property
    def most_allowed(self) -> tuple[float, ComparedCell] | None:
        """The largest loss, as a fraction, that the interval of some cell does not exclude, and that cell.

        None without a gate, or if every interval excludes any loss."""
        losses = [(loss, cell) for cell in self.cells if (loss := cell.allowed_loss) is not None and loss > 0]
        return max(losses, key=lambda loss_and_cell: loss_and_cell[0], default=None)

    @property
    def sensitivity(self) -> tuple[ComparedCell, ...]:
        """The cells that the gate judges, in ascending order of the loss that the gate can detect in them."""
        return tuple(sorted((cell for cell in self.cells if cell.judged), key=lambda cell: cell.least_found))

    @property
    def undecided(self) -> tuple[ComparedCell, ...]:
        """The cells that may have regressed: their outcome is "undecided", or the gate could not judge them."""
        return (*(cell for cell in self.cells if cell.outcome == "undecided"), *self.not_judged)

    @property
    def outcome(self) -> Outcome:
        """The outcome: "regressed" if any cell is, else "undecided" if any is, else "shown"; empty without a gate."""
        if self.margins is None:
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
