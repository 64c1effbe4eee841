"""Hold the testbeds of a fleet for a campaign."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lastro.app.hosts import build_images
from lastro.app.messages import say
from lastro.app.provenance import changed_facts
from lastro.app.waiting import wait_reporter
from lastro.campaign.dask_pool import LEASE_S, DaskWorkerPool
from lastro.campaign.duration import configuration
from lastro.campaign.fleet import BOOT_S, BUSY_S, Fleet
from lastro.campaign.testbed_worker import TestbedOrder
from lastro.campaign.worker_pool import LocalWorkerPool, WorkerPool
from lastro.errors import InputError
from lastro.host import facts
from lastro.host.ledger import session
from lastro.interrupts import one_interrupt
from lastro.results.store import Store
from lastro.scenarios.base import scenario_of
from lastro.study import design
from lastro.study.model import Study

if TYPE_CHECKING:
    from lastro.host.fleet_file import FleetFile


def provenance(fleet: FleetFile) -> dict[str, Any]:
    """Return the provenance with which a campaign on a fleet begins; facts of its testbeds are added later."""
    return {"fleet": {"file": fleet.place}, "controller": facts.controller()}


def fleet_of(store: Store, place: Path | None) -> FleetFile:
    """Load the fleet file at `place`; if it is None, load the file with which the campaign began.

    Raises: StudyError when the file is not valid, or the campaign's file belongs to another user; InputError when the
    campaign does not name a fleet file."""
    from lastro.host.fleet_file import load, load_named

    if place is not None:
        return load(place)
    began = store.provenance.fleet.file
    if not began:
        raise InputError(f"{store.directory} does not name its fleet file", "pass it with --fleet")
    return load_named(Path(began))


@contextmanager
def hold_fleet(
    study: Study, purpose: str, file: FleetFile, *, wait: bool, changed_host: bool = False, again: bool = False
) -> Iterator[Fleet]:
    """Hold this machine, if the scenario needs a host, and yield the fleet; release its testbeds after the block.

    With `again`, the campaign has run before. That run may have been killed, and its processes may still clean up
    testbeds, so the fleet waits for busy testbeds. A worker of Dask first ends its running trial, and then waits until
    its lease ends. The fleet also waits for hosts that boot again after a loss of power."""
    with one_interrupt() as ignore, ExitStack() as stack:
        pool = _pool(stack, study, purpose, file, wait=wait)
        stack.callback(pool.close)
        stack.callback(ignore)
        waits = dict[str, float]()
        if again:
            waits = {"busy_s": BUSY_S, "boot_s": BOOT_S}
            if pool.grows:
                waits |= {"busy_s": BUSY_S + LEASE_S, "trial_s": _longest_s(study)}
        yield Fleet(pool, changes=changed_facts, changed_host=changed_host, **waits)


def _longest_s(study: Study) -> float:
    """Return an upper bound in seconds for the duration of a trial; 0 if the study's parts cannot give one."""
    kind = scenario_of(study)
    try:
        return max(kind.longest_s(configuration(study, treatment)) for treatment in design.treatments(study))
    except Exception:  # of a part, as in `Seat`
        return 0.0


def _pool(stack: ExitStack, study: Study, purpose: str, file: FleetFile, *, wait: bool) -> WorkerPool:
    if file.scheduler:
        pool = DaskWorkerPool(file.scheduler, TestbedOrder(study, purpose, wait=wait))
        say(f"Dask's dashboard: {pool.dashboard}")
        return pool
    orders = {name: TestbedOrder(study, purpose, bed, wait=wait, beside=True) for name, bed in file.testbeds.items()}
    if scenario_of(study).needs_root:
        host_session = stack.enter_context(session(purpose, wait=wait_reporter(wait)))
        build_images(host_session, study)  # now, since each testbed would build them
        return LocalWorkerPool(orders, host_session.ledger.clean)
    return LocalWorkerPool(orders)


def say_for(testbed: str, line: str) -> None:
    """Print a message about a testbed on standard error."""
    say(f"{testbed}: {line}")
