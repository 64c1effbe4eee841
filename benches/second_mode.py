"""How often a second mode is reported, by simulation: where there is none, and where there is one.

    .venv/bin/python benches/second_mode.py [REPEATS]

Campaigns of 3, 6, 9 and 12 treatments in 3, 5 and 10 blocks that vary by 5 %; the noise of a trial has a standard
deviation of 3 %. The first table has the percentage of campaigns with one mode in which a second one is reported
(stated: at most 5 %), for the kinds of noise of `statistics_promises.py`. The second has the percentage in which the
second mode is found, if 15 % of the trials are 20 % lower or higher. The third has the percentage of means whose 95 %
interval holds the mean of both modes, where a second mode is found: in six treatments, with noise of 1 and of 3 %."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping

import numpy as np

from lastro.stats.intervals import describe
from lastro.stats.modes import second_mode
from statistics_promises import NOISES, Noise, Values

TREATMENTS, BLOCKS = (3, 6, 9, 12), (3, 5, 10)


def drawn(rng: np.random.Generator, noise: Noise, cells: int, blocks: int) -> Values:
    """Return values of treatments that differ by up to a factor of three; none is zero or below."""
    means = 100 * rng.uniform(1, 3, (cells, 1)) * (1 + 0.05 * rng.standard_normal(blocks))
    return np.asarray(means * np.maximum(0.05, 1 + 0.03 * noise(rng, cells, blocks)))


def by_cell(values: Values) -> Mapping[int, Mapping[int, float]]:
    return {at: dict(enumerate(row)) for at, row in enumerate(values.tolist())}


def reported(noise: Noise, cells: int, blocks: int, repeats: int) -> float:
    """Return the fraction of campaigns with one mode in which a second one is reported."""
    rng = np.random.default_rng([cells, blocks])
    return sum(second_mode(by_cell(drawn(rng, noise, cells, blocks))) is not None for _ in range(repeats)) / repeats


def found(away: float, cells: int, blocks: int, repeats: int) -> float:
    """Return the fraction of campaigns in which a mode of 15 % of the trials, at this factor, is reported."""
    rng, hits = np.random.default_rng([cells, blocks]), 0
    for _ in range(repeats):
        values = drawn(rng, NOISES["normal"], cells, blocks)
        hits += second_mode(by_cell(np.where(rng.random(values.shape) < 0.15, away * values, values))) is not None
    return hits / repeats


def held(share: float, noise: float, blocks: int, repeats: int) -> float:
    """Return how often intervals of means hold the truth where a second mode of this share of the trials is found."""
    rng, hits, made = np.random.default_rng([blocks, int(100 * share)]), 0, 0
    for _ in range(repeats):
        values = 100 * (1 + 0.01 * rng.standard_normal(blocks)) * (1 + noise * rng.standard_normal((6, blocks)))
        values = values * np.where(rng.random(values.shape) < share, 0.8, 1.0)
        if second_mode(by_cell(values)) is None:
            continue
        intervals = [describe(own, 0.95).interval for own in values.tolist()]
        hits += sum(ends is not None and ends.holds(100 * (1 - 0.2 * share)) for ends in intervals)
        made += len(intervals)
    return hits / max(1, made)


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    designs = list(itertools.product(TREATMENTS, BLOCKS))
    print(f"a second mode is reported, percent of {repeats} campaigns")
    print(f"{'treatments × blocks':22}" + "".join(f"{f'{cells}×{blocks}':>7}" for cells, blocks in designs))
    for name, noise in NOISES.items():
        print(f"{name:22}" + "".join(f"{100 * reported(noise, *at, repeats):7.1f}" for at in designs), flush=True)
    for away in (0.8, 1.2):
        rates = "".join(f"{100 * found(away, *at, repeats):7.1f}" for at in designs)
        print(f"{f'15 % of trials × {away}':22}" + rates, flush=True)
    for share, noise in itertools.product((0.1, 0.15, 0.3), (0.01, 0.03)):
        rates = "".join(f"{100 * held(share, noise, blocks, repeats):7.1f}" for blocks in (5, 10))
        print(f"{f'{share:.0%} apart, noise {noise:.0%}':22}" + rates, flush=True)


if __name__ == "__main__":
    main()
