"""The bench that compares watched campaigns with others: its table, and where it keeps them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))
bench = importlib.import_module("serve_same")


def test_a_ratio_has_its_interval_over_the_pairs_and_the_server_its_time() -> None:
    pairs = [
        ({"means": {"throughput": 101.0 + at, "latency_mean": None}, "percent": 0.1 * at}, {"means": others})
        for at, others in enumerate([{"throughput": 100.0 + at, "latency_mean": 1.0} for at in range(3)])
    ]
    found = bench.table(pairs)
    assert found[2].startswith("| throughput | ×1.00990 [") and found[2].endswith("| holds 1 | 3 |")
    assert found[3] == "| latency_mean | not measured | holds 1 | 0 |"
    assert found[4] == "| CPU time of the server | 0.10 % of one CPU, at most 0.20 % | < 0.5 % | 3 |"


def test_campaigns_with_other_settings_are_kept_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    files = list[Path]()
    monkeypatch.setattr(bench, "kept", lambda file, run: files.append(file))
    for settings in ([], ["max_wait_s=0"], ["max_wait_s=0", "tcp_s=1"]):
        bench.pair(Path("x"), 1, settings)
    assert len(set(files)) == 6 and files[0] == Path("x/watched/1.json")
    assert files[-1] == Path("x/max_wait_s=0,tcp_s=1/alone/1.json")
