"""Which of several candidates hold all of their limits, at what cost, and how sure that is.

A candidate is measured in one condition or several, and holds a limit if its mean does in all of them. The posterior of
all means is drawn (`cell_means`), and every probability is a share of the draws.

A candidate is accepted if it holds all limits with a probability that is high enough for all candidates together:
Holm's method over those that have a chance keeps the probability of accepting any that violates a limit at `alpha`. The
recommended one is the cheapest of those that are accepted. Of a campaign that looks after each block (`looks`), all
looks together do. benches/decision_promises.py measures the error rates.

Sources: Berger, Technometrics 24 (1982) 295-300, for one test of several limits; Holm, Scand. J. Stat. 6 (1979) 65-70;
Andradóttir and Kim, Naval Research Logistics 57 (2010) 403-421, for the question. Loads numpy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from lastro.stats._projections import Floats
from lastro.stats.cell_means import DRAWS, Booleans, MeanDraws, MetricTrials

_FINER = 4  # times as many draws at a look, whose level is smaller, as long as there is room for them
_MOST_DRAWN = 10_000_000
MOST_BLOCKS = 1000
_NO_CHANCE = 0.1  # of alpha: a candidate that holds its limits with less is no test of the family


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
    """How probably one candidate holds all of its limits, and what it costs.

    `holds` is the probability that all means hold in all conditions, and `may_hold` the same if values that are only
    lower bounds count as holding. `next_holds` is the probability for one more trial in each condition. `cost` is the
    mean cost with its interval, None without a value, and `cheapest` the probability that this candidate costs the
    least of those that hold. `missing` are numbers of metrics that were not measured in some condition: such a
    candidate is never accepted."""

    limits: tuple[LimitOdds | None, ...]
    holds: float
    may_hold: float
    next_holds: float
    cost: tuple[float, float, float] | None
    cheapest: float
    missing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Stage:
    """One look of several at a campaign that grows. What earlier ones have found stays found, by numbers of candidates.

    `level` returns the level of this look for the error of all of them (`spending`)."""

    level: Callable[[float], float]
    accepted: frozenset[int] = frozenset()
    rejected: frozenset[int] = frozenset()


_ONLY_LOOK = Stage(lambda alpha: alpha)


@dataclass(frozen=True, slots=True)
class Choice:
    """The candidates that are accepted, rejected or open for all limits together, by their numbers; the cheaper first.

    `recommended` is the cheapest accepted candidate. `alike` are other accepted ones whose cost is not distinguishable
    from its cost, and `open_cheaper` are open ones that may cost less. `saving` is the fraction of its cost that the
    truly cheapest accepted candidate would save, averaged over what is not known of the costs."""

    odds: tuple[CandidateOdds, ...]
    accepted: tuple[int, ...]
    rejected: tuple[int, ...]
    recommended: int | None
    alike: tuple[int, ...]
    open_cheaper: tuple[int, ...]
    saving: float = 0.0

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
    size: tuple[int, int],
    alpha: float = 0.05,
    stage: Stage = _ONLY_LOOK,
) -> Choice:
    """Judge the candidates by their means, accepting a violator with a probability of at most `alpha`.

    `cost` are {number of a metric: weight} of a sum, whose mean over the conditions is the cost; the metrics may be
    others than those with limits. `size`: the numbers of candidates and of conditions. Needs two blocks."""
    n_candidates, n_conditions = size
    finer = min(_FINER * DRAWS, _MOST_DRAWN // max(1, n_candidates * n_conditions * len(metrics)))
    shape = (DRAWS if stage is _ONLY_LOOK else max(DRAWS, finer), n_candidates)
    draws = MeanDraws(metrics, (*shape, n_conditions))
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
    return _choice(odds, costs, alpha, stage)


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


def _choice(odds: tuple[CandidateOdds, ...], costs: Floats, alpha: float, stage: Stage) -> Choice:
    known = [at for at, each in enumerate(odds) if not each.missing]
    order = sorted(known, key=lambda at: odds[at].cost or (math.inf,) * 3)
    least = 1 / len(costs)  # what draws can tell from 0
    violates = {at: max(1 - odds[at].holds, least) for at in known if odds[at].may_hold > alpha * _NO_CHANCE}
    accepted = _by_holm(violates, alpha, stage, stage.accepted) - stage.rejected
    rejected = _by_holm({at: max(odds[at].may_hold, least) for at in known}, alpha, stage, stage.rejected) - accepted
    recommended = next((at for at in order if at in accepted), None)
    alike: tuple[int, ...] = ()
    saving = 0.0
    cheaper: tuple[int, ...] = tuple(at for at in order if at not in accepted | rejected)
    if recommended is not None:
        less = {at: float((costs[:, at] < costs[:, recommended]).mean()) for at in order if at != recommended}
        alike = tuple(at for at in order if at in accepted and less.get(at, 0.0) > alpha)
        cheaper = tuple(at for at in cheaper if less[at] > alpha)
        saving = _saving(costs[:, recommended], costs[:, [at for at in order if at in accepted]])
    return Choice(
        odds,
        tuple(at for at in order if at in accepted),
        tuple(at for at in order if at in rejected),
        recommended,
        alike,
        cheaper,
        saving,
    )


def _saving(own: Floats, costs: Floats) -> float:
    """Return the average fraction of a cost that the least of these costs saves; 0 unless costs are above zero."""
    return float((1 - costs.min(axis=1) / own).mean()) if (own > 0).all() else 0.0


def _by_holm(ps: Mapping[int, float], alpha: float, stage: Stage, before: frozenset[int]) -> frozenset[int]:
    """Return those whose p is small enough by Holm's method, after those that were found before."""
    found, new = set(before), sorted(ps.keys() - before, key=ps.__getitem__)
    for left, at in zip(range(len(new), 0, -1), new, strict=True):
        if ps[at] > stage.level(alpha / left):
            break
        found.add(at)
    return frozenset(found)


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


def _costs(draws: MeanDraws, cost: Mapping[int, float], shape: tuple[int, int]) -> Floats:
    total = np.zeros(shape)
    for metric, weight in cost.items():
        total += weight * draws.of(metric)[0].mean(axis=2)
    return total


def _cheapest(costs: Floats, holds: Booleans) -> list[float]:
    """Return for each candidate the share of draws in which it is the cheapest of those that hold."""
    usable = np.where(holds & ~np.isnan(costs), costs, np.inf)
    first = usable.argmin(axis=1)[np.isfinite(usable).any(axis=1)]
    return [float(n) / len(costs) for n in np.bincount(first, minlength=costs.shape[1])]
