"""The comparisons of one metric on several hosts: the ratio of two means on each host, and the mean of these ratios.

Recoveries are compared, too: what each host loses, and what a protection gains of it (`stats.recovery`). All means are
over the same strata on every host, so that hosts do not differ by what they could measure. A host without such a
stratum is left out, with the reason. Pure: reports in, frozen data out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.claim_cells import NOT_ABOVE_ZERO, MetricCells, Strata, Untestable, Weights, mean_weights
from lastro.stats.contrasts import APART, NO_SPREAD, ONE_VALUE, MeanComparison, exponential, linear, log_ratio
from lastro.stats.intervals import Estimate, Interval, t_quantile
from lastro.stats.notes import N_, Note
from lastro.stats.pooling import FEWEST, Estimator, MeasuredEffect, PooledMean, pool
from lastro.stats.recovery import RecoveredShare, recovered
from lastro.stats.weights import less
from lastro.study.model import Levels


@dataclass(frozen=True, slots=True)
class HostEffect:
    """The effect on one host, given by its number, as the logarithm of a ratio; None, with the reasons, without one.

    `interval` is that of the ratio, for this host alone."""

    host: int
    effect: MeasuredEffect | None
    interval: Interval | None
    absent_because: tuple[Note, ...] = ()

    @property
    def ratio(self) -> float | None:
        return None if self.effect is None else exponential(self.effect.value)


class HostCells:
    """The valid values of one metric on several hosts, as the test of a statement compares them.

    A weight belongs to (number of the host, index of the treatment there)."""

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
        """Return the weights for the mean of each side, the number of strata that they use, and that of all strata.

        The strata are those that every host with data measured. Raises: Untestable when there is none."""
        by_host: dict[int, Strata] = {}
        total = 0
        for host, cells in self._cells.items():
            try:
                strata, n = cells.strata(sides, at)
                by_host[host], total = _exact(strata, cells), max(n, total)
            except Untestable as untestable:
                self._lacking[host] = untestable.why
        if not by_host:
            raise Untestable(*dict.fromkeys(note for why in self._lacking.values() for note in why))
        common = [key for key in next(iter(by_host.values())) if all(key in strata for strata in by_host.values())]
        if not common:
            raise Untestable(Note(N_("no combination of the other factors was measured on all hosts")))
        weights: list[dict[tuple[int, int], float]] = [{} for _ in sides]
        for host, strata in by_host.items():
            for side, on_host in zip(weights, mean_weights([strata[key] for key in common]), strict=True):
                side.update({(host, index): weight for index, weight in on_host.items()})
        return list(weights), len(common), total

    def on_each(self, of: Weights, to: Weights) -> tuple[HostEffect, ...]:
        """Return the ratio of two means on every host."""
        hosts = sorted({*self._cells, *self._lacking})
        return tuple(
            HostEffect(host, None, None, self._lacking[host])
            if host in self._lacking
            else self._effect_on(host, _of_host(host, of), _of_host(host, to))
            for host in hosts
        )

    def _effect_on(self, host: int, of: Weights, to: Weights) -> HostEffect:
        """Return the effect on one host, or the reason why it has none."""
        cells = self._cells[host]
        assert cells.exact is not None, "a stratum was measured"
        ratio = log_ratio(cells.exact, of, to)
        if ratio is None:
            return HostEffect(host, None, None, (Note(NOT_ABOVE_ZERO, metric=cells.metric.name),))
        if ratio.error is None:
            return HostEffect(host, None, None, (Note(APART if ratio.apart else ONE_VALUE),))
        error = math.hypot(ratio.error, ratio.bias)
        if error == 0:
            return HostEffect(host, None, None, (Note(NO_SPREAD),))
        half = t_quantile(self.confidence, ratio.df) * error
        ends = Interval(ratio.value - half, ratio.value + half, self.confidence).mapped(exponential)
        return HostEffect(host, MeasuredEffect(ratio.value, error, ratio.df), ends)

    def pooled(self, effects: Sequence[HostEffect]) -> PooledMean | None:
        """Return the pool of the effects that there are; None for fewer than three."""
        effects_there = [one.effect for one in effects if one.effect is not None]
        return pool(effects_there, self.confidence, self.estimator) if len(effects_there) >= FEWEST else None

    def compared(self, of: Weights, to: Weights) -> MeanComparison:
        """Compare two means by their ratios on all hosts. `difference` is that of the logarithms.

        Raises: Untestable for fewer than three hosts."""
        pool = self._pool(of, to)
        critical = t_quantile(self.confidence, pool.df)
        return MeanComparison(mean_ratio(pool), pool.estimate, pool.p, pool.p, pool.error, critical, log=True)

    def one_sided_p(self, of: Weights, to: Weights, bound: float) -> float | None:
        """Return the p of the hypothesis that the mean ratio is at most `bound`. Raises: as `compared`."""
        return self._pool(of, to).p_of(math.log(bound), "above") if bound > 0 else 0.0

    def _pool(self, of: Weights, to: Weights) -> PooledMean:
        effects = self.on_each(of, to)
        if found := self.pooled(effects):
            return found
        raise Untestable(too_few_hosts(effects), *dict.fromkeys(why for one in effects for why in one.absent_because))

    def conditions(self, at: Levels) -> tuple[dict[str, Weights], int]:
        raise Untestable(Note(_NOT_A_RATIO))

    def linear(self, weights: Weights) -> Estimate:
        raise Untestable(Note(_NOT_A_RATIO))

    def share(self, of: Weights, to: Weights) -> Estimate:
        raise Untestable(Note(_NOT_A_RATIO))

    def recovered(self, ideal: Weights, without: Weights, protected: Weights) -> RecoveredShare:
        """Return the mean loss over hosts, and what a protection gains of it. Raises: Untestable below three hosts."""
        losses, gains = [], []
        for host in sorted({host for host, _ in ideal}):
            cells = self._cells[host]
            assert cells.exact is not None, "a stratum was measured"
            best, worst, better = (_of_host(host, side) for side in (ideal, without, protected))
            found = [linear(cells.exact, each, cells.confidence) for each in (best, worst)]
            loss, gain = (linear(cells.exact, less(each, worst), cells.confidence) for each in (best, better))
            size = max(mean.value or 0.0 for mean in found)
            if loss.value is None or gain.value is None:
                self._lacking[host] = tuple(why for each in (loss, gain) if (why := each.absent_because))
            elif size <= 0:
                self._lacking[host] = (Note(NOT_ABOVE_ZERO, metric=self.metric.name),)
            else:
                losses.append(loss.value / size)
                gains.append(gain.value / size)
        if len(gains) < FEWEST:
            raise Untestable(_too_few(len(gains)), *dict.fromkeys(why for own in self._lacking.values() for why in own))
        return recovered(losses, gains, self.confidence)

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


def too_few_hosts(effects: Sequence[HostEffect]) -> Note:
    """Return the reason why effects are not pooled."""
    return _too_few(sum(one.effect is not None for one in effects))


def _too_few(n: int) -> Note:
    return Note(
        N_("too few hosts have this effect: {n}; it takes {fewest} to show how much hosts differ"), n=n, fewest=FEWEST
    )


def mean_ratio(pooled: PooledMean) -> Estimate:
    """Return the pooled mean of logarithms as a ratio; its n counts hosts."""
    return pooled.estimate.mapped(exponential)


def _exact(strata: Strata, cells: MetricCells) -> Strata:
    """Return the strata without treatments of which only a lower bound is known. Raises: Untestable without any."""
    found = {key: sides for key, sides in strata.items() if not cells.bounded.keys() & {i for s in sides for i in s}}
    if not found:
        raise Untestable(Note(N_("only a lower bound is known for a treatment that it needs")))
    return found


def _of_host(host: int, weights: Weights) -> dict[int, float]:
    return {index: weight for (own, index), weight in weights.items() if own == host}
