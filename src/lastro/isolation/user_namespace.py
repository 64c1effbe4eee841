"""A root without rights on the host: the user IDs of the instance are mapped to IDs that nothing else on the host uses.

A process that breaks out of its other namespaces owns no files of the host, may not signal processes of other users,
and has capabilities only over objects of its user namespace, such as its network. But the kernel is still that of the
host, and root inside reaches parts of it (mounts, packet filters) that an ordinary user does not."""

from __future__ import annotations

from lastro.isolation.base import Isolation, Profile
from lastro.platforms.base import Instance, InstanceSpec


class UserNamespace(Isolation):
    name = "user-namespace"
    summary = "root inside is an unprivileged user outside, by a user namespace with its own IDs"

    def apply(self, spec: InstanceSpec, profile: Profile | None) -> InstanceSpec:
        return spec.with_security(user_namespace=True)

    def verify(self, instance: Instance) -> str | None:
        """Return why root inside may still be root of the host, or does not own its files; None if it is isolated.

        The check reads the kernel's maps of user and group IDs. A line of a map is: first ID inside, first ID outside,
        number of IDs."""
        if not instance.shares_kernel:
            return "it has a kernel, and therefore users, of its own"
        for file in ("uid_map", "gid_map"):
            lines = instance.run(["cat", f"/proc/self/{file}"]).text.splitlines()
            if any(int(line.split()[1]) == 0 for line in lines):
                return f"it can use ID 0 of the host: {file} has {' '.join(lines[0].split())!r}"
        owner = instance.run(["stat", "--format=%u", "/etc"]).text.strip()
        return None if owner == "0" else f"its files belong to user {owner}, not to its root"
