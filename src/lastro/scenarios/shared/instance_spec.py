"""The specification of an instance that has links: its name, its role, and its requirements on the kernel's network."""

from __future__ import annotations

from lastro.errors import Unavailable
from lastro.host.cgroups import Resources
from lastro.platforms.base import InstanceSpec, Security
from lastro.testbed import Testbed

# Otherwise, some kernels would look up the source of every packet: a new namespace inherits the host's setting, and a
# guest does not.
_NO_RP_FILTER = {"net.ipv4.conf.all.rp_filter": "0", "net.ipv4.conf.default.rp_filter": "0"}
# If two ports of one instance are on one bridge, each must answer for its own address only (kernel ip-sysctl.rst).
_PRECISE_ARP = {"net.ipv4.conf.all.arp_ignore": "1", "net.ipv4.conf.all.arp_announce": "2"}
_NO_IPV6 = {"net.ipv6.conf.all.disable_ipv6": "1", "net.ipv6.conf.default.disable_ipv6": "1"}
_NO_DAD = {"net.ipv6.conf.all.accept_dad": "0", "net.ipv6.conf.default.accept_dad": "0"}  # RFC 4862: takes a second
_IPV6 = {**dict.fromkeys(_NO_IPV6, "0"), **_NO_DAD}
_IPV6_ROUTER = {"net.ipv6.conf.all.forwarding": "1", "net.ipv6.conf.default.forwarding": "1"}
FUNCTION = "function"  # the role of a function, or its beginning where there are several
ROUTER = {
    "net.ipv4.ip_forward": "1",
    **_NO_RP_FILTER,
    "net.ipv4.conf.all.send_redirects": "0",
    "net.ipv4.conf.default.send_redirects": "0",
}


def instance_spec(
    testbed: Testbed, role: str, capabilities: tuple[str, ...] = (), ports: tuple[str, ...] = (), ip: str = "4"
) -> InstanceSpec:
    """Return the specification of an instance with a unique name, whose links carry this version of IP.

    Raises: Unavailable for IPv6 if the host's kernel does not have it."""
    is_router = role.startswith(FUNCTION)
    sysctls = {**_PRECISE_ARP, **_NO_RP_FILTER, **(ROUTER if is_router else {})}
    if ip == "6":
        if not testbed.has_ipv6:
            raise Unavailable("this host's kernel has no IPv6", 'measure with ip = "4"')
        sysctls |= {**_IPV6, **(_IPV6_ROUTER if is_router else {})}
    elif testbed.has_ipv6:
        sysctls |= _NO_IPV6
    name, resources = testbed.session.unique(role), testbed.on_own_cpus(Resources())
    return InstanceSpec(name, role, resources, Security(capabilities=capabilities), sysctls=sysctls, ports=ports)
