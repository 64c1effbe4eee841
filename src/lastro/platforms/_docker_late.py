"""Docker containers with a runtime that takes over the links that exist at its start, and does not see later ones.

Docker makes the network namespace of a container only when it starts the container. So an idle runc container holds the
namespace, links are connected there, and then the instance starts with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lastro.errors import CommandFailed, CommandTimeout, PlatformError
from lastro.host.cgroups import Resources
from lastro.platforms._docker_instance import DockerInstance
from lastro.platforms.base import Port, Tap
from lastro.platforms.gvisor import BEHIND, inside_lines
from lastro.testbed import set_sysctls

_START_S = 60.0


class LateInstance(DockerInstance):
    """A created container, which `launch` starts."""

    shares_kernel = False
    starts_on_links = True

    def plug(self, ports: Sequence[Port], taps: Mapping[str, Tap]) -> None:
        set_sysctls(self.testbed.host, self.netns, BEHIND)
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

    def launch(self) -> None:
        super().launch()
        if self.spec.sysctls:
            self.set_sysctls(self.spec.sysctls)

    def set_sysctls(self, values: Mapping[str, str]) -> None:
        self.testbed.host.run(self.wrap(["sh", "-e"]), stdin=inside_lines(values))


class KataInstance(LateInstance):
    """A guest with one container; the agent in the guest gets the settings together with the container."""

    def limits_outside(self) -> Resources:
        """Return no limits: Kata's configuration decides in which groups its processes are."""
        return Resources()
