"""Campaigns whose number of blocks is not fixed: decide whether to add blocks when the present ones have run."""

from __future__ import annotations

from lastro.campaign import sequential
from lastro.campaign.sequential import NextStep
from lastro.results.store import Store


def next_step(store: Store, at_utc: str, passed_s: float) -> NextStep:
    """Decide whether a campaign stops after its present blocks; `passed_s` is how many seconds it has taken so far."""
    if store.study.design.sequential:
        return sequential.next_step(store)
    from lastro.campaign import deciding, variants  # load numpy

    if store.study.test is not None:
        return variants.next_step(store, at_utc, passed_s)
    return deciding.next_step(store, at_utc, passed_s)


def is_finished(store: Store) -> bool:
    """Return whether a campaign has no remaining trials, and has also decided not to add a block.

    A process may be killed after the last trial of a block and before this decision."""
    design = store.study.design
    if store.next_trial() is not None:
        return False
    if design.sequential:
        return sequential.decision(store).stop
    looks = store.looks()
    return design.stopping == "fixed" or (bool(looks) and bool(looks[-1].stop))
