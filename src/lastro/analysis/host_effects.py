"""Comparisons of one metric on several hosts: the ratio of two means on each host, and the mean of these ratios.

Recoveries are also compared: the loss on each host, and the gain by a protection (`stats.recovery`). All means are over
the strata that every host with data measured, so that hosts do not differ because of the strata that they could
measure. A host without data is left out, with the reason. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.claim_cells import (
    NOT_ABOVE_ZERO,
    Key,
    MetricCells,
    Strata,
    Untestable,
    Weights,
    condition_labels,
    mean_weights,
)
from lastro.stats.contrasts import APART, NO_SPREAD, ONE_VALUE, MeanComparison, exponential, log_ratio, sum_of_means
from lastro.stats.intervals import Estimate, Interval, t_quantile
from lastro.stats.notes import N_, Note
from lastro.stats.pooling import FEWEST, Estimator, MeasuredEffect, PooledMean, pool
from lastro.stats.recovery import RecoveryEstimate, estimate_recovery
from lastro.stats.student import t_p
from lastro.stats.weights import minus
from lastro.study.model import Levels


@dataclass(frozen=True, slots=True)
class HostEffect:
    """The effect on one host: a ratio, and its logarithm, which is pooled.

    `host` is the index of the host. `effect` and `ratio` are None if the effect cannot be estimated on this host; then
    `absent_because` has the reasons."""

    host: int
    effect: MeasuredEffect | None
    ratio: Estimate | None
    absent_because: tuple[Note, ...] = ()


class HostCells:
    """The valid values of one metric on several hosts; implements the protocol `claim_cells.Comparisons`.

    Weights are {(index of the host, index of the treatment on this host): weight}. Raises: Untestable if no host
    measured the metric."""

    def __init__(self, reports: Sequence[CampaignResults], metric: str, estimator: Estimator) -> None:
        self.estimator = estimator
        self._cells: dict[int, MetricCells] = {}
        self._lacking: dict[int, tuple[Note, ...]] = {}
        for host, report in enumerate(reports):
            try:
                self._cells[host] = MetricCells(report, metric)
            except Untestable as untestable:
                self._lacking[host] = untestable.why
        if not self._cells:
            raise Untestable(*self._lacking[0])
        first = next(iter(self._cells.values()))
        self.metric, self.confidence, self.factors = first.metric, first.confidence, first.factors

    def sides(self, sides: Sequence[Levels], at: Levels) -> tuple[list[Weights], int, int]:
        """Return the weights of each side's mean, the number of strata that are used, and the number of all strata.

        A stratum is used if every host with data measured it. Raises: Untestable if no stratum is used."""
        by_host, common, total = self._common_strata(sides, at)
        return _weights_of(by_host, common), len(common), total

    def conditions(self, sides: Sequence[Levels], at: Levels) -> tuple[dict[str, list[Weights]], int]:
        """Return {label of a used stratum: the weights of each side}, and the number of all. Raises: as `sides`."""
        by_host, common, total = self._common_strata(sides, at)
        labels = condition_labels(common, self.factors)
        return {label: _weights_of(by_host, [key]) for label, key in zip(labels, common, strict=True)}, total

    def _common_strata(self, sides: Sequence[Levels], at: Levels) -> tuple[dict[int, Strata], list[Key], int]:
        """Return {host with data: its strata}, the strata that all of these hosts measured, and the number of all.

        Raises: Untestable if no stratum was measured on all of these hosts."""
        by_host: dict[int, Strata] = {}
        total = 0
        for host, cells in self._cells.items():
            try:
                strata, n = cells.strata(sides, at)
            except Untestable as untestable:
                self._lacking[host] = untestable.why
                continue
            exact = {
                key: of_sides
                for key, of_sides in strata.items()
                if not any(index in cells.bounded for side in of_sides for index in side)
            }
            if exact:
                by_host[host], total = exact, max(n, total)
            else:
                self._lacking[host] = (Note(N_("only a lower bound is known for a treatment that it needs")),)
        if not by_host:
            raise Untestable(*dict.fromkeys(note for why in self._lacking.values() for note in why))
        common = [key for key in next(iter(by_host.values())) if all(key in strata for strata in by_host.values())]
        if not common:
            raise Untestable(Note(N_("no combination of the other factors was measured on all hosts")))
        return by_host, common, total

    def on_each(self, of: Weights, to: Weights) -> tuple[HostEffect, ...]:
        """Return the ratio of two means on each host, in the order of hosts; its `effect` is None without data."""
        return tuple(
            HostEffect(host, None, None, self._lacking[host])
            if host in self._lacking
            else self._effect_on(host, _weights_on(host, of), _weights_on(host, to))
            for host in sorted({*self._cells, *self._lacking})
        )

    def _effect_on(self, host: int, of: Weights, to: Weights) -> HostEffect:
        """Return the effect on one host, or the reason why it has none."""
        cells = self._cells[host]
        assert cells.exact is not None, "a stratum was measured"
        ratio = log_ratio(cells.exact, of, to)
        if ratio is None:
            return HostEffect(host, None, None, (Note(NOT_ABOVE_ZERO, metric=cells.metric.name),))
        if ratio.error is None:
            return HostEffect(host, None, None, (Note(APART if ratio.unlinked else ONE_VALUE),))
        error = math.hypot(ratio.error, ratio.bias)
        if error == 0:
            return HostEffect(host, None, None, (Note(NO_SPREAD),))
        half = t_quantile(self.confidence, ratio.df) * error
        logs = Estimate(ratio.value, Interval.around(ratio.value, half, self.confidence), ratio.n)
        return HostEffect(host, MeasuredEffect(ratio.value, error, ratio.df), logs.mapped(exponential))

    def pooled(self, effects: Sequence[HostEffect]) -> PooledMean | None:
        """Return the pooled mean of the effects, as a logarithm; None if fewer than three hosts have an effect."""
        measured = [on_host.effect for on_host in effects if on_host.effect is not None]
        return pool(measured, self.confidence, self.estimator) if len(measured) >= FEWEST else None

    def compared(self, of: Weights, to: Weights) -> MeanComparison:
        """Compare two means by the mean of their ratios over hosts.

        The `difference` of the result is on logarithms. Raises: Untestable if fewer than three hosts have a ratio."""
        pooled = self._pool(of, to)
        logs, critical = pooled.estimate, t_quantile(self.confidence, pooled.df)
        return MeanComparison(logs.mapped(exponential), logs, logs.p, logs.p, pooled.error, critical, log=True)

    def one_sided_p(self, of: Weights, to: Weights, bound: float) -> float | None:
        """Return the p-value of the hypothesis that the mean ratio is at most `bound`. Raises: as `compared`."""
        if bound <= 0:
            return 0.0
        pooled = self._pool(of, to)
        return t_p(pooled.estimate.spread[0] - math.log(bound), pooled.error, pooled.df, 0.0, "above")

    def _pool(self, of: Weights, to: Weights) -> PooledMean:
        """Return the pooled ratio of two means. Raises: Untestable if fewer than three hosts have a ratio."""
        effects = self.on_each(of, to)
        if pooled := self.pooled(effects):
            return pooled
        reasons = dict.fromkeys(why for effect in effects for why in effect.absent_because)
        raise Untestable(too_few_hosts(sum(effect.effect is not None for effect in effects)), *reasons)

    def sum_of_means(self, weights: Weights) -> Estimate:
        raise Untestable(Note(_NOT_A_RATIO))

    def ratio_of_sums(self, of: Weights, to: Weights) -> Estimate:
        raise Untestable(Note(_NOT_A_RATIO))

    def recovered(self, ideal: Weights, without: Weights, protected: Weights) -> RecoveryEstimate:
        """Return the mean loss over hosts, the mean gain of a protection, and the recovered fraction.

        Raises: Untestable if fewer than three hosts have a loss and a gain."""
        losses, gains = [], []
        for host in sorted({host for host, _ in ideal}):
            cells = self._cells[host]
            assert cells.exact is not None, "a stratum was measured"
            best, worst, better = (_weights_on(host, side) for side in (ideal, without, protected))
            means = [sum_of_means(cells.exact, side, cells.confidence) for side in (best, worst)]
            loss, gain = (sum_of_means(cells.exact, minus(side, worst), cells.confidence) for side in (best, better))
            size = max(mean.value or 0.0 for mean in means)
            if loss.value is None or gain.value is None:
                reasons = [loss.absent_because, gain.absent_because]
                self._lacking[host] = tuple(reason for reason in reasons if reason)
            elif size <= 0:
                self._lacking[host] = (Note(NOT_ABOVE_ZERO, metric=self.metric.name),)
            else:
                losses.append(loss.value / size)
                gains.append(gain.value / size)
        if len(gains) < FEWEST:
            reasons_once = dict.fromkeys(why for reasons in self._lacking.values() for why in reasons)
            raise Untestable(too_few_hosts(len(gains)), *reasons_once)
        return estimate_recovery(losses, gains, self.confidence)

    def p_above(self, of: Weights, level: float) -> float | None:
        raise Untestable(Note(_NOT_A_RATIO))

    def is_positive(self, side: Weights) -> bool:
        return True  # a host without a ratio is left out

    def slack(self, weights: Weights) -> tuple[bool, bool]:
        return False, False  # strata with lower bounds are left out

    def under_floor(self, weights: Weights, deviation: float | None) -> bool:
        return False  # a noise floor is that of one host

    def gap_under_floor(self, weights: Weights, gap: float | None) -> bool:
        return False


_NOT_A_RATIO = N_(
    "only recoveries and ratios of two means are pooled over hosts; other effects are judged on each host alone"
)


def too_few_hosts(n: int) -> Note:
    """Return the reason why the effects of `n` hosts are not pooled."""
    return Note(
        N_("too few hosts have this effect: {n}; it takes {fewest} to show how much hosts differ"), n=n, fewest=FEWEST
    )


def _weights_of(by_host: Mapping[int, Strata], keys: Sequence[Key]) -> list[Weights]:
    """Return the weights of each side's mean over these strata on every host; its treatments are (host, index)."""
    on_hosts = {host: mean_weights([strata[key] for key in keys]) for host, strata in by_host.items()}
    sides = zip(*on_hosts.values(), strict=True)
    return [
        {
            (host, index): weight
            for host, weights in zip(on_hosts, side, strict=True)
            for index, weight in weights.items()
        }
        for side in sides
    ]


def _weights_on(host: int, weights: Weights) -> dict[int, float]:
    """Return {treatment: weight} of one host."""
    return {index: weight for (at_host, index), weight in weights.items() if at_host == host}
