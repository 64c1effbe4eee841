"""Every reader of a campaign ends as it should with any values that the check of stored values lets pass."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from lastro.results.samples import Series

from ..support.campaigns import METRICS, make_campaign, make_study
from ..support.products import some
from .conftest import lastro

VALUES = (0.0, -0.0, 1e-30, -1e-30, 1e30, -1e30, 1e-15, 1e15, 5.0, math.nextafter(5, 6), 1.0, -1.0, math.inf, -math.inf)
READERS = {
    "results": (), "report": ("--format", "md", "--full", "-o", "-"), "advise-replicates": (), "status": (),
    "show": ("1", "--json"), "claims": (), "decide": (), "noise-floor": (),
}  # fmt: skip
KINDS = ("one value", "another for each level", "another for each block", "any", "rarely another")
CASES = [(kind, seed) for seed in range(8) for kind in KINDS]


def _campaign(directory: Path, kind: str, seed: int) -> Path:
    rng = random.Random(f"{kind} {seed}")
    pool = rng.sample(VALUES, rng.randint(1, 6))

    def value(levels: Mapping[str, object], block: int, metric: str) -> float | None:
        if kind == "one value":
            return pool[0]
        if kind == "another for each level":
            return random.Random(f"{seed} {sorted(map(str, levels.values()))}").choice(pool)
        if kind == "another for each block":
            return pool[block % len(pool)]
        return None if rng.random() < 0.05 else rng.choice(pool) if kind == "any" or rng.random() < 0.1 else 1.0

    def samples(levels: Mapping[str, object], block: int) -> list[Series]:
        return [Series("delay", "ms", tuple(rng.choices(pool, k=rng.randint(0, 30))))]

    factors: dict[str, tuple[str | int, ...]] = {"platform": ("native", "runc"), "n": (1, 2, 4)}
    study = make_study(factors, replicates=rng.choice((1, 2, 5)), metrics=METRICS[:3], baseline={"platform": "native"})
    return make_campaign(directory, study, value=value, series=samples)


@pytest.mark.parametrize("case", some(CASES, 13), ids=str)
def test_no_value_that_a_campaign_may_hold_is_a_bug(tmp_path: Path, case: tuple[str, int]) -> None:
    for name in ("a", "b"):
        _campaign(tmp_path / name, *case)
    for reader, options in {**READERS, "compare": ("b", "--fail-over", "5%")}.items():
        found = lastro(reader, "a", *options, cwd=tmp_path, drawn=False)
        assert found.code in (0, 2, 3, 4, 8) and "Warning" not in found.err, (reader, found)
