"""A link that belongs to a neighbour: a veth pair to its peer, a network namespace of the session without a way out.

The neighbour's end has a token bucket (tc-tbf(8)) at the rate that the neighbour may send: that of its isolation, or a
bound. The same discipline in both cases, so that they differ in the rate alone. A container has no CAP_NET_ADMIN, and
cannot remove it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lastro.anomalies.base import KernelUse
from lastro.errors import Unavailable
from lastro.host.base import Host
from lastro.platforms.base import Instance, Port
from lastro.testbed import beside, set_sysctls

PEER = "198.19.254.2"
MOST_BPS = 1_000_000_000  # of a neighbour whose rate no isolation limits
_NEIGHBOUR, _PREFIX = "198.19.254.1", 30
BEYOND = "198.19.255.1"  # the neighbour's route to it is through the peer, which drops it: it does not forward
_DEVICE, _PEER_DEVICE = "load0", "peer0"
_BURST_S, _LEAST_BURST_BYTES = 0.01, 4096  # of the bucket
_QUEUE = "250ms"  # longer than a period of a CPU quota (100 ms): a sender waits, and the link does not idle


@dataclass(frozen=True, slots=True)
class NeighbourLink:
    """A neighbour's own link, from the device in its namespace to the peer's namespace."""

    host: Host
    netns: str
    peer_netns: str

    def sent(self) -> KernelUse:
        """Return the frames and bytes that crossed the link, and how often its limit delayed or dropped one.

        A frame is counted with its Ethernet header, without the frame check sequence."""
        at = ["-n", self.netns, "-j", "-s"]
        (device,) = self.host.run_json(["ip", *at, "link", "show", "dev", _DEVICE])
        (bucket, *_) = self.host.run_json(["tc", *at, "qdisc", "show", "dev", _DEVICE])
        sent = device["stats64"]["tx"]
        refused = int(bucket["overlimits"]) + int(bucket["drops"])
        return KernelUse(used=int(sent["packets"]), moved_bytes=int(sent["bytes"]), refused=refused)


@contextmanager
def own_link(neighbour: Instance) -> Iterator[NeighbourLink]:
    """Lay a link of its own to the neighbour inside the block, limited to the rate that its resources allow.

    Raises: Unavailable when the platform cannot take a link after its start; CommandFailed without tc-tbf(8)."""
    if neighbour.takes_taps or neighbour.starts_on_links:
        raise Unavailable(
            "the neighbour cannot get a link of its own: this platform takes all links when an instance starts",
            "use this anomaly on platforms that share the host's kernel, such as runc or docker",
        )
    host, bps = neighbour.testbed.host, neighbour.spec.resources.link_bps or MOST_BPS
    with beside(neighbour.testbed, "load-peer") as bed:
        set_sysctls(host, bed.dut, {"net.ipv4.ip_forward": "0"})
        lines = [
            f"link add name {_PEER_DEVICE} type veth peer name {_DEVICE} netns {neighbour.netns}",
            f"address add {PEER}/{_PREFIX} dev {_PEER_DEVICE}",
            f"link set {_PEER_DEVICE} up",
        ]
        try:
            host.run(["ip", "-n", bed.dut, "-batch", "-"], stdin="\n".join(lines) + "\n")
            host.run(["tc", "-n", neighbour.netns, "qdisc", "add", "dev", _DEVICE, "root", *_bucket(bps)])
            neighbour.plug([Port(neighbour, _DEVICE, f"{_NEIGHBOUR}/{_PREFIX}", (f"{BEYOND}/32 via {PEER}",))], {})
            yield NeighbourLink(host, neighbour.netns, bed.dut)
        finally:
            host.run(["ip", "-n", bed.dut, "link", "del", "dev", _PEER_DEVICE], check=False)


def _bucket(bps: int) -> list[str]:
    burst = max(_LEAST_BURST_BYTES, round(bps / 8 * _BURST_S))
    return ["tbf", "rate", f"{bps}bit", "burst", str(burst), "latency", _QUEUE]
