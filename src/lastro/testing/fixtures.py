"""Fixtures of the contracts: each test module has one session on this host, and prepares each platform once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from lastro.host.ledger import session
from lastro.host.lock import silently
from lastro.image import functions, rootfs
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed, local_testbed


@pytest.fixture(scope="module")
def testbed(request: pytest.FixtureRequest) -> Iterator[Testbed]:
    """Yield a testbed on this machine with the real image, after waiting until no other session uses the host.

    A module's `image_needs(host)` returns what its tests need in the image in addition to what every image has."""
    needs = getattr(request.module, "image_needs", lambda host: rootfs.ImageAdditions())
    with session("tests", wait=silently) as held:
        found, store = needs(held.host), held.ledger.state / "rootfs"
        image = rootfs.ensure(rootfs.ImageRecipe.of_this_host(held.host, found), store, held.host)
        image = functions.added(image, found.functions, store, held.host)
        with local_testbed(held, image) as made:
            yield made


@pytest.fixture(scope="module")
def pool(testbed: Testbed) -> Iterator[PlatformPool]:
    """Yield a pool of prepared platforms, which are torn down with the module."""
    with ExitStack() as stack:
        yield PlatformPool(testbed, stack)
