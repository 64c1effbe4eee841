"""Several campaigns in one decision: how often intervals hold the truth, and how often a violator is recommended.

    python benches/decision_campaigns.py [WORLDS]      default: 500 worlds for each row

Each world has four candidates in two conditions, and campaigns of five blocks each. Trials have a noise of 5 %, blocks
differ by 2.5 %. A campaign shifts all of its trials together, and each cell by itself. "As one" takes all blocks
as those of one campaign. Violators are counted in the least favourable worlds: all candidates lie exactly on their
limit, so that each recommendation is an error. Intervals are of each mean where it is worst; of a true mean over all
campaigns that there could be."""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np

from lastro.stats.campaign_effects import Campaigns
from lastro.stats.cell_means import MetricTrials
from lastro.stats.decision import Choice, Limit, choose

CANDIDATES, CONDITIONS, BLOCKS, NOISE = 4, 2, 5, 0.05
CAMPAIGNS = (2, 3, 5)
SHIFTS = {"none": (0.0, 0.0), "3 %": (0.03, 0.0), "3 %, and 2 % of each cell": (0.03, 0.02), "10 %": (0.1, 0.0)}


class Rates(NamedTuple):
    """How often intervals of means and of costs hold the truth, and how often a candidate on its limit is accepted."""

    means: float
    costs: float
    violators: float


def world(rng: np.random.Generator, n: int, shifts: tuple[float, float]) -> tuple[MetricTrials, Campaigns]:
    """Return the trials of a metric whose true means are all 1, and the campaign of each block."""
    shape = (CANDIDATES, CONDITIONS, n, BLOCKS)
    common, own = shifts
    logs = common * rng.standard_normal((1, 1, n, 1)) + own * rng.standard_normal((*shape[:3], 1))
    logs = logs + NOISE / 2 * rng.standard_normal((1, 1, n, BLOCKS)) + NOISE * rng.standard_normal(shape)
    values = np.exp(logs).reshape(CANDIDATES, CONDITIONS, -1)
    cells = {(a, b): dict(enumerate(values[a, b].tolist())) for a in range(CANDIDATES) for b in range(CONDITIONS)}
    return MetricTrials(cells), {block: block // BLOCKS for block in range(n * BLOCKS)}


def rates(n: int, shifts: tuple[float, float], worlds: int, *, as_one: bool = False) -> Rates:
    rng = np.random.default_rng([n, *(int(1000 * shift) for shift in shifts)])
    means, costs, violators = [], [], 0
    for _ in range(worlds):
        trials, campaigns = world(rng, n, shifts)
        price, _ = world(rng, n, shifts)
        found: Choice = choose(
            [trials, price], [Limit(0, 1.0, True)], {1: 1.0}, (CANDIDATES, CONDITIONS),
            campaigns=None if as_one else campaigns,
        )  # fmt: skip
        violators += found.recommended is not None
        for odds in found.odds:
            (limit,) = odds.limits
            assert limit is not None and odds.cost is not None
            held = [each.interval is not None and each.interval.holds(1.0) for each in (limit.mean, odds.cost)]
            means.append(held[0])
            costs.append(held[1])
    return Rates(float(np.mean(means)), float(np.mean(costs)), violators / worlds)


def main() -> None:
    worlds = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    columns = (
        "campaigns differ by",
        "campaigns",
        "95 % of means",
        "of costs",
        "a violator",
        "as one: means",
        "a violator",
    )
    print(f"| {' | '.join(columns)} |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, shifts in SHIFTS.items():
        for n in CAMPAIGNS:
            own, as_one = rates(n, shifts, worlds), rates(n, shifts, worlds, as_one=True)
            numbers = (
                f"{own.means:.0%}",
                f"{own.costs:.0%}",
                f"{own.violators:.1%}",
                f"{as_one.means:.0%}",
                f"{as_one.violators:.1%}",
            )
            print(f"| {name} | {n} | {' | '.join(each.replace('%', ' %') for each in numbers)} |", flush=True)


if __name__ == "__main__":
    main()
