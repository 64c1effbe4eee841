"""Properties of the links of an attachment, found between instances on the bare host."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from lastro.attachments.base import Attachment, Segment, made
from lastro.platforms.base import Instance, Port
from lastro.scenarios.shared.property import Property, answering, unknown, unless_failed
from lastro.study.requirement import OF_LINK
from lastro.testbed import Testbed

MEMBERS, VLAN_FRAME, TUNNEL, SEEN = OF_LINK
MOST_MEMBERS = 32
_PORT = "eth0"
_PING_S = 2
_TAG = 7
# A frame with a tag (IEEE 802.1Q), and the EtherType that IEEE 802 leaves to local experiments. Even a kernel without
# VLANs can send it.
_FRAME = "{target}{source}8100{tag:04x}88b5" + 50 * "00"
_SEND = """
socket(my $s, 17, 3, 0) or die "socket: $!\\n";
for (1 .. 3) { send($s, pack("H*", $ARGV[1]), 0, pack("S n i S C C a8", 17, 0, $ARGV[0], 0, 0, 6, "")) or die "$!\\n" }
"""
_LISTENING, _LISTEN_S = "listening on", 10.0
_ARRIVE_S = 2.0
_N_PINGS, _PING_BYTES = 50, 1000


def link_properties(testbed: Testbed, links: Attachment, members: Sequence[Instance]) -> list[Property]:
    """Return the properties of a prepared attachment's links, which join all `members` in one network.

    Raises: LastroError when the links cannot be made."""
    ports = [Port(member, _PORT, f"198.18.200.{at}/24") for at, member in enumerate(members, 1)]
    segments = [Segment(f"m{at // 2}", (ports[at], ports[at + 1])) for at in range(0, len(ports), 2)]
    with links.connect(testbed, segments):
        reached = answering(ports[0].instance, ports[1:], _PING_S)
        how = f"of {len(ports)} in one network, the first reached {len(reached)} of the others by a ping"
        n_members = Property(MEMBERS, 1 + len(reached), how, at_least=len(reached) == len(ports) - 1)
        if ports[1] not in reached:
            return [n_members, *unknown((VLAN_FRAME, TUNNEL, SEEN), "the first two members did not reach each other")]
        third = next((port for port in ports[2:] if port in reached), None)
        carried = [carries(testbed, ports[0], ports[1]) for carries in (_carries_tagged_frames, _carries_tunnel)]
        return [n_members, *carried, _is_overheard(ports, third)]


@unless_failed(VLAN_FRAME)
def _carries_tagged_frames(testbed: Testbed, a: Port, b: Port) -> Property:
    """Return whether a tagged frame (802.1Q) from member `a` arrives with its tag at the interface of member `b`."""
    testbed.host.require("tcpdump", "apt-get install tcpdump")
    source, target = _interface(a), _interface(b)
    frame = _FRAME.format(target=target["address"], source=source["address"], tag=_TAG).replace(":", "")
    capture = f"exec tcpdump -i {_PORT} -n -l --immediate-mode -c 1 'vlan {_TAG} and ether proto 0x88b5' 2>&1"
    watch = testbed.host.spawn(["ip", "netns", "exec", b.netns, "sh", "-c", capture])
    try:
        watch.wait_line(_LISTENING, _LISTEN_S)
        a.instance.run(["perl", "-e", _SEND, str(source["ifindex"]), frame])
        has_arrived = watch.ended_within(_ARRIVE_S)
    finally:
        watch.stop()
    result = "arrived with it" if has_arrived else f"did not arrive within {_ARRIVE_S:g} s"
    how = f"a frame with the tag {_TAG} (802.1Q), from one member to another, {result}"
    return Property(VLAN_FRAME, has_arrived, how)


def _interface(port: Port) -> dict[str, Any]:
    return next(link for link in port.instance.links() if link["ifname"] == port.name)


@unless_failed(TUNNEL)
def _carries_tunnel(testbed: Testbed, a: Port, b: Port) -> Property:
    """Return whether a ping passes a VXLAN tunnel between two members."""
    with ExitStack() as stack:
        for side, (port, other) in enumerate(((a, b), (b, a)), 1):
            ends = f"local {port.ip} remote {other.ip}"
            lines = [
                f"link add name tunnel type vxlan id 7 dev {port.name} {ends} dstport 4789",
                f"address add 198.19.200.{side}/24 dev tunnel",
                "link set tunnel up",
            ]
            stack.enter_context(made(testbed, port.netns, lines))
        argv = ["ping", "-n", "-q", "-c", "1", "-w", str(_PING_S), "198.19.200.2"]
        passed = a.instance.run(argv, check=False).returncode == 0
    answered = "was answered" if passed else f"was not answered within {_PING_S} s"
    return Property(TUNNEL, passed, f"a ping through a VXLAN tunnel between two members {answered}")


@unless_failed(SEEN)
def _is_overheard(ports: Sequence[Port], third: Port | None) -> Property:
    """Return whether a third member's interface receives the frames of pings between the first two ports.

    `third` is None if no third member is on the link. The pings are large, so that the few small frames that a
    switch sends to every member, such as ARP requests, do not count."""
    if third is None:
        return Property(SEEN, None, "a link has only two members")
    third.instance.run(["ip", "link", "set", "dev", third.name, "promisc", "on"])
    before_bytes = _received_bytes(third)
    ping = ["ping", "-n", "-q", "-c", str(_N_PINGS), "-s", str(_PING_BYTES), "-i", "0.01", "-W", "1", ports[1].ip]
    ports[0].instance.run(ping)
    time.sleep(0.1)
    n_overheard = (_received_bytes(third) - before_bytes) // _PING_BYTES
    how = f"of {2 * _N_PINGS} frames between two members, {n_overheard} came to the interface of a third"
    return Property(SEEN, n_overheard >= _N_PINGS, how)


def _received_bytes(port: Port) -> int:
    stats: dict[str, dict[str, int]] = _interface(port)["stats64"]
    return stats["rx"]["bytes"]
