"""No isolation, except what a platform always has, such as the namespaces of containers."""

from __future__ import annotations

from lastro.isolation.base import Isolation, Profile
from lastro.platforms.base import InstanceSpec


class NoIsolation(Isolation):
    name = "none"
    summary = "no isolation beyond that of the platform"

    def apply(self, spec: InstanceSpec, profile: Profile | None) -> InstanceSpec:
        return spec
