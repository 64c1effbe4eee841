"""The bench of workloads runs: trials, and the same tools by hand, one of them by a literal command."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from ..support.scenarios import TOLERANT

pytestmark = [pytest.mark.root, pytest.mark.measures]

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))
bench = importlib.import_module("instruments")


def test_a_pair_of_two_quick_workloads(monkeypatch: pytest.MonkeyPatch) -> None:
    real, tolerant = bench.config, dict(TOLERANT)
    monkeypatch.setattr(bench, "config", lambda name: real(name) | tolerant)
    found = bench.results(["sysbench-cpu", "pi"], n_pairs=1)
    assert (found.missing, found.failed) == ([], [])
    assert [ratio.what.partition(" ")[0] for ratio in found.ratios] == ["cpu_events", "pi_computation"]
    for ratio in found.ratios:
        assert len(ratio.pairs) == 1
        assert 0.1 < ratio.median < 10, "whatever else runs here, a wrong unit or column is further off"
    assert ["read by hand" in ratio.what for ratio in found.ratios] == [True, False]
