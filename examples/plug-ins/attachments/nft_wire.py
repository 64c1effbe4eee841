"""A wire of nftables: each frame is forwarded to the other end of its link as soon as it arrives, without a switch.

An attachment that runs a program of its own; an example of docs/howto-platforms.md."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from lastro.attachments.base import Attachment, Segment, dut_end, made
from lastro.attachments.routing import inside
from lastro.errors import CommandFailed
from lastro.testbed import IN_A_GUEST, Testbed

_TABLE = "netdev nft-wire"


class NftWire(Attachment):
    name = "nft-wire"
    summary = "a veth pair (a tap, for a virtual machine) for each port; nftables forwards frames to the other end"
    remedy = f"install nftables, and use a kernel with nft_fwd_netdev, {IN_A_GUEST}"

    @contextmanager
    def laid(self, testbed: Testbed, segments: Sequence[Segment]) -> Iterator[None]:
        ends = [end for segment in segments for end in segment.ends()]
        lines = [line for end, port in ends for line in (dut_end(end, port), f"link set {end} up")]
        with made(testbed, testbed.dut, lines):
            inside(testbed, ["nft", "-f", "-"], _rules(segments))  # all of them or none
            try:
                yield
            finally:
                with suppress(CommandFailed):  # it would hide why the trial ended
                    inside(testbed, ["nft", "-f", "-"], f"delete table {_TABLE}\n")

    def counters(self, testbed: Testbed) -> dict[str, int]:
        listed = inside(testbed, ["nft", "-j", "list", "counters", "table", *_TABLE.split()])
        counters = [item["counter"] for item in json.loads(listed)["nftables"] if "counter" in item]
        return {counter["name"]: int(counter["packets"]) for counter in counters}


def _rules(segments: Sequence[Segment]) -> str:
    """Return the `nft` script: for each end of a link, a chain at its ingress that forwards to the other end."""
    chains = []
    for segment in segments:
        (a, _), (b, _) = segment.ends()
        for here, there in ((a, b), (b, a)):
            hook = f'type filter hook ingress device "{here}" priority 0; policy accept;'
            chains.append(f'    chain from-{here} {{ {hook} counter name forwarded fwd to "{there}"; }}\n')
    return f"table {_TABLE} {{\n    counter forwarded {{ }}\n{''.join(chains)}}}\n"
