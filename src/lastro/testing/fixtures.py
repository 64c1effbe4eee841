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
    image_needs = getattr(request.module, "image_needs", lambda host: rootfs.ImageAdditions())
    with session("tests", wait=silently) as held:
        additions, store = image_needs(held.host), held.ledger.state / "rootfs"
        image = rootfs.ensure(rootfs.ImageRecipe.of_this_host(held.host, additions), store, held.host)
        image = functions.with_functions(image, additions.functions, store, held.host)
        with local_testbed(held, image) as bed:
            yield bed


@pytest.fixture(scope="module")
def pool(testbed: Testbed) -> Iterator[PlatformPool]:
    """Yield a pool of prepared platforms, which are torn down after the tests of the module."""
    with ExitStack() as stack:
        yield PlatformPool(testbed, stack)
