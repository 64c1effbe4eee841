"""How often the randomisation test rejects without an effect, and how often predictions hold, by simulation.

    .venv/bin/python benches/checks_promises.py [REPEATS] [orders] [next]        both tables without a word

The first table has the fraction of campaigns of equal treatments in which p is at most 5 %, with the values in the
order of time. The second has the fractions of next trials, and of ratios of next campaigns, outside of the intervals of
95 % that a report predicts, for five treatments with noise of 3 %."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from lastro.stats.block_model import BlockModel
from lastro.stats.contrasts import replicated
from lastro.stats.prediction import next_trial
from lastro.stats.randomisation import randomisation_test
from statistics_promises import BLOCKS, NOISES, Noise

Values = npt.NDArray[np.float64]
Drawn = Callable[[np.random.Generator, int], Values]
SHAPES = ((2, 10), (3, 4), (9, 5))  # treatments, blocks


def lasting(rng: np.random.Generator, n: int) -> Values:
    """A stationary first-order autoregression with a correlation of 0.95 from trial to trial."""
    found, last = np.empty(n), rng.standard_normal()
    for at in range(n):
        found[at] = last = 0.95 * last + np.sqrt(1 - 0.95**2) * rng.standard_normal()
    return found


IN_TIME: dict[str, Drawn] = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "log-normal": lambda rng, n: np.exp(rng.standard_normal(n)),
    "heavy tails": lambda rng, n: rng.standard_t(2, n),
    "lasts from trial to trial": lasting,
    "rounded to its size": lambda rng, n: np.round(rng.standard_normal(n)),
}


def rejected(drawn: Drawn, treatments: int, blocks: int, lost: float, repeats: int) -> tuple[float, float]:
    """Return how often the randomisation test rejects, and the F test of the same campaigns."""
    rng, hits = np.random.default_rng([treatments, blocks, int(100 * lost)]), np.zeros(2)
    for _ in range(repeats):
        values = 10 + drawn(rng, treatments * blocks)
        places = np.concatenate([rng.permutation(treatments) for _ in range(blocks)])
        cells: dict[int, dict[int, float]] = {}
        for at, (cell, value) in enumerate(zip(places.tolist(), values.tolist(), strict=True)):
            if rng.random() >= lost:
                cells.setdefault(cell, {})[at // treatments] = value
        found = randomisation_test(cells)
        if found is not None:
            hits += found.p <= 0.05, found.p_of_f is not None and found.p_of_f <= 0.05
    return float(hits[0] / repeats), float(hits[1] / repeats)


def orders(repeats: int) -> None:
    print(f"campaigns of equal treatments with p of at most 5 %, of {repeats}: by randomisation, by F")
    columns = list(itertools.product(SHAPES, (0.0, 0.15)))
    print(f"{'':26}" + "".join(f"{f'{t} x {b}' + (', lost' if lost else ''):>16}" for (t, b), lost in columns))
    for name, drawn in IN_TIME.items():
        rates = (rejected(drawn, *shape, lost, repeats) for shape, lost in columns)
        print(f"{name:26}" + "".join(f"{100 * own:9.1f} {100 * f:5.1f}%" for own, f in rates), flush=True)


PREDICTED = {  # name: the noise of trials, and how much blocks vary as compared with it
    **{f"normal, blocks vary {factor} times": (NOISES["normal"], factor) for factor in (0, 0.5, 1, 5)},
    **{f"{name}, blocks do not vary": (NOISES[name], 0) for name in ("skewed", "heavy tails")},
    **{name: (noise, 1) for name, noise in NOISES.items() if name != "normal"},
}


def outside(noise: Noise, factor: float, blocks: int, repeats: int, treatments: int = 5) -> tuple[float, float]:
    """Return how often a next trial and the ratio of a next campaign lie outside of their intervals."""
    rng, missed, made = np.random.default_rng([blocks, int(10 * factor)]), np.zeros(2), np.zeros(2)
    for _ in range(repeats):
        shared = 0.03 * factor * rng.standard_normal(2 * blocks + 1)
        values = np.maximum(1.0, 100 * (1 + shared + 0.03 * noise(rng, treatments, 2 * blocks + 1)))
        now, later, trial = values[:, :blocks], values[:, blocks : 2 * blocks], values[:, -1]
        model = BlockModel.of({at: dict(enumerate(row)) for at, row in enumerate(now.tolist())})
        assert model is not None
        means = np.exp(np.log(later).mean(axis=1)) if model.log else later.mean(axis=1)
        for at in range(treatments):
            if (interval := next_trial(now[at].tolist(), 0.95, model.step, log=model.log).interval) is not None:
                missed[0], made[0] = missed[0] + (not interval.holds(float(trial[at]))), made[0] + 1
            if at and (interval := replicated(model, {at: 1.0}, {0: 1.0}, 0.95).interval) is not None:
                missed[1], made[1] = missed[1] + (not interval.holds(float(means[at] / means[0]))), made[1] + 1
    rates = missed / np.maximum(made, 1)
    return float(rates[0]), float(rates[1])


def predictions(repeats: int) -> None:
    print(f"\noutside of intervals of 95 %, of {repeats} campaigns: next trials, ratios of next campaigns")
    print(f"{'blocks':30}" + "".join(f"{n:>16}" for n in BLOCKS))
    for name, (noise, factor) in PREDICTED.items():
        rates = (outside(noise, factor, n, repeats) for n in BLOCKS)
        print(f"{name:30}" + "".join(f"{100 * a:9.1f} {100 * b:5.1f}%" for a, b in rates), flush=True)


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    wanted = sys.argv[2:] or ["orders", "next"]
    if "orders" in wanted:
        orders(repeats)
    if "next" in wanted:
        predictions(repeats)


if __name__ == "__main__":
    main()
