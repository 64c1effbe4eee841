"""The time that multiple loss ratio search offers load for, against binary search (RFC 2544), at equal width.

    .venv/bin/python benches/load_search.py [PAIRS]

Both search for PDR and NDR on the same simulated function, in turn: a capacity at random, with a queue, or a loss that
grows slowly. The number of a side is the seconds of its probes. A load is decided by `deciding_s` on both sides: in one
probe by binary search, in probes of `probe_s` by multiple loss ratio search."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

from _harness import Ratio, interleaved, show
from lastro.scenarios.load.goals import Goal
from lastro.scenarios.load.search import Bounds, Probe, search

_GOALS = (Goal("pdr", 0.005), Goal("ndr", 0.0))
_PAIRS = 100

Function = Callable[[float, float], Probe]


def _bottleneck(capacity_fps: float) -> Function:
    def measure(rate_fps: float, duration_s: float) -> Probe:
        sent = round(rate_fps * duration_s)
        return Probe(rate_fps, duration_s, sent, min(sent, round(capacity_fps * duration_s) + 10), duration_s, {})

    return measure


def _slope(knee_fps: float) -> Function:
    def measure(rate_fps: float, duration_s: float) -> Probe:
        sent = round(rate_fps * duration_s)
        lost = max(0.0, (rate_fps - knee_fps) / (10 * knee_fps))
        return Probe(rate_fps, duration_s, sent, round(sent * (1 - lost)), duration_s, {})

    return measure


def _offered_s(method: str, bounds: Bounds, functions: list[Function]) -> Callable[[], float]:
    left = iter(functions)
    return lambda: float(sum(probe.duration_s for probe in search(method, _GOALS, bounds, next(left)).probes))


def ratios(pairs: int) -> list[Ratio]:
    found = []
    for what, make in (("a bottleneck", _bottleneck), ("a slope of loss", _slope)):
        for sums, bounds in {
            "1 s": Bounds(1_000, 1_000_000, sum_s=1),
            "1 s, first probes of 0.2 s": Bounds(1_000, 1_000_000, first_s=0.2, sum_s=1),
            "3 s in probes of 1 s": Bounds(1_000, 1_000_000, sum_s=3),
            "60 s, first probes of 1 s": Bounds(1_000, 1_000_000, first_s=1, final_s=60, sum_s=60, limit_s=1e9),
        }.items():
            rng = random.Random(9971)
            functions = [make(rng.uniform(5_000, 500_000)) for _ in range(pairs + 1)]
            sides = [_offered_s(method, bounds, functions) for method in ("mlrsearch", "binary")]
            name = f"PDR and NDR of {what} within 1 %, {sums}, against binary search"
            found.append(interleaved(name, "≤ 0.5", *sides, pairs, unit="s"))
    return found


if __name__ == "__main__":
    show(ratios(int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else _PAIRS))
