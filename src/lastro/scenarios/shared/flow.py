"""Pauses around a flow, and the check that the links carried it."""

from __future__ import annotations

import time
from collections.abc import Mapping

from lastro.results.samples import Outcome
from lastro.results.topology import DUT
from lastro.scenarios.shared.topology import note_witness


def judge_links(name: str, before: Mapping[str, int], after: Mapping[str, int], outcome: Outcome) -> None:
    """Check that the counters of the links on the path, if any, have increased."""
    moved = {counter: after.get(counter, 0) - value for counter, value in before.items()}
    if moved:
        outcome.notes["links"] = moved
        note_witness(outcome, name, f"packets on the links: {', '.join(sorted(moved))}", (DUT,))
    outcome.invalidate(
        [f"the links of '{name}' did not carry the flow: their counter '{each}' stood still"
         for each, packets in moved.items() if packets <= 0]
    )  # fmt: skip


def rest(seconds: float) -> None:
    if seconds > 0:
        time.sleep(seconds)
