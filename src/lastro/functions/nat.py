"""Network address translation: the header of every packet is rewritten, and the sink sees the function's address."""

from __future__ import annotations

from lastro.functions.base import Function, Path


class NatFunction(Function):
    name = "nat"
    summary = "rewrites the source address of every packet, and restores it for replies"
    witnesses = ("translated",)
    per_packet = True

    def rules(self, path: Path) -> str:
        # The chain sees the first packet of a flow; conntrack rewrites the header of each one after it. Everything that
        # goes out is translated: over links that translate too, the flow does not come from the source's own address.
        return f"""    counter translated {{ }}
    chain translate {{
        type nat hook postrouting priority srcnat; policy accept;
        oifname "{path.outside}" counter name translated snat to {path.outside_address}
    }}
"""

    def click(self, path: Path) -> str:
        pattern = f"pattern {path.outside_address} 1024-65535 - - 0 1, drop"
        return (
            f"flows :: IPRewriter({pattern}); pings :: ICMPPingRewriter({pattern}); "
            "there :: IPClassifier(tcp or udp, icmp type echo); "
            "back :: IPClassifier(tcp or udp, icmp type echo-reply); "
            "input[0] -> there; there[0] -> [0]flows; there[1] -> [0]pings; "
            "input[1] -> back; back[0] -> [1]flows; back[1] -> [1]pings; "
            "flows[0] -> [0]output; pings[0] -> [0]output; flows[1] -> [1]output; pings[1] -> [1]output;"
        )
