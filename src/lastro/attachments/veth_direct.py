"""One veth pair directly between two instances: no bridge, no way out, the shortest path that a packet can take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lastro.attachments.base import BatchLinks, Segment, dut_end
from lastro.attachments.separable import SeparableLinks, run_in_namespaces
from lastro.testbed import Testbed

_EVERYTHING = "u32 match u32 0 0"  # rather than matchall, which small kernels lack
# Every packet is larger than this bucket, and is dropped; small kernels lack the action `drop`.
_SWALLOW = "tbf rate 8bit burst 10 limit 10"


class VethDirect(SeparableLinks, BatchLinks):
    name = "veth-direct"
    summary = "a veth pair directly between two instances (for virtual machines, two taps that redirect to each other)"

    passes_dut = False

    def compile(self, segments: Sequence[Segment]) -> list[str]:
        lines = []
        for segment in segments:
            if _through_taps(segment):
                for end, port in segment.ends():
                    lines += [dut_end(end, port), f"link set {end} up"]
            else:
                a, b = segment.ports
                lines.append(f"link add name {a.name} netns {a.netns} type veth peer name {b.name} netns {b.netns}")
        return lines

    def compile_tc(self, segments: Sequence[Segment]) -> list[str]:
        """Return the `tc -batch` commands that redirect packets between the two taps of a segment, without a bridge.

        They run in the DUT's namespace. Segments without taps need no commands."""
        lines, redirect = [], "mirred egress redirect"
        for segment in filter(_through_taps, segments):
            (a, _), (b, _) = segment.ends()
            for tap, other in ((a, b), (b, a)):
                lines += [
                    f"qdisc add dev {tap} clsact",
                    f"filter add dev {tap} ingress protocol all {_EVERYTHING} action {redirect} dev {other}",
                ]
        return lines

    @contextmanager
    def laid(self, testbed: Testbed, segments: Sequence[Segment]) -> Iterator[None]:
        with super().laid(testbed, segments):
            if lines := self.compile_tc(segments):
                testbed.host.run(["tc", "-n", testbed.dut, "-batch", "-"], stdin="\n".join(lines) + "\n")
            yield

    def cut(self, testbed: Testbed, segments: Sequence[Segment], *, carrier: bool = False) -> None:
        self._change_ends(testbed, segments, carrier, f"qdisc add dev {{}} root {_SWALLOW}", "down")

    def mend(self, testbed: Testbed, segments: Sequence[Segment], *, carrier: bool = False) -> None:
        self._change_ends(testbed, segments, carrier, "qdisc del dev {} root", "up")

    def _change_ends(
        self, testbed: Testbed, segments: Sequence[Segment], carrier: bool, discipline: str, state: str
    ) -> None:
        """Change both ends of each segment, by `ip` or by `tc`.

        For taps, or with `carrier`, set the link `state`. Otherwise, run `tc` with `discipline`; {} is the device."""
        lines: dict[str, list[str]] = {}
        for segment in segments:
            taps = _through_taps(segment)
            for end, port in segment.ends():
                device, netns = (end, testbed.dut) if taps else (port.name, port.netns)
                line = f"link set {device} {state}" if carrier or taps else discipline.format(device)
                lines.setdefault(netns, []).append(line)
        program = "ip" if carrier or any(map(_through_taps, segments)) else "tc"
        run_in_namespaces(testbed, lines, program)


def _through_taps(segment: Segment) -> bool:
    return any(port.instance.takes_taps for port in segment.ports)
