"""Which of several candidates hold all of their limits, at what cost, and how sure that is.

A candidate is measured in one condition or several, and holds a limit if its mean does in all of them. Each metric is
modelled by itself: a mean for each cell (a candidate in a condition), effects of blocks that are random, and noise of
each cell of its own, drawn towards the pooled one (`moderation`); on logarithms where all values are above zero, so
that a mean is geometric. What is left over in one trial is correlated between metrics. The posterior of all means under
a flat prior is drawn, and every probability is a share of the draws.

A candidate is accepted if it holds all limits with a probability that is high enough for all candidates together:
Holm's method over those that have a chance keeps the probability of accepting any that violates a limit at `alpha`. The
recommended one is the cheapest of those that are accepted. benches/decision_promises.py measures the error rates.

Sources: Berger, Technometrics 24 (1982) 295-300, for one test of several limits; Holm, Scand. J. Stat. 6 (1979) 65-70;
Andradóttir and Kim, Naval Research Logistics 57 (2010) 403-421, for the question. Loads numpy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from lastro.stats._projections import Floats
from lastro.stats.moderation import drawn_to_pooled
from lastro.stats.resolution import resolution

DRAWS = 8000
MOST_BLOCKS = 1000
_NO_CHANCE = 0.1  # of alpha: a candidate that holds its limits with less is no test of the family
_SEED = 2010
Booleans = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class MetricTrials:
    """The values of one metric: {(candidate, condition): {block: value}}, both by their numbers.

    Of the cells in `floors`, only lower bounds are known: they prove that a value is large enough, and nothing else."""

    cells: Mapping[tuple[int, int], Mapping[int, float]]
    floors: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit on the mean of a metric, given by its number: at least `value`, or at most."""

    metric: int
    value: float
    at_least: bool


@dataclass(frozen=True, slots=True)
class LimitOdds:
    """One candidate at one limit, in its worst condition: the one in which its mean may go farthest beyond.

    `mean` and its interval are those there; `holds` is the probability that the mean holds in all conditions."""

    condition: int
    mean: float
    low: float
    high: float
    holds: float


@dataclass(frozen=True, slots=True)
class CandidateOdds:
    """`holds` is the probability that all means hold in all conditions; `may_hold` the same where a bound proves
    nothing against it; `next_holds` that of one more trial in each condition. `cost` is its mean with its interval,
    None without a value; `cheapest` the probability that it is the cheapest of those that hold. `missing` are numbers
    of metrics that were not measured in some condition: such a candidate is never accepted."""

    limits: tuple[LimitOdds | None, ...]
    holds: float
    may_hold: float
    next_holds: float
    cost: tuple[float, float, float] | None
    cheapest: float
    missing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """The candidates by their numbers: `accepted` and `rejected` for all limits together, the cheaper ones first; the
    others are open. `recommended` is the cheapest that is accepted; `alike` are those accepted whose cost cannot be
    told from its cost, and `open_cheaper` those that are open and may cost less."""

    odds: tuple[CandidateOdds, ...]
    accepted: tuple[int, ...]
    rejected: tuple[int, ...]
    recommended: int | None
    alike: tuple[int, ...]
    open_cheaper: tuple[int, ...]

    @property
    def outcome(self) -> Literal["recommended", "none", "undecided"]:
        """Return "none" if no candidate holds the limits."""
        if self.recommended is not None:
            return "recommended"
        measured = sum(not odds.missing for odds in self.odds)
        return "none" if (measured or not self.odds) and len(self.rejected) == measured else "undecided"

    @property
    def likeliest(self) -> int | None:
        """Return the open candidate that most probably holds all limits; None without any."""
        if self.outcome != "undecided":
            return None
        known = (at for at, odds in enumerate(self.odds) if not odds.missing and at not in self.rejected)
        return max(known, key=lambda at: self.odds[at].holds, default=None)

    def verdict(self, at: int) -> Literal["accepted", "rejected", "open", "missing"]:
        if self.odds[at].missing:
            return "missing"
        return "accepted" if at in self.accepted else "rejected" if at in self.rejected else "open"


NO_CHOICE = Choice((), (), (), None, (), ())  # among no candidates


def choose(
    metrics: Sequence[MetricTrials],
    limits: Sequence[Limit],
    cost: Mapping[int, float],
    n_candidates: int,
    n_conditions: int,
    alpha: float = 0.05,
) -> Choice:
    """Judge the candidates by their means, accepting a violator with a probability of at most `alpha`.

    `cost` are {number of a metric: weight} of a sum, whose mean over the conditions is the cost; the metrics may be
    others than those with limits. Needs two blocks."""
    draws = _Draws(metrics, n_candidates, n_conditions)
    shape = (DRAWS, n_candidates)
    holds, may, ahead = (np.ones(shape, bool) for _ in range(3))
    of_limits = []
    for limit in limits:
        means, nexts = draws.of(limit.metric)
        floors = _floors(metrics[limit.metric], n_candidates, n_conditions)
        good, good_next = (_within(values, limit) for values in (means, nexts))
        holds &= (good & (limit.at_least | ~floors)).all(axis=2)
        may &= (good | floors).all(axis=2)
        ahead &= good_next.all(axis=2)
        of_limits.append(_limit_odds(means, good, limit, alpha))
    costs = _costs(draws, cost, shape)
    missing = [draws.missing(at, {*cost, *(limit.metric for limit in limits)}) for at in range(n_candidates)]
    cheapest = _cheapest(costs, holds)
    odds = tuple(
        CandidateOdds(
            tuple(each[at] for each in of_limits),
            *_shares(holds, may, ahead, at if not missing[at] else None),
            _spread(costs[:, at], alpha),
            cheapest[at],
            missing[at],
        )
        for at in range(n_candidates)
    )
    return _choice(odds, costs, alpha)


def drawn_means(metric: MetricTrials, n_candidates: int, n_conditions: int, seed: int = _SEED) -> Floats:
    """Return draws of the means of one metric: (draw, candidate, condition), NaN in all where there is no value."""
    return _Draws([metric], n_candidates, n_conditions, seed).of(0)[0]


def more_blocks(holds: float, n_blocks: int, chance: float, alpha: float) -> int | None:
    """Return how many more blocks decide on a candidate with this probability; None above `MOST_BLOCKS`.

    `holds` is the probability that it holds its limits after `n_blocks`, which tells how many standard errors its mean
    is from them. The truth is as uncertain as that leaves it, and the error shrinks with the root of the blocks."""
    from scipy.stats import norm

    z = float(norm.ppf(min(max(holds, 1 / DRAWS), 1 - 1 / DRAWS)))
    truths = z + norm.ppf((np.arange(200) + 0.5) / 200)
    needed = float(norm.ppf(1 - alpha))
    more: int
    for more in (*range(1, 50), *range(50, 200, 5), *range(200, MOST_BLOCKS + 1, 20)):
        sharper = math.sqrt((n_blocks + more) / n_blocks)
        if float(norm.cdf(np.abs(truths) * sharper - needed).mean()) >= chance:
            return more
    return None


def _choice(odds: tuple[CandidateOdds, ...], costs: Floats, alpha: float) -> Choice:
    known = [at for at, each in enumerate(odds) if not each.missing]
    order = sorted(known, key=lambda at: odds[at].cost or (math.inf,) * 3)
    accepted = _by_holm({at: 1 - odds[at].holds for at in known if odds[at].may_hold > alpha * _NO_CHANCE}, alpha)
    rejected = _by_holm({at: odds[at].may_hold for at in known}, alpha) - accepted
    recommended = next((at for at in order if at in accepted), None)
    alike: tuple[int, ...] = ()
    cheaper: tuple[int, ...] = tuple(at for at in order if at not in accepted | rejected)
    if recommended is not None:
        less = {at: float((costs[:, at] < costs[:, recommended]).mean()) for at in order if at != recommended}
        alike = tuple(at for at in order if at in accepted and less.get(at, 0.0) > alpha)
        cheaper = tuple(at for at in cheaper if less[at] > alpha)
    return Choice(
        odds,
        tuple(at for at in order if at in accepted),
        tuple(at for at in order if at in rejected),
        recommended,
        alike,
        cheaper,
    )


def _by_holm(ps: Mapping[int, float], alpha: float) -> set[int]:
    """Return those whose p is small enough by Holm's method."""
    found: set[int] = set()
    for left, at in zip(range(len(ps), 0, -1), sorted(ps, key=ps.__getitem__), strict=True):
        if ps[at] > alpha / left:
            break
        found.add(at)
    return found


def _shares(holds: Booleans, may: Booleans, ahead: Booleans, at: int | None) -> tuple[float, float, float]:
    if at is None:
        return math.nan, math.nan, math.nan
    return float(holds[:, at].mean()), float(may[:, at].mean()), float(ahead[:, at].mean())


def _within(values: Floats, limit: Limit) -> Booleans:
    return values >= limit.value if limit.at_least else values <= limit.value


def _floors(metric: MetricTrials, n_candidates: int, n_conditions: int) -> Booleans:
    found = np.zeros((n_candidates, n_conditions), bool)
    for cell in metric.floors:
        found[cell] = True
    return found


def _limit_odds(means: Floats, good: Booleans, limit: Limit, alpha: float) -> list[LimitOdds | None]:
    ends = np.quantile(means, alpha / 2 if limit.at_least else 1 - alpha / 2, axis=0)
    worst = ends.argmin(axis=1) if limit.at_least else ends.argmax(axis=1)
    found: list[LimitOdds | None] = []
    for at, condition in enumerate(worst):
        drawn = _spread(means[:, at, condition], alpha)
        found.append(LimitOdds(int(condition), *drawn, float(good[:, at].all(axis=1).mean())) if drawn else None)
    return found


def _spread(drawn: Floats, alpha: float) -> tuple[float, float, float] | None:
    """Return the median of draws, and the interval that has all but `alpha` of them; None without a value."""
    if np.isnan(drawn).any():
        return None
    low, middle, high = (float(each) for each in np.quantile(drawn, (alpha / 2, 0.5, 1 - alpha / 2)))
    return middle, low, high


def _costs(draws: _Draws, cost: Mapping[int, float], shape: tuple[int, int]) -> Floats:
    total = np.zeros(shape)
    for metric, weight in cost.items():
        total += weight * draws.of(metric)[0].mean(axis=2)
    return total


def _cheapest(costs: Floats, holds: Booleans) -> list[float]:
    """Return for each candidate the share of draws in which it is the cheapest of those that hold."""
    usable = np.where(holds & ~np.isnan(costs), costs, np.inf)
    first = usable.argmin(axis=1)[np.isfinite(usable).any(axis=1)]
    return [float(n) / len(costs) for n in np.bincount(first, minlength=costs.shape[1])]


class _Draws:
    """Draws from the posterior of all means, and of one more trial in each cell: (draw, candidate, condition).

    A cell without values is NaN in all draws."""

    def __init__(
        self, metrics: Sequence[MetricTrials], n_candidates: int, n_conditions: int, seed: int = _SEED
    ) -> None:
        self._rng = np.random.default_rng(seed)
        self._size = (DRAWS, n_candidates, n_conditions)
        self._fits = [_FittedMetric.of(metric, n_candidates, n_conditions) for metric in metrics]
        mixing = np.linalg.cholesky(_correlations(self._fits))
        # What is left over in a trial is correlated between metrics: so is the error of their means.
        plain = self._rng.standard_normal((len(metrics), *self._size))
        self._errors = np.einsum("ij,jabc->iabc", mixing, plain)
        self._drawn: dict[int, tuple[Floats, Floats]] = {}

    def of(self, metric: int) -> tuple[Floats, Floats]:
        if metric not in self._drawn:
            self._drawn[metric] = self._fits[metric].drawn(self._errors[metric], self._rng)
        return self._drawn[metric]

    def missing(self, candidate: int, metrics: set[int]) -> tuple[int, ...]:
        return tuple(sorted(at for at in metrics if np.isnan(self._fits[at].means[candidate]).any()))


@dataclass(frozen=True, slots=True)
class _FittedMetric:
    """Means by candidate and condition (NaN without a value), and what a mean is uncertain by.

    `between` is the variance of the effects of `n_blocks` blocks, `share` that part of it that is noise of the cells;
    `noise` and `df` are of each cell, `n` its number of values, `inner` the part of the noise that is left to it.
    `residuals` are {(candidate, condition, block): value}."""

    log: bool
    means: Floats
    n: Floats
    noise: Floats
    df: Floats
    inner: float
    between: float
    share: float
    n_blocks: int
    residuals: Mapping[tuple[int, int, int], float]

    @classmethod
    def of(cls, metric: MetricTrials, n_candidates: int, n_conditions: int) -> _FittedMetric:
        blocks = sorted({block for own in metric.cells.values() for block in own})
        grid = np.full((n_candidates, n_conditions, max(1, len(blocks))), np.nan)
        for (candidate, condition), own in metric.cells.items():
            for block, value in own.items():
                grid[candidate, condition, blocks.index(block)] = value
        there = ~np.isnan(grid)
        log = bool((grid[there] > 0).all())
        grid = np.log(grid) if log else grid
        effects = _block_effects(grid, there)
        left = grid - effects
        n = there.sum(axis=2)
        means = np.where(n > 0, np.nansum(left, axis=2) / np.maximum(n, 1), np.nan)
        residuals = np.where(there, left - means[:, :, None], 0.0)
        cells = int((n > 0).sum())
        inner = 1 - 1 / cells if cells > 1 else 1.0  # of the noise of a cell; the rest moves the effects of blocks
        squares, own_df = (residuals**2).sum(axis=2), np.maximum(n - 1, 0) * inner
        noise, df = _moderated(squares, own_df)
        step = resolution([value for own in metric.cells.values() for value in own.values()])
        noise = noise + (step / np.exp(means) if log else step) ** 2 / 12  # equal values are equal to the resolution
        between = float(effects.var(ddof=1)) if len(blocks) > 1 and cells > 1 else 0.0
        return cls(
            log, means, n.astype(float), noise, df, inner, between, float(np.nanmean(noise)) * (1 - inner), len(blocks),
            {(int(a), int(b), int(c)): float(residuals[a, b, c]) for a, b, c in np.argwhere(there)},
        )  # fmt: skip

    def drawn(self, errors: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return draws of all means, and of one more trial each, by standard normal errors of the cells."""
        size = errors.shape
        noise = self.noise * self.df / rng.chisquare(np.maximum(self.df, 0.5), size)
        df = max(self.n_blocks - 1, 1)
        between = self.between * df / rng.chisquare(df, (size[0], 1, 1))
        shift = rng.standard_normal((size[0], 1, 1))
        blocks = np.maximum(between, self.share)  # the noise of few cells moves the effects of blocks, too
        means = self._near_additive(errors * np.sqrt(self.inner * noise / np.maximum(self.n, 1)), noise, rng)
        means = means + shift * np.sqrt(blocks / self.n_blocks)
        ahead = rng.standard_normal((size[0], 1, 1)) * np.sqrt(np.maximum(between - self.share, 0.0))
        nexts = means + ahead + rng.standard_normal(size) * np.sqrt(noise)
        return (_exp(means), _exp(nexts)) if self.log else (means, nexts)

    def _near_additive(self, errors: Floats, noise: Floats, rng: np.random.Generator) -> Floats:
        """Return means of which those of candidates and conditions have a flat prior, and interactions a normal one.

        How far interactions scatter is estimated from them, and as uncertain as few of them leave it. With a flat prior
        on these, too, the worst of many conditions would look worse than it is."""
        df = (self.means.shape[0] - 1) * (self.means.shape[1] - 1)
        if not df or np.isnan(self.means).any():
            return self.means + errors
        error = noise / np.maximum(self.n, 1)
        apart = self.means - _additive(self.means)
        scatter = (apart**2).sum() / rng.chisquare(df, (len(errors), 1, 1)) - error.mean(axis=(1, 2), keepdims=True)
        kept = np.maximum(scatter, 0.0) / (np.maximum(scatter, 0.0) + error)
        common = _additive(errors)
        return np.asarray(_additive(self.means) + common + kept * apart + np.sqrt(kept) * (errors - common))


def _exp(logs: Floats) -> Floats:
    return np.asarray(np.exp(np.clip(logs, -600, 600)))  # two blocks may leave almost anything possible


def _additive(values: Floats) -> Floats:
    """Return the sum of the means over the last two axes that fits best."""
    rows, columns = values.mean(axis=-1, keepdims=True), values.mean(axis=-2, keepdims=True)
    return np.asarray(rows + columns - values.mean(axis=(-2, -1), keepdims=True))


def _block_effects(grid: Floats, there: Booleans) -> Floats:
    """Return the effect of each block, by alternating means over cells and blocks; they sum to zero."""
    effects = np.zeros(grid.shape[2])
    if there.any(axis=2).sum() < 2:
        return effects
    in_cell, in_block = np.maximum(there.sum(axis=2), 1), np.maximum(there.sum(axis=(0, 1)), 1)
    for _ in range(1 if there.all() else 50):
        means = np.nansum(grid - effects, axis=2) / in_cell
        effects = np.nansum(np.where(there, grid - means[:, :, None], 0.0), axis=(0, 1)) / in_block
        effects -= effects.mean()
    return effects


def _moderated(squares: Floats, df: Floats) -> tuple[Floats, Floats]:
    """Return the variance of each cell, drawn towards the pooled one, and its degrees of freedom.

    A cell with one value or none has the pooled variance alone."""
    known = df > 0
    if not known.any():
        return np.full(df.shape, np.nan), np.ones(df.shape)
    own = squares[known] / df[known]
    found = drawn_to_pooled(own.tolist(), df[known].tolist())
    pooled = float(squares[known].sum() / df[known].sum())
    noise, freedom = np.full(df.shape, pooled), np.ones(df.shape)
    noise[known], freedom[known] = found.variances, found.df
    return noise, freedom


def _correlations(fits: Sequence[_FittedMetric]) -> Floats:
    """Return the correlations of what is left over in the same trials, over all cells; drawn towards none."""
    n = len(fits)
    found = np.eye(n)
    for a in range(n):
        for b in range(a):
            shared = [key for key in fits[a].residuals if key in fits[b].residuals]
            x, y = (np.array([_standard(fit, key) for key in shared]) for fit in (fits[a], fits[b]))
            scale = math.sqrt(float((x**2).sum() * (y**2).sum())) if shared else 0.0
            if scale > 0:
                r = float((x * y).sum()) / scale
                found[a, b] = found[b, a] = r * len(shared) / (len(shared) + 10)
    values, vectors = np.linalg.eigh(found)
    found = (vectors * np.maximum(values, 1e-6)) @ vectors.T
    sizes = np.sqrt(np.diag(found))
    return np.asarray(found / np.outer(sizes, sizes))


def _standard(fit: _FittedMetric, key: tuple[int, int, int]) -> float:
    noise = float(fit.noise[key[0], key[1]])
    return fit.residuals[key] / math.sqrt(noise) if noise > 0 else 0.0
