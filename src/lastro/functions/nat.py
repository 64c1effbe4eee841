"""Network address translation: the header of every packet is rewritten, and the sink sees the function's address."""

from __future__ import annotations

from lastro.functions.base import ForwardingPath, Function
from lastro.testbed import IN_A_GUEST


class NatFunction(Function):
    name = "nat"
    summary = "rewrites the source address of every packet, and restores it for replies"
    remedy = f"use a kernel with nftables and NAT, {IN_A_GUEST}"
    witnesses = ("translated",)
    per_packet = True
    tracks = True
    hook = "postrouting"

    def rules(self, path: ForwardingPath) -> str:
        # The chain sees only the first packet of a flow; conntrack rewrites the headers of all others. All packets that
        # go out are translated: if links translate, too, the flow does not come from the source's own address.
        return f"""    counter translated {{ }}
    chain translate {{
        type nat hook postrouting priority srcnat; policy accept;
        oifname "{path.outside}" counter name translated snat to {path.outside_address}
    }}
"""

    def click(self, path: ForwardingPath) -> str:
        # The pattern draws a port from the range; the kernel keeps the source's own where it is free. Click rewrites no
        # fragment but the first, and drops the others. Errors of ICMP belong to the flow that they quote.
        pattern = f"pattern {path.outside_address} 1024-65535 - - 0 1, drop"
        return (
            f"flows :: IPRewriter({pattern}); pings :: ICMPPingRewriter({pattern}); "
            "there :: IPClassifier(tcp or udp, icmp type echo); "
            "errors :: ICMPRewriter(flows pings); "
            "back :: IPClassifier(tcp or udp, icmp type echo-reply, icmp); "
            "input[0] -> there; there[0] -> [0]flows; there[1] -> [0]pings; "
            "input[1] -> back; back[0] -> [1]flows; back[1] -> [1]pings; back[2] -> errors; "
            "translated :: Counter; flows[0] -> translated; pings[0] -> translated; translated -> [0]output; "
            "flows[1] -> [1]output; pings[1] -> [1]output; errors -> [1]output;"
        )
