"""The two bases of scenarios: instances on platforms, and instances that links join."""

from __future__ import annotations

from typing import Any

from lastro.isolation.base import parts_of
from lastro.platforms.base import AVAILABLE, Availability
from lastro.scenarios.base import Config, Scenario, links_level, platform_level
from lastro.scenarios.shared.availability_probes import PartProbes
from lastro.scenarios.shared.pools import AttachmentPool, PlatformPool
from lastro.testbed import Testbed


class OnPlatforms(Scenario):
    """A scenario whose instances run on the platforms of a pool. Its probes may also try attachments and isolations."""

    def __init__(self, testbed: Testbed | None) -> None:
        super().__init__(testbed)
        self.pool = PlatformPool(self.testbed, self._stack)
        self.attachments = AttachmentPool(self.testbed, self._stack)
        self._probes = PartProbes(self.testbed, self.pool, self.attachments)

    def parts_available(self, config: Config) -> Availability:
        """Return whether this host has the treatment's platform and, on it, its attachment and its isolations."""
        level = platform_level(config)
        found = [self._probes.platform(level)]
        if "attachment" in config:
            found.append(self._probes.attachment(links_level(config), self.linked_level(config)))
        if "isolation" in config:
            found += [self._probes.isolation(part, level) for part in parts_of(str(config["isolation"]))]
        return first_unavailable(*found)

    def linked_level(self, config: Config) -> str:
        """Return the platform on which the treatment's attachment is probed."""
        return platform_level(config)

    def preparation(self, config: Config) -> list[dict[str, Any]]:
        return [*self.testbed.preparation, *self.pool.preparations.get(platform_level(config), ())]

    def residuals(self, config: Config) -> dict[str, Any]:
        return dict(self.pool.residuals(platform_level(config)))


class OnLinks(OnPlatforms):
    """A scenario whose instances are also joined by the links of a pool."""

    def preparation(self, config: Config) -> list[dict[str, Any]]:
        return [*super().preparation(config), *self.attachments.preparations.get(links_level(config), ())]

    def residuals(self, config: Config) -> dict[str, Any]:
        return {**super().residuals(config), **self.attachments.residuals(links_level(config))}


def first_unavailable(*probes: Availability) -> Availability:
    return next((found for found in probes if not found), AVAILABLE)
