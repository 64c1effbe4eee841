"""The promises of `lastro decide`: how often a violator is recommended, and whether stated probabilities are right.

    python benches/decision_promises.py            1,000 worlds for each row: about half an hour
    python benches/decision_promises.py 200        fewer

Each world has eight candidates in two conditions, a level on a throughput (noise 5 %), one on a latency (noise 30 %)
and a cost (noise 5 %). Half of the candidates hold each level, more or less far from it. In a third of the worlds, the
cheapest that holds lies exactly on a limit. A violator is a candidate whose true mean breaks a level in a condition.
*Caution* is by how much stated probabilities are nearer to 50 % than they should be: a factor of their normal
quantiles, over all of them, which is 1 if they are right.

The second table is of the least favourable worlds: there is one level, and all candidates lie exactly on it, so that
each recommendation is an error. The cheapest may be five times as noisy as the others."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from lastro.stats import decision
from lastro.stats.cell_means import MetricTrials
from lastro.stats.decision import Choice, Limit, choose

CANDIDATES, CONDITIONS, ALPHA = 8, 2, 0.05
NOISE = np.array([0.05, 0.30, 0.05])  # throughput, latency, cost
LIMITS = (Limit(0, 1.0, True), Limit(1, 1.0, False))
BINS = (0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0)
KINDS = (
    "equal noise",
    "one candidate five times noisier",
    "correlated metrics",
    "blocks that depend on each other",
    "blocks that differ three times as much as trials",
)
LEAST_FAVOURABLE = {
    (1, 1): "two, equal noise",
    (5, 1): "two, the cheaper one five times noisier",
    (1,) * 8: "eight, equal noise",
    (5, *(1,) * 7): "eight, the cheapest five times noisier",
}


@dataclass
class Tally:
    worlds: int = 0
    recommended: int = 0
    violators: int = 0  # recommended
    best: int = 0  # recommended, and truly the cheapest that holds
    stated: list[tuple[float, bool]] = field(default_factory=list)
    intervals: list[bool] = field(default_factory=list)  # of means where they are worst: whether they hold the truth
    costs: list[bool] = field(default_factory=list)

    def add(self, choice: Choice, means: np.ndarray) -> None:
        """Add a world. One in which the best was moved to its limit is no test of stated probabilities."""
        holds, cost = holding(means), means[2].mean(axis=1)
        self.worlds += 1
        if choice.recommended is not None:
            self.recommended += 1
            self.violators += not holds[choice.recommended]
            self.best += bool(holds.any()) and choice.recommended == int(np.where(holds, cost, np.inf).argmin())
        truth = np.exp(means)
        for at, odds in enumerate(choice.odds):
            for metric, one in enumerate(odds.limits):
                assert one is not None and odds.cost is not None
                self.intervals.append(one.mean.interval.holds(truth[metric, at, one.condition]))
            self.costs.append(odds.cost.interval.holds(truth[2, at].mean()))
        if not (np.abs(means[:2]) < 1e-12).any():
            self.stated += [(odds.holds, bool(true)) for odds, true in zip(choice.odds, holds, strict=True)]


def world(rng: np.random.Generator, *, on_the_limit: bool) -> np.ndarray:
    """Return the logarithms of true means: (metric, candidate, condition)."""
    means = rng.normal(0.0, NOISE[:, None, None], (3, CANDIDATES, CONDITIONS))
    means += (NOISE * 4)[:, None, None] * rng.normal(0.0, 1.0, (3, CANDIDATES, 1))
    means[:2] += (NOISE * 2 * [1, -1, 0])[:2, None, None]
    if on_the_limit and (good := holding(means)).any():
        best = int(np.where(good, means[2].mean(axis=1), np.inf).argmin())
        metric, condition = rng.integers(2), rng.integers(CONDITIONS)
        means[metric, best, condition] = 0.0
    return means


def holding(means: np.ndarray) -> np.ndarray:
    """Return which candidates hold both levels in all conditions."""
    return (means[0] >= -1e-12).all(axis=1) & (means[1] <= 1e-12).all(axis=1)


def trials(rng: np.random.Generator, means: np.ndarray, n: int, kind: str) -> list[MetricTrials]:
    noise = np.broadcast_to(NOISE[:, None, None, None], (*means.shape, 1)).copy()
    if kind == KINDS[1]:
        noise[:, rng.integers(CANDIDATES)] *= 5
    plain = rng.standard_normal((*means.shape, n))
    if kind == KINDS[2]:  # what slows a trial down raises its latency and its cost
        mixing = np.linalg.cholesky(np.array([[1, -0.8, -0.6], [-0.8, 1, 0.6], [-0.6, 0.6, 1]]))
        plain = np.einsum("ij,jabc->iabc", mixing, plain)
    blocks = rng.normal(0.0, NOISE[:, None, None, None] * (3 if kind == KINDS[4] else 0.5), (3, 1, 1, n))
    if kind == KINDS[3]:  # the host drifts: each block is like the one before it
        for at in range(1, n):
            blocks[..., at] = 0.7 * blocks[..., at - 1] + math.sqrt(1 - 0.7**2) * blocks[..., at]
    values = np.exp(means[..., None] + blocks + noise * plain)
    cells = [(a, b) for a in range(CANDIDATES) for b in range(CONDITIONS)]
    return [MetricTrials({cell: dict(enumerate(own[cell].tolist())) for cell in cells}) for own in values]


def tally(n: int, kind: str, worlds: int, seed: int = 48) -> Tally:
    rng, found = np.random.default_rng([seed, n, KINDS.index(kind)]), Tally()
    for number in range(worlds):
        means = world(rng, on_the_limit=number % 3 == 0)
        choice = choose(trials(rng, means, n, kind), LIMITS, {2: 1.0}, (CANDIDATES, CONDITIONS))
        found.add(choice, means)
    return found


def accepted_on_the_limit(n: int, noises: Sequence[float], worlds: int, seed: int = 48) -> float:
    """Return how often a candidate is recommended where all latencies are on their limit; the first is the cheapest."""
    rng, accepted, size = np.random.default_rng([seed, n, *map(int, noises)]), 0, (len(noises), n)
    limits, cost, shape = (Limit(0, 1.0, False),), {1: 1.0}, (len(noises), 1)
    for _ in range(worlds):
        latencies = rng.normal(0.0, NOISE[1] / 2, n) + NOISE[1] * np.array(noises)[:, None] * rng.standard_normal(size)
        costs = 0.2 * np.arange(len(noises))[:, None] + NOISE[2] * rng.standard_normal(size)
        metrics = [
            MetricTrials({(at, 0): dict(enumerate(np.exp(own).tolist())) for at, own in enumerate(values)})
            for values in (latencies, costs)
        ]
        with fewer_draws(250):
            rough = choose(metrics, limits, cost, shape)
        # No violator is recommended that rather few draws put so far from the level of significance.
        if min(1 - odds.holds for odds in rough.odds) < 3 * ALPHA / len(noises):
            accepted += choose(metrics, limits, cost, shape).recommended is not None
    return accepted / worlds


def reliability(stated: list[tuple[float, bool]]) -> Iterator[tuple[float, float, float, int]]:
    """Yield for each bin of stated probabilities their mean, the share that came true, its error, and their number."""
    ps, true = np.array([p for p, _ in stated]), np.array([true for _, true in stated])
    for low, high in itertools.pairwise(BINS):
        here = (ps >= low) & ((ps < high) | (high == BINS[-1]))
        if n := int(here.sum()):
            share = float(true[here].mean())
            yield float(ps[here].mean()), share, float(np.sqrt(max(share * (1 - share), 1 / n) / n)), n


def caution(stated: list[tuple[float, bool]]) -> float:
    """Return the factor of the normal quantiles of stated probabilities that makes the outcomes most likely."""
    quantiles, true = norm.ppf([p for p, _ in stated]), np.array([true for _, true in stated])
    inside = np.isfinite(quantiles)
    signed = np.where(true, 1, -1)[inside] * quantiles[inside]
    found = minimize_scalar(lambda factor: -norm.logcdf(factor * signed).sum(), bounds=(0.1, 5.0), method="bounded")
    return float(found.x)


@contextmanager
def fewer_draws(draws: int = 1000) -> Iterator[None]:
    """Decide with fewer draws in this block: their error is less than what the number of worlds leaves.

    Not for errors of a few percent: the draws have the same seed in all worlds, and so is the error of their level."""
    whole, decision.DRAWS = decision.DRAWS, draws
    try:
        yield
    finally:
        decision.DRAWS = whole


def main() -> None:
    worlds = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    columns = (
        "noise",
        "blocks",
        "recommends",
        "a violator",
        "the truly cheapest",
        "95 % of means",
        "of costs",
        "caution",
    )
    print(f"| {' | '.join(columns)} | stated → true |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    for kind in KINDS:
        for n in (2, 3, 5, 10):
            with fewer_draws():
                found = tally(n, kind, worlds)
            pairs = ", ".join(f"{100 * p:.0f} → {100 * true:.0f}" for p, true, *_ in reliability(found.stated))
            shares = [100 * each / found.worlds for each in (found.recommended, found.violators, found.best)]
            held = [f"{100 * np.mean(each):.0f} %" for each in (found.intervals, found.costs)]
            rates = [f"{shares[0]:.0f} %", f"{shares[1]:.1f} %", f"{shares[2]:.0f} %", *held]
            rates.append(f"{caution(found.stated):.2f}")
            print(f"| {kind} | {n} | {' | '.join(rates)} | {pairs} |", flush=True)
    print("\n| all candidates on the limit | 2 blocks | 3 | 5 | 10 |\n| --- | ---: | ---: | ---: | ---: |")
    for noises, name in LEAST_FAVOURABLE.items():
        n_worlds = worlds * (10 if len(noises) == 2 else 2)
        errors = [f"{100 * accepted_on_the_limit(n, noises, n_worlds):.1f} %" for n in (2, 3, 5, 10)]
        print(f"| {name} | {' | '.join(errors)} |", flush=True)


if __name__ == "__main__":
    main()
