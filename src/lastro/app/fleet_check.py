"""Ask all testbeds of a fleet, at the same time, whether they can be used and what they are."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from lastro.analysis.host_facts import AskedTestbed
from lastro.app.hosts import guests_to_boot, image_of, set_up_testbed
from lastro.app.messages import say
from lastro.app.provenance import provenance_of
from lastro.app.waiting import wait_reporter
from lastro.errors import HostBusy, LastroError
from lastro.host import facts
from lastro.host.fleet_file import FleetFile, hosts
from lastro.host.ledger import Session, session
from lastro.host.testbed_file import TestbedFile
from lastro.image.rootfs import Image
from lastro.interrupts import one_interrupt

_MOST_AT_ONCE = 64
_PURPOSE = "lastro doctor"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def ask(fleet: FleetFile, *, wait: bool = False) -> list[AskedTestbed]:
    """Set up each testbed as `lastro run` would, and return for each its facts, or why it cannot be used.

    This includes copying the root filesystem to it. The results are in the order of the fleet file. Raises: HostBusy
    when this machine is in use and `wait` is false; HostError when this machine cannot be used."""
    with one_interrupt() as ignore, session(_PURPOSE, wait=wait_reporter(wait)) as near:
        try:
            image = image_of(near)
            say(f"asking {len(fleet.testbeds)} testbeds; a new one receives the root filesystem …")
            ask_testbed = partial(_ask, near, image, wait=wait)
            with ThreadPoolExecutor(min(_MOST_AT_ONCE, len(fleet.testbeds))) as at_once:
                try:
                    return without_shared_hosts(
                        list(at_once.map(ask_testbed, fleet.testbeds.keys(), fleet.testbeds.values()))
                    )
                except KeyboardInterrupt:
                    at_once.shutdown(wait=False, cancel_futures=True)
                    near.host.view.end_owned(near.token)  # connections and copies under way: their threads clean up
                    raise
        finally:
            ignore()


def _ask(near: Session, image: Image, name: str, file: TestbedFile, *, wait: bool) -> AskedTestbed:
    try:
        with set_up_testbed(
            near, image, file, guests_to_boot(file, tuple(file.guests)), _PURPOSE, wait_reporter(wait)
        ) as bed:
            kernels = {host_session.host.read_text(_BOOT_ID).strip() for host_session in bed.sessions}
            facts_of_hosts = provenance_of(bed, file)
            return AskedTestbed(
                name, hosts(file), facts_of_hosts, frozenset(kernels), frozenset(facts_of_hosts["machines"])
            )
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
