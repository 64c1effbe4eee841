"""The end of a flow: the peer, or the instance's host, which is between instance and peer if the attachment routes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from lastro.attachments.base import Attachment, batch
from lastro.attachments.routing import directions
from lastro.errors import Unavailable
from lastro.platforms.base import Instance, Platform
from lastro.platforms.native import Native
from lastro.results.samples import Outcome
from lastro.scenarios.shared.instance_spec import instance_spec
from lastro.scenarios.shared.point_to_point import (
    INSTANCE,
    INSTANCE_ADDRESS,
    PEER,
    PEER_ADDRESS,
    PORT,
    JoinedPair,
    prove,
)
from lastro.scenarios.shared.topology import BuiltTopology, PluggedPort
from lastro.testbed import Testbed

HOST = "host"


@dataclass(frozen=True, slots=True)
class FlowEnd:
    """The end of a flow: the instance in `role` at `address`, whose interface `device` counts the received packets."""

    role: str
    instance: Instance
    address: str
    device: str


def require_host_address(attachment: type[Attachment]) -> None:
    """Check that the instance's host has an address on the attachment's links. Raises: Unavailable if it has none."""
    if attachment.router_prefix is None:
        why = f"over {attachment.name} the host has no address that an instance could send to"
        raise Unavailable(why, 'choose an attachment with a router, such as nat, or `towards = "peer"`')


@contextmanager
def flow_end(
    testbed: Testbed, native: Platform, attachment: Attachment, pair: JoinedPair, towards: str
) -> Iterator[FlowEnd]:
    """Yield the end of the flow: the peer, or the host of the instance, as bare processes in the DUT's namespace.

    The host is reached at its address on the link. Raises: Unavailable when it has no address there."""
    if towards == PEER:
        yield FlowEnd(PEER, pair.peer, PEER_ADDRESS, PORT)
        return
    require_host_address(type(attachment))
    sides = (side for side, _ in directions([pair.segment], str(attachment.router_prefix)))
    side = next(side for side in sides if side.address == INSTANCE_ADDRESS)
    # The router's routes are for packets that it forwards. This route is for its own answers, and ends with the device.
    batch(testbed, testbed.dut, [f"route add {side.address}/32 dev {side.device} src {side.router}"])
    spec = replace(instance_spec(testbed, HOST), netns=testbed.dut, sysctls={})
    with native.start(testbed, spec) as host:
        if pair.instance.sends_by_host:  # its packets do not leave the host: they arrive at the loopback device
            prove(pair.instance, HOST, side.router)
        yield FlowEnd(HOST, host, side.router, "lo" if pair.instance.sends_by_host else side.device)


def note_topology(built: BuiltTopology, pair: JoinedPair, end: FlowEnd, attachment: str, outcome: Outcome) -> None:
    """Record the topology: the pair in `built` and, if the flow ends at the instance's host, that host."""
    if end.role == HOST:
        testbed = end.instance.testbed
        ((far, port),) = ((far, port) for far, port in pair.segment.ends() if port.instance is pair.instance)
        near = PluggedPort(INSTANCE, testbed, "", port.name, port.address, far)
        built.add(HOST, end.instance, Native.name)
        built.link(attachment, near, PluggedPort(HOST, testbed, testbed.dut, end.device, end.address))
    built.note(outcome)
