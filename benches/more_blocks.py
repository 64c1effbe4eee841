"""How often the stated number of more blocks decides: for `lastro decide`, for its costs, and for claims that are open.

    python benches/more_blocks.py [WORLDS]      default: 300 worlds that are open for each row, some minutes

The worlds of decisions are those of decision_promises.py: eight candidates in two conditions. After the first blocks,
the answer says how many more decide on the likeliest candidate, or on which of the candidates of like cost costs less;
the same world then goes on for as many blocks, and is judged again. Claims are on the ratio of two treatments, whose
true logarithm is uniform within 0.4; "alike" ones have a margin of 10 %. A world in which more than 400 blocks in all
would be needed does not count."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from decision_promises import CANDIDATES, CONDITIONS, KINDS, LIMITS, trials, world
from lastro.analysis.advice import LIKELY, SURE
from lastro.stats import decision
from lastro.stats.block_model import BlockModel
from lastro.stats.cell_means import MetricTrials
from lastro.stats.contrasts import compare_one
from lastro.stats.decision import Choice, choose, more_blocks
from lastro.stats.intervals import t_quantile
from lastro.stats.simultaneous import Outlook, least_blocks

CHANCES, BLOCKS, ALPHA = (LIKELY, SURE), (3, 5, 10), 0.05
MOST = 400  # more blocks in all are not simulated
Decides = Callable[[int], bool]  # whether so many blocks in all decide
Stated = tuple[list[int | None], Decides]  # the blocks in all for each chance


class Rate(NamedTuple):
    """The median number of more blocks that are stated with a chance, and how often they decide."""

    more: float
    decided: float
    worlds: int


def chosen(metrics: list[MetricTrials], n: int, candidates: list[int] | None = None, alpha: float = ALPHA) -> Choice:
    """Return the choice after the first `n` blocks, among all candidates or some."""
    kept = range(CANDIDATES) if candidates is None else candidates
    cells = [
        {
            (at, place): {block: by_block[block] for block in range(n)}
            for at, candidate in enumerate(kept)
            for place in range(CONDITIONS)
            for by_block in [metric.cells[candidate, place]]
        }
        for metric in metrics
    ]
    limits = LIMITS if candidates is None else ()
    return choose([MetricTrials(each) for each in cells], limits, {2: 1.0}, (len(kept), CONDITIONS), alpha)


def open_decisions(rng: np.random.Generator, n: int, kind: str) -> Iterator[Stated]:
    """Yield worlds in which no candidate is surely the answer after `n` blocks."""
    while True:
        metrics = trials(rng, world(rng, on_the_limit=False), MOST, kind)
        first = chosen(metrics, n)
        if (at := first.likeliest) is None:
            continue
        more = [more_blocks(first.odds[at].tail, n, chance, first.levels(ALPHA)) for chance in CHANCES]
        yield [each and n + each for each in more], lambda n, at=at, all_=metrics: chosen(all_, n).verdict(at) != "open"


def open_costs(rng: np.random.Generator, n: int, kind: str) -> Iterator[Stated]:
    """Yield pairs of accepted candidates of which it is open after `n` blocks which one costs less."""
    while True:
        metrics = trials(rng, world(rng, on_the_limit=False), MOST, kind)
        first = chosen(metrics, n)
        for other, less in zip(first.alike, first.alike_less, strict=True):
            pair = [first.recommended or 0, other]
            more = [more_blocks(less, n, chance, (ALPHA, ALPHA)) for chance in CHANCES]
            yield (
                [each and n + each for each in more],
                lambda n, all_=metrics, pair=pair: not chosen(all_, n, pair).alike,
            )


def open_claims(rng: np.random.Generator, n: int, kind: str) -> Iterator[Stated]:
    """Yield claims that are open after `n` blocks: that two treatments differ, or that they are alike within 10 %."""
    ends = (0.0,) if kind == "a direction" else (-np.log(1.1), np.log(1.1))
    confidence = 1 - ALPHA if len(ends) == 1 else 1 - 2 * ALPHA
    while True:
        truth, of_blocks = rng.uniform(-0.4, 0.4), 0.1 * rng.standard_normal(MOST)
        logs = np.array([[0.0], [truth]]) + of_blocks + 0.1 * rng.standard_normal((2, MOST))

        def outlook(n: int, logs: np.ndarray = logs) -> Outlook:
            model = BlockModel.of(
                {at: dict(enumerate(row)) for at, row in enumerate(np.exp(logs[:, :n]).tolist())}, log=True
            )
            assert model is not None
            ratio = compare_one(model, {1: 1.0}, {0: 1.0}, 0.95).ratio
            assert ratio.interval is not None and ratio.value is not None and ratio.df
            error = np.log(ratio.interval.high / ratio.interval.low) / 2 / t_quantile(0.95, ratio.df)
            return Outlook(float(np.log(ratio.value)), float(error), ratio.df, n, confidence)

        def decides(n: int, outlook: Callable[[int], Outlook] = outlook) -> bool:
            now = outlook(n)
            return min(abs(now.value - end) for end in ends) > now.half_width(n)

        if not decides(n):
            now = outlook(n)
            yield [least_blocks(lambda m, now=now: now.excludes(ends, m), chance, n + 1) for chance in CHANCES], decides


OPEN = {
    "a decision on levels": (open_decisions, KINDS[0]),
    "a cost": (open_costs, KINDS[0]),
    "a claim on a direction": (open_claims, "a direction"),
    "a claim that two are alike": (open_claims, "alike"),
}


def rates(what: str, n: int, worlds: int, seed: int = 80) -> list[Rate]:
    """Return the rate for each of `CHANCES`, after a campaign of `n` blocks."""
    stated_in, kind = OPEN[what]
    found: list[list[tuple[int, bool]]] = [[] for _ in CHANCES]
    opened = stated_in(np.random.default_rng([seed, n, list(OPEN).index(what)]), n, kind)
    for _ in range(worlds):
        stated, decides = next(opened)
        for at, in_all in enumerate(stated):
            if in_all is not None and in_all <= MOST:
                found[at].append((in_all - n, decides(in_all)))
    return [
        Rate(float(np.median([more for more, _ in each])), float(np.mean([true for _, true in each])), len(each))
        for each in found
    ]


def main() -> None:
    decision.DRAWS = 2000  # a share of them is uncertain by less than what the worlds leave
    worlds = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    print("| open after | blocks | more blocks, 50 % | decide | more blocks, 80 % | decide | worlds |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for what in OPEN:
        for n in BLOCKS:
            found = rates(what, n, worlds)
            cells = [text for rate in found for text in (f"{rate.more:.0f}", f"{100 * rate.decided:.0f} %")]
            cells.append("/".join(str(rate.worlds) for rate in found))
            print(f"| {what} | {n} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
