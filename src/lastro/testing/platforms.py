"""The contract of a platform, as one class of tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pytest

from lastro.platforms.base import Instance
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed
from lastro.testing.commands import Commands
from lastro.testing.ending import Ending
from lastro.testing.limits import Limits
from lastro.testing.network import Network
from lastro.testing.subject import Subject
from lastro.testing.world import World
from lastro.units import MIB


class OnPlatform:
    """The attributes and fixtures of every class of tests of a platform."""

    platform: ClassVar[str]  # its level, with its options
    contained: bool = True  # an instance has its own processes and host name
    shares_kernel: bool = True  # an instance runs on the host's kernel
    own_nftables: bool = True  # the kernel of an instance has nftables
    small_memory_bytes: int = 64 * MIB  # a memory limit under which an instance still works
    many: int = 20  # instances that are started in parallel

    @pytest.fixture(scope="class")
    @classmethod
    def level(cls) -> str:
        return cls.platform

    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls, level: str, testbed: Testbed, pool: PlatformPool) -> Subject:
        availability = pool.availability(level)
        assert availability, f"this host cannot run {level}: {availability.reason}"
        return Subject(testbed, pool.get(level))

    @pytest.fixture(scope="class")
    @classmethod
    def instance(cls, subject: Subject) -> Iterator[Instance]:
        """Yield a running instance that all tests of the class share, since they do not change it."""
        with subject.start("shared") as started:
            yield started


class PlatformContract(OnPlatform, Commands, Limits, World, Network, Ending):
    """The contract of a platform: commands, limits, usage, network and root filesystem are the same on all platforms.

    The attributes are those of `OnPlatform`."""
