"""What the commands that use the host share: the session, the image, the testbed, the scenario."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from lastro import registry
from lastro.cli._interrupts import one_interrupt
from lastro.host.ledger import STATE_DIR, Session, session
from lastro.image import rootfs
from lastro.scenarios.base import Scenario
from lastro.testbed import Testbed, local_testbed


@contextmanager
def testbed(purpose: str, *, wait: bool = False) -> Iterator[Testbed]:
    """This host, held for one purpose, with the root filesystem built."""
    with one_interrupt() as ignore, session(purpose, wait=wait) as held, local_testbed(held, image_of(held)) as bed:
        try:
            yield bed
        finally:
            ignore()


def image_of(held: Session) -> rootfs.Image:
    """The root filesystem, built now if it was not before."""
    recipe, store = rootfs.Recipe.of_this_host(held.host), STATE_DIR / "rootfs"
    image = rootfs.find(recipe, store)
    if image is None:
        print("building the root filesystem, once (about half a minute) …", file=sys.stderr, flush=True)
        with held.host.recorded():
            image = rootfs.ensure(recipe, store, held.host)
    return image


@contextmanager
def scenario_on_host(name: str, purpose: str, *, wait: bool = False) -> Iterator[Scenario]:
    """A scenario ready to run; with a testbed when it needs one."""
    kind: type[Scenario] = registry.get("scenario", name)
    if not kind.needs_root:
        with one_interrupt():
            yield kind(None)
        return
    with testbed(purpose, wait=wait) as bed:
        scenario = kind(bed)
        try:
            yield scenario
        finally:
            scenario.close()
