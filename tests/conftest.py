"""Fixtures for tests on real kernel objects. They hold the host one module at a time, and leave it as they found it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from lastro.host.ledger import session
from lastro.image import rootfs
from lastro.scenarios.base import PlatformPool
from lastro.testbed import Testbed, local_testbed

from .hostlisting import clean_host, listing, settled_differences


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.geteuid() != 0:
        for item in items:
            if item.get_closest_marker("root"):
                item.add_marker(pytest.mark.skip(reason="needs root: it makes real kernel objects"))


@pytest.fixture(scope="module", autouse=True)
def untouched_host(request: pytest.FixtureRequest) -> Iterator[None]:
    """After a module marked `root`, the whole host is what it was before."""
    if request.node.get_closest_marker("root") is None or os.geteuid() != 0:
        yield
        return
    with clean_host():
        before = listing()
    yield
    with clean_host():
        assert settled_differences(before) == []


@pytest.fixture(scope="module")
def testbed(untouched_host: None) -> Iterator[Testbed]:
    """The real image on this machine. Waits for whoever else holds the host."""
    with session("tests", wait=True) as held:
        image = rootfs.ensure(rootfs.Recipe.of_this_host(held.host), held.ledger.state / "rootfs", held.host)
        with local_testbed(held, image) as made:
            yield made


@pytest.fixture(scope="module")
def pool(testbed: Testbed) -> Iterator[PlatformPool]:
    """Prepared platforms, each withdrawn with the module."""
    with ExitStack() as stack:
        yield PlatformPool(testbed, stack)
