"""Mandatory access control by AppArmor, with the profile that Docker gives every container: docker-default."""

from __future__ import annotations

from lastro.isolation.base import Isolation, Profile
from lastro.platforms.base import Availability, Instance, InstanceSpec, Platform
from lastro.requirements import Requirements
from lastro.testbed import IN_A_GUEST, Testbed

PROFILE = "docker-default"
_ENABLED = "/sys/module/apparmor/parameters/enabled"


class AppArmor(Isolation):
    name = "apparmor"
    summary = "access control by AppArmor, with Docker's own profile (docker-default)"
    requirements = Requirements(packages=("apparmor",))

    def apply(self, spec: InstanceSpec, profile: Profile | None) -> InstanceSpec:
        return spec.with_security(apparmor=PROFILE)

    def verify(self, instance: Instance) -> str | None:
        label = instance.run(["cat", "/proc/self/attr/current"], check=False).text.strip()
        return None if label.startswith(PROFILE) else f"the label of its processes is {label or 'empty'!r}"

    def probe(self, testbed: Testbed, platform: Platform) -> Availability:
        if testbed.host.read_or_empty(_ENABLED).strip() != "Y":
            return Availability(
                "this host's kernel runs without AppArmor",
                "boot a kernel with AppArmor (Debian's and Ubuntu's: kernel parameter apparmor=1 security=apparmor),"
                f" {IN_A_GUEST}",
            )
        return super().probe(testbed, platform)
