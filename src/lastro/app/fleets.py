"""The testbeds of a fleet: hold them for a campaign, or ask each whether it can be used and what it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from lastro.analysis.host_facts import AskedTestbed
from lastro.app.hosts import build_images, guests_to_boot, image_of, set_up_testbed
from lastro.app.messages import say
from lastro.app.provenance import changed_facts, provenance_of
from lastro.app.waiting import wait_reporter
from lastro.campaign.dask_pool import LEASE_S, DaskWorkerPool
from lastro.campaign.fleet import BOOT_S, BUSY_S, Fleet
from lastro.campaign.testbed_worker import TestbedOrder
from lastro.campaign.worker_pool import LocalWorkerPool, WorkerPool
from lastro.errors import HostBusy, InputError, LastroError
from lastro.host import facts
from lastro.host.fleet_file import FleetFile, hosts, load, load_named
from lastro.host.ledger import Session, session
from lastro.host.testbed_file import TestbedFile
from lastro.image.rootfs import Image
from lastro.interrupts import one_interrupt
from lastro.results.store import Store
from lastro.scenarios.base import scenario_of
from lastro.study import design
from lastro.study.model import Study

_MOST_AT_ONCE = 64
_PURPOSE = "lastro doctor"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def provenance(fleet: FleetFile) -> dict[str, Any]:
    """Return the provenance with which a campaign on a fleet begins; facts of its testbeds are added later."""
    return {"fleet": {"file": fleet.place}, "controller": facts.controller()}


def fleet_of(store: Store, place: Path | None) -> FleetFile:
    """Load the fleet file at `place`; if it is None, load the file with which the campaign began.

    Raises: StudyError when the file is not valid, or the campaign's file belongs to another user; InputError when the
    campaign does not name a fleet file."""
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
                waits |= {"busy_s": BUSY_S + LEASE_S}
                kind, treatments = scenario_of(study), design.treatments(study)
                with suppress(Exception):  # of a part, as in `Seat`: it cannot bound the duration of a trial
                    waits["trial_s"] = max(kind.longest_s(study.config(row.levels)) for row in treatments)
        yield Fleet(pool, changes=changed_facts, changed_host=changed_host, **waits)


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
    say(f"{testbed}: {line}")


def ask(fleet: FleetFile, *, wait: bool = False) -> list[AskedTestbed]:
    """Set up each testbed as `lastro run` would, and return for each its facts, or why it cannot be used.

    This includes copying the root filesystem to it. The results are in the order of the fleet file. Raises: HostBusy
    when this machine is in use and `wait` is false; HostError when this machine cannot be used."""
    with one_interrupt() as ignore, session(_PURPOSE, wait=wait_reporter(wait)) as near:
        try:
            image, testbeds = image_of(near), fleet.testbeds
            say(f"asking {len(testbeds)} testbeds; a new one receives the root filesystem …")
            ask_testbed = partial(_ask, near, image, wait=wait)
            with ThreadPoolExecutor(min(_MOST_AT_ONCE, len(testbeds))) as at_once:
                try:
                    return without_shared_hosts(list(at_once.map(ask_testbed, testbeds.keys(), testbeds.values())))
                except KeyboardInterrupt:
                    at_once.shutdown(wait=False, cancel_futures=True)
                    near.host.view.end_owned(near.token)  # connections and copies under way: their threads clean up
                    raise
        finally:
            ignore()


def _ask(near: Session, image: Image, name: str, file: TestbedFile, *, wait: bool) -> AskedTestbed:
    try:
        plans = guests_to_boot(file, tuple(file.guests))
        with set_up_testbed(near, image, file, plans, _PURPOSE, wait_reporter(wait)) as bed:
            kernels = frozenset(host_session.host.read_text(_BOOT_ID).strip() for host_session in bed.sessions)
            facts_of_hosts = provenance_of(bed, file)
            return AskedTestbed(name, hosts(file), facts_of_hosts, kernels, frozenset(facts_of_hosts["machines"]))
    except LastroError as error:
        return _unusable(name, hosts(file), error)


def _unusable(name: str, addresses: tuple[str, ...], error: LastroError) -> AskedTestbed:
    busy = [error.machine] if isinstance(error, HostBusy) and error.machine else []
    return AskedTestbed(name, addresses, None, machines=frozenset(busy), reason=error.message, remedy=error.hint)


def without_shared_hosts(testbeds: Sequence[AskedTestbed]) -> list[AskedTestbed]:
    """Return the testbeds in the same order; one that shares a host with another testbed is marked as unusable.

    Of two testbeds with the same host, a usable one is preferred. Usually, the other one found the host in use when it
    was asked. It did not if their testbed files name different state directories for the host."""
    users: dict[str, str] = {}
    by_name: dict[str, AskedTestbed] = {}
    for testbed in sorted(testbeds, key=lambda testbed: testbed.provenance is None):
        user = next((users[machine] for machine in testbed.machines if machine in users), None)
        if user is not None:
            testbed = _unusable(testbed.name, testbed.hosts, facts.same_host(user))
        users |= dict.fromkeys(testbed.machines, testbed.name)
        by_name[testbed.name] = testbed
    return [by_name[testbed.name] for testbed in testbeds]
