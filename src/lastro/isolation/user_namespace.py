"""A root that is nobody outside: the instance's user ids are others of the host, beyond those that anybody uses.

What it confines: a process that breaks out of its other namespaces owns none of the host's files, may signal no other
user's process, and has no capability over anything but what belongs to its own user namespace, such as its network.
What it does not: the kernel is still the host's, and root inside reaches parts of it (mounts, packet filters) that
an ordinary user does not."""

from __future__ import annotations

from lastro.isolation.base import Isolation, Profile
from lastro.platforms.base import Instance, InstanceSpec


class UserNamespace(Isolation):
    name = "user-namespace"
    summary = "root inside is an unprivileged user outside, by a user namespace with ids of its own"

    def apply(self, spec: InstanceSpec, profile: Profile | None) -> InstanceSpec:
        return spec.with_security(user_namespace=True)

    def verify(self, instance: Instance) -> str | None:
        """By the kernel's own map of its ids, whose lines are: first id inside, first id outside, how many."""
        if not instance.shares_kernel:
            return "its users are those of a kernel of its own"
        for file in ("uid_map", "gid_map"):
            lines = instance.run(["cat", f"/proc/self/{file}"]).text.splitlines()
            if any(int(line.split()[1]) == 0 for line in lines):
                return f"id 0 of the host is one of its own: {file} has {' '.join(lines[0].split())!r}"
        owner = instance.run(["stat", "--format=%u", "/etc"]).text.strip()
        return None if owner == "0" else f"its root does not own its files, user {owner} does"
