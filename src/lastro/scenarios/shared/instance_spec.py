"""The specification of an instance that has links: its name, its role, and its requirements on the kernel's network."""

from __future__ import annotations

from lastro.host.cgroups import Resources
from lastro.platforms.base import InstanceSpec, Security
from lastro.testbed import Testbed

# With two ports of one instance on one bridge, each must answer for its own address only (kernel ip-sysctl.rst).
_PRECISE_ARP = {"net.ipv4.conf.all.arp_ignore": "1", "net.ipv4.conf.all.arp_announce": "2"}
_NO_IPV6 = {"net.ipv6.conf.all.disable_ipv6": "1", "net.ipv6.conf.default.disable_ipv6": "1"}
ROUTER = {
    "net.ipv4.ip_forward": "1",
    "net.ipv4.conf.all.rp_filter": "0",
    "net.ipv4.conf.default.rp_filter": "0",
    "net.ipv4.conf.all.send_redirects": "0",
    "net.ipv4.conf.default.send_redirects": "0",
}


def instance_spec(
    testbed: Testbed, role: str, capabilities: tuple[str, ...] = (), ports: tuple[str, ...] = ()
) -> InstanceSpec:
    sysctls = {**_PRECISE_ARP, **(_NO_IPV6 if testbed.has_ipv6 else {}), **(ROUTER if role == "function" else {})}
    return InstanceSpec(
        name=testbed.session.unique(role),
        role=role,
        resources=testbed.on_own_cpus(Resources()),
        security=Security(capabilities=capabilities),
        sysctls=sysctls,
        ports=ports,
    )
