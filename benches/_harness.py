"""What the benches share: interleaved pairs, and the ratio of medians with a bootstrap interval."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ratio:
    """Seconds of ours and of the raw tools, pair by pair; the median of their ratios with its 95 % interval."""

    ours_s: list[float]
    raw_s: list[float]

    @property
    def pairs(self) -> list[float]:
        return [ours / raw for ours, raw in zip(self.ours_s, self.raw_s, strict=True)]

    @property
    def median(self) -> float:
        return statistics.median(self.pairs)

    def interval(self, n_resamples: int = 2000) -> tuple[float, float]:
        """Percentile bootstrap of the median (Efron 1979): for a bench's table, not for a paper."""
        draw = random.Random(1)
        medians = sorted(statistics.median(draw.choices(self.pairs, k=len(self.pairs))) for _ in range(n_resamples))
        return medians[int(0.025 * n_resamples)], medians[int(0.975 * n_resamples)]

    def row(self, what: str, target: str) -> str:
        low, high = self.interval()
        ours_ms, raw_ms = (1000 * statistics.median(times) for times in (self.ours_s, self.raw_s))
        return (
            f"| {what} | {ours_ms:.0f} ms | {raw_ms:.0f} ms | {self.median:.2f} [{low:.2f}, {high:.2f}]"
            f" | {target} | {len(self.pairs)} |"
        )


def interleaved(ours: Callable[[], object], raw: Callable[[], object], n: int) -> Ratio:
    """Run the two in turn, the order within a pair alternating, after one uncounted pair."""
    found = Ratio([], [])
    for pair in range(n + 1):
        for which in (0, 1) if pair % 2 else (1, 0):
            started_s = time.monotonic()
            (ours, raw)[which]()
            elapsed_s = time.monotonic() - started_s
            if pair:
                (found.ours_s, found.raw_s)[which].append(elapsed_s)
    return found
