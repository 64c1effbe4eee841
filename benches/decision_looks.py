"""How many trials a decision takes: a fixed number of blocks, whole blocks until it is made, and adaptive allocation.

    python benches/decision_looks.py               2,000 worlds: over an hour
    python benches/decision_looks.py 200           fewer
    python benches/decision_looks.py 600 FILE      goes on with the worlds that FILE has, and adds each world to it

Each world has eight candidates, a level on a latency (noise 30 %) and a cost (noise 5 %). They lie around the level,
and in a third of the worlds, the cheapest that holds lies exactly on it. Each procedure sees the same trials of 12
blocks, as far as it runs them. A violator is a recommended candidate whose true mean breaks the level. The last rows
have blocks that depend on each other: the host drifts, and each block is like the one before it.

The last line is of the least favourable worlds, in which both of two candidates lie exactly on the level, and each is
judged by exact t-tests."""

from __future__ import annotations

import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr

from lastro.stats import decision
from lastro.stats.cell_means import MetricTrials
from lastro.stats.decision import Choice, Limit, choose
from lastro.stats.look_state import FEWEST_BLOCKS, LookState
from lastro.stats.looks import is_decision_made, take_look
from lastro.stats.spending import nominal_level

CANDIDATES, BLOCKS = 8, 12
NOISE = np.array([0.30, 0.05])  # latency, cost
DRIFT = 0.7  # the correlation of blocks that depend on each other
LEVEL = Limit(0, 1.0, False)


class Outcome(NamedTuple):
    """What a procedure does in one world; `extra` is by how much what it recommends costs more than the best."""

    trials: int
    recommends: bool
    none_holds: bool
    violator: bool
    best: bool
    extra: float

    @classmethod
    def of(cls, choice: Choice, trials: int, means: np.ndarray) -> Outcome:
        if (chosen := choice.recommended) is None:
            return cls(trials, False, choice.outcome == "none", False, False, math.nan)
        holds = means[0] <= 1e-12
        if not holds[chosen]:
            return cls(trials, True, False, True, False, math.nan)
        cheapest = float(np.where(holds, means[1], np.inf).min())
        cost = float(means[1, chosen])
        return cls(trials, True, False, False, cost == cheapest, math.exp(cost - cheapest) - 1)


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


def outcomes(number: int) -> dict[str, Outcome]:
    """Return what each procedure does in the world of this number."""
    rng = np.random.default_rng([1983, number])
    means = world(rng, on_the_level=number % 3 == 0)
    return _outcomes(trials(rng, means), means, (3, 6, BLOCKS), (0.95, 0.8)) | _outcomes(
        trials(rng, means, DRIFT), means, (BLOCKS,), (0.95,), "dependent: "
    )


def _outcomes(
    values: np.ndarray, means: np.ndarray, fixed: Sequence[int], confidences: Sequence[float], prefix: str = ""
) -> dict[str, Outcome]:
    """Return what each procedure does with these trials."""
    found = {}
    for n in fixed:
        whole = trials_of(values, dict.fromkeys(range(CANDIDATES), n))
        choice = choose(whole, [LEVEL], {1: 1.0}, (CANDIDATES, 1))
        found[f"{prefix}{n} blocks"] = Outcome.of(choice, n * CANDIDATES, means)
    for confidence in confidences:
        for name, adaptive in (("whole blocks until decided", False), ("adaptive", True)):
            at = f"{prefix}{name}, confidence {confidence:.0%}"
            found[at] = Outcome.of(*with_looks(values, confidence, adaptive=adaptive), means)
    return found


def worlds_in(path: Path | None, worlds: int) -> Iterator[dict[str, Outcome]]:
    """Yield the outcomes in each world, from the file as far as it has them; others are added to the file."""
    lines = path.read_text().splitlines() if path and path.exists() else []
    for line in lines[:worlds]:
        yield {name: Outcome(*each) for name, each in json.loads(line).items()}
    for number in range(len(lines), worlds):
        found = outcomes(number)
        if path:
            with path.open("a") as file:
                file.write(f"{json.dumps(found)}\n")
        yield found


def errors_on_the_level(worlds: int = 40_000, alpha: float = 0.05) -> float:
    """Return how often either of two candidates on the level is accepted at one of the looks, by exact t-tests."""
    rng, looks, accepted = np.random.default_rng(1985), range(FEWEST_BLOCKS, BLOCKS + 1), np.zeros(worlds, bool)
    values = rng.standard_normal((worlds, 2, BLOCKS)) + 0.5 * rng.standard_normal((worlds, 1, BLOCKS))
    for n in looks:
        seen, fractions = values[..., :n], tuple(look / BLOCKS for look in looks if look <= n)
        p = stdtr(n - 1, seen.mean(axis=2) / (seen.std(axis=2, ddof=1) / math.sqrt(n)))
        accepted |= (p <= nominal_level(fractions, alpha / 2)).any(axis=1)
    return float(accepted.mean())


def main() -> None:
    decision.DRAWS = 2000
    worlds = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    found: defaultdict[str, list[Outcome]] = defaultdict(list)
    for of_world in worlds_in(Path(sys.argv[2]) if len(sys.argv) > 2 else None, worlds):
        for name, outcome in of_world.items():
            found[name].append(outcome)
    print("| procedure | trials | recommends | none holds | a violator | the truly cheapest | costs more by |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, each in found.items():
        n_trials, *shares, extra = np.nanmean(np.array(each, float), axis=0)
        cells = [f"{n_trials:.0f}", *(f"{100 * share:.1f} %" for share in shares), f"{100 * extra:.1f} %"]
        print(f"| {name.replace('%', ' %')} | {' | '.join(cells)} |")
    print(f"\neither of two candidates on the level is accepted in {100 * errors_on_the_level():.1f} % of worlds")


if __name__ == "__main__":
    main()
