"""The processes that watch a network of routers, in a cgroup of their own, so that what they use can be left out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lastro.host.base import Process
from lastro.host.cgroups import Usage
from lastro.platforms.base import Platform
from lastro.scenarios.shared.memory_room import proportional_bytes
from lastro.testbed import Testbed


@dataclass(frozen=True, slots=True)
class Observers:
    """Processes in the cgroup `group`. What they use is neither the routers' cost nor foreign load.

    `platform` is that of the routers, which knows what they use beyond what the host's own /proc shows."""

    testbed: Testbed
    group: str
    platform: Platform | None = None

    def spawn(self, netns: str, command: str) -> Process:
        """Start a shell command in a network namespace; its errors come with its output, in order."""
        enter = [*self.testbed.cgroups.entering(self.group), "ip", "netns", "exec", netns]
        return self.testbed.host.spawn([*enter, "sh", "-c", f"exec {command} 2>&1"])

    def hidden(self) -> Usage:
        """Return what the routers use that the host's /proc does not show."""
        return self.platform.hidden_usage(self.testbed) if self.platform else Usage()

    def cpus(self) -> int:
        return self.platform.host_cpus(self.testbed) if self.platform else os.cpu_count() or 1

    def cpu_s(self) -> float:
        return self.testbed.cgroups.usage(self.group).cpu_s

    def memory_bytes(self) -> int:
        """Return their memory, with the rings that the kernel shares with them and charges to no cgroup."""
        pids = self.testbed.cgroups.pids(self.group)
        return sum(proportional_bytes(self.testbed.host, pid) or 0 for pid in pids)


@contextmanager
def observers(testbed: Testbed, platform: Platform | None = None) -> Iterator[Observers]:
    """Make the cgroup; on leaving, end what still runs in it."""
    group = f"{testbed.session.cgroup}/{testbed.session.unique('watch')}"
    with testbed.session.owned("cgroup", group):
        testbed.cgroups.make(testbed.host, group)
        yield Observers(testbed, group, platform)
