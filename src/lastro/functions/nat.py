"""Network address translation: the header of every packet is rewritten, and the sink sees the function's address."""

from __future__ import annotations

from lastro.functions.base import Function, Path


class Nat(Function):
    name = "nat"
    summary = "rewrites the source address of every packet, and back"

    def rules(self, path: Path) -> str:
        # The chain sees the first packet of a flow; conntrack rewrites the header of each one after it.
        return f"""    counter translated {{ }}
    chain translate {{
        type nat hook postrouting priority srcnat; policy accept;
        oifname "{path.outside}" ip saddr {path.source} counter name translated snat to {path.outside_address}
    }}
"""

    def click(self, path: Path) -> str:
        return (
            "input -> rewriter :: IPRewriter("
            f"pattern {path.outside_address} 1024-65535 - - 0 1, pass 1) -> output; rewriter[1] -> Discard;"
        )
