"""Probes of what this host can run, which try each thing once in a session."""

from __future__ import annotations

from collections.abc import Callable

from lastro import registry
from lastro.errors import LastroError
from lastro.functions.base import Counted
from lastro.isolation.base import parts_of
from lastro.platforms.base import AVAILABLE, Availability, InstanceSpec, Platform, unavailable
from lastro.scenarios.base import AttachmentPool, Config, PlatformPool, first_unavailable, platform_level
from lastro.scenarios.shared.deploy import deployed
from lastro.study.levels import NONE
from lastro.testbed import Testbed


class Probes:
    """Probes of each kind of part on a platform. On an unavailable platform, the result is that of the platform."""

    def __init__(self, testbed: Testbed, pool: PlatformPool, attachments: AttachmentPool) -> None:
        self._testbed, self._pool, self._attachments = testbed, pool, attachments
        self._probed: dict[tuple[str, ...], Availability] = {}

    def availability(self, config: Config) -> Availability:
        """Return the availability of a treatment of the scenario chain."""
        platform = platform_level(config)
        found = self.platform(platform)
        if not found:
            return found
        return first_unavailable(
            self.attachment(str(config["attachment"]), platform),
            self._transit(str(config["attachment"])),
            *(self.isolation(part, platform) for part in parts_of(str(config["isolation"]))),
            self.function(str(config["function"]), platform, str(config["implementation"])),
            self.anomaly(str(config["anomaly"]), platform, str(config["anomaly_tool"])),
        )

    def platform(self, name: str) -> Availability:
        return self._pool.availability(name)

    def attachment(self, name: str, platform: str) -> Availability:
        return self._once(("attachment", platform, name), self._probe_attachment)

    def isolation(self, name: str, platform: str) -> Availability:
        if name == NONE:
            return self.platform(platform)
        return self._once(("isolation", platform, name), self._probe_isolation)

    def function(self, name: str, platform: str, implementation: str = "kernel") -> Availability:
        return self._once(("function", platform, name, implementation), self._probe_function)

    def anomaly(self, name: str, platform: str, tool: str = "stress-ng") -> Availability:
        """Return whether the tool is in the image. Whether it reaches its dose is checked in each trial."""
        if name == NONE:
            return self.platform(platform)
        return self._once(("anomaly", platform, tool), self._probe_tool)

    def _transit(self, attachment: str) -> Availability:
        """Return whether an instance between two others can forward what comes over such links."""
        return Availability(registry.get("attachment", attachment).no_transit)

    def _once(self, key: tuple[str, ...], probe: Callable[..., Availability]) -> Availability:
        """Probe once per key. `key` is the kind of part, the platform, and what `probe` takes after the platform."""
        if key not in self._probed:
            try:
                found = self.platform(key[1])
                self._probed[key] = probe(self._pool.get(key[1]), *key[2:]) if found else found
            except LastroError as error:
                self._probed[key] = unavailable(error)
        return self._probed[key]

    def _probe_attachment(self, platform: Platform, name: str) -> Availability:
        return self._attachments.get(name).probe(self._testbed, platform)

    def _probe_isolation(self, platform: Platform, name: str) -> Availability:
        return registry.get("isolation", name)().probe(self._testbed, platform)  # type: ignore[no-any-return]

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
