"""A stateless firewall: it drops packets that match fixed patterns, and passes the rest."""

from __future__ import annotations

from lastro.functions.base import Function, Path

BLOCKED_PORTS = (7, 9, 13, 19, 23, 135, 137, 138, 139, 445)  # old or dangerous services; 9 is "discard"
BLOCKED_SOURCES = ("198.18.66.0/24", "198.19.66.0/24")
BLOCKED_SOURCES_6 = ("2001:2:0:66::/64", "2001:2:0:166::/64")


class Firewall(Function):
    name = "firewall"
    summary = "drops packets by fixed patterns of address and port, without state"
    per_packet = True

    def rules(self, path: Path) -> str:
        ports = ", ".join(map(str, BLOCKED_PORTS))
        sources = ", ".join(BLOCKED_SOURCES_6 if path.version == "6" else BLOCKED_SOURCES)
        return f"""    counter blocked {{ }}
    set ports {{ type inet_service; elements = {{ {ports} }} }}
    set sources {{ type ipv{path.version}_addr; flags interval; elements = {{ {sources} }} }}
    chain filter {{
        type filter hook forward priority filter; policy accept;
        {path.family} saddr @sources counter name blocked drop
        tcp dport @ports counter name blocked drop
        udp dport @ports counter name blocked drop
    }}
"""

    def click(self, path: Path) -> str:
        ports = " || ".join(f"dst port {port}" for port in BLOCKED_PORTS)
        sources = " || ".join(f"src net {source}" for source in BLOCKED_SOURCES)
        return (
            f"input[0] -> rules :: IPFilter(1 {sources}, 1 {ports}, 0 all); "
            "rules[0] -> [0]output; rules[1] -> blocked :: Counter -> Discard; input[1] -> [1]output;"
        )
