"""A stateless firewall: it drops packets that match fixed patterns, and passes the rest.

The number of rules is a parameter of every benchmark of firewalls (RFC 3511, section 4.5). nftables compares a
packet with one rule after the other; a set of addresses or ports is one rule. Click makes one decision tree. XDP
looks up each address in one hash table, so the number of rules does not matter; a blocked network is stored as all of
its addresses."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network

from lastro.errors import Unavailable
from lastro.functions.base import BlockedFrames, ForwardingPath, Function
from lastro.study.model import Setting

BLOCKED_PORTS = (7, 9, 13, 19, 23, 135, 137, 138, 139, 445)  # old or dangerous services; 9 is "discard"
BLOCKED_SOURCES = ("198.18.66.0/24", "198.19.66.0/24")
BLOCKED_SOURCES_6 = ("2001:2:0:66::/64", "2001:2:0:166::/64")
_MOST_RULES = 10_000
_RULES = Setting("rules", 0, "further rules, of one blocked address each: the flow passes all of them", 0, _MOST_RULES)


class Firewall(Function):
    name = "firewall"
    summary = "drops packets by fixed patterns of address and port, without state"
    per_packet = True
    hook = "forward"
    options = (_RULES,)

    def rules(self, path: ForwardingPath) -> str:
        ports = ", ".join(map(str, BLOCKED_PORTS))
        sources = ", ".join(BLOCKED_SOURCES_6 if path.version == "6" else BLOCKED_SOURCES)
        return f"""    counter blocked {{ }}
    set ports {{ type inet_service; elements = {{ {ports} }} }}
    set sources {{ type ipv{path.version}_addr; flags interval; elements = {{ {sources} }} }}
    chain filter {{
        type filter hook forward priority {path.priority}; policy accept;
        {path.family} saddr @sources counter name blocked drop
        tcp dport @ports counter name blocked drop
        udp dport @ports counter name blocked drop
{"".join(f"        {path.family} saddr {host} counter name blocked drop{chr(10)}" for host in self._hosts(path))}    }}
"""

    def click(self, path: ForwardingPath) -> str:
        ports = " || ".join(f"dst port {port}" for port in BLOCKED_PORTS)
        sources = " || ".join(f"src net {source}" for source in BLOCKED_SOURCES)
        hosts = "".join(f"1 src host {host}, " for host in self._hosts(path))
        return (
            f"input[0] -> rules :: IPFilter(1 {sources}, 1 {ports}, {hosts}0 all); "
            "rules[0] -> [0]output; rules[1] -> blocked :: Counter -> Discard; input[1] -> [1]output;"
        )

    def xdp(self, path: ForwardingPath) -> BlockedFrames:
        if path.version == "6":
            raise Unavailable("xdp-filter cannot block a network of IPv6", 'use ip = "4", or implementation = "kernel"')
        addresses = [str(address) for network in BLOCKED_SOURCES for address in ip_network(network)]
        return BlockedFrames(BLOCKED_PORTS, [*addresses, *self._hosts(path)])

    def openflow(self, path: ForwardingPath) -> list[str]:
        if path.version == "6":
            ip, field, protocols, networks = "ipv6", "ipv6_src", ("tcp6", "udp6"), BLOCKED_SOURCES_6
        else:
            ip, field, protocols, networks = "ip", "nw_src", ("tcp", "udp"), BLOCKED_SOURCES
        ports = [f"{protocol},tp_dst={port}" for protocol in protocols for port in BLOCKED_PORTS]
        return [*ports, *(f"{ip},{field}={source}" for source in (*networks, *self._hosts(path)))]

    def _hosts(self, path: ForwardingPath) -> Iterator[str]:
        """Yield one address to block for each further rule that the option asks for; no flow comes from them."""
        for number in range(_RULES.of(self.chosen)):
            high, low = divmod(number, 250)
            yield f"2001:2:0:77::{number + 1:x}" if path.version == "6" else f"198.19.{128 + high}.{low + 1}"
