"""Links that are slaves of one parent device, which passes packets between them in memory.

The parent is one end of a veth pair, so that no network card of the host is involved."""

from __future__ import annotations

from collections.abc import Sequence

from lastro.attachments.base import Segment
from lastro.platforms.base import Port

PARENT = "hub-parent"


def parent(name: str = PARENT, other: str = "hub-peer") -> list[str]:
    """Return the `ip -batch` commands that make the parent device `name`: a veth, whose other end is `other`."""
    return [f"link add name {name} type veth peer name {other}", f"link set {name} up", f"link set {other} up"]


def on_parent(segments: Sequence[Segment], container: str, machine: str) -> list[str]:
    """Return the `ip -batch` commands that make the parent, and one slave of it for each port of the segments.

    `container` and `machine` are the link type and mode, such as 'macvlan mode bridge', of a slave for a container and
    for a virtual machine."""
    ends = [end_and_port for segment in segments for end_and_port in segment.ends()]
    return parent() + [line for end, port in ends for line in _slave(end, port, container, machine)]


def member_on_parent(port: Port, container: str) -> list[str]:
    """Return the `ip -batch` command, as a list of one, that makes `port` as one more slave of the parent."""
    return [f"link add name {port.name} netns {port.netns} link {PARENT} type {container}"]


def _slave(end: str, port: Port, container: str, machine: str) -> list[str]:
    if port.instance.takes_taps:
        return [f"link add link {PARENT} name {end} type {machine}", f"link set {end} up"]
    return [f"link add link {PARENT} name {port.name} netns {port.netns} type {container}"]
