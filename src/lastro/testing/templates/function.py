"""A function that drops what goes to one port. Replace the rules and this line."""

from __future__ import annotations

from lastro.functions.base import ForwardingPath, Function


class MyPart(Function):
    name = "my-part"
    summary = "forwards everything but what goes to TCP port 7"

    def rules(self, path: ForwardingPath) -> str:
        """Return the chains, sets and counters of an nftables table, as text in the syntax of nft.

        `path.inside` is the interface that faces the source, `path.outside` the one that faces the sink."""
        return f"""    chain mine {{
        type filter hook forward priority filter; policy accept;
        iifname "{path.inside}" tcp dport 7 drop
    }}
"""
