"""Probes of the components of a chain: its function, and the tool of its neighbour's anomaly."""

from __future__ import annotations

from lastro import registry
from lastro.functions.base import Counted
from lastro.platforms.base import AVAILABLE, Availability, InstanceSpec, Platform
from lastro.scenarios.chain.deploy import deployed
from lastro.scenarios.shared.availability_probes import Probes
from lastro.study.levels import NONE


class ChainProbes(Probes):
    def function(self, name: str, platform: str, implementation: str = "kernel") -> Availability:
        return self._once(("function", platform, name, implementation), self._probe_function)

    def anomaly(self, name: str, platform: str, tool: str = "stress-ng") -> Availability:
        """Return whether the tool is in the image. Whether it reaches its dose is checked in each trial."""
        if name == NONE:
            return self.platform(platform)
        return self._once(("anomaly", platform, tool), self._probe_tool)

    def transit(self, attachment: str) -> Availability:
        """Return whether an instance between two others can forward packets over such links."""
        return Availability(registry.get("attachment", attachment).no_transit)

    def _probe_function(self, platform: Platform, name: str, implementation: str) -> Availability:
        """Send a ping through the function, over the shortest links."""
        direct, function = self._attachments.get("veth-direct"), registry.get("function", name)()
        with deployed(self._testbed, platform, direct, function, implementation=implementation) as chain:
            if not chain.counted().get("crossed", Counted(1, 0)).packets:
                return Availability(f"a ping reached the sink without crossing function '{name}'")
        return AVAILABLE

    def _probe_tool(self, platform: Platform, tool: str) -> Availability:
        with platform.start(self._testbed, InstanceSpec("probe-anomaly", "probe")) as instance:
            instance.run([tool, "--version"])
        return AVAILABLE
