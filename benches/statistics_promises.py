"""The error rates and the power of the comparisons in a report, by simulation. It takes an hour or two.

    .venv/bin/python benches/statistics_promises.py [REPEATS]

Campaigns of three platforms on two links, and of twelve treatments with one baseline, in 2, 3, 5 and 10 blocks that
vary by 5 %; the noise of a trial has a standard deviation of 3 %. The first table has the fraction of campaigns in
which any interval of a family misses the truth (stated: 5 %). The second has the same of the main effects of fractions
of a design, with two true effects, and the fraction of campaigns in which any interaction is shown where nothing has an
effect; after it comes how often any interaction is shown in full factorials of several levels, where nothing has an
effect, and where one treatment is 10 % better than its factors explain. Then come chains of one, two and four functions
on three platforms, where hops cost the same, and where each beyond the second costs twice as much: how often the
interval of the cost of a hop misses, and how often hops are said to differ in cost. The last has the fraction of
campaigns in which a true difference is marked, with the model of the report and, beside it, with a paired t test of
each treatment alone, corrected by Holm's method."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy import stats

from lastro.analysis.effects import main_effects
from lastro.analysis.factorial import analyse_variance, interactions
from lastro.analysis.metric_values import MetricValues
from lastro.stats.block_model import BlockModel
from lastro.stats.contrasts import MeanComparison, compare, sum_of_model_means
from lastro.stats.families import holm
from lastro.stats.weights import bend_weights, slope_weights
from lastro.study.fraction import Fraction

Values = npt.NDArray[np.float64]
Sides = list[tuple[dict[int, float], dict[int, float]]]
Noise = Callable[[np.random.Generator, int, int], Values]
BLOCKS = (2, 3, 5, 10)
SD = 0.03  # of the noise of a trial


def _scaled(factors: Callable[[int], Values]) -> Noise:
    return lambda rng, cells, blocks: rng.standard_normal((cells, blocks)) * factors(cells)[:, None]


def _last(cells: int, factor: float) -> Values:
    return np.where(np.arange(cells) == cells - 1, factor, 1.0)


def _lasting(rng: np.random.Generator, cells: int, blocks: int) -> Values:
    """Return noise of which each trial keeps 95 % of the one before it, in a random order within each block."""
    in_time = _kept(rng.standard_normal(cells * blocks), 0.95).reshape(blocks, cells)
    return np.array([rng.permutation(own) for own in in_time]).T


def _kept(noise: Values, part: float) -> Values:
    """Return noise that keeps this part of what came before it: AR(1)."""
    for at in range(1, len(noise)):
        noise[at] = part * noise[at - 1] + math.sqrt(1 - part**2) * noise[at]
    return noise


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
    "log-normal, 30 %": lambda rng, c, n: (np.exp(rng.normal(0, 0.3, (c, n))) - 1) / SD,
    "lasts from trial to trial": _lasting,
    "blocks that drift": lambda rng, c, n: rng.standard_normal((c, n)) + 2 * _kept(rng.standard_normal(n), 0.7),
}


def of_levels() -> Sides:
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


DESIGNS = {"3 × 2, main effects": (6, of_levels()), "12, baseline": (12, against_first(12))}


def drawn(rng: np.random.Generator, noise: Noise, cells: int, blocks: int) -> Values:
    shared = 1 + 0.05 * rng.standard_normal(blocks)
    return np.asarray(100 * shared * (1 + SD * noise(rng, cells, blocks)))


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


FRACTIONS = {
    "half of 2^4": Fraction(tuple("abcd"), (frozenset("abcd"),)),
    "quarter of 2^5": Fraction(tuple("abcde"), (frozenset("acd"), frozenset("bce"), frozenset("abde"))),
}
EFFECTS = {"a": 1.2, "b": 0.9}  # of the second level


def of_fraction(fraction: Fraction, values: Values) -> MetricValues:
    """Return the values of the treatments of a fraction: a row for each, in order, and a column for each block."""
    cells = {at: dict(enumerate(row)) for at, row in enumerate(values.tolist())}
    factors = dict.fromkeys(fraction.names, ("0", "1"))
    references = dict.fromkeys(fraction.names, "0")
    levels = dict(enumerate(treatments(fraction)))
    return MetricValues(cells, levels, factors, references, 0.95, BlockModel.of(cells), fraction=fraction)


def treatments(fraction: Fraction) -> list[dict[str, str]]:
    names, references = fraction.names, dict.fromkeys(fraction.names, 0)
    every = (dict(zip(names, levels, strict=True)) for levels in itertools.product((0, 1), repeat=len(names)))
    return [{name: str(level) for name, level in own.items()} for own in every if fraction.has(own, references)]


def of_fractions(noise: str, fraction: Fraction, blocks: int, repeats: int) -> tuple[float, float]:
    """Return how often any interval of a main effect misses, and how often an interaction is shown without effects."""
    rng, missed, shown, rows = np.random.default_rng([blocks, *noise.encode()]), 0, 0, treatments(fraction)
    size = np.array([math.prod(of for name, of in EFFECTS.items() if levels[name] == "1") for levels in rows])
    for _ in range(repeats):
        values = drawn(rng, NOISES[noise], len(rows), blocks)
        data = of_fraction(fraction, values)
        shown += bool(interactions(data, analyse_variance(data)[0]))
        effects = main_effects(of_fraction(fraction, values * size[:, None]))
        intervals = [(EFFECTS.get(effect.factor, 1.0), effect.ratio.interval) for effect in effects]
        missed += any(interval is not None and not interval.holds(truth) for truth, interval in intervals)
    return missed / repeats, shown / repeats


FACTORIALS = ((3, 2), (4, 3), (3, 3, 2))


def of_factorial(noise: str, shape: tuple[int, ...], planted: float, blocks: int, repeats: int) -> float:
    """Return how often any interaction is shown; `planted` is by how much one treatment alone is better."""
    factors = dict(zip("abc", (tuple(map(str, range(n))) for n in shape), strict=False))
    levels = [dict(zip(factors, own, strict=True)) for own in itertools.product(*factors.values())]
    rng, shown = np.random.default_rng([blocks, len(levels)]), 0
    for _ in range(repeats):
        values = drawn(rng, NOISES[noise], len(levels), blocks)
        values[1] *= 1 + planted
        cells = {at: dict(enumerate(row)) for at, row in enumerate(values.tolist())}
        references = dict.fromkeys(factors, "0")
        data = MetricValues(cells, dict(enumerate(levels)), factors, references, 0.95, BlockModel.of(cells))
        shown += bool(interactions(data, analyse_variance(data)[0]))
    return shown / repeats


LENGTHS = (1, 2, 4)
HOP = (3.0, 3.5, 4.0)  # what a hop costs on each platform, beyond a cost of 10


def of_chains(noise: str, dearer: float, blocks: int, repeats: int) -> tuple[float, float]:
    """Return how often the interval of a slope over the length misses, and how often a bend is found.

    Of more than two hops, each costs `dearer` times as much."""
    costs = np.array([[10 + hop * (1 + dearer * max(0, n - 2) + (n > 1)) for n in LENGTHS] for hop in HOP])
    slope, bend = (np.array(weights(LENGTHS)) for weights in (slope_weights, bend_weights))
    rng, missed, bent = np.random.default_rng([blocks, *noise.encode()]), 0, 0
    for _ in range(repeats):
        values = drawn(rng, NOISES[noise], costs.size, blocks) * costs.reshape(-1, 1) / 100
        model = BlockModel.of({at: dict(enumerate(row)) for at, row in enumerate(values.tolist())}, non_negative=True)
        assert model is not None
        for at, own in enumerate(costs):
            cells = range(len(LENGTHS) * at, len(LENGTHS) * (at + 1))
            found = [
                sum_of_model_means(model, dict(zip(cells, each.tolist(), strict=True)), 0.95) for each in (slope, bend)
            ]
            of_slope, of_bend = (each.interval for each in found)
            missed += of_slope is not None and not of_slope.holds(float(slope @ own))
            bent += of_bend is not None and not of_bend.holds(0.0)
    n = repeats * len(HOP)
    return missed / n, bent / n


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
    print("\nfractions: campaigns in which any interval of a main effect misses, and any interaction is shown")
    for name in NOISES:
        for design, fraction in FRACTIONS.items():
            found = [of_fractions(name, fraction, n, repeats) for n in BLOCKS]
            rates = "   ".join(" ".join(f"{100 * each[at]:4.1f}%" for each in found) for at in range(2))
            print(f"{name:25} {design:15} {rates}", flush=True)
    print("\nfull factorials: campaigns in which any interaction is shown: without one, and with one of 10 %")
    for name, shape in itertools.product(NOISES, FACTORIALS):
        found = [[of_factorial(name, shape, planted, n, repeats) for n in BLOCKS] for planted in (0.0, 0.1)]
        rates = "   ".join(" ".join(f"{100 * each:4.1f}%" for each in own) for own in found)
        print(f"{name:25} {' × '.join(map(str, shape)):15} {rates}", flush=True)
    print("\nchains: intervals of a slope that miss, bends that are found: hops cost the same, or more beyond two")
    for name in NOISES:
        found = [[of_chains(name, dearer, n, repeats) for n in BLOCKS] for dearer in (1.0, 2.0)]
        rates = "   ".join(" ".join(f"{100 * each[at]:4.1f}%" for each in own) for own in found for at in range(2))
        print(f"{name:25} {rates}", flush=True)
    print("\npower: one of five treatments differs from the baseline, noise of 3 %")
    print(f"{'blocks':>6} {'difference':>10} {'model':>7} {'t tests':>8}")
    for blocks, difference in itertools.product((2, 3, 5, 10), (0.05, 0.1, 0.15)):
        model, alone = power(blocks, difference, repeats)
        print(f"{blocks:6} {difference:10.0%} {model:7.0%} {alone:8.0%}", flush=True)


if __name__ == "__main__":
    main()
