"""Probes of the parts that this host can run. Each part is tried once in a session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lastro import registry
from lastro.errors import LastroError
from lastro.isolation.base import Isolation
from lastro.platforms.base import Availability, unavailable
from lastro.scenarios.shared.pools import AttachmentPool, PlatformPool
from lastro.study.levels import NONE
from lastro.testbed import IN_A_GUEST, Testbed


class PartProbes:
    """Probes of each kind of part on a platform. On an unavailable platform, the result is that of the platform."""

    def __init__(self, testbed: Testbed, pool: PlatformPool, attachments: AttachmentPool) -> None:
        self._testbed, self._pool, self._attachments = testbed, pool, attachments
        self._probed: dict[tuple[str, ...], Availability] = {}

    def platform(self, name: str) -> Availability:
        return self._pool.availability(name)

    def attachment(self, name: str, platform: str) -> Availability:
        return self._once(
            ("attachment", platform, name), lambda there, part: self._attachments.get(part).probe(self._testbed, there)
        )

    def isolation(self, name: str, platform: str) -> Availability:
        if name == NONE:
            return self.platform(platform)
        return self._once(
            ("isolation", platform, name),
            lambda there, part: registry.get(Isolation, part)().probe(self._testbed, there),
        )

    def _once(self, key: tuple[str, ...], probe: Callable[..., Availability]) -> Availability:
        """Probe once per key. `key` is the kind of part, the platform, and the other arguments of `probe`."""
        if key not in self._probed:
            try:
                found = self.platform(key[1])
                found = probe(self._pool.get(key[1]), *key[2:]) if found else found
            except LastroError as error:
                found = unavailable(error)
            self._probed[key] = _not_once_more(found) if self._testbed.guest else found
        return self._probed[key]


def _not_once_more(found: Availability) -> Availability:
    """Return what was found in a guest, without the advice to measure in one."""
    return replace(found, remedy=(found.remedy or "").replace(f", {IN_A_GUEST}", "") or None)
