"""What of a chain this host can run, found by doing; each thing is tried once in a session."""

from __future__ import annotations

from collections.abc import Callable

from lastro import registry
from lastro.errors import LastroError
from lastro.functions.base import Counted
from lastro.isolation.base import parts_of
from lastro.platforms.base import AVAILABLE, Availability, InstanceSpec, unavailable
from lastro.scenarios._deploy import deployed
from lastro.scenarios.base import Config, PlatformPool, first_unavailable, platform_level
from lastro.testbed import Testbed


class ChainProbes:
    def __init__(self, testbed: Testbed, pool: PlatformPool) -> None:
        self._testbed, self._pool = testbed, pool
        self._probed: dict[tuple[str, ...], Availability] = {}

    def availability(self, config: Config) -> Availability:
        platform_name = platform_level(config)
        found = self._pool.availability(platform_name)
        if not found:
            return found
        return first_unavailable(
            self.attachment(str(config["attachment"]), platform_name),
            *(
                self._once(("isolation", part, platform_name), self._probe_isolation)
                for part in parts_of(str(config["isolation"]))
            ),
            self._once(
                ("function", str(config["function"]), str(config["implementation"]), platform_name),
                self._probe_function,
            ),
            self._once(
                ("anomaly", str(config["anomaly"]), str(config["anomaly_tool"]), platform_name), self._probe_anomaly
            ),
        )

    def attachment(self, name: str, platform: str) -> Availability:
        return self._once(("attachment", name, platform), self._probe_attachment)

    def _once(self, key: tuple[str, ...], probe: Callable[..., Availability]) -> Availability:
        if key not in self._probed:
            try:
                self._probed[key] = probe(*key[1:])
            except LastroError as error:
                self._probed[key] = unavailable(error)
        return self._probed[key]

    def _probe_attachment(self, name: str, platform: str) -> Availability:
        return registry.get("attachment", name)().probe(self._testbed, self._pool.get(platform))  # type: ignore[no-any-return]

    def _probe_isolation(self, name: str, platform: str) -> Availability:
        return registry.get("isolation", name)().probe(self._testbed, self._pool.get(platform))  # type: ignore[no-any-return]

    def _probe_function(self, name: str, implementation: str, platform: str) -> Availability:
        """Send a ping through the function, on the shortest of links."""
        direct, function = registry.get("attachment", "veth-direct")(), registry.get("function", name)()
        with deployed(
            self._testbed, self._pool.get(platform), direct, function, implementation=implementation
        ) as chain:
            if not chain.counted().get("crossed", Counted(1, 0)).packets:
                return Availability(f"a ping reached the sink without crossing function '{name}'")
        return AVAILABLE

    def _probe_anomaly(self, name: str, tool: str, platform: str) -> Availability:
        """Is the tool in the image? Whether it reaches its dose is a question to each trial."""
        if name != "none":
            with self._pool.get(platform).start(self._testbed, InstanceSpec("probe-anomaly", "probe")) as instance:
                instance.run([tool, "--version"])
        return AVAILABLE
