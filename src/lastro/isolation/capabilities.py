"""Root with few of the kernel's about 40 capabilities: an instance keeps only those that its role needs.

A network function in the kernel keeps CAP_NET_ADMIN. A proxy keeps the capabilities that it needs to change to another
user when it starts. Other roles keep none. For comparison, containers usually keep 14, and a root process of the host
has all. Without CAP_NET_RAW, ping uses the kernel's ICMP sockets, which root's group may open."""

from __future__ import annotations

from dataclasses import replace

from lastro.host import capabilities
from lastro.isolation.base import Isolation, Profile
from lastro.platforms.base import Instance, InstanceSpec

_PING = {"net.ipv4.ping_group_range": "0 0"}
_SETS = ("CapBnd", "CapPrm", "CapEff")


class Capabilities(Isolation):
    name = "capabilities"
    summary = "no capabilities except those that the role needs (CAP_NET_ADMIN for a function, none for most)"

    def apply(self, spec: InstanceSpec, profile: Profile | None) -> InstanceSpec:
        return replace(spec.with_security(drop_capabilities=True), sysctls={**spec.sysctls, **_PING})

    def verify(self, instance: Instance) -> str | None:
        fields = capabilities.status_fields(instance.run(["cat", "/proc/self/status"]).text)
        allowed = capabilities.mask(instance.spec.security.capabilities)
        for name in _SETS:
            if excess := capabilities.names(int(fields[name], 16) & ~allowed):
                shown = ", ".join(excess[:3]) + (f" and {len(excess) - 3} more" if len(excess) > 3 else "")
                return f"{name} of its processes still has {shown}"
        return None
