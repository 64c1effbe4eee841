"""Links that are slaves of one parent device, which hands packets from one to another in memory.

The parent is one end of a veth pair, so that no network card of the host is involved."""

from __future__ import annotations

from collections.abc import Sequence

from lastro.attachments.base import Segment
from lastro.platforms.base import Port

_PARENT = "hub-parent"


def on_parent(segments: Sequence[Segment], container: str, machine: str) -> list[str]:
    """Return lines for `ip -batch`. `container` and `machine` are the link type and mode for each kind of instance."""
    parent = [f"link add name {_PARENT} type veth peer name hub-peer", f"link set {_PARENT} up", "link set hub-peer up"]
    ends = [each for segment in segments for each in segment.ends()]
    return parent + [line for end, port in ends for line in _link(end, port, container, machine)]


def member_on_parent(port: Port, container: str) -> list[str]:
    """Return the line that makes one more slave of the parent, with the name of a port."""
    return [f"link add name {port.name} netns {port.netns} link {_PARENT} type {container}"]


def _link(end: str, port: Port, container: str, machine: str) -> list[str]:
    if port.instance.takes_taps:
        return [f"link add link {_PARENT} name {end} type {machine}", f"link set {end} up"]
    return [f"link add link {_PARENT} name {port.name} netns {port.netns} type {container}"]
