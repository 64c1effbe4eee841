"""Advise how many blocks the next campaign needs for a desired precision, and whether longer trials would help. Pure.

Precision is half the width of an interval that the report of the next campaign prints, as a fraction of its estimate:
of the ratios to the baseline, which hold together, or without a baseline of the means. The advice is for all ratios of
a metric together, and takes into account how uncertain the spread of this campaign is (`stats.blocks_needed`). It
assumes that means, effects of blocks, and the scale of the model stay as they are, and that no trial is lost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING

from lastro.analysis.campaign import CampaignResults, MeasuredIn, MetricView, Point
from lastro.results.samples import Metric, Series
from lastro.stats.intervals import sample_mean, unit_of
from lastro.stats.notes import N_, Note
from lastro.stats.replication import optimum_repetitions, variance_components
from lastro.stats.stopping import relative_half_width

if TYPE_CHECKING:
    from lastro.analysis.decision import SlaDecision
    from lastro.stats.blocks_needed import SufficientBlocks
    from lastro.stats.future_widths import Intervals
    from lastro.stats.noise_posterior import Residuals

LIKELY, SURE = 0.5, 0.8  # probabilities that the advised number of blocks is enough
PROBABLE = 0.9  # that the interval holds the number which the true noise requires
VAGUE = 10.0  # a pilot that leaves the number uncertain by a larger factor is too small
# The setting for how long a series is sampled.
_LENGTHS = {"throughput": "tcp_s", "rtt": "ping_s"}
_NO_SPREAD = N_("no treatment has two valid trials and a mean other than zero")
_CONSTANT = N_("nothing varied between blocks")
_SAME = 0.01  # a metric is the mean of a series if the two differ by at most this fraction in every trial

SeriesByAttempt = Mapping[tuple[int, int], Sequence[Series]]  # (trial, attempt): its series


@dataclass(frozen=True, slots=True)
class BlocksAdvice:
    """The number of blocks with which all `intervals` of a metric are narrow enough.

    `n` is the number of blocks measured so far, and `now` the largest relative half width of their intervals; infinite
    if one is missing. `likely` and `sure` are enough with these probabilities. `low` to `high` is the interval of the
    number that the true noise requires, with a probability of `PROBABLE`; None above a million. `widest` is the
    treatment that most probably decides."""

    intervals: int
    n: int
    now: float
    likely: SufficientBlocks
    sure: SufficientBlocks
    low: int | None
    high: int | None
    widest: str

    @property
    def vague(self) -> bool:
        """True if this campaign is too small to know the number."""
        return self.low is None or self.high is None or self.high > VAGUE * self.low


@dataclass(frozen=True, slots=True)
class MetricAdvice:
    """The number of blocks that one metric needs: None if the spread is not known, for the reason `absent_because`."""

    metric: Metric
    blocks: BlocksAdvice | None
    absent_because: Note | None = None


@dataclass(frozen=True, slots=True)
class Split:
    """The sources of a metric's variance: `inside` is the fraction due to samples inside a trial.

    `length_s` is the duration of the measurement in this campaign. `best_s` is the duration that gives the narrowest
    interval in a given total time (Kalibera and Jones); None if the study's settings do not determine the cost of a
    sample."""

    metric: Metric
    setting: str | None
    samples: float
    inside: float
    length_s: float | None
    best_s: float | None


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice on the number of blocks and the length of trials.

    `likely_blocks` and `sure_blocks` suffice for each metric whose spread is known. They are None if there is no such
    metric, or if one of them needs more than a million. `unknown` lists the metrics whose spread is not known.
    `block_s` is the time of a block of this campaign, including repetitions of invalid trials; None before any trial
    has run. `guest` is that of this campaign; None for a real host."""

    directory: str
    title: str
    precision: float
    confidence: float
    of_ratio: bool
    replicates: int
    block_s: float | None
    metrics: tuple[MetricAdvice, ...]
    splits: tuple[Split, ...]
    guest: MeasuredIn | None = None

    @property
    def likely_blocks(self) -> int | None:
        return _most([metric.blocks.likely.blocks for metric in self.metrics if metric.blocks])

    @property
    def sure_blocks(self) -> int | None:
        return _most([metric.blocks.sure.blocks for metric in self.metrics if metric.blocks])

    @property
    def unknown(self) -> tuple[str, ...]:
        return tuple(metric.metric.name for metric in self.metrics if metric.blocks is None)

    @property
    def vague(self) -> tuple[str, ...]:
        """The metrics for which this campaign is too small."""
        return tuple(metric.metric.name for metric in self.metrics if metric.blocks and metric.blocks.vague)

    def duration_s(self, blocks: int | None) -> float | None:
        return None if blocks is None or self.block_s is None else blocks * self.block_s


def _most(blocks: Sequence[int | None]) -> int | None:
    known = [n for n in blocks if n is not None]
    return max(known) if known and len(known) == len(blocks) else None


def advise(report: CampaignResults, precision: float, series: SeriesByAttempt) -> Advice:
    """Return advice for a desired relative half width: `precision` is above zero, 0.05 for plus or minus 5 %."""
    of_ratio = any(cell.ratio is not None for row in report.rows for cell in row.cells)
    return Advice(
        directory=report.directory,
        title=report.study.title or report.study.name,
        precision=precision,
        confidence=report.study.design.confidence,
        of_ratio=of_ratio,
        replicates=report.study.design.replicates,
        block_s=_block_s(report),
        metrics=tuple(_metric_advice(view, precision, of_ratio) for view in report.views),
        splits=tuple(_splits(report, series)),
        guest=report.guest,
    )


def _block_s(report: CampaignResults) -> float | None:
    """Return the duration of a block of the runnable treatments, from the mean duration of the finished trials."""
    counts = report.progress.counts
    ended = counts.get("valid", 0) + counts.get("invalid", 0)
    runnable = sum(row.status != "unavailable" for row in report.rows)
    return report.progress.measured_s / ended * runnable if ended else None


# By the question that a study asks


@dataclass(frozen=True, slots=True)
class OpenCandidate:
    """An undecided candidate, and how many more blocks decide, with `LIKELY` and `SURE`; None above 1,000."""

    label: str
    holds: float
    likely: int | None
    sure: int | None


@dataclass(frozen=True, slots=True)
class DecisionAdvice:
    """What the decision by service levels still needs. `open` has the candidates that matter: without a recommended
    one, all that are undecided, and else those that may cost less. `block_s` is the time of a block of all."""

    decision: SlaDecision
    open: tuple[OpenCandidate, ...]
    block_s: float | None


def for_the_decision(decision: SlaDecision) -> DecisionAdvice:
    choice = decision.choice
    undecided = [at for at in decision.order() if choice.verdict(at) == "open"]
    matter = undecided if choice.recommended is None else [at for at in undecided if at in choice.open_cheaper]
    found = [
        OpenCandidate(
            decision.candidates[at].label, choice.odds[at].holds,
            *(decision.more_blocks(chance, at) for chance in (LIKELY, SURE)),
        )
        for at in matter
    ]  # fmt: skip
    return DecisionAdvice(decision, tuple(found), _block_s(decision.report))


# Blocks


@dataclass(frozen=True, slots=True)
class _Asked:
    """The intervals of a metric, the noise that its trials show, and the cells in the order of the intervals."""

    intervals: Intervals
    pilot: Residuals
    treatments: tuple[str, ...]
    half_widths: tuple[float, ...]


def _metric_advice(view: MetricView, precision: float, of_ratio: bool) -> MetricAdvice:
    asked = _ratios(view) if of_ratio else _means(view)
    if asked is None or not asked.pilot.freedom.any():
        return MetricAdvice(view.metric, None, Note(_NO_SPREAD))
    if not asked.pilot.varied:
        return MetricAdvice(view.metric, None, Note(_CONSTANT))
    from lastro.stats.blocks_needed import blocks_needed

    found = blocks_needed(asked.pilot, asked.intervals, precision, (LIKELY, SURE), PROBABLE)
    likely, sure = found.enough
    return MetricAdvice(
        view.metric,
        BlocksAdvice(
            intervals=len(asked.treatments),
            n=view.n_blocks,
            now=max(asked.half_widths),
            likely=likely,
            sure=sure,
            low=found.low,
            high=found.high,
            widest=asked.treatments[found.widest],
        ),
    )


def _ratios(view: MetricView) -> _Asked | None:
    """Return the ratios to the baselines, as the model of the report compares them; None if there are none."""
    model = view.model
    found = [(row, cell) for row, cell in view if cell.comparison is not None and cell.comparison.ratio.value]
    if model is None or not found:
        return None
    from lastro.stats.future_widths import RatioIntervals

    pairs = [(row.treatment.index, row.baseline.index) for row, _ in found if row.baseline is not None]
    different = sum(cell.decision == "different" for _, cell in found) / len(found)
    return _Asked(
        RatioIntervals.of_model(model, pairs, view.confidence, different),
        model.residuals,
        tuple(row.treatment.label for row, _ in found),
        tuple(relative_half_width(ratio.value, ratio.interval) for _, cell in found if (ratio := cell.ratio)),
    )


def _means(view: MetricView) -> _Asked | None:
    """Return the means, each with the interval of its own values; None if there are none."""
    found = [(row, cell.summary) for row, cell in view if cell.summary and not cell.bounded and cell.summary.mean]
    if not found:
        return None
    import numpy as np

    from lastro.stats.future_widths import MeanIntervals
    from lastro.stats.noise_posterior import Residuals

    unit = unit_of([own.mean for _, own in found])
    means, sds = np.array([(own.mean / unit, (own.sd or 0.0) / unit) for _, own in found]).T
    freedom = np.array([own.n - 1.0 for _, own in found])
    return _Asked(
        MeanIntervals(means, np.full(len(means), view.step / unit), view.confidence),
        Residuals(sds**2 * freedom, freedom, np.abs(means)),
        tuple(row.treatment.label for row, _ in found),
        tuple(relative_half_width(own.mean, own.interval) for _, own in found),
    )


# Longer trials or more trials


def _splits(report: CampaignResults, series: SeriesByAttempt) -> Iterable[Split]:
    for view in report.views:
        by_treatment = [_samples(cell.points, view.metric, series) for cell in view.cells]
        names = {name for name, _ in filter(None, by_treatment)}
        if len(names) == 1:
            found = [samples for _, samples in filter(None, by_treatment)]
            if split := _split(report, view.metric, names.pop(), found):
                yield split


def _samples(
    points: Sequence[Point], metric: Metric, series: SeriesByAttempt
) -> tuple[str, list[tuple[float, ...]]] | None:
    """Return the series whose mean in each trial is this metric; None when there is none."""
    candidates = {each.name for point in points for each in series.get((point.trial, point.attempt), ())}
    for name in sorted(candidates):
        found = []
        for point in points:
            mine = [each for each in series.get((point.trial, point.attempt), ()) if each.name == name]
            if not mine or mine[0].unit != metric.unit or len(mine[0].values) < 2:
                break
            if not math.isclose(sample_mean(mine[0].values), point.value, rel_tol=_SAME):
                break
            found.append(mine[0].values)
        if len(found) == len(points) >= 2:
            return name, found
    return None


def _split(
    report: CampaignResults, metric: Metric, name: str, by_treatment: Sequence[list[tuple[float, ...]]]
) -> Split | None:
    """Return the relative variance components, pooled over treatments, and the best length at this campaign's cost."""
    inside, between, samples = [], [], []
    for trials in by_treatment:
        found = variance_components(trials)
        if found.mean != 0:
            inside.append(found.variances[0] / found.mean**2)
            between.append(found.variances[1] / found.mean**2)
            samples.append(found.repetitions[0])
    if not samples:
        return None
    within, outside, n = fmean(inside), fmean(between), fmean(samples)
    total = within / n + outside
    setting, length_s = _length(report, name)
    best_s = None
    trial_s = median(moment.duration_s for moment in report.timeline if moment.valid)
    if length_s is not None and trial_s > length_s and within > 0 and outside > 0:
        sample_s = length_s / n
        best_s = sample_s * optimum_repetitions((within, outside), (sample_s, trial_s - length_s))[0]
    return Split(metric, setting, n, within / n / total if total else 0.0, length_s, best_s)


def _length(report: CampaignResults, series: str) -> tuple[str | None, float | None]:
    setting = _LENGTHS.get(series)
    value = report.study.settings.get(setting) if setting else None
    return (setting, float(value)) if isinstance(value, int | float) and value else (None, None)
