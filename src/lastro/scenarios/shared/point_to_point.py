"""One instance joined by an attachment to its peer, a network namespace that stands for another host.

Where the attachment routes, the instance's own host, which is between the two, can be the end of a flow, too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from lastro.attachments._routing import directions
from lastro.attachments.base import Attachment, Segment, batch
from lastro.errors import PlatformError, Unavailable
from lastro.platforms.base import Instance, InstanceSpec, Platform, Port
from lastro.results.samples import Outcome
from lastro.scenarios.shared.deploy import instance_spec
from lastro.scenarios.shared.topology import Built, Plug
from lastro.testbed import Testbed

INSTANCE, PEER, HOST, PORT = "instance", "peer", "host", "eth0"
INSTANCE_ADDRESS, PEER_ADDRESS = "198.18.1.10", "198.18.1.1"
_ARRIVAL_S = 5


@dataclass(frozen=True, slots=True)
class Joined:
    """An instance and its peer: bare processes in a namespace of their own, with the same files, without limits."""

    instance: Instance
    peer: Instance
    segment: Segment

    def built(self, testbed: Testbed, attachment: str, platform: str, **told: Any) -> Built:
        """Return both with their link, to be noted. `platform` and `told` describe the instance."""
        found = Built(testbed)
        found.add(INSTANCE, self.instance, platform, **told)
        found.add(PEER, self.peer, "native")
        found.join(attachment, [self.segment])
        return found

    @property
    def everyone(self) -> dict[str, Instance]:
        return {INSTANCE: self.instance, PEER: self.peer}


@dataclass(frozen=True, slots=True)
class FarEnd:
    """The end of a flow: the instance in `role` at `address`. What arrives is counted at its interface `device`."""

    role: str
    instance: Instance
    address: str
    device: str


@contextmanager
def joined(
    testbed: Testbed, native: Platform, platform: Platform, attachment: Attachment, spec: InstanceSpec
) -> Iterator[Joined]:
    """Start and join both for as long as the block lasts, proven by a ping. Platforms and attachment are prepared.

    Raises: PlatformError when the instance does not reach its peer."""
    own = instance_spec(testbed, PEER, ports=(PORT,))
    with ExitStack() as stack:
        peer = stack.enter_context(native.start(testbed, own))
        sysctls = {**own.sysctls, **spec.sysctls}
        instance = stack.enter_context(platform.start(testbed, replace(spec, ports=(PORT,), sysctls=sysctls)))
        # The peer's port comes first: it is there when the instance takes its own.
        ports = (Port(peer, PORT, f"{PEER_ADDRESS}/24"), Port(instance, PORT, f"{INSTANCE_ADDRESS}/24"))
        segment = Segment("u", ports)
        stack.enter_context(attachment.connect(testbed, [segment]))
        _prove(instance)
        yield Joined(instance, peer, segment)


def require_host_address(attachment: type[Attachment]) -> None:
    """Check that the host has an address on the attachment's links, to send to. Raises: Unavailable if it has none."""
    if attachment.router_prefix is None:
        raise Unavailable(
            f"over {attachment.name} the host has no address that an instance could send to",
            'choose an attachment with a router, such as nat, or `towards = "peer"`',
        )


@contextmanager
def far_end(testbed: Testbed, native: Platform, attachment: Attachment, pair: Joined, towards: str) -> Iterator[FarEnd]:
    """Yield the peer, or the instance's own host: bare processes in the DUT's namespace, at its address on the link.

    Raises: Unavailable when the host has none there."""
    if towards == PEER:
        yield FarEnd(PEER, pair.peer, PEER_ADDRESS, PORT)
        return
    require_host_address(type(attachment))
    sides = (side for side, _ in directions([pair.segment], str(attachment.router_prefix)))
    side = next(side for side in sides if side.address == INSTANCE_ADDRESS)
    # The router's routes are for what it forwards. This one is for its own answers, and disappears with the device.
    batch(testbed, testbed.dut, [f"route add {side.address}/32 dev {side.device} src {side.router}"])
    spec = replace(instance_spec(testbed, HOST), netns=testbed.dut, sysctls={})
    with native.start(testbed, spec) as host:
        yield FarEnd(HOST, host, side.router, side.device)


def note_topology(built: Built, pair: Joined, end: FarEnd, attachment: str, outcome: Outcome) -> None:
    """Note the pair, and the instance's host where the flow ends there, on the same link."""
    if end.role == HOST:
        testbed = end.instance.testbed
        (near,) = (
            Plug(INSTANCE, testbed, "", port.name, port.address, far)
            for far, port in pair.segment.ends()
            if port.instance is pair.instance
        )
        built.add(HOST, end.instance, "native")
        built.link(attachment, near, Plug(HOST, testbed, testbed.dut, end.device, end.address))
    built.note(outcome)


def _prove(instance: Instance) -> None:
    argv = ["ping", "-n", "-c", "1", "-w", str(_ARRIVAL_S), PEER_ADDRESS]
    done = instance.run(argv, timeout_s=_ARRIVAL_S + 15, check=False)
    if done.returncode != 0:
        words = (done.error_text or done.text).strip()[-200:]
        raise PlatformError(f"the instance does not reach its peer by a ping: {words}")
