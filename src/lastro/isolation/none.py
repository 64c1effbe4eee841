"""No isolation beyond what the platform cannot do without (namespaces, for containers)."""

from __future__ import annotations

from lastro.isolation.base import Isolation, Profile
from lastro.platforms.base import InstanceSpec


class NoIsolation(Isolation):
    name = "none"
    summary = "nothing beyond what the platform itself implies"

    def apply(self, spec: InstanceSpec, profile: Profile | None) -> InstanceSpec:
        return spec
