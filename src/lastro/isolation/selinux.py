"""Mandatory access control by SELinux, with the type that container-selinux gives every container: container_t.

Written from the documentation of the OCI and of Docker. The type is in the policy container-selinux, and in the module
`container` of the reference policy. Debian 12 builds selinux-policy-default without this module, so this isolation is
unavailable there. It has not yet been run with a policy that has the type."""

from __future__ import annotations

from lastro.errors import CommandFailed
from lastro.isolation.base import Isolation, Profile
from lastro.platforms.base import Availability, Instance, InstanceSpec, Platform
from lastro.testbed import Testbed

TYPE = "container_t"
_ENFORCE = "/sys/fs/selinux/enforce"
_CHECK_CONTEXT = 'printf %s "$1" >/sys/fs/selinux/context'  # the kernel refuses a context that its policy does not have


class SELinux(Isolation):
    name = "selinux"
    summary = "access control by SELinux, with the usual type of containers (container_t)"

    def apply(self, spec: InstanceSpec, profile: Profile | None) -> InstanceSpec:
        return spec.with_security(selinux=TYPE)

    def verify(self, instance: Instance) -> str | None:
        label = instance.run(["cat", "/proc/self/attr/current"], check=False).text.strip("\0\n ")
        return None if f":{TYPE}:" in label else f"the label of its processes is {label or 'empty'!r}"

    def probe(self, testbed: Testbed, platform: Platform) -> Availability:
        mode = testbed.host.read_or_empty(_ENFORCE).strip()
        if not mode:
            return Availability(
                "this host's kernel runs without SELinux",
                "boot a distribution that has it (Fedora, RHEL, Alma), with the package container-selinux",
            )
        if mode != "1":
            return Availability("SELinux is permissive on this host: it logs and denies nothing", "setenforce 1")
        try:
            testbed.host.run(["sh", "-c", _CHECK_CONTEXT, "sh", f"system_u:system_r:{TYPE}:s0"])
        except CommandFailed:
            return Availability(
                f"the SELinux policy of this host has no type for containers ({TYPE}): Debian, for"
                " one, builds selinux-policy-default without the module `container`, which has it",
                "use a distribution with the package container-selinux (Fedora, RHEL, Alma)",
            )
        return super().probe(testbed, platform)
