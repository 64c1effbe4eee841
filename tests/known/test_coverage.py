"""Every interval holds the truth as often as it says: within 2 points of nominal, or more often (conservative).

Trials are drawn from normal and from log-normal distributions, the latter with a standard deviation of the logarithm
of 0.3, more skew than most throughputs and latencies of trials have. Where it is greater, Student's interval of a mean
breaks its promise: at 0.5 it holds the truth 91.5, 92.1 and 93.5 % of the time for n = 5, 10 and 30, and at 1, 82, 84
and 88 %. The interval of a median, and ratios from a log model, are there for such data."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from lastro.stats.block_model import BlockModel
from lastro.stats.contrasts import compare_one
from lastro.stats.intervals import Interval, describe
from lastro.stats.ratios import paired_ratio, unpaired_ratio

from ..support.products import combinations

Draw = Callable[[random.Random], float]
LOG_SD = 0.3
# Both have mean 1 and about the same spread.
DRAWS: dict[str, Draw] = {
    "normal": lambda rng: rng.gauss(1, LOG_SD),
    "log-normal": lambda rng: rng.lognormvariate(-(LOG_SD**2) / 2, LOG_SD),
}
MEDIAN = {"normal": 1.0, "log-normal": math.exp(-(LOG_SD**2) / 2)}
SIZES = (5, 10, 30)

shapes = pytest.mark.parametrize("shape", DRAWS)
cases = pytest.mark.parametrize(("shape", "n"), combinations(DRAWS, SIZES))


def coverage(interval_of: Callable[[random.Random], Interval | None], truth: float, draws: int = 2500) -> float:
    """Among the intervals that there are: a ratio's may be absent where the baseline cannot be told from zero."""
    rng = random.Random(1954)
    found = [interval for interval in (interval_of(rng) for _ in range(draws)) if interval is not None]
    assert len(found) >= 0.99 * draws
    return sum(interval.holds(truth) for interval in found) / len(found)


def sample(rng: random.Random, shape: str, n: int, scale: float = 1.0) -> list[float]:
    return [scale * DRAWS[shape](rng) for _ in range(n)]


@cases
def test_mean(shape: str, n: int) -> None:
    assert coverage(lambda rng: describe(sample(rng, shape, n), 0.95).interval, 1.0) >= 0.93


def of_model(treated: list[float], baseline: list[float], first: int) -> Interval | None:
    """The difference of two samples by the model; in the same blocks if the treated begin at block 0."""
    model = BlockModel.of({"t": dict(enumerate(treated, first)), "b": dict(enumerate(baseline))})
    assert model is not None
    return compare_one(model.linear, {"t": 1.0}, {"b": 1.0}, 0.95).difference.interval


@cases
def test_difference(shape: str, n: int) -> None:
    def unpaired(rng: random.Random) -> Interval | None:
        return of_model(sample(rng, shape, n, 0.8), sample(rng, shape, n), n)

    def paired(rng: random.Random) -> Interval | None:
        blocks = [rng.gauss(5, 1) for _ in range(n)]
        treated, baseline = ([b + x for b, x in zip(blocks, sample(rng, shape, n, s), strict=True)] for s in (0.8, 1))
        return of_model(treated, baseline, 0)

    assert coverage(unpaired, -0.2, 400) >= 0.92
    assert coverage(paired, -0.2, 400) >= 0.92


@cases
def test_ratio(shape: str, n: int) -> None:
    def unpaired(rng: random.Random) -> Interval | None:
        return unpaired_ratio(sample(rng, shape, n, 0.8), sample(rng, shape, n), 0.95).interval

    def paired(rng: random.Random) -> Interval | None:
        blocks = [rng.gauss(5, 0.5) for _ in range(n)]
        treated, baseline = ([b * x for b, x in zip(blocks, sample(rng, shape, n, s), strict=True)] for s in (0.8, 1))
        return paired_ratio(treated, baseline, 0.95).interval

    assert coverage(unpaired, 0.8) >= 0.93
    assert coverage(paired, 0.8) >= 0.93
