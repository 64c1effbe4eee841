"""One veth pair straight between two instances: no bridge, no way out, the fewest steps that a packet can take."""

from __future__ import annotations

from collections.abc import Sequence

from lastro.attachments.base import Attachment, Segment, far_end

_EVERYTHING = "u32 match u32 0 0"  # rather than matchall, which small kernels lack


class VethDirect(Attachment):
    name = "veth-direct"
    summary = "a veth pair straight between two instances (two taps that hand on to each other, for virtual machines)"

    def compile(self, segments: Sequence[Segment]) -> list[str]:
        lines = []
        for segment in segments:
            if _through_taps(segment):
                for end, port in segment.ends():
                    lines += [far_end(end, port), f"link set {end} up"]
            else:
                a, b = segment.ports
                lines.append(f"link add name {a.name} netns {a.netns} type veth peer name {b.name} netns {b.netns}")
        return lines

    def compile_tc(self, segments: Sequence[Segment]) -> list[str]:
        """What comes in at one tap goes out at the other, without a bridge's table between them."""
        lines = []
        for segment in filter(_through_taps, segments):
            (a, _), (b, _) = segment.ends()
            for come, go in ((a, b), (b, a)):
                lines += [
                    f"qdisc add dev {come} clsact",
                    f"filter add dev {come} ingress protocol all {_EVERYTHING} action mirred egress redirect dev {go}",
                ]
        return lines


def _through_taps(segment: Segment) -> bool:
    return any(port.instance.takes_taps for port in segment.ports)
