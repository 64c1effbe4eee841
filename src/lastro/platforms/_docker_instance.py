"""A container of a Docker daemon."""

from __future__ import annotations

from collections.abc import Sequence

from lastro.platforms.base import Instance, InstanceSpec
from lastro.testbed import Testbed


class DockerInstance(Instance):
    def __init__(self, testbed: Testbed, spec: InstanceSpec, client: Sequence[str], *, netns: str, cgroup: str) -> None:
        super().__init__(testbed, spec, netns=netns, cgroup=cgroup)
        self.client = tuple(client)

    def wrap(self, argv: Sequence[str]) -> list[str]:
        return [*self.client, "exec", "--interactive", self.spec.name, *argv]
