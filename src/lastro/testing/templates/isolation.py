"""No new privileges: no program that an instance runs may gain any. Replace the change, the check and this line."""

from __future__ import annotations

from lastro.isolation.base import Isolation, Profile
from lastro.platforms.base import Instance, InstanceSpec


class MyPart(Isolation):
    name = "my-part"
    summary = "no program gains privileges, such as by its setuid bit"

    def apply(self, spec: InstanceSpec, profile: Profile | None) -> InstanceSpec:
        """Return the specification with the isolation. Its `prefix` is prepended to every command in the instance."""
        return spec.with_security(prefix=(*spec.security.prefix, "setpriv", "--no-new-privs"))

    def verify(self, instance: Instance) -> str | None:
        """Return why the isolation is not effective in the instance, or None. A reason makes the trial invalid."""
        status = instance.run(["cat", "/proc/self/status"]).text
        return None if "NoNewPrivs:\t1\n" in status else "its programs may gain privileges"
