"""Advise how many blocks the next campaign needs for a desired precision, and whether longer trials would help. Pure.

Precision is half the width of the interval of a ratio to the baseline, as a fraction of that ratio. If the study names
no baseline, it is that of a mean. The advice is computed from the spread between blocks of this campaign, and is as
uncertain as this spread. The spread of each treatment is moderated towards that of all treatments: otherwise the worst
of many treatments would be the worst by chance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from lastro.analysis.campaign import Cell, MetricView, Point, Report, Row, by_block
from lastro.results.samples import Metric, Series
from lastro.stats.intervals import sample_covariance, sample_mean
from lastro.stats.moderation import moderated
from lastro.stats.pairing import match_blocks
from lastro.stats.ratios import ratio_to_baseline
from lastro.stats.replication import least_n, optimum_repetitions, ratio_variance, variance_components
from lastro.stats.stopping import relative_half_width

LIKELY, SURE = 0.5, 0.8  # probabilities that the advised number of blocks is enough
# The setting for how long a series is sampled.
_LENGTHS = {"throughput": "tcp_s", "rtt": "ping_s"}
_SAME = 0.01  # a metric is the mean of a series if the two differ by at most this fraction in every trial

SeriesByAttempt = Mapping[tuple[int, int], Sequence[Series]]  # (trial, attempt): its series


@dataclass(frozen=True, slots=True)
class BlocksNeeded:
    """The number of blocks that one treatment needs for one metric.

    `n` is the number of blocks measured so far, and `now` the relative half width of their interval; infinite without
    an interval. `likely` blocks suffice in one of two campaigns, `sure` blocks in four of five. Either is None if it
    would exceed a million."""

    treatment: str
    n: int
    now: float
    likely: int | None
    sure: int | None


@dataclass(frozen=True, slots=True)
class MetricAdvice:
    """The number of blocks that one metric needs: for the worst treatment, and for the median treatment.

    Both are None if the spread is not known; `absent_because` is then the reason."""

    metric: Metric
    worst: BlocksNeeded | None
    middle: BlocksNeeded | None
    absent_because: str | None = None


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

    `likely_blocks` and `sure_blocks` suffice for every metric whose spread is known. They are None if there is no such
    metric, or if one of them needs more than a million. `unknown` lists the metrics whose spread is not known.
    `block_s` is the time of a block of this campaign, including repetitions of invalid trials; None before any trial
    has run."""

    directory: str
    title: str
    precision: float
    confidence: float
    of_ratio: bool
    replicates: int
    block_s: float | None
    metrics: tuple[MetricAdvice, ...]
    splits: tuple[Split, ...]

    @property
    def likely_blocks(self) -> int | None:
        return _most([advice.worst.likely for advice in self.metrics if advice.worst])

    @property
    def sure_blocks(self) -> int | None:
        return _most([advice.worst.sure for advice in self.metrics if advice.worst])

    @property
    def unknown(self) -> tuple[str, ...]:
        return tuple(advice.metric.name for advice in self.metrics if advice.worst is None)

    def duration_s(self, blocks: int | None) -> float | None:
        return None if blocks is None or self.block_s is None else blocks * self.block_s


def _most(blocks: Sequence[int | None]) -> int | None:
    known = [n for n in blocks if n is not None]
    return max(known) if known and len(known) == len(blocks) else None


def advise(report: Report, precision: float, series: SeriesByAttempt) -> Advice:
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
    )


def _block_s(report: Report) -> float | None:
    """Return the duration of a block of the runnable treatments, from the mean duration of the finished trials."""
    counts = report.progress.counts
    ended = counts.get("valid", 0) + counts.get("invalid", 0)
    runnable = sum(row.status != "unavailable" for row in report.rows)
    return report.progress.measured_s / ended * runnable if ended else None


# Blocks


def _metric_advice(view: MetricView, precision: float, of_ratio: bool) -> MetricAdvice:
    cells = {row.treatment.index: cell for row, cell in view}
    references = {
        row.treatment.index: cells[row.baseline.index]
        for row in view.report.rows
        if of_ratio and row.baseline is not None and not row.is_baseline
    }
    spreads: list[tuple[Row, float, int]] = []
    for row, cell in view:
        if of_ratio and row.treatment.index not in references:
            continue
        if (found := _variance(cell, references.get(row.treatment.index))) is not None:
            spreads.append((row, *found))
    if not spreads:
        return MetricAdvice(view.metric, None, None, "no treatment has two valid trials and a mean other than zero")
    variances = moderated([variance for _, variance, _ in spreads], [df for _, _, df in spreads])
    needs = [
        _need(row, view.of(row), references.get(row.treatment.index), variance, precision, view.confidence)
        for (row, _, _), variance in zip(spreads, variances, strict=True)
    ]
    needs.sort(key=lambda need: (math.inf if need.sure is None else need.sure, need.now))
    return MetricAdvice(view.metric, needs[-1], needs[(len(needs) - 1) // 2])


def _variance(cell: Cell, reference: Cell | None) -> tuple[float, int] | None:
    """Return the variance per block of the ratio (or mean), relative to its square, and the degrees of freedom."""
    if cell.bounded or (reference is not None and reference.bounded):
        return None  # the spread of lower bounds is not known
    if reference is not None:
        found = match_blocks(by_block(cell.points), by_block(reference.points))
        if found is None:
            return None
        paired = found.pairing == "paired"
        variance = ratio_variance(found.values, found.baseline, paired=paired)
        df = len(found.values) - 1 if paired else len(found.values) + len(found.baseline) - 2
        return None if variance is None else (variance, df)
    values = [point.value for point in cell.points]
    if len(values) < 2 or sample_mean(values) == 0:
        return None
    return sample_covariance(values, values) / sample_mean(values) ** 2, len(values) - 1


def _need(
    row: Row, cell: Cell, reference: Cell | None, variance: float, precision: float, confidence: float
) -> BlocksNeeded:
    """Return the blocks for one ratio alone (without a `reference`, one mean), and its half width now."""
    if reference is not None:
        ratio = ratio_to_baseline(by_block(cell.points), by_block(reference.points), confidence)
        now = relative_half_width(ratio.value, ratio.interval) if ratio else math.inf
    else:
        now = relative_half_width(cell.summary.mean, cell.summary.interval) if cell.summary else math.inf
    likely, sure = (least_n(variance, precision, confidence, chance) for chance in (LIKELY, SURE))
    return BlocksNeeded(row.treatment.label, len(cell.points), now, likely, sure)


# Longer trials or more trials


def _splits(report: Report, series: SeriesByAttempt) -> Iterable[Split]:
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


def _split(report: Report, metric: Metric, name: str, by_treatment: Sequence[list[tuple[float, ...]]]) -> Split | None:
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


def _length(report: Report, series: str) -> tuple[str | None, float | None]:
    setting = _LENGTHS.get(series)
    value = report.study.settings.get(setting) if setting else None
    return (setting, float(value)) if isinstance(value, int | float) and value else (None, None)
