"""Containers of a Docker daemon, including those whose runtime can use only the links that exist when it starts.

Docker makes the network namespace of a container only when it starts the container. So for such a runtime, an idle runc
container holds the namespace. Links are connected there, and then the instance starts with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lastro.errors import CommandFailed, CommandTimeout, PlatformError
from lastro.host.cgroups import Resources
from lastro.platforms.base import Instance, InstanceSpec, Port, Tap
from lastro.platforms.gvisor import HOST_SYSCTLS
from lastro.testbed import Testbed, set_sysctls


class DockerInstance(Instance):
    # Of dockerd, containerd and shims; measured: 20 to 35 on an idle host, 150 to 240 where something fills its CPUs.
    idle_wake_ups_per_s = 250

    def __init__(
        self, testbed: Testbed, spec: InstanceSpec, client: Sequence[str], *, netns: str, cgroup: str, daemon: str
    ) -> None:
        enter = [*client, "exec", "--interactive", spec.name]
        super().__init__(testbed, spec, netns=netns, cgroup=cgroup, enter=enter)
        self.client, self.daemon = tuple(client), daemon


_START_S = 60.0


class LateInstance(DockerInstance):
    """A container that has been created, and runs only after `launch`."""

    shares_kernel = False
    starts_on_links = True

    def plug(self, ports: Sequence[Port], taps: Mapping[str, Tap]) -> None:
        set_sysctls(self.testbed.host, self.netns, HOST_SYSCTLS)
        super().plug(ports, taps)
        self.launch()

    def launch(self) -> None:
        """Start the container. Raises: PlatformError if it does not start."""
        try:
            self.testbed.host.run([*self.client, "start", self.spec.name], timeout_s=_START_S)
        except (CommandFailed, CommandTimeout) as error:
            raise PlatformError(f"docker did not start instance {self.spec.name}: {error.message}") from error
        self.testbed.cgroups.complete(self.testbed.host, self.cgroup, self.spec.resources)


class RunscInstance(LateInstance):
    has_nftables = False
    own_settings = True

    def launch(self) -> None:
        super().launch()
        self.set_sysctls(self.spec.sysctls)


class KataInstance(LateInstance):
    """A guest with one container; Kata's agent in the guest applies the container's settings."""

    def limits_outside(self) -> Resources:
        """Return no limits, since Kata's configuration determines in which cgroups its processes are."""
        return Resources()
