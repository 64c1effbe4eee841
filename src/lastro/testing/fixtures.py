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
    """Wait until no other session uses this machine, and yield a testbed on it with the real root filesystem.

    A test module may define `image_needs(host)`, which returns the additions to the image that its tests need."""
    needs = getattr(request.module, "image_needs", lambda host: rootfs.ImageAdditions())
    with session("tests", wait=silently) as held:
        found, store = needs(held.host), held.ledger.state / "rootfs"
        image = rootfs.ensure(rootfs.ImageRecipe.of_this_host(held.host, found), store, held.host)
        image = functions.added(image, found.functions, store, held.host)
        with local_testbed(held, image) as made:
            yield made


@pytest.fixture(scope="module")
def pool(testbed: Testbed) -> Iterator[PlatformPool]:
    """Yield a pool of prepared platforms, which are torn down after the tests of the module."""
    with ExitStack() as stack:
        yield PlatformPool(testbed, stack)
