"""How many trials a decision takes: a fixed number of blocks, whole blocks until it is made, and adaptive allocation.

    python benches/decision_looks.py            2,000 worlds: about an hour
    python benches/decision_looks.py 200        fewer

Each world has eight candidates, a level on a latency (noise 30 %) and a cost (noise 5 %). They lie around the level,
and in a third of the worlds, the cheapest that holds lies exactly on it. Each procedure sees the same trials of 12
blocks, as far as it runs them. A violator is a recommended candidate whose true mean breaks the level. The last rows
have blocks that depend on each other: the host drifts, and each block is like the one before it."""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lastro.stats import decision
from lastro.stats.cell_means import MetricTrials
from lastro.stats.decision import Choice, Limit, choose
from lastro.stats.look_state import FEWEST_BLOCKS, LookState
from lastro.stats.looks import is_decision_made, take_look

CANDIDATES, BLOCKS = 8, 12
NOISE = np.array([0.30, 0.05])  # latency, cost
DRIFT = 0.7  # the correlation of blocks that depend on each other
LEVEL = Limit(0, 1.0, False)


@dataclass
class Tally:
    trials: list[int] = field(default_factory=list)
    recommended: int = 0
    none: int = 0
    violators: int = 0
    best: int = 0
    extra: list[float] = field(default_factory=list)  # cost of the recommended, beyond that of the cheapest that holds

    def add(self, choice: Choice, trials: int, means: np.ndarray) -> None:
        self.trials.append(trials)
        self.none += choice.outcome == "none"
        if (chosen := choice.recommended) is None:
            return
        holds = means[0] <= 1e-12
        self.recommended += 1
        self.violators += not holds[chosen]
        if holds[chosen]:
            cheapest = np.where(holds, means[1], np.inf).min()
            self.best += bool(means[1, chosen] == cheapest)
            self.extra.append(float(np.exp(means[1, chosen] - cheapest) - 1))


def world(rng: np.random.Generator, *, on_the_level: bool) -> np.ndarray:
    """Return the logarithms of true means: (metric, candidate)."""
    means = rng.normal(0.0, NOISE[:, None] * 4, (2, CANDIDATES))
    if on_the_level and (holds := means[0] <= 0).any():
        means[0, int(np.where(holds, means[1], np.inf).argmin())] = 0.0
    return means


def trials(rng: np.random.Generator, means: np.ndarray, drift: float = 0.0) -> np.ndarray:
    """Return values: (metric, candidate, block)."""
    blocks = rng.normal(0.0, NOISE[:, None, None] / 2, (2, 1, BLOCKS))
    for at in range(1, BLOCKS):
        blocks[..., at] = drift * blocks[..., at - 1] + math.sqrt(1 - drift**2) * blocks[..., at]
    return np.exp(means[..., None] + blocks + NOISE[:, None, None] * rng.standard_normal((*means.shape, BLOCKS)))


def trials_of(values: np.ndarray, ran: Mapping[int, int]) -> list[MetricTrials]:
    """Return the trials when each candidate ran in so many blocks, from the first."""
    return [MetricTrials({(at, 0): dict(enumerate(own[at, :n].tolist())) for at, n in ran.items()}) for own in values]


def with_looks(values: np.ndarray, confidence: float, *, adaptive: bool) -> tuple[Choice, int]:
    """Return the choice of a campaign that looks after each block, and its number of trials."""
    ran, found = dict.fromkeys(range(CANDIDATES), FEWEST_BLOCKS), LookState()
    for block in range(FEWEST_BLOCKS, BLOCKS + 1):
        given = trials_of(values, ran), [LEVEL], {1: 1.0}, (CANDIDATES, 1), 1 - confidence
        choice, found = take_look(*given, block / BLOCKS, found)
        if is_decision_made(choice, found) or block == BLOCKS:
            break
        ran |= {at: block + 1 for at in ran if not (adaptive and at in found.gone)}
    return choice, sum(ran.values())


def _add(
    found: Mapping[str, Tally],
    values: np.ndarray,
    means: np.ndarray,
    fixed: Sequence[int],
    confidences: Sequence[float],
    prefix: str = "",
) -> None:
    """Add what each procedure does with the trials of one world."""
    for n in fixed:
        whole = trials_of(values, dict.fromkeys(range(CANDIDATES), n))
        choice = choose(whole, [LEVEL], {1: 1.0}, (CANDIDATES, 1))
        found[f"{prefix}{n} blocks"].add(choice, n * CANDIDATES, means)
    for confidence in confidences:
        for name, adaptive in (("whole blocks until decided", False), ("adaptive", True)):
            at = f"{prefix}{name}, confidence {confidence:.0%}"
            found[at].add(*with_looks(values, confidence, adaptive=adaptive), means)


def main() -> None:
    decision.DRAWS = 2000
    worlds = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    found: defaultdict[str, Tally] = defaultdict(Tally)
    rng, own_rng = np.random.default_rng(1983), np.random.default_rng(1984)
    for number in range(worlds):
        means = world(rng, on_the_level=number % 3 == 0)
        _add(found, trials(rng, means), means, (3, 6, BLOCKS), (0.95, 0.8))
        _add(found, trials(own_rng, means, DRIFT), means, (BLOCKS,), (0.95,), "dependent: ")
    print("| procedure | trials | recommends | none holds | a violator | the truly cheapest | costs more by |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, each in found.items():
        shares = [f"{100 * n / worlds:.1f} %" for n in (each.recommended, each.none, each.violators, each.best)]
        print(f"| {name} | {np.mean(each.trials):.0f} | {' | '.join(shares)} | {100 * np.mean(each.extra):.1f} % |")


if __name__ == "__main__":
    main()
