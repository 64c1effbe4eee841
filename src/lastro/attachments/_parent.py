"""Links that are slaves of one parent device, which passes packets between them in memory.

The parent is one end of a veth pair, so that no network card of the host is involved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from lastro.attachments.base import BatchLinks, Segment
from lastro.platforms.base import Port

PARENT = "hub-parent"


def parent(name: str = PARENT, other: str = "hub-peer") -> list[str]:
    """Return the `ip -batch` commands that make the parent device `name`: a veth, whose other end is `other`."""
    return [f"link add name {name} type veth peer name {other}", f"link set {name} up", f"link set {other} up"]


class ParentLinks(BatchLinks):
    """Links that are slaves of one parent, one for each port."""

    tap_kind = "macvtap"
    container: ClassVar[str]  # the link type and mode of a slave for a container, such as 'macvlan mode bridge'
    machine: ClassVar[str]  # the same for a virtual machine

    def compile(self, segments: Sequence[Segment]) -> list[str]:
        lines = parent()
        for segment in segments:
            for end, port in segment.ends():
                if port.instance.takes_taps:
                    lines += [f"link add link {PARENT} name {end} type {self.machine}", f"link set {end} up"]
                else:
                    lines.append(f"link add link {PARENT} name {port.name} netns {port.netns} type {self.container}")
        return lines

    def compile_member(self, segments: Sequence[Segment], port: Port) -> list[str]:
        # With the name first, as `made` deletes it: the links of segments are deleted with their parent.
        return [f"link add name {port.name} netns {port.netns} link {PARENT} type {self.container}"]
