"""How many trials show a change for the worse with a probability of 80 %: for `lastro ab`, and for two campaigns.

    python benches/ab_trials.py            1,000 worlds for each number of blocks: about 10 minutes
    python benches/ab_trials.py 200        fewer

Worlds are those of ab_alarms.py: trials have noise of 3 %, and the margin is 3 %. A shift of 3 % (standard deviation)
falls into the middle of each campaign of `lastro ab`. Two campaigns differ by the shift of their column, and are judged
by the interval of their ratio, where the spread between equal campaigns is known with 30 degrees of freedom; campaigns
that told it are not counted. Each rule gets the smallest number of blocks, or of trials in each campaign, with which it
finds the change in 80 % of the worlds. `lastro ab` may stop early, and runs new blocks after an alarm, so its number of
trials is a mean over the worlds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count

import numpy as np

from ab_alarms import SHIFT, answer, campaign, two_campaigns
from lastro.stats.sampled import CampaignSpread

CHANGES, SHIFTS, POWER = (0.03, 0.05, 0.10), (0.0, 0.01, 0.03), 0.8
MOST = 1024  # blocks, or trials in each campaign
RULES = {"`ab`, N blocks": False, "`ab`, until decided": True}  # whether it looks after each block
Rule = Callable[[int], tuple[float, float]]  # blocks, or trials in each campaign: (power, mean number of trials)


def of_ab(worlds: int, change: float, *, each_block: bool) -> Rule:
    @cache
    def found(blocks: int) -> tuple[float, float]:
        rng, seen = np.random.default_rng(67), []
        for _ in range(worlds):
            values = campaign(rng, change, (0.0, SHIFT), blocks=2 * max(blocks, 3), day_ends=blocks / 2)
            seen.append(answer(values, change, 2 if each_block else blocks, blocks)[:2])
        worse, ended = np.mean(seen, axis=0).tolist()
        return worse, 2 * ended

    return found


def of_two_campaigns(worlds: int, change: float, shift: float) -> Rule:
    spreads = [CampaignSpread(shift**2 / 2, 30)]

    @cache
    def found(trials: int) -> tuple[float, float]:
        rng = np.random.default_rng(67)
        seen = [two_campaigns(rng, change, (0.0, shift), spreads, trials) for _ in range(worlds)]
        return float(np.mean(seen)), 2 * trials

    return found


def smallest(rule: Rule) -> int | None:
    """Return the smallest number with which the rule has the power, at least 2; None if `MOST` is not enough."""
    high = next((2**n for n in count(1) if 2**n > MOST or rule(2**n)[0] >= POWER), 0)
    if high > MOST:
        return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if rule(middle)[0] >= POWER else (middle, high)
    return high


def table(worlds: int) -> Iterator[str]:
    yield f"| change | {' | '.join(RULES)} | {' | '.join(f'two campaigns, shift of {100 * s:.0f} %' for s in SHIFTS)} |"
    yield "| ---: " * (1 + len(RULES) + len(SHIFTS)) + "|"
    for change in CHANGES:
        yield f"| {100 * change:.0f} % | {' | '.join(_cells(worlds, change))} |"


def _cells(worlds: int, change: float) -> Iterator[str]:
    for each_block in RULES.values():
        rule = of_ab(worlds, change, each_block=each_block)
        blocks = smallest(rule)
        yield "none" if blocks is None else f"{rule(blocks)[1]:.0f} (N = {blocks})"
    for shift in SHIFTS:
        trials = smallest(of_two_campaigns(worlds, change, shift))
        yield f"over {2 * MOST:,}" if trials is None else str(2 * trials)


def main() -> None:
    worlds = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for line in table(worlds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
