"""Advise how many blocks the next campaign needs for a desired precision. Pure.

The precision of an interval is half its width, as a fraction of the estimate. The intervals are those that the report
of the next campaign will show: simultaneous intervals of the ratios to the baseline or, without a baseline, intervals
of the means. The advised number is enough for all ratios of a metric together, and allows for the uncertainty of this
campaign's spread (`stats.blocks_needed`). It assumes that the means, the scale of the model and the fraction of lost
trials do not change."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lastro.analysis.campaign import CampaignResults, MeasuredIn, MetricView, Row
from lastro.results.samples import Metric
from lastro.stats.contrasts import log_ratio
from lastro.stats.intervals import t_quantile
from lastro.stats.notes import N_, Note
from lastro.stats.resolution import rounding_of_mean
from lastro.stats.simultaneous import most_blocks
from lastro.stats.stopping import relative_half_width

if TYPE_CHECKING:
    from lastro.analysis.decision import SlaDecision
    from lastro.stats.blocks_needed import PilotInterval, SufficientBlocks

PRECISION = 0.05
LIKELY, SURE = 0.5, 0.8  # probabilities that the advised number of blocks is enough
PROBABLE = 0.9  # probability that `low` to `high` contains the number of blocks that the true noise requires
VAGUE = 10.0  # a campaign is too small if `low` and `high` differ by a larger factor
_NO_SPREAD = N_("no treatment has two valid trials and a mean other than zero")
_CONSTANT = N_("nothing varied between blocks")


@dataclass(frozen=True, slots=True)
class BlocksAdvice:
    """The number of blocks with which all intervals of a metric are narrow enough."""

    intervals: int  # number of intervals
    n: int  # number of blocks measured so far
    half_width: float  # largest relative half width of the intervals so far; infinite if an interval is missing
    likely: SufficientBlocks  # number of blocks that is enough with probability `LIKELY`
    sure: SufficientBlocks  # number of blocks that is enough with probability `SURE`
    # With probability `PROBABLE`, the true noise requires `low` to `high` blocks; None for an end above a million.
    low: int | None
    high: int | None
    widest: str  # label of the treatment whose interval is most probably too wide with `likely` blocks

    @property
    def vague(self) -> bool:
        """True if the campaign is too small to estimate the number: `high` exceeds `VAGUE` times `low`, or is None."""
        return self.low is None or self.high is None or self.high > VAGUE * self.low


@dataclass(frozen=True, slots=True)
class MetricAdvice:
    """The number of blocks that one metric needs, or the reason why it is not known.

    `precision` is the desired relative half width. `blocks` is None if the spread of the metric is not known; then
    `absent_because` is the reason."""

    metric: Metric
    precision: float
    blocks: BlocksAdvice | None
    absent_because: Note | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice on the number of blocks for each metric."""

    directory: str
    title: str
    # The desired relative half width: for metrics without a margin in the study or, if the user gave it, for all
    # metrics.
    precision: float
    confidence: float
    of_ratio: bool  # the precision is that of ratios to the baseline; else of means
    replicates: int
    # Duration of a block of this campaign, with repetitions of invalid trials; None before a trial has finished.
    block_s: float | None
    metrics: tuple[MetricAdvice, ...]
    guest: MeasuredIn | None = None  # the virtual machine in which the campaign ran; None for a real host

    @property
    def likely_blocks(self) -> int | None:
        """The blocks that suffice with probability `LIKELY` for each metric whose spread is known.

        None if the spread of no metric is known, or if a metric needs more than a million blocks."""
        return most_blocks([metric.blocks.likely.blocks for metric in self.metrics if metric.blocks])

    @property
    def sure_blocks(self) -> int | None:
        """The blocks that suffice with probability `SURE`; as for `likely_blocks`."""
        return most_blocks([metric.blocks.sure.blocks for metric in self.metrics if metric.blocks])

    @property
    def unknown(self) -> tuple[str, ...]:
        """The names of the metrics whose spread is not known."""
        return tuple(metric.metric.name for metric in self.metrics if metric.blocks is None)

    @property
    def vague(self) -> tuple[str, ...]:
        """The names of the metrics for which this campaign is too small to estimate the number of blocks."""
        return tuple(metric.metric.name for metric in self.metrics if metric.blocks and metric.blocks.vague)

    def duration_s(self, blocks: int | None) -> float | None:
        """Return the duration of this many blocks, in seconds; None if `blocks` or `block_s` is None."""
        return None if blocks is None or self.block_s is None else blocks * self.block_s


def advise(report: CampaignResults, precision: float | None = None) -> Advice:
    """Return how many blocks each metric of the report needs for intervals of this precision.

    `precision` is the desired relative half width, above zero: 0.05 for ± 5 %. By default, it is the margin of each
    metric in the study, so that changes that matter are distinguishable, and `PRECISION` for other metrics."""
    margins = report.study.margins if precision is None else {}
    precision = PRECISION if precision is None else precision
    of_ratio = any(cell.ratio is not None for row in report.rows for cell in row.cells)
    return Advice(
        directory=report.directory,
        title=report.study.title or report.study.name,
        precision=precision,
        confidence=report.study.design.confidence,
        of_ratio=of_ratio,
        replicates=report.study.design.replicates,
        block_s=_block_s(report, report.rows),
        metrics=tuple(
            _metric_advice(view, margins.get(view.metric.name, precision), of_ratio) for view in report.views
        ),
        guest=report.guest,
    )


def _block_s(report: CampaignResults, rows: Sequence[Row]) -> float | None:
    """Return the seconds of a block with these treatments, by the mean time of finished trials; None before any."""
    counts = report.progress.counts
    ended = counts.get("valid", 0) + counts.get("invalid", 0)
    runnable = sum(row.status != "unavailable" for row in rows)
    return report.progress.measured_s / ended * runnable if ended else None


# Advice on a decision


@dataclass(frozen=True, slots=True)
class OpenCandidate:
    """An undecided candidate, and the number of additional blocks that are needed to decide on it.

    `likely` and `sure` are the numbers that suffice with probability `LIKELY` and `SURE`; None above 1,000. `holds` is
    the probability that the candidate holds all service levels."""

    label: str
    holds: float
    likely: int | None
    sure: int | None


@dataclass(frozen=True, slots=True)
class DecisionAdvice:
    """The numbers of blocks that a decision by service levels still needs.

    `open` has the undecided candidates: all of them or, if a candidate is recommended, only those that may cost less
    than it. `block_s` is the duration in seconds of a block of all treatments that still get trials; None before any
    trial has finished."""

    decision: SlaDecision
    open: tuple[OpenCandidate, ...]
    block_s: float | None


def advise_on_decision(decision: SlaDecision) -> DecisionAdvice:
    """Return how many more blocks are needed to decide on each open candidate that can change the recommendation."""
    choice = decision.choice
    relevant = [at for at in decision.order() if choice.verdict(at) == "open"]
    if choice.recommended is not None:
        relevant = [at for at in relevant if at in choice.open_cheaper]
    candidates = []
    for at in relevant:
        likely, sure = (decision.more_blocks(chance, at) for chance in (LIKELY, SURE))
        candidates.append(OpenCandidate(decision.candidates[at].label, choice.odds[at].holds, likely, sure))
    rows = [row for row in decision.report.rows if decision.candidate_of(row.treatment) not in decision.without_trials]
    return DecisionAdvice(decision, tuple(candidates), _block_s(decision.report, rows))


# Advice on a precision


# (label of a treatment, relative half width of its interval here, the interval for `stats.blocks_needed`; None if the
# noise of the treatment is not known)
_TreatmentInterval = tuple[str, float, "PilotInterval | None"]


def _metric_advice(view: MetricView, precision: float, of_ratio: bool) -> MetricAdvice:
    """Return the number of blocks that a metric needs for this precision of its ratios (if `of_ratio`) or means."""
    treatments = list(_ratios(view) if of_ratio else _means(view))
    known = [(label, interval) for label, _, interval in treatments if interval is not None]
    varying = [(label, interval) for label, interval in known if interval.error > 0]
    if not varying:
        return MetricAdvice(view.metric, precision, None, Note(_CONSTANT if known else _NO_SPREAD))
    from lastro.stats.blocks_needed import blocks_needed

    intervals, wanted = [interval for _, interval in varying], math.asinh(precision) if of_ratio else precision
    needed = blocks_needed(intervals, view.n_blocks, wanted, (LIKELY, SURE), PROBABLE)
    half_width, widest = max(here for _, here, _ in treatments), varying[needed.widest][0]
    likely, sure = needed.enough
    blocks = BlocksAdvice(len(treatments), view.n_blocks, half_width, likely, sure, needed.low, needed.high, widest)
    return MetricAdvice(view.metric, precision, blocks)


def _ratios(view: MetricView) -> Iterator[_TreatmentInterval]:
    """Yield each treatment with the interval of the logarithm of its ratio to the baseline, by the model."""
    from lastro.stats.blocks_needed import PilotInterval

    for row, cell in view:
        if cell.comparison is None or not cell.comparison.ratio.value or view.model is None or row.baseline is None:
            continue
        ratio, critical = cell.comparison.ratio, cell.comparison.critical
        gap = log_ratio(view.model, {row.treatment.index: 1.0}, {row.baseline.index: 1.0})
        interval = None
        if gap is not None and gap.error is not None and ratio.df and critical is not None:
            interval = PilotInterval(gap.error, ratio.df, critical, gap.bias)
        yield row.treatment.label, relative_half_width(ratio.value, ratio.interval), interval


def _means(view: MetricView) -> Iterator[_TreatmentInterval]:
    """Yield each treatment with the interval of its mean, computed from the values of this treatment only."""
    from lastro.stats.blocks_needed import PilotInterval

    for row, cell in view:
        summary = cell.summary
        if summary is None or cell.bounded or not summary.mean:
            continue
        interval = None
        if summary.sd is not None:
            size, df = abs(summary.mean), summary.n - 1
            error = summary.sd / math.sqrt(summary.n)
            rounding = rounding_of_mean(summary.sd, view.step, summary.n, view.confidence)
            interval = PilotInterval(error / size, df, t_quantile(view.confidence, df), rounding / size)
        yield row.treatment.label, relative_half_width(summary.mean, summary.interval), interval
