"""The bench of many routers has no row for a grid that left anything."""

from __future__ import annotations

import importlib
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro.errors import TrialError
from lastro.results.samples import Outcome

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))
bench = importlib.import_module("routers")

READ = ("boot", "memory_router", "pss_router", "initial_routes", "teardown")


@pytest.mark.parametrize("after", [{"links": {"lo"}, "ledger": 7}, {"links": {"lo", "hub-0a"}, "ledger": 7}])
def test_what_stays_is_named_in_place_of_a_row(monkeypatch: pytest.MonkeyPatch, after: dict[str, Any]) -> None:
    before = {"links": {"lo"}, "ledger": 7}
    found = iter((before, after))
    monkeypatch.setattr(bench, "trial_leftovers", lambda bed: next(found))
    outcome = Outcome(dict.fromkeys(READ, 1.0), notes={"network": {"routers": 4}})
    parts = SimpleNamespace(get=lambda name: None)
    scenario = SimpleNamespace(pool=parts, attachments=parts, attempt=nullcontext, run=lambda *trial: outcome)
    bed = SimpleNamespace(host=SimpleNamespace(recorded=nullcontext))
    if after == before:
        assert bench._row(scenario, bed, "2x2", "native").startswith("| 2x2 on native | 4 | 1.0 s |")
        return
    with pytest.raises(TrialError, match=r"2x2 on native: left behind: \{'links': \{.*'hub-0a'"):
        bench._row(scenario, bed, "2x2", "native")
