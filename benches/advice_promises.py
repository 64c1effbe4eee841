"""How often the advised number of blocks makes all intervals as narrow as asked, by simulation. It takes half an hour.

    .venv/bin/python benches/advice_promises.py [REPEATS]

A pilot of a baseline and 1, 3, 6 and 20 treatments, in blocks that vary by 5 %, asks for ratios to within 1 %. The
advice is followed: a campaign of that number of blocks is analysed as a report does it, and counts if every interval is
at most as wide. Noises are drawn from the population that the advice assumes, with a median standard deviation of 1 %;
or they are all equal, or differ fivefold: evenly from 1 % to 5 %, or 5 % for one treatment or for the baseline alone.
Stated: 50 % and 80 %, and less where a million blocks, the most that are named, are not enough."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lastro.stats.block_model import BlockModel
from lastro.stats.blocks_needed import MOST, blocks_needed
from lastro.stats.contrasts import compare
from lastro.stats.families import MOST_PLANNED
from lastro.stats.future_widths import RatioIntervals
from lastro.stats.noise_posterior import SPREAD
from lastro.stats.stopping import relative_half_width

Values = npt.NDArray[np.float64]
CONFIDENCE, PRECISION, NOISE = 0.95, 0.001, 0.001
ASSURANCES, PROBABLE, PILOTS = (0.5, 0.8), 0.9, (2, 3, 5, 10)
_MOST_SIMULATED = 300  # trials of each cell; the spread that more of them show hardly varies
_DRAWS = 250  # so that it is faster: the average rate does not depend on their number
_MOST_NOISE = 1e4  # where more would need far over a million blocks, and values beyond the range of a float


def drawn_population(cells: int, rng: np.random.Generator) -> Values:
    """Noises of cells of the population that the advice assumes, with a median of 1."""
    spread = SPREAD * np.abs(rng.standard_normal())
    return np.asarray(np.exp(spread * rng.standard_normal(cells)))


NOISES: dict[str, Callable[[np.random.Generator, int], Values]] = {
    "as assumed": lambda rng, cells: np.minimum(drawn_population(cells, rng), _MOST_NOISE),
    "equal": lambda rng, cells: np.ones(cells),
    "evenly to 5 times": lambda rng, cells: rng.permutation(np.geomspace(1, 5, cells)),
    "one 5 times": lambda rng, cells: np.where(np.arange(cells) == cells - 1, 5.0, 1.0),
    "the baseline 5 times": lambda rng, cells: np.where(np.arange(cells) == 0, 5.0, 1.0),
}


class Rate(NamedTuple):
    """How often a number of blocks was enough, what was stated, and the median number."""

    kept: float
    stated: float
    blocks: int


def campaign(rng: np.random.Generator, noise: Values, blocks: int) -> BlockModel:
    """Return the model of a campaign whose cells have these relative noises."""
    values = (1 + 0.05 * rng.standard_normal(blocks)) * np.exp(
        noise[:, None] * rng.standard_normal((len(noise), blocks))
    )
    model = BlockModel.of({cell: dict(enumerate(row)) for cell, row in enumerate(values.tolist())})
    assert model is not None
    return model


def widest(rng: np.random.Generator, noise: Values, blocks: int) -> float:
    """Return the largest relative half width of the ratios to the first cell in the report of a campaign."""
    if blocks > _MOST_SIMULATED:
        return widest_of_many(rng, noise, blocks)
    sides = [({cell: 1.0}, {0: 1.0}) for cell in range(1, len(noise))]
    found = compare(campaign(rng, noise, blocks), sides, CONFIDENCE, planned=len(sides) <= MOST_PLANNED)
    return max(relative_half_width(one.ratio.value, one.ratio.interval) for one in found)


def widest_of_many(rng: np.random.Generator, noise: Values, blocks: int) -> float:
    """Return the same from the spread that many blocks show, without a value for each trial."""
    cells = len(noise)
    ratios = RatioIntervals(range(1, cells), [0] * (cells - 1), None, 0.0, np.zeros(cells), CONFIDENCE)
    shown = ratios.expected(noise**2) * rng.chisquare(blocks - 1, cells) / (blocks - 1)
    return float(ratios.half_widths(shown[None], np.array([[float(blocks)]])).max())


def rates(ratios: int, pilot_blocks: int, noises: str, repeats: int) -> tuple[tuple[Rate, ...], float]:
    """Return the rate for each assurance, and how often the interval holds the number that the noise requires."""
    rng = np.random.default_rng([ratios, pilot_blocks, list(NOISES).index(noises)])
    pairs = [(cell, 0) for cell in range(1, ratios + 1)]
    kept, stated, blocks = (np.zeros((repeats, len(ASSURANCES))) for _ in range(3))
    held = 0
    for repeat in range(repeats):
        noise = NOISE * NOISES[noises](rng, ratios + 1)
        pilot = campaign(rng, noise, pilot_blocks)
        intervals = RatioIntervals.of_model(pilot, pairs, CONFIDENCE)
        advice = blocks_needed(pilot.residuals, intervals, PRECISION, ASSURANCES, PROBABLE, _DRAWS)
        for at, enough in enumerate(advice.enough):
            n = enough.blocks or MOST
            kept[repeat, at], stated[repeat, at] = widest(rng, noise, n) <= PRECISION, enough.reached
            blocks[repeat, at] = n
        held += holds(intervals, noise / pilot.unit, advice.low or MOST, advice.high)
    found = zip(kept.mean(axis=0), stated.mean(axis=0), np.median(blocks, axis=0), strict=True)
    return tuple(Rate(float(k), float(s), int(n)) for k, s, n in found), held / repeats


def holds(intervals: RatioIntervals, noise: Values, low: int, high: int | None) -> bool:
    """Return whether the number that this noise requires, in the unit of the pilot, lies between two numbers."""
    expected = intervals.expected(noise**2)[None]

    def narrow(n: int) -> bool:
        return bool(intervals.half_widths(expected, np.array([[float(n)]])).max() <= PRECISION)

    return (high is None or narrow(high)) and (low <= 2 or not narrow(low - 1))


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    print(f"{'ratios':>6} {'pilot':>5}  {'noises':22} {'50 %':>18} {'80 %':>18} {'interval':>8}")
    asked = [(6, noises) for noises in NOISES] + [(ratios, "as assumed") for ratios in (1, 3, 20)]
    for (ratios, noises), pilot in itertools.product(asked, PILOTS):
        found, held = rates(ratios, pilot, noises, repeats)
        texts = [f"{one.kept:.0%} of {one.stated:.0%}, {one.blocks}" for one in found]
        print(f"{ratios:6} {pilot:5}  {noises:22} {texts[0]:>18} {texts[1]:>18} {held:8.1%}", flush=True)


if __name__ == "__main__":
    main()
