"""A container of a Docker daemon."""

from __future__ import annotations

from collections.abc import Sequence

from lastro.platforms.base import Instance, InstanceSpec
from lastro.testbed import Testbed


class DockerInstance(Instance):
    # Of dockerd, containerd and shims; measured: 20 to 35 on an idle host, 150 to 240 where something fills its CPUs.
    idle_wake_ups_per_s = 250

    def __init__(
        self, testbed: Testbed, spec: InstanceSpec, client: Sequence[str], *, netns: str, cgroup: str, daemon: str
    ) -> None:
        super().__init__(testbed, spec, netns=netns, cgroup=cgroup)
        self.client, self.daemon = tuple(client), daemon

    def wrap(self, argv: Sequence[str]) -> list[str]:
        return [*self.client, "exec", "--interactive", self.spec.name, *argv]
