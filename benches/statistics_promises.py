"""The error rates and the power of the comparisons in a report, by simulation. It takes about ten minutes.

    .venv/bin/python benches/statistics_promises.py [REPEATS]

Campaigns of three platforms on two links, and of twelve treatments with one baseline, in 2, 3, 5 and 10 blocks that
vary by 5 %; the noise of a trial has a standard deviation of 3 %. The first table has the fraction of campaigns in
which any interval of a family misses the truth (stated: 5 %). The second has the fraction of campaigns in which a true
difference is marked, with the model of the report and, beside it, with a paired t test of each treatment alone,
corrected by Holm's method."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy import stats

from lastro.stats.adjust import holm
from lastro.stats.block_model import BlockModel
from lastro.stats.contrasts import MeanComparison, compare

Values = npt.NDArray[np.float64]
Sides = list[tuple[dict[int, float], dict[int, float]]]
Noise = Callable[[np.random.Generator, int, int], Values]
BLOCKS = (2, 3, 5, 10)


def _scaled(factors: Callable[[int], Values]) -> Noise:
    return lambda rng, cells, blocks: rng.standard_normal((cells, blocks)) * factors(cells)[:, None]


def _last(cells: int, factor: float) -> Values:
    return np.where(np.arange(cells) == cells - 1, factor, 1.0)


NOISES: dict[str, Noise] = {
    "normal": lambda rng, c, n: rng.standard_normal((c, n)),
    "uniform": lambda rng, c, n: rng.uniform(-math.sqrt(3), math.sqrt(3), (c, n)),
    "skewed": lambda rng, c, n: rng.exponential(size=(c, n)) - 1,
    "heavy tails": lambda rng, c, n: rng.standard_t(4, (c, n)) / math.sqrt(2),
    "5 % outliers": lambda rng, c, n: rng.standard_normal((c, n)) * np.where(rng.random((c, n)) < 0.05, 4, 1),
    "one 3 times as noisy": _scaled(lambda cells: _last(cells, 3)),
    "one 5 times as noisy": _scaled(lambda cells: _last(cells, 5)),
    "one 10 times as noisy": _scaled(lambda cells: _last(cells, 10)),
    "half 3 times as noisy": _scaled(lambda cells: np.where(np.arange(cells) < cells // 2, 1.0, 3.0)),
    "variances at random": lambda rng, c, n: rng.standard_normal((c, n)) / np.sqrt(rng.chisquare(4, (c, 1)) / 4),
    "rounded to its size": lambda rng, c, n: np.round(rng.standard_normal((c, n))),
}


def main_effects() -> Sides:
    """Levels of three platforms and two links against the first of each."""
    cells = list(itertools.product(range(3), range(2)))
    found: Sides = []
    for factor, levels in enumerate((3, 2)):
        for level in range(1, levels):
            share = levels / len(cells)
            found.append(
                (
                    {at: share for at, cell in enumerate(cells) if cell[factor] == level},
                    {at: share for at, cell in enumerate(cells) if cell[factor] == 0},
                )
            )
    return found


def against_first(cells: int) -> Sides:
    return [({at: 1.0}, {0: 1.0}) for at in range(1, cells)]


DESIGNS = {"3 × 2, main effects": (6, main_effects()), "12, baseline": (12, against_first(12))}


def drawn(rng: np.random.Generator, noise: Noise, cells: int, blocks: int) -> Values:
    shared = 1 + 0.05 * rng.standard_normal(blocks)
    return np.asarray(100 * shared * (1 + 0.03 * noise(rng, cells, blocks)))


def compared(values: Values, sides: Sides) -> tuple[MeanComparison, ...]:
    model = BlockModel.of({at: dict(enumerate(row)) for at, row in enumerate(values.tolist())})
    assert model is not None
    return compare(model, sides, 0.95)


def missing(noise: Noise, cells: int, sides: Sides, blocks: int, repeats: int) -> float:
    rng, missed = np.random.default_rng([cells, blocks]), 0
    for _ in range(repeats):
        found = compared(drawn(rng, noise, cells, blocks), sides)
        missed += any(one.ratio.interval is not None and not one.ratio.interval.holds(1.0) for one in found)
    return missed / repeats


def power(blocks: int, difference: float, repeats: int) -> tuple[float, float]:
    """Return how often one of five treatments, worse by this fraction, is marked: by the model, and by t tests."""
    rng, sides, hits = np.random.default_rng([7, blocks]), against_first(6), [0, 0]
    for _ in range(repeats):
        values = drawn(rng, NOISES["normal"], 6, blocks)
        values[1] *= 1 - difference
        hits[0] += compared(values, sides)[0].differs(0.05)
        alone = holm([float(stats.ttest_rel(row, values[0]).pvalue) for row in values[1:]])
        hits[1] += (alone[0] or 1.0) < 0.05
    return hits[0] / repeats, hits[1] / repeats


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    print(f"campaigns in which any interval misses, of {repeats}")
    print(f"{'':22}  " + "  ".join(f"{name:^23}" for name in DESIGNS))
    print(f"{'blocks':22}  " + "  ".join(" ".join(f"{n:5}" for n in BLOCKS) for _ in DESIGNS))
    for name, noise in NOISES.items():
        rates = (
            " ".join(f"{100 * missing(noise, cells, sides, n, repeats):4.1f}%" for n in BLOCKS)
            for cells, sides in DESIGNS.values()
        )
        print(f"{name:22}  " + "  ".join(rates), flush=True)
    print("\npower: one of five treatments differs from the baseline, noise of 3 %")
    print(f"{'blocks':>6} {'difference':>10} {'model':>7} {'t tests':>8}")
    for blocks, difference in itertools.product((2, 3, 5, 10), (0.05, 0.1, 0.15)):
        model, alone = power(blocks, difference, repeats)
        print(f"{blocks:6} {difference:10.0%} {model:7.0%} {alone:8.0%}", flush=True)


if __name__ == "__main__":
    main()
