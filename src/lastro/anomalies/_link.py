"""A link of a neighbour's own: a veth pair to a peer, which is a network namespace of the session without a way out.

The link may lead through a function, an instance that forwards packets. The function then has a second veth pair to the
peer. At the neighbour's end, a token bucket (tc-tbf(8)) limits the rate to that of the neighbour's isolation, or else
to `MOST_BPS`. Both cases have the same queueing discipline, so that only the rate differs. A container has no
CAP_NET_ADMIN, so it cannot remove the bucket. On a link of the chain, the neighbour's port gets the same bucket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lastro.anomalies.base import KernelUse
from lastro.errors import Unavailable, with_hint
from lastro.host.base import Host
from lastro.platforms.base import Instance, Port
from lastro.testbed import IN_A_GUEST, set_sysctls, with_new_dut

PEER = "198.19.254.2"
MOST_BPS = 1_000_000_000  # of a neighbour whose rate no isolation limits
_NEIGHBOUR, _PREFIX = "198.19.254.1", 30
BEYOND = "198.19.255.1"  # an address behind the peer, which does not forward: it drops packets to it
_ONWARDS_FROM, _ONWARDS_TO = "198.19.255.5", "198.19.255.6"  # of the function's own link to the peer
_DEVICE, PEER_DEVICE, ONWARDS_DEVICE, _END_DEVICE = "load0", "peer0", "onwards0", "end0"
_BURST_S, _LEAST_BURST_BYTES = 0.01, 4096  # of the bucket
_QUEUE = "250ms"  # longer than a period of a CPU quota (100 ms): a sender waits, and the link does not idle
_REMEDY = f"use a kernel with sch_tbf, {IN_A_GUEST}"


@dataclass(frozen=True, slots=True)
class NeighbourLink:
    """A link over which a neighbour sends, by the interface `device` in the neighbour's network namespace `netns`."""

    host: Host
    netns: str
    device: str = _DEVICE
    next_netns: str = ""  # at the other end of the link; empty for a link of the chain

    def sent(self) -> KernelUse:
        """Return how much the neighbour has sent over the link so far.

        `used` counts frames. `moved_bytes` counts bytes with the Ethernet header, but without the frame check sequence.
        `refused` counts how often the token bucket delayed or dropped a frame."""
        at = ["-n", self.netns, "-j", "-s"]
        (device,) = self.host.run_json(["ip", *at, "link", "show", "dev", self.device])
        (bucket, *_) = self.host.run_json(["tc", *at, "qdisc", "show", "dev", self.device])
        sent = device["stats64"]["tx"]
        refused = int(bucket["overlimits"]) + int(bucket["drops"])
        return KernelUse(used=int(sent["packets"]), moved_bytes=int(sent["bytes"]), refused=refused)


@contextmanager
def own_link(neighbour: Instance, through: Instance | None = None) -> Iterator[NeighbourLink]:
    """Give the neighbour its own link for the duration of the block, limited as by `limit`; yield the link.

    The link leads to a peer, directly or through the instance `through`.
    Raises: Unavailable when one of the two cannot take a link after its start; CommandFailed without tc-tbf(8)."""
    if neighbour.takes_taps or neighbour.starts_on_links:
        raise Unavailable(
            "the neighbour cannot get a link of its own: this platform takes all links when an instance starts",
            "use this anomaly on platforms that share the host's kernel, such as runc or docker",
        )
    if through and (through.takes_taps or through.starts_on_links):
        raise Unavailable(
            "the neighbour's packets cannot cross the function: its platform takes all links when an instance starts",
            "use this anomaly with functions on platforms that share the host's kernel, such as runc or docker",
        )
    host = neighbour.testbed.host
    with with_new_dut(neighbour.testbed, "load-peer") as bed:
        set_sysctls(host, bed.dut, {"net.ipv4.ip_forward": "0"})
        near = through.netns if through else bed.dut
        try:
            host.run(["ip", "-n", near, "-batch", "-"], stdin=_veth(PEER_DEVICE, PEER, _DEVICE, neighbour.netns))
            if through:
                onwards = _veth(ONWARDS_DEVICE, _ONWARDS_FROM, _END_DEVICE, bed.dut)
                host.run(["ip", "-n", near, "-batch", "-"], stdin=onwards)
                host.run(["ip", "-n", bed.dut, "-batch", "-"], stdin=_up(_END_DEVICE, _ONWARDS_TO))
                host.run(["ip", "-n", near, "route", "add", BEYOND, "via", _ONWARDS_TO])
            limit(neighbour, _DEVICE)
            neighbour.plug([Port(neighbour, _DEVICE, f"{_NEIGHBOUR}/{_PREFIX}", (f"{BEYOND}/32 via {PEER}",))], {})
            yield NeighbourLink(host, neighbour.netns, next_netns=near)
        finally:
            for device in (PEER_DEVICE, ONWARDS_DEVICE) if through else (PEER_DEVICE,):
                host.run(["ip", "-n", near, "link", "del", "dev", device], check=False)


def limit(neighbour: Instance, device: str) -> None:
    """Limit the rate at which a neighbour sends over `device` to its resource limit on links, or else to `MOST_BPS`.

    Raises: CommandFailed when the kernel lacks tc-tbf(8)."""
    bps = neighbour.spec.resources.link_bps or MOST_BPS
    burst_bytes = max(_LEAST_BURST_BYTES, round(bps / 8 * _BURST_S))
    bucket = ["tbf", "rate", f"{bps}bit", "burst", str(burst_bytes), "latency", _QUEUE]
    with with_hint(_REMEDY):
        neighbour.testbed.host.run(["tc", "-n", neighbour.netns, "qdisc", "add", "dev", device, "root", *bucket])


def _veth(device: str, address: str, end: str, end_netns: str) -> str:
    return f"link add name {device} type veth peer name {end} netns {end_netns}\n{_up(device, address)}"


def _up(device: str, address: str) -> str:
    return f"address add {address}/{_PREFIX} dev {device}\nlink set {device} up\n"
