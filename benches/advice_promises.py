"""How often the advised number of blocks makes all intervals as narrow as asked, by simulation. It takes half an hour.

    .venv/bin/python benches/advice_promises.py [REPEATS]

A pilot of a baseline and 1, 3, 6 and 20 treatments, in blocks that vary by 5 %, asks for ratios to within 0.1 %. The
advice is followed: a campaign of that number of blocks is analysed as a report does it, and counts if every interval is
at most as wide. Noises are all equal, with a standard deviation of 0.1 %; or they differ fivefold, evenly, or only for
one treatment or the baseline; or they are lognormal with a median of 0.1 % and a spread that is half-normal with scale
1.5, so that two typically differ by a factor of 2.6. Stated: 50 % and 80 %, and less where a million blocks, the most
that are named, are not enough."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lastro.stats.block_model import BlockModel
from lastro.stats.blocks_needed import MOST, PilotInterval, blocks_needed
from lastro.stats.contrasts import compare, log_ratio
from lastro.stats.families import MOST_PLANNED, Family
from lastro.stats.moderation import MOST_PRIOR_DF

Values = npt.NDArray[np.float64]
CONFIDENCE, PRECISION, NOISE = 0.95, 0.001, 0.001
ASSURANCES, PROBABLE, PILOTS = (0.5, 0.8), 0.9, (2, 3, 5, 10)
_MOST_SIMULATED = 300  # trials of each cell; the spread that more of them show hardly varies
_WIDEST = 20.0  # of logarithms: larger half widths are not distinguished
_MOST_NOISE = 1e4  # where more would need far over a million blocks, and values beyond the range of a float


def drawn_population(cells: int, rng: np.random.Generator) -> Values:
    """Return lognormal noises of cells with a median of 1, of which the spread is half-normal."""
    spread = 1.5 * np.abs(rng.standard_normal())
    return np.asarray(np.exp(spread * rng.standard_normal(cells)))


NOISES: dict[str, Callable[[np.random.Generator, int], Values]] = {
    "lognormal": lambda rng, cells: np.minimum(drawn_population(cells, rng), _MOST_NOISE),
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
        shown = noise * np.sqrt(rng.chisquare(blocks - 1, len(noise)) / (blocks - 1))
        return widest_with(shown, blocks)
    found = compared(campaign(rng, noise, blocks), len(noise))
    return math.sinh(min(_WIDEST, max(one.critical * one.error for one in found)))


def widest_with(noise: Values, blocks: int) -> float:
    """Return the same from the noises that many blocks show, or from the true ones, without a value for each trial."""
    errors = np.zeros((len(noise) - 1, len(noise)))
    errors[:, 0] = -noise[0]
    np.fill_diagonal(errors[:, 1:], noise[1:])
    sizes = np.linalg.norm(errors, axis=1)
    share = (noise[1 + int(sizes.argmax())] / sizes.max()) ** 2
    df = (blocks - 1 + MOST_PRIOR_DF) / (share**2 + (1 - share) ** 2)
    critical = Family(list(errors / sizes[:, None])).critical(CONFIDENCE, df)
    return math.sinh(min(_WIDEST, critical * float(sizes.max()) / math.sqrt(blocks)))


def compared(model: BlockModel, cells: int) -> list[PilotInterval]:
    """Return the interval of each ratio to the first cell, as `lastro advise-replicates` takes it from a report."""
    sides = [({cell: 1.0}, {0: 1.0}) for cell in range(1, cells)]
    found = compare(model, sides, CONFIDENCE, planned=len(sides) <= MOST_PLANNED)
    gaps = [log_ratio(model, of, to) for of, to in sides]
    return [
        PilotInterval(gap.error or 0.0, one.ratio.df or 1.0, one.critical or 0.0, gap.bias)
        for gap, one in zip(gaps, found, strict=True)
        if gap is not None
    ]


def rates(ratios: int, pilot_blocks: int, noises: str, repeats: int) -> tuple[tuple[Rate, ...], float]:
    """Return the rate for each assurance, and how often the interval holds the number that the noise requires."""
    rng = np.random.default_rng([ratios, pilot_blocks, list(NOISES).index(noises)])
    kept, stated, blocks = (np.zeros((repeats, len(ASSURANCES))) for _ in range(3))
    held = 0
    for repeat in range(repeats):
        noise = NOISE * NOISES[noises](rng, ratios + 1)
        pilot = compared(campaign(rng, noise, pilot_blocks), ratios + 1)
        advice = blocks_needed(pilot, pilot_blocks, math.asinh(PRECISION), ASSURANCES, PROBABLE)
        for at, enough in enumerate(advice.enough):
            n = enough.blocks or MOST
            kept[repeat, at], stated[repeat, at] = widest(rng, noise, n) <= PRECISION, enough.reached
            blocks[repeat, at] = n
        held += holds(noise, advice.low or MOST, advice.high)
    found = zip(kept.mean(axis=0), stated.mean(axis=0), np.median(blocks, axis=0), strict=True)
    return tuple(Rate(float(k), float(s), int(n)) for k, s, n in found), held / repeats


def holds(noise: Values, low: int, high: int | None) -> bool:
    """Return whether the number that this noise requires lies between two numbers."""
    narrow_below = low > 2 and widest_with(noise, low - 1) <= PRECISION
    return (high is None or widest_with(noise, high) <= PRECISION) and not narrow_below


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    print(f"{'ratios':>6} {'pilot':>5}  {'noises':22} {'50 %':>18} {'80 %':>18} {'interval':>8}")
    asked = [(6, noises) for noises in NOISES] + [(ratios, "lognormal") for ratios in (1, 3, 20)]
    for (ratios, noises), pilot in itertools.product(asked, PILOTS):
        found, held = rates(ratios, pilot, noises, repeats)
        texts = [f"{one.kept:.0%} of {one.stated:.0%}, {one.blocks}" for one in found]
        print(f"{ratios:6} {pilot:5}  {noises:22} {texts[0]:>18} {texts[1]:>18} {held:8.1%}", flush=True)


if __name__ == "__main__":
    main()
