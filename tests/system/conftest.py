"""What tests on links share: attachments that are prepared once, and instances to join."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from lastro.platforms.base import Instance, InstanceSpec
from lastro.scenarios.shared.pools import AttachmentPool, PlatformPool
from lastro.testbed import Testbed
from lastro.testing.taps import TapMachine


@pytest.fixture(scope="module")
def attachments(testbed: Testbed) -> Iterator[AttachmentPool]:
    with ExitStack() as stack:
        yield AttachmentPool(testbed, stack)


@pytest.fixture(scope="module", params=["native", "taps", pytest.param("runc", marks=pytest.mark.slow)])
def trio(request: pytest.FixtureRequest, testbed: Testbed, pool: PlatformPool) -> Iterator[list[Instance]]:
    """Two instances to join, and a third that stays alone."""
    with ExitStack() as stack:
        platform = TapMachine() if request.param == "taps" else pool.get(request.param)
        yield [stack.enter_context(platform.start(testbed, InstanceSpec(name, name))) for name in ("aa", "bb", "cc")]
