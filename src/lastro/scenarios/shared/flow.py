"""Pauses around a flow, and checks that the counters of the links and of the chain's functions account for the flow."""

from __future__ import annotations

import time
from collections.abc import Mapping

from lastro import validity
from lastro.functions.base import BROKEN, IMPLEMENTATIONS, PASSED, CounterReading, Readings
from lastro.results.samples import Outcome
from lastro.results.topology import DUT
from lastro.scenarios.shared.chain import Chain
from lastro.scenarios.shared.topology import note_witness


def judge_links(name: str, before: Mapping[str, int], after: Mapping[str, int], outcome: Outcome) -> None:
    """Note the increase of each packet counter of the attachment `name`; invalidate the trial if one has none.

    `before` and `after` are its counters before and after the flow."""
    moved = {counter: after.get(counter, 0) - value for counter, value in before.items()}
    if moved:
        outcome.notes["links"] = moved
        note_witness(outcome, name, f"packets on the links: {', '.join(sorted(moved))}", (DUT,))
    still = [counter for counter, packets in moved.items() if packets <= 0]
    outcome.invalidate(
        f"the links of '{name}' did not carry the flow: their counter '{counter}' stood still" for counter in still
    )


def rest(seconds: float) -> None:
    if seconds > 0:
        time.sleep(seconds)


def difference(before: Readings, after: Readings) -> dict[str, CounterReading]:
    """Return {counter: packets and bytes counted between two readings} for the counters that both have."""
    both = [(name, before[name], now) for name, now in after.items() if name in before]
    return {name: CounterReading(now.packets - then.packets, now.bytes - then.bytes) for name, then, now in both}


def judge_crossings(
    phase: str, chain: Chain, counted: Readings, payload_bytes: int, implementation: str, outcome: Outcome
) -> None:
    """Invalidate the trial unless the functions' counters account for a flow of `payload_bytes`.

    `counted` has the counters' increases during the flow, and `phase` names the flow in messages. The counters are
    also noted as a witness."""
    counts = IMPLEMENTATIONS[implementation].counts
    roles = [chain.trial_role(role) for role in chain.function.roles]
    note_witness(outcome, "counters", f"packets that {counts} counted: {', '.join(sorted(counted))}", roles)
    outcome.invalidate(crossing_reasons(phase, chain, counted, payload_bytes))


def crossing_reasons(phase: str, chain: Chain, counted: Readings, payload_bytes: int) -> list[str]:
    """Return why the functions' counters do not account for a flow of `payload_bytes`; [] if they do.

    `counted` has the counters' increases during the flow, and `phase` names the flow in the reasons."""
    reasons = []
    for name in chain.function.crossings:
        crossed, function = counted.get(name), name.rpartition(".")[0] or "the function"
        reasons += validity.crossing_reasons(phase, crossed.bytes if crossed else None, payload_bytes, function)
    for name, seen in counted.items():
        hop, dot, counter = name.rpartition(".")
        if counter == BROKEN and seen.packets:
            reasons.append(
                f"{phase}: {seen.packets} packets were longer than a frame or had a wrong header, and "
                f"{hop or 'the function'} dropped them"
            )
        forwarded = counted.get(f"{hop}{dot}crossed", CounterReading(0, 0)).bytes
        if counter == PASSED and seen.bytes < forwarded:
            reasons.append(
                f"{phase}: the kernel forwarded {forwarded} bytes, and the XDP program passed {seen.bytes}: it was "
                "detached meanwhile"
            )
    for name in chain.function.witnesses:
        if not counted.get(name, CounterReading(0, 0)).packets:
            reasons.append(f"{phase}: the function did not act on the flow: its counter '{name}' stood still")
    return reasons
