"""Plan a gate: for several numbers of blocks, which losses it would detect, and how probably it excludes any loss.

The noise is estimated from a pilot: a campaign of the same study, or its A/A campaign. The spread of each treatment
between blocks is shrunk towards the pooled spread of all treatments (`stats.moderation`). Treatments that the pilot
lacks are assumed to be as noisy as the noisiest treatment of the pilot. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from lastro.analysis.campaign import CampaignResults, MeasuredIn, MetricView
from lastro.analysis.noise_floor import spreads_of
from lastro.analysis.trends import correlated_orders
from lastro.errors import InputError, did_you_mean
from lastro.grouping import by_key
from lastro.results.samples import Metric
from lastro.stats.intervals import alpha_of, sample_covariance, sample_mean, satterthwaite, unit_of
from lastro.stats.margins import POWER, Precision
from lastro.stats.moderation import moderated_variances
from lastro.stats.sampled_mean import CampaignSpread, SampledMean
from lastro.stats.simultaneous import least_blocks
from lastro.study.design import Treatment
from lastro.study.margins import Margins
from lastro.study.model import PATIENCE, Study

_BLOCKS = (5, 10, 20, 40)  # in addition to the number of the study


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of one metric under one treatment."""

    metric: Metric
    treatment: str
    spread: float  # standard deviation between blocks, as a fraction of the mean
    df: float  # degrees of freedom of `spread`
    assumed: bool = False  # whether the pilot lacks the treatment
    # Spread between equal campaigns that the pilot has stored; None if it has not stored one.
    between: CampaignSpread | None = None

    def precision(self, blocks: int) -> Precision:
        """Return the precision of the means of two campaigns of this many blocks, both with this noise."""
        assert self.metric.better != "neither"
        mean = SampledMean(1.0, self.spread**2 / blocks, blocks - 1, blocks)
        known_df = self.df
        if self.between is not None:
            known_df = satterthwaite((mean.variance, self.between.variance), (self.df, self.between.df))
            mean = mean.shifted(self.between)
        return Precision((mean.error,) * 2, (mean.df,) * 2, self.metric.better, (blocks,) * 2, known_df)


@dataclass(frozen=True, slots=True)
class GatePower:
    """The power of a gate that compares two campaigns of `blocks` blocks each.

    `median` and `noisiest` are the smallest losses that the gate detects with a power of 80 %, in the median cell and
    in the noisiest cell, as fractions; infinite if a loss of any size may be missed. `shown` is the probability of the
    outcome "shown" if nothing changed. `duration_s` is the duration of both campaigns together."""

    blocks: int
    median: float
    noisiest: float
    shown: float
    duration_s: float


@dataclass(frozen=True)
class GatePlan:
    """A gate that was planned from the noise of a pilot campaign."""

    pilot: str  # directory of the pilot
    margins: Margins
    confidence: float
    replicates: int
    n_treatments: int  # number of treatments that the gate judges, by each of `metrics`
    metrics: tuple[Metric, ...]
    cells: tuple[Noise, ...]  # noise of each treatment and metric, from the least noisy to the noisiest
    unknown: tuple[str, ...]  # metrics whose noise the pilot does not show; the gate judges these metrics, too
    other_settings: tuple[str, ...]  # names of the settings in which the pilot differs from the study
    duration_s: Callable[[int], float]  # for a number of blocks: duration of two campaigns with it
    guest: MeasuredIn | None = None  # the virtual machine in which the pilot ran; None for a real host

    @property
    def tests(self) -> int:
        return self.n_treatments * len(self.metrics)

    @property
    def median(self) -> Noise:
        return self.cells[(len(self.cells) - 1) // 2]

    @property
    def noisiest(self) -> Noise:
        return self.cells[-1]

    @cached_property
    def powers(self) -> tuple[GatePower, ...]:
        """The power with the number of blocks of the study, and with 5, 10, 20 and 40 blocks, in ascending order."""

        def power(n: int) -> GatePower:
            cells = self.median, self.noisiest
            found = [cell.precision(n).least_found(self._margin(cell), self._alpha) for cell in cells]
            median, noisiest = (math.inf if loss is None else loss for loss in found)
            return GatePower(n, median, noisiest, self._shown(n), self.duration_s(n))

        return tuple(map(power, sorted({*_BLOCKS, self.replicates} - {1})))

    @cached_property
    def blocks_to_find(self) -> dict[str, int | None]:
        """{metric: the least number of blocks with which the gate detects a loss of twice the margin in any cell}.

        The power is 80 % in each cell. The number is None above 1,000. Metrics of unknown noise are absent."""
        cells = by_key((cell.metric.name, cell) for cell in reversed(self._kinds_of_noise))
        return {
            metric.name: least_blocks(partial(self._finds_twice, cells[metric.name]), 1.0, 2)
            for metric in self.metrics
            if metric.name in cells
        }

    @cached_property
    def blocks_to_show(self) -> int | None:
        """The least number of blocks that show with 80 % probability that nothing changed; None above 1,000."""
        return least_blocks(self._shown, POWER, 2)

    @property
    def judged_margins(self) -> dict[str, float]:
        """{name of a metric: its margin}."""
        return self.margins.judged(self.metrics)

    def _margin(self, cell: Noise) -> float:
        return self.margins.of(cell.metric.name)

    @property
    def _alpha(self) -> float:
        return alpha_of(self.confidence) / self.tests  # the first step of Holm's correction

    @cached_property
    def _kinds_of_noise(self) -> dict[Noise, int]:
        """{noise: the number of cells with this noise}; all cells of a metric with assumed noise share one."""
        return Counter(replace(cell, treatment="") for cell in self.cells)

    def _finds_twice(self, cells: Sequence[Noise], blocks: int) -> bool:
        """Return whether the gate detects a loss of twice the margin in each of these cells with a power of 80 %."""
        return all(
            cell.precision(blocks).finds(2 * self._margin(cell), self._margin(cell), self._alpha) >= POWER
            for cell in cells
        )

    def _shown(self, blocks: int) -> float:
        """Return the probability that independent cells all exclude a loss of the margin if nothing changed."""
        alpha = alpha_of(self.confidence) / 2
        return math.prod(
            cell.precision(blocks).shows(0.0, self._margin(cell), alpha) ** n
            for cell, n in self._kinds_of_noise.items()
        )


def gate_plan(
    study: Study,
    treatments: Sequence[Treatment],
    pilot: CampaignResults,
    margins: Margins,
    duration_s: Callable[[int], float],
    metrics: Sequence[str] = (),
) -> GatePlan:
    """Plan a gate for these treatments of a study, with margins above zero.

    `duration_s(n)` returns the duration of two campaigns of n blocks each. `metrics` lists names of metrics (default:
    the metrics of the study that have a better direction).

    Raises: InputError if the pilot is of another study, a metric is unknown, or the pilot shows no noise at all."""
    factors, factors_of_pilot = ({factor.name for factor in each.factors} for each in (study, pilot.study))
    if study.scenario != pilot.study.scenario or factors != factors_of_pilot:
        raise InputError(
            f"{pilot.directory} is not a campaign of {study.name}: its scenario or its factors differ",
            "give a campaign of this study, or its A/A campaign",
        )
    chosen = _metrics(study, metrics)
    views = {view.metric.name: view for view in pilot.views}
    known = {
        metric.name: list(_noises(views[metric.name], study, treatments)) for metric in chosen if metric.name in views
    }
    cells = [noise for of_metric in known.values() for noise in of_metric]
    if not cells:
        raise InputError(
            f"{pilot.directory} shows no noise: no treatment has two valid trials of a metric that the gate judges",
            "give a campaign of at least five blocks",
        )
    settings = sorted({*study.settings, *pilot.study.settings} - set(PATIENCE))
    return GatePlan(
        pilot=pilot.directory,
        margins=margins,
        confidence=study.design.confidence,
        replicates=study.design.replicates,
        n_treatments=len(treatments),
        metrics=chosen,
        cells=tuple(sorted(cells, key=lambda cell: (cell.spread, -cell.df))),
        unknown=tuple(metric.name for metric in chosen if not known.get(metric.name)),
        other_settings=tuple(name for name in settings if study.settings.get(name) != pilot.study.settings.get(name)),
        duration_s=duration_s,
        guest=pilot.guest,
    )


def _metrics(study: Study, names: Sequence[str]) -> tuple[Metric, ...]:
    """Return the metrics with these names, by default those of the study that have a better direction."""
    known = {metric.name: metric for metric in (*study.metrics, *study.all_metrics) if metric.better != "neither"}
    listed = [metric.name for metric in study.metrics if metric.name in known]
    for name in names:
        if name not in known:
            raise InputError(f"the gate does not judge a metric '{name}'", did_you_mean(name, known))
    chosen = tuple(known[name] for name in dict.fromkeys(names or listed))
    if not chosen:
        raise InputError(f"no metric of {study.name} declares what is better", "a gate judges only metrics that do")
    return chosen


def _noises(view: MetricView, study: Study, treatments: Iterable[Treatment]) -> Iterator[Noise]:
    """Yield the noise of this metric for each treatment; nothing if the pilot does not show any for the metric."""
    order = correlated_orders([view], study.design.alpha).get(view.metric.name)
    between = spreads_of(view.report).get(view.metric.name)
    measured: dict[frozenset[tuple[str, object]], tuple[float, int]] = {}
    for row, cell in view:
        readings = [point.value for point in cell.points]
        unit = unit_of(readings)
        values = [value / unit for value in readings]
        if cell.bounded or len(values) < 2:
            continue
        mean = sample_mean(values)
        if mean > 0:
            factor = order.variance_factor(cell) if order else 1.0
            variance = sample_covariance(values, values) * factor / mean**2
            measured[frozenset(row.treatment.levels.items())] = (variance, len(values) - 1)
    if not measured:
        return
    variances, df = zip(*measured.values(), strict=True)
    spreads = {
        levels: (math.sqrt(variance), freedom)
        for levels, variance, freedom in zip(measured, *moderated_variances(variances, df), strict=True)
    }
    noisiest = max(spreads.values())
    for treatment in treatments:
        known = spreads.get(frozenset(treatment.levels.items()))
        spread, freedom = known or noisiest
        yield Noise(view.metric, treatment.label, spread, freedom, assumed=known is None, between=between)
