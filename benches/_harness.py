"""What the benches share: interleaved pairs, the ratio of medians with a bootstrap interval, and how it is printed."""

from __future__ import annotations

import json
import random
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HEAD = ["| what | Lastro | raw tools | ratio | target | pairs |", "| --- | ---: | ---: | ---: | ---: | ---: |"]


@dataclass(frozen=True, slots=True)
class Ratio:
    """What was measured of ours and of the raw tools, in pairs: the median of their ratios and its 95 % interval."""

    what: str
    target: str
    unit: str = "ms"
    ours: list[float] = field(default_factory=list)
    raw: list[float] = field(default_factory=list)

    @property
    def pairs(self) -> list[float]:
        return [ours / raw for ours, raw in zip(self.ours, self.raw, strict=True)]

    @property
    def median(self) -> float:
        return statistics.median(self.pairs)

    def interval(self, n_resamples: int = 2000) -> tuple[float, float]:
        """Percentile bootstrap of the median (Efron 1979): for a bench's table, not for a paper."""
        draw = random.Random(1)
        medians = sorted(statistics.median(draw.choices(self.pairs, k=len(self.pairs))) for _ in range(n_resamples))
        return medians[int(0.025 * n_resamples)], medians[int(0.975 * n_resamples)]

    @property
    def row(self) -> str:
        low, high = self.interval()
        ours, raw = (f"{_short(statistics.median(values))} {self.unit}" for values in (self.ours, self.raw))
        return (
            f"| {self.what} | {ours} | {raw} | {self.median:.2f} [{low:.2f}, {high:.2f}]"
            f" | {self.target} | {len(self.pairs)} |"
        )

    def plain(self) -> dict[str, object]:
        low, high = self.interval()
        shown = {"what": self.what, "target": self.target, "unit": self.unit, "ours": self.ours, "raw": self.raw}
        return {**shown, "ratio": self.median, "low": low, "high": high}


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 20 else f"{value:.3g}"


Side = Callable[[], object]


def interleaved(what: str, target: str, ours: Side, raw: Side, n: int, *, unit: str = "ms") -> Ratio:
    """Run the two in turn, the order within a pair alternating, after one uncounted pair.

    What counts is the number that a side returns, or else the milliseconds that it took."""
    found = Ratio(what, target, unit)
    for pair in range(n + 1):
        for which in (0, 1) if pair % 2 else (1, 0):
            started_s = time.monotonic()
            answer = (ours, raw)[which]()
            value = answer if isinstance(answer, float) else 1000 * (time.monotonic() - started_s)
            if pair:
                (found.ours, found.raw)[which].append(value)
    return found


def kept(path: Path, run: Callable[[Path], object]) -> Any:
    """Return the content of the JSON file `path`. If it does not exist, store what `run` returns for a new campaign.

    So a loop of campaigns that was stopped goes on. The directory of the campaign is `path` without its suffix."""
    if not path.exists():
        campaign, partial = path.with_suffix(""), path.with_suffix(".partial")
        shutil.rmtree(campaign, ignore_errors=True)  # of a run that was stopped
        partial.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(run(campaign)))
        partial.replace(path)
    return json.loads(path.read_text())


def show(ratios: Sequence[Ratio]) -> None:
    """As a table, or with --json as a list."""
    if "--json" in sys.argv:
        print(json.dumps([ratio.plain() for ratio in ratios], indent=1))
    else:
        print("\n".join([*HEAD, *(ratio.row for ratio in ratios)]))


def words() -> list[str]:
    """The command line but for options: names of platforms."""
    return [word for word in sys.argv[1:] if not word.startswith("-")]
