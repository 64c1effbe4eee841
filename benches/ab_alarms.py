"""How often `lastro ab` calls a change worse that is none, and how often it finds one, against two campaigns; and how
often the intervals that it prints in the end hold the truth, all of them together.

    python benches/ab_alarms.py            2,000 worlds for each row: about a quarter of an hour
    python benches/ab_alarms.py 200        fewer

A trial takes 30 s and has noise of 3 %; a smaller value is better, and the margin is 3 %. *Another day* is a shift of
3 % (standard deviation): between two campaigns, or in the middle of the one campaign of `lastro ab`. Two campaigns have
as many trials as `lastro ab` with an alarm that is tried again. They are judged by the interval of their ratio, and by
the same if the spread between equal campaigns is well known."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import numpy as np

from lastro.stats.block_model import BlockModel
from lastro.stats.ratios import ratio_of_means
from lastro.stats.sampled_mean import CampaignSpread, SampledMean
from lastro.stats.variants import VariantChange, confidence_at, is_confirmed, new_blocks, variant_changes

NOISE, SHIFT, TRIAL_S, MARGIN = 0.03, 0.03, 30.0, 0.03
FIXED, MOST = 10, 20  # blocks
TWO = ("two campaigns", "two campaigns, spread known")
HOSTS = {"steady": (0.0, False), "drifts by 10 % an hour": (0.10, False), "another day": (0.0, True)}
Values = dict[int, dict[int, float]]  # by cell: 2k is the reference of pair k, and 2k + 1 the variant


def campaign(rng: np.random.Generator, effect: float, host: str, n_pairs: int) -> Values:
    """Return as many blocks as `lastro ab` may run, each with all trials in random order; one pair has the effect."""
    drift, day = HOSTS[host]
    n_cells, values = 2 * n_pairs, {cell: dict[int, float]() for cell in range(2 * n_pairs)}
    shift = rng.normal(0, SHIFT) if day else 0.0
    for block in range(1, 2 * MOST + 1):
        for place, cell in enumerate(rng.permutation(n_cells).tolist()):
            hours = ((block - 1) * n_cells + place) * TRIAL_S / 3600
            log = drift * hours + (shift if block > FIXED / 2 else 0.0) + rng.normal(0, NOISE)
            values[cell][block] = 100.0 * (1 + effect * (cell == 1)) * float(np.exp(log))
    return values


def answer(values: Values, effect: float, first: int, last: int) -> tuple[bool, int, bool]:
    """Look after each block from `first` to `last`. Return whether a change is worse, the blocks that it took, and
    whether the last intervals, which are of all blocks, hold the truth."""
    looks: list[int] = []
    pairs = [(cell + 1, cell) for cell in range(0, len(values), 2)]
    for block in range(first, last + 1):
        looks.append(block)
        confidence = confidence_at(looks, last, 0.95)
        found = variant_changes(_model(values, 0, block), pairs, "lower", confidence)
        verdicts = [each.verdict(MARGIN) for each in found]
        if raised := [pair for pair, each in zip(pairs, verdicts, strict=True) if each == "worse"]:
            ends = block + new_blocks(block)
            new = _model(values, block, ends)
            worse = any(is_confirmed(new, *pair, "lower") for pair in raised)
            return worse, ends, _hold(variant_changes(_model(values, 0, ends), pairs, "lower", confidence), effect)
        if set(verdicts) == {"no worse"}:
            break
    return False, block, _hold(found, effect)


def _hold(found: Sequence[VariantChange], effect: float) -> bool:
    return all(each.low <= (0.0 if pair else effect) <= each.high for pair, each in enumerate(found))


def _model(values: Values, after: int, until: int) -> BlockModel:
    model = BlockModel.of(
        {cell: {block: own[block] for block in range(after + 1, until + 1)} for cell, own in values.items()}
    )
    assert model is not None
    return model


def two_campaigns(rng: np.random.Generator, effect: float, host: str) -> tuple[bool, bool]:
    """Return whether two campaigns of `2 * FIXED` trials find a change for the worse: without and with their spread."""
    drift, day = HOSTS[host]
    hours = np.arange(4 * FIXED).reshape(2, -1) * TRIAL_S / 3600
    shift = np.array([[0.0], [rng.normal(0, SHIFT) if day else 0.0]])
    before, after = np.exp(drift * hours + shift + rng.normal(0, NOISE, hours.shape)) * [
        [100.0],
        [100.0 * (1 + effect)],
    ]
    found = []
    for between in (None, CampaignSpread(SHIFT**2 / 2, 30)):
        a, b = (SampledMean.of(own.tolist(), between=between) for own in (before, after))
        ratio = ratio_of_means(b, a, 0.95)
        found.append(ratio.interval is not None and ratio.interval.low > 1)
    return found[0], found[1]


def rates(worlds: int, effect: float, host: str, n_pairs: int = 1, seed: int = 61) -> dict[str, np.ndarray]:
    """Return {rule: (how often it calls a change worse, blocks on average, how often intervals hold the truth)}."""
    rng = np.random.default_rng([seed, round(1000 * effect), list(HOSTS).index(host), n_pairs])
    found: dict[str, list[tuple[float, ...]]] = {}
    for _ in range(worlds):
        values = campaign(rng, effect, host, n_pairs)
        for rule, first in ((f"{FIXED} blocks", FIXED), ("until decided", 2)):
            seen = answer(values, effect, first, FIXED if first == FIXED else MOST)
            found.setdefault(rule, []).append(seen)
        if n_pairs == 1:
            for rule, worse in zip(TWO, two_campaigns(rng, effect, host), strict=True):
                found.setdefault(rule, []).append((worse, 2 * FIXED))
    return {rule: np.mean(each, axis=0) for rule, each in found.items()}


def table(worlds: int) -> Iterator[str]:
    rules = [f"{FIXED} blocks", "until decided", *TWO]
    yield f"| change | host | pairs | {' | '.join(rule if rule in TWO else f'`ab`, {rule}' for rule in rules)} |"
    yield "| --- | --- | --- | " + " | ".join("---" for _ in rules) + " |"
    for effect, n_pairs in ((0.0, 1), (0.0, 6), (0.03, 1), (0.05, 1), (0.10, 1)):
        for host in HOSTS:
            found = rates(worlds, effect, host, n_pairs)
            cells = [_cell(*found[rule].tolist()) if rule in found else "" for rule in rules]
            yield f"| {100 * effect:.0f} % | {host} | {n_pairs} | {' | '.join(cells)} |"


def _cell(worse: float, blocks: float, held: float | None = None) -> str:
    return f"{100 * worse:.1f} % ({blocks:.0f})" + ("" if held is None else f", {100 * held:.1f} %")


def main() -> None:
    worlds = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    for line in table(worlds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
