"""Decide which of several candidates hold all of their limits, and which of these costs the least.

A candidate is measured in one or more conditions. It holds a limit if its mean holds it in every condition. The
posterior of all means is drawn (`cell_means`), and every probability is a fraction of the draws.

A candidate is accepted if it probably enough holds all limits: Holm's method, over the candidates that have a chance,
keeps the probability of accepting any violator of a limit at `alpha`. In a campaign with a look after each block
(`looks`), this is about the probability over all looks together (`spending`). The recommended candidate is the cheapest
accepted one. benches/decision_promises.py measures the error rates, and benches/more_blocks.py how often `more_blocks`
are enough.

Sources: Berger, Technometrics 24 (1982) 295-300, for one test of several limits; Holm, Scand. J. Stat. 6 (1979) 65-70;
Andradóttir and Kim, Naval Research Logistics 57 (2010) 403-421, for the question. Loads numpy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from lastro.stats._projections import Floats
from lastro.stats.campaign_effects import Campaigns, draws_of
from lastro.stats.cell_means import DRAWS, Booleans, MetricTrials
from lastro.stats.intervals import Estimate, posterior_median
from lastro.stats.simultaneous import Outlook, least_blocks

# The draws have a fixed seed, so the error of a level is the same in all decisions on the same number of blocks. It may
# be a tenth of the level with the usual number of draws. Few candidates have up to `_FINER` times as many draws, with
# which they take no longer than `_MOST_VALUES` values of each draw with the usual number. A look, whose level is
# smaller, has more values.
_FINER = 4
_MOST_VALUES, _MOST_VALUES_AT_LOOK = 48, 1250
_NO_CHANCE = 0.1  # of alpha: a candidate that holds its limits with a lower probability is not in the family of tests
_NORMAL_TAILS = 200.0  # degrees of freedom with which Student's t is nearly normal


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit on the mean of a metric: at least `value` if `at_least`, else at most. `metric` is the metric's index."""

    metric: int
    value: float
    at_least: bool


class TailOdds(NamedTuple):
    """The probability `p` that a quantity is on the good side of a value, by draws.

    `df` are the degrees of freedom of Student's t whose tails are as heavy as those of the draws. `unknown` is the
    probability of draws that show neither side, since values are only lower bounds."""

    p: float
    df: float
    unknown: float = 0.0


@dataclass(frozen=True, slots=True)
class LimitOdds:
    """How a candidate compares with one limit in its worst `condition`, where its mean may violate the limit the most.

    `mean` is that in the worst condition, and `df` are the degrees of freedom of its tails (`TailOdds`). `holds` is the
    probability that the mean holds the limit in all conditions."""

    condition: int
    mean: Estimate
    holds: float
    df: float


@dataclass(frozen=True, slots=True)
class CandidateOdds:
    """How probably one candidate holds all of its limits, and what it costs.

    `holds` is the probability that all means hold their limits in all conditions. `may_hold` is this probability if
    values that are only lower bounds count as holding limits of at least a value. `next_holds` is the probability that
    one more trial in each condition holds all limits. The three are NaN for a candidate with `missing` metrics. `cost`
    is None if it is not known. `cheapest` is the probability that this candidate holds all limits and costs the least
    of all candidates that do. `missing` are the indices of the metrics that were not measured in at least one
    condition: a candidate with any is never accepted."""

    limits: tuple[LimitOdds | None, ...]
    holds: float
    may_hold: float
    next_holds: float
    cost: Estimate | None
    cheapest: float
    missing: tuple[int, ...] = ()

    @property
    def tail(self) -> TailOdds:
        """The probability that it holds all limits, with the tails of the limit that it holds least probably."""
        least = min((odds for odds in self.limits if odds), key=lambda odds: odds.holds, default=None)
        return TailOdds(self.holds, least.df if least else _NORMAL_TAILS, self.may_hold - self.holds)


@dataclass(frozen=True, slots=True)
class Stage:
    """One of several looks at a campaign that grows, with the indices of candidates that earlier looks decided.

    `level` takes the error probability that all looks together may have, and returns the level of significance for the
    tests of this look (`spending`)."""

    level: Callable[[float], float]
    accepted: frozenset[int] = frozenset()
    rejected: frozenset[int] = frozenset()


_ONLY_LOOK = Stage(lambda alpha: alpha)


@dataclass(frozen=True, slots=True)
class Choice:
    """The decision: which candidates are accepted, rejected or open, by their indices, in order of cost.

    `odds` has an entry for each candidate, in the order of their indices. `recommended` is the cheapest accepted
    candidate. `alike` are the other accepted candidates whose cost is not distinguishable from that of the recommended
    one; `alike_less` has for each how probably it costs less. `open_cheaper` are open candidates that may cost
    less than the recommended one. `saving` is the fraction of the recommended candidate's cost that the truly cheapest
    accepted candidate would save, averaged over the uncertainty of the costs."""

    odds: tuple[CandidateOdds, ...]
    accepted: tuple[int, ...]
    rejected: tuple[int, ...]
    recommended: int | None
    alike: tuple[int, ...]
    open_cheaper: tuple[int, ...]
    saving: float = 0.0
    alike_less: tuple[TailOdds, ...] = ()

    @property
    def outcome(self) -> Literal["recommended", "none", "undecided"]:
        """The outcome: a candidate is recommended, none holds the limits, or more data would be needed."""
        if self.recommended is not None:
            return "recommended"
        measured = sum(not odds.missing for odds in self.odds)
        return "none" if (measured or not self.odds) and len(self.rejected) == measured else "undecided"

    def levels(self, alpha: float) -> tuple[float, float]:
        """Return the levels of significance at which Holm's method next accepts, and next rejects, an open candidate.

        It divides `alpha` by the number of candidates that are not yet significant."""
        measured = [at for at, odds in enumerate(self.odds) if not odds.missing]
        to_accept = sum(_has_chance(self.odds[at], alpha) and at not in self.accepted for at in measured)
        to_reject = sum(at not in self.rejected for at in measured)
        return alpha / max(1, to_accept), alpha / max(1, to_reject)

    @property
    def likeliest(self) -> int | None:
        """The open candidate that most probably holds all limits; None unless the outcome is "undecided"."""
        if self.outcome != "undecided":
            return None
        open_ones = (at for at, odds in enumerate(self.odds) if not odds.missing and at not in self.rejected)
        return max(open_ones, key=lambda at: self.odds[at].holds, default=None)

    def verdict(self, candidate: int) -> Literal["accepted", "rejected", "open", "missing"]:
        """Return the verdict on a candidate; "missing" if a metric was not measured in some condition."""
        if self.odds[candidate].missing:
            return "missing"
        if candidate in self.accepted:
            return "accepted"
        return "rejected" if candidate in self.rejected else "open"


NO_CHOICE = Choice((), (), (), None, (), ())  # among no candidates


def choose(
    metrics: Sequence[MetricTrials],
    limits: Sequence[Limit],
    cost: Mapping[int, float],
    size: tuple[int, int],
    alpha: float = 0.05,
    stage: Stage = _ONLY_LOOK,
    campaigns: Campaigns | None = None,
) -> Choice:
    """Judge the candidates by their means, accepting any violator of a limit with a probability of at most `alpha`.

    The cost of a candidate is the mean over the conditions of a weighted sum of metrics. `cost` are the weights, {index
    of the metric: weight}; these metrics need no limits. `size` is (number of candidates, number of conditions).
    `stage` is for a look at a campaign that grows. `campaigns` are {block: campaign} if there are several, which
    `campaign_effects` requires to be linked. At least two blocks are needed."""
    n_candidates, n_conditions = size
    most_values = _MOST_VALUES if stage is _ONLY_LOOK else _MOST_VALUES_AT_LOOK
    finer = most_values // max(1, n_candidates * n_conditions * len(metrics))
    shape = (DRAWS * min(max(1, finer), _FINER), n_candidates)
    draws = draws_of(metrics, (*shape, n_conditions), campaigns)
    holds, may_hold, next_holds = (np.ones(shape, bool) for _ in range(3))
    of_limits = []
    for limit in limits:
        floors = np.zeros(size, bool)  # where values are only lower bounds
        for cell in metrics[limit.metric].floors:
            floors[cell] = True
        means, nexts = draws.of(limit.metric)
        good, good_next = (
            values >= limit.value if limit.at_least else values <= limit.value for values in (means, nexts)
        )
        holds &= (good & (limit.at_least | ~floors)).all(axis=2)
        may_hold &= (good | (floors & limit.at_least)).all(axis=2)
        next_holds &= good_next.all(axis=2)
        of_limits.append(_limit_odds(means, good, limit, alpha))
    costs = np.zeros(shape)
    for metric, weight in cost.items():
        costs += weight * draws.of(metric)[0].mean(axis=2)
    # The cheapest candidate that holds all limits, of each draw in which one does.
    usable = np.where(holds & ~np.isnan(costs), costs, np.inf)
    first = usable.argmin(axis=1)[np.isfinite(usable).any(axis=1)]
    cheapest = np.bincount(first, minlength=n_candidates) / len(costs)
    odds = []
    for at in range(n_candidates):
        limit_odds = tuple(by_candidate[at] for by_candidate in of_limits)
        missing = draws.missing(at, {*cost, *(limit.metric for limit in limits)})
        held, may, held_next = (
            math.nan if missing else float(draw[:, at].mean()) for draw in (holds, may_hold, next_holds)
        )
        cost_here = posterior_median(costs[:, at], alpha)
        odds.append(CandidateOdds(limit_odds, held, may, held_next, cost_here, float(cheapest[at]), missing))
    return _choice(tuple(odds), costs, alpha, stage)


def more_blocks(odds: TailOdds, n_blocks: int, chance: float, alphas: tuple[float, float]) -> int | None:
    """Return how many more blocks are needed to accept or reject a candidate with the probability `chance`.

    None if that takes more than `MOST_BLOCKS`. `odds` say, after `n_blocks` blocks, how probably it holds its limits,
    or costs more than another. `alphas` are the levels of significance of accepting and of rejecting it.

    By Student's t, the probability is how many standard errors the mean is from the limits, or from the other cost. The
    blocks so far remain part of the mean (`Outlook`). Values that are only lower bounds remain so."""
    from scipy.special import stdtrit

    least = 1 / DRAWS  # the least probability that the draws can show
    p_may_hold = odds.p + odds.unknown
    accepts, rejects = (
        Outlook(float(stdtrit(odds.df, min(max(p, least), 1 - least))), 1.0, odds.df, n_blocks, 1 - 2 * alpha)
        for p, alpha in zip((odds.p, p_may_hold), alphas, strict=True)
    )

    def decides(n: int) -> float:
        accepted = accepts.lies_in(lambda half: [(half, math.inf)], n)
        return accepted + rejects.lies_in(lambda half: [(-math.inf, -half)], n)

    return least_blocks(lambda more: decides(n_blocks + more), chance, 1)


def _choice(odds: tuple[CandidateOdds, ...], costs: Floats, alpha: float, stage: Stage) -> Choice:
    """Accept and reject candidates, and recommend the cheapest accepted one. `costs` are draws: (draw, candidate)."""
    known = [at for at in range(len(odds)) if not odds[at].missing]
    order = sorted(known, key=lambda at: cost.spread if (cost := odds[at].cost) else (math.inf,) * 3)
    least = 1 / len(costs)  # the least probability that this number of draws can show
    violates = {at: max(1 - odds[at].holds, least) for at in known if _has_chance(odds[at], alpha)}
    accepted = _by_holm(violates, alpha, stage, stage.accepted) - stage.rejected
    rejected = _by_holm({at: max(odds[at].may_hold, least) for at in known}, alpha, stage, stage.rejected) - accepted
    in_order = tuple(at for at in order if at in accepted)
    recommended = next(iter(in_order), None)
    alike: tuple[int, ...] = ()
    alike_less: tuple[TailOdds, ...] = ()
    saving = 0.0
    cheaper = tuple(at for at in order if at not in accepted | rejected)
    if recommended is not None:
        less = {at: float((costs[:, at] < costs[:, recommended]).mean()) for at in order if at != recommended}
        alike = tuple(at for at in in_order if less.get(at, 0.0) > alpha)
        alike_less = tuple(TailOdds(less[at], _tails(costs[:, at] - costs[:, recommended])) for at in alike)
        cheaper = tuple(at for at in cheaper if less[at] > alpha)
        own, least_cost = costs[:, recommended], costs[:, in_order].min(axis=1)
        saving = float((1 - least_cost / own).mean()) if (own > 0).all() else 0.0
    rejected_in_order = tuple(at for at in order if at in rejected)
    return Choice(odds, in_order, rejected_in_order, recommended, alike, cheaper, saving, alike_less)


def _has_chance(odds: CandidateOdds, alpha: float) -> bool:
    """Return whether a candidate is in the family of those that are tested for acceptance."""
    return odds.may_hold > alpha * _NO_CHANCE


def _tails(draws: Floats) -> float:
    """Return the degrees of freedom of Student's t whose tails are as heavy as those of the draws."""
    from scipy.special import stdtrit

    low, first, third, high = np.quantile(draws, (0.025, 0.25, 0.75, 0.975))
    if not third > first:
        return _NORMAL_TAILS
    dfs = np.geomspace(1, _NORMAL_TAILS, 80)
    heaviness = stdtrit(dfs, 0.975) / stdtrit(dfs, 0.75)  # falls with the degrees of freedom
    return float(np.interp(-(high - low) / (third - first), -heaviness, dfs))


def _by_holm(ps: Mapping[int, float], alpha: float, stage: Stage, before: frozenset[int]) -> frozenset[int]:
    """Return the candidates significant by Holm's method, or already `before`; `ps` are {candidate: p}."""
    significant, new = set(before), sorted(ps.keys() - before, key=ps.__getitem__)
    for n_left, at in zip(range(len(new), 0, -1), new, strict=True):
        if ps[at] > stage.level(alpha / n_left):
            break
        significant.add(at)
    return frozenset(significant)


def _limit_odds(means: Floats, good: Booleans, limit: Limit, alpha: float) -> list[LimitOdds | None]:
    """Return for each candidate how it compares with a limit; None if its worst condition has no value.

    `means` are draws, and `good` is where they hold the limit: (draw, candidate, condition)."""
    ends = np.quantile(means, alpha / 2 if limit.at_least else 1 - alpha / 2, axis=0)
    worst = ends.argmin(axis=1) if limit.at_least else ends.argmax(axis=1)
    odds: list[LimitOdds | None] = []
    for at, condition in enumerate(worst):
        mean = posterior_median(means[:, at, condition], alpha)
        holds = float(good[:, at].all(axis=1).mean())
        odds.append(LimitOdds(int(condition), mean, holds, _tails(means[:, at, condition])) if mean else None)
    return odds
