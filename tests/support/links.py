"""Instances and attachments for tests of links."""

from __future__ import annotations

from contextlib import ExitStack

from lastro.attachments.base import BatchLinks
from lastro.platforms.base import Instance, InstanceSpec
from lastro.scenarios.base import make_part
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed


def two_natives(stack: ExitStack, testbed: Testbed, pool: PlatformPool) -> list[Instance]:
    specs = [InstanceSpec(name, name) for name in ("left", "right")]
    return [stack.enter_context(pool.get("native").start(testbed, spec)) for spec in specs]


def attachment(name: str) -> BatchLinks:
    return make_part(BatchLinks, name)
