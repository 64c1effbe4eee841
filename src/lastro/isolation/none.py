"""No isolation, except what a platform always has, such as the namespaces of containers."""

from __future__ import annotations

from lastro.isolation.base import Isolation, Profile
from lastro.platforms.base import InstanceSpec


class NoIsolation(Isolation):
    name = "none"
    summary = "nothing beyond what the platform itself implies"

    def apply(self, spec: InstanceSpec, profile: Profile | None) -> InstanceSpec:
        return spec
