"""Several campaigns in one decision: how often intervals hold the truth, and how often a violator is recommended.

    python benches/decision_campaigns.py [WORLDS]      default: 500 worlds for each row

Each world has four candidates in two conditions, and campaigns of five blocks each. Trials have a noise of 5 %, blocks
differ by 2.5 %. A campaign shifts all of its trials together, and each cell by itself. "As one" takes all blocks
as those of one campaign. Violators are counted in the least favourable worlds: all candidates lie exactly on their
limit, so that each recommendation is an error. Intervals are of each mean where it is worst; of a true mean over all
campaigns that there could be.

The second table is of campaigns with at most eight blocks that each ended when they were decided. The worlds have two
candidates in one condition, in which errors are the most frequent."""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np

from lastro.stats import decision
from lastro.stats.campaign_effects import Campaigns
from lastro.stats.cell_means import MetricTrials
from lastro.stats.decision import Choice, Limit, choose
from lastro.stats.look_state import FEWEST_BLOCKS, LookState
from lastro.stats.looks import is_decision_made, take_look

CANDIDATES, CONDITIONS, BLOCKS, NOISE = 4, 2, 5, 0.05
CAMPAIGNS = (2, 3, 5)
SHIFTS = {"none": (0.0, 0.0), "3 %": (0.03, 0.0), "3 %, and 2 % of each cell": (0.03, 0.02), "10 %": (0.1, 0.0)}


FEW, MOST_BLOCKS = (2, 1), 8  # candidates and conditions, and blocks, of campaigns that end when they are decided
LIMIT, COST = Limit(0, 1.0, True), {1: 1.0}


class Rates(NamedTuple):
    """How often intervals of means and of costs hold the truth, and how often a candidate on its limit is accepted."""

    means: float
    costs: float
    violators: float


def world(
    rng: np.random.Generator,
    n: int,
    shifts: tuple[float, float],
    size: tuple[int, int] = (CANDIDATES, CONDITIONS),
    blocks: int = BLOCKS,
) -> tuple[MetricTrials, Campaigns]:
    """Return the trials of a metric whose true means are all 1, and the campaign of each block."""
    shape = (*size, n, blocks)
    common, own = shifts
    logs = common * rng.standard_normal((1, 1, n, 1)) + own * rng.standard_normal((*shape[:3], 1))
    logs = logs + NOISE / 2 * rng.standard_normal((1, 1, n, blocks)) + NOISE * rng.standard_normal(shape)
    values = np.exp(logs).reshape(*size, -1)
    cells = {(a, b): dict(enumerate(values[a, b].tolist())) for a, b in np.ndindex(size)}
    return MetricTrials(cells), {block: block // blocks for block in range(n * blocks)}


def rates(n: int, shifts: tuple[float, float], worlds: int, *, as_one: bool = False) -> Rates:
    rng = np.random.default_rng([n, *(int(1000 * shift) for shift in shifts)])
    means, costs, violators = [], [], 0
    for _ in range(worlds):
        trials, campaigns = world(rng, n, shifts)
        price, _ = world(rng, n, shifts)
        found: Choice = choose(
            [trials, price], [LIMIT], COST, (CANDIDATES, CONDITIONS),
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


def until_decided(n: int, shifts: tuple[float, float], worlds: int) -> tuple[float, float, float]:
    """Return how often a candidate on its limit is accepted by a campaign and by all, and how many blocks each ran."""
    rng = np.random.default_rng([8, n, *(int(1000 * shift) for shift in shifts)])
    alone, together, ran = 0, 0, 0
    for _ in range(worlds):
        (trials, campaigns), (price, _) = (world(rng, n, shifts, FEW, MOST_BLOCKS) for _ in range(2))
        kept: set[int] = set()
        for campaign in range(n):
            blocks = [block for block, its in campaigns.items() if its == campaign]
            n_blocks, accepted = _ended([trials, price], blocks)
            alone += accepted
            kept |= set(blocks[:n_blocks])
        ran += len(kept)
        whole = choose(_within([trials, price], kept), [LIMIT], COST, FEW, campaigns={at: campaigns[at] for at in kept})
        together += whole.recommended is not None
    return alone / worlds / n, together / worlds, ran / worlds / n


def _ended(metrics: list[MetricTrials], blocks: list[int]) -> tuple[int, bool]:
    """Return after how many of these blocks a campaign was decided, or ended, and whether it accepted a candidate."""
    settled = LookState()
    for n_blocks in range(FEWEST_BLOCKS, MOST_BLOCKS + 1):
        given = _within(metrics, set(blocks[:n_blocks])), [LIMIT], COST, FEW, 0.05
        choice, settled = take_look(*given, n_blocks / MOST_BLOCKS, settled)
        if is_decision_made(choice, settled):
            break
    return n_blocks, choice.recommended is not None


def _within(metrics: list[MetricTrials], blocks: set[int]) -> list[MetricTrials]:
    return [
        MetricTrials({cell: {at: own[at] for at in sorted(blocks)} for cell, own in metric.cells.items()})
        for metric in metrics
    ]


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
    decision.DRAWS = 1000  # errors of a few percent are known less well by so few worlds
    print("\n| campaigns differ by | campaigns | blocks of each | a violator, in one | in all together |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, shifts in SHIFTS.items():
        for n in CAMPAIGNS:
            alone, together, blocks = until_decided(n, shifts, worlds)
            print(f"| {name} | {n} | {blocks:.1f} | {100 * alone:.1f} % | {100 * together:.1f} % |", flush=True)


if __name__ == "__main__":
    main()
