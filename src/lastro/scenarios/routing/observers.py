"""The processes that watch a network of routers, in a cgroup of their own, so that what they use can be left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from lastro.host.activity import STAT, n_cpus
from lastro.host.base import Process
from lastro.host.cgroups import Usage
from lastro.platforms.base import Platform
from lastro.scenarios.shared.memory_room import pss_bytes, rollup
from lastro.testbed import Testbed


@dataclass(frozen=True, slots=True)
class Observers:
    """Processes in the cgroup `group`. What they use is neither the routers' cost nor foreign load.

    `platform` is that of the routers, which knows what they use beyond what the host's own /proc shows. `pids` are
    those of the processes, also of such as have ended."""

    testbed: Testbed
    group: str
    platform: Platform | None = None
    pids: list[int] = field(default_factory=list)

    def spawn(self, netns: str, command: str) -> Process:
        """Start a shell command in a network namespace; its errors come with its output, in order."""
        enter = [*self.testbed.cgroups.entering(self.group), "ip", "netns", "exec", netns]
        process = self.testbed.host.spawn([*enter, "sh", "-c", f"exec {command} 2>&1"])
        self.pids.append(process.pid)
        return process

    def hidden(self) -> Usage:
        """Return what the routers use that the host's /proc does not show."""
        return self.platform.hidden_usage(self.testbed) if self.platform else Usage()

    def cpus(self) -> int:
        if self.platform:
            return self.platform.host_cpus(self.testbed)
        return n_cpus(self.testbed.host.read_text(STAT))

    @property
    def files(self) -> list[str]:
        """The files whose texts tell what the processes use now."""
        return [str(self.testbed.cgroups.cpu_file(self.group)), *map(rollup, self.pids)]

    def cpu_s(self, texts: Mapping[str, str]) -> float:
        """Return their CPU time by the texts of `files`."""
        return self.testbed.cgroups.parse_cpu_s(texts[self.files[0]])

    def memory_bytes(self, texts: Mapping[str, str]) -> int:
        """Return their memory, with the rings that the kernel shares with them and charges to no cgroup."""
        return sum(pss_bytes(texts.get(rollup(pid), "")) or 0 for pid in self.pids)


@contextmanager
def observers(testbed: Testbed, platform: Platform | None = None) -> Iterator[Observers]:
    """Make the cgroup; on leaving, end what still runs in it."""
    group = f"{testbed.session.cgroup}/{testbed.session.unique('watch')}"
    with testbed.session.owned("cgroup", group):
        testbed.cgroups.make(testbed.host, group)
        yield Observers(testbed, group, platform)
