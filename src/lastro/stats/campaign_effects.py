"""Posterior draws of the means of cells, where several campaigns measured them.

A campaign shifts all of its cells together, and each cell a little by itself: another day, another place in memory. The
shift of all cells is taken out of the trials, and the means are drawn as for one campaign (`cell_means`). Two terms are
then added to the draws. The first is the mean of the shifts, by Student's t with one degree of freedom fewer than
campaigns; its variance is the variance between campaigns, divided by their number. The second, for each cell, is what
the campaigns differ in beyond the noise of the cell's trials. So an answer that holds for a few days only does not look
sure, however many blocks these campaigns have. The shifts are drawn alike for all metrics, as a slow day slows
everything: the sum of two costs is not taken as surer than each.

The shifts come from the cells that all campaigns measured. A cell that only some campaigns measured also has the error
of their shifts. Where all values are above zero, shifts are of logarithms, as in `cell_means`.
tests/known/test_campaign_effects.py measures the coverage of intervals. Loads numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lastro.stats._projections import Floats
from lastro.stats.cell_means import DRAWS, SEED, MeanDraws, MetricTrials
from lastro.stats.resolution import resolution

Campaigns = Mapping[int, int]  # {block: campaign}
_MOST_LOG = 100.0  # draws of the shifts of two campaigns may exceed the range of a float
_ROUNDS = 30  # of alternating projections, which are exact after one where no trial is missing


class CampaignDraws(MeanDraws):
    """Draws whose one more trial is one of a further campaign. Raises: ValueError if some metric is not `linked`."""

    def __init__(
        self, metrics: Sequence[MetricTrials], size: tuple[int, int, int], campaigns: Campaigns, seed: int = SEED
    ) -> None:
        self._seed = seed
        self._effects = [_CampaignEffects.of(metric, campaigns) for metric in metrics]
        without = [effects.without(metric) for effects, metric in zip(self._effects, metrics, strict=True)]
        super().__init__(without, size, seed)

    def draw(self, metric: int) -> tuple[Floats, Floats]:
        rng = np.random.default_rng([self._seed, 1])  # other numbers than those of `super`; the same for all metrics
        return self._effects[metric].added_to(*super().draw(metric), rng)


def draws_of(
    metrics: Sequence[MetricTrials], size: tuple[int, int, int], campaigns: Campaigns | None, seed: int = SEED
) -> MeanDraws:
    """Return the draws for one campaign (`campaigns` is None) or several. Raises: as `CampaignDraws`."""
    return CampaignDraws(metrics, size, campaigns, seed) if campaigns else MeanDraws(metrics, size, seed)


def draw_means(metric: MetricTrials, shape: tuple[int, int], campaigns: Campaigns | None, seed: int = SEED) -> Floats:
    """Return draws of the means of one metric: (draw, candidate, condition); NaN where only lower bounds are known.

    `shape` is (number of candidates, number of conditions). Raises: as `CampaignDraws`."""
    means, _ = draws_of([metric], (DRAWS, *shape), campaigns, seed).of(0)
    for cell in metric.floors:
        means[:, *cell] = np.nan
    return means


def linked(metric: MetricTrials, campaigns: Campaigns) -> bool:
    """Return whether the campaigns show how far they differ: all cells, or two of them, were measured in each.

    One cell alone would not show how far a single cell differs between campaigns."""
    of_cells = [{campaigns[block] for block in by_block} for by_block in metric.cells.values()]
    shared = of_cells.count(set(campaigns.values()))
    return shared >= min(2, len(of_cells)) > 0


@dataclass(frozen=True, slots=True)
class _CampaignEffects:
    """The shifts of the campaigns in one metric, and how far campaigns differ."""

    log: bool
    step: float  # resolution of the values
    shifts: Mapping[int, float]  # {block: shift}
    of_cells: Mapping[tuple[int, int], tuple[int, ...]]  # indices of the campaigns that measured each cell
    n_shared: int  # number of cells that all campaigns measured
    n: int  # number of shifts
    between: float  # variance of the shifts
    own: float  # variance of what is left of the means of cells in single campaigns
    own_df: int  # degrees of freedom of `own`
    noise: float  # the part of `own` that the noise of trials explains

    @classmethod
    def of(cls, metric: MetricTrials, campaigns: Campaigns) -> _CampaignEffects:
        n_campaigns = len(set(campaigns.values()))
        if not metric.cells:
            return cls(False, 0.0, {}, {}, 0, n_campaigns, 0.0, 0.0, 0, 0.0)
        blocks = sorted({block for by_block in metric.cells.values() for block in by_block})
        numbers = np.array([sorted(set(campaigns.values())).index(campaigns[block]) for block in blocks])
        grid = np.array([[by_block.get(block, np.nan) for block in blocks] for by_block in metric.cells.values()])
        log = bool((grid[~np.isnan(grid)] > 0).all())
        grid = np.log(grid) if log else grid
        of_campaigns = [grid[:, numbers == at] for at in range(n_campaigns)]
        n_trials = np.array([(~np.isnan(each)).sum(axis=1) for each in of_campaigns]).T
        shared = (n_trials > 0).all(axis=1)
        if not linked(metric, campaigns):
            raise ValueError("too few cells were measured in all campaigns")
        means = np.array([np.nanmean(each[shared], axis=1) for each in of_campaigns]).T
        shifts = means.mean(axis=0) - means.mean()
        left = means - means.mean(axis=1, keepdims=True) - shifts
        own_df = (left.shape[0] - 1) * (left.shape[1] - 1)
        return cls(
            log,
            resolution([value for by_block in metric.cells.values() for value in by_block.values()]),
            dict(zip(blocks, shifts[numbers].tolist(), strict=True)),
            {cell: tuple(np.flatnonzero(n).tolist()) for cell, n in zip(metric.cells, n_trials, strict=True)},
            int(shared.sum()),
            n_campaigns,
            float(shifts.var(ddof=1)),
            float((left**2).sum()) / max(own_df, 1),
            own_df,
            _noise(of_campaigns) * float((1 / n_trials[shared]).mean()),
        )

    def without(self, metric: MetricTrials) -> MetricTrials:
        """Return the trials without the shifts of their campaigns."""

        def moved(value: float, block: int) -> float:
            return value / float(np.exp(self.shifts[block])) if self.log else value - self.shifts[block]

        cells = {
            cell: {block: moved(value, block) for block, value in by_block.items()}
            for cell, by_block in metric.cells.items()
        }
        return replace(metric, cells=cells, log=self.log, step=self.step)

    def added_to(self, means: Floats, nexts: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return draws of the means over campaigns, and of one more trial in another campaign."""
        each, by_campaign = (len(means), 1, 1), np.zeros((*means.shape[1:], self.n))
        for cell, measured_in in self.of_cells.items():
            by_campaign[cell][list(measured_in)] = 1 / len(measured_in)
        between = self.between * (self.n - 1) / rng.chisquare(self.n - 1, each)
        own = np.zeros(each)
        if self.own_df:
            own = np.maximum(self.own * self.own_df / rng.chisquare(self.own_df, each) - self.noise, 0.0)
        # Errors of the shifts cancel out in the mean of a cell that all campaigns measured.
        errors = rng.standard_normal((len(means), self.n)) * np.sqrt((own[:, 0] + self.noise) / max(self.n_shared, 1))
        errors -= errors.mean(axis=1, keepdims=True)
        mean = np.sqrt(between / self.n) * rng.standard_normal(each) + np.einsum("dk,abk->dab", errors, by_campaign)
        mean = mean + np.sqrt(own * (by_campaign**2).sum(axis=2)) * rng.standard_normal(means.shape)
        other = np.sqrt(between) * rng.standard_normal(each) + np.sqrt(own) * rng.standard_normal(means.shape)
        if self.log:
            factors = (np.exp(np.clip(logs, -_MOST_LOG, _MOST_LOG)) for logs in (mean, mean + other))
            return np.asarray(means * next(factors)), np.asarray(nexts * next(factors))
        return np.asarray(means + mean), np.asarray(nexts + mean + other)


def _noise(of_campaigns: Sequence[Floats]) -> float:
    """Return the variance of trials within campaigns, without effects of cells and blocks; 0 if it is not known.

    Each element has the values of one campaign: (cell, block), NaN where nothing was measured."""
    squares, df = 0.0, 0
    for values in of_campaigns:
        measured = ~np.isnan(values)
        cells, blocks = measured.any(axis=1), measured.any(axis=0)
        left, known = values[np.ix_(cells, blocks)], measured[np.ix_(cells, blocks)]
        for _ in range(1 if known.all() else _ROUNDS):
            left = left - np.nanmean(left, axis=1, keepdims=True)
            left = left - np.nanmean(left, axis=0, keepdims=True)
        squares += float(np.nansum(left**2))
        df += max(0, int(known.sum()) - left.shape[0] - left.shape[1] + 1)
    return squares / df if df else 0.0
