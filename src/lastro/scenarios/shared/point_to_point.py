"""One instance joined by an attachment to its peer, a network namespace that represents another host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from lastro.attachments.base import Attachment, Segment
from lastro.errors import PlatformError
from lastro.platforms.base import Instance, InstanceSpec, Platform, Port
from lastro.platforms.native import Native
from lastro.scenarios.shared.instance_spec import instance_spec
from lastro.scenarios.shared.topology import BuiltTopology
from lastro.testbed import Testbed

INSTANCE, PEER, PORT = "instance", "peer", "eth0"
INSTANCE_ADDRESS, PEER_ADDRESS = "198.18.1.10", "198.18.1.1"
_ARRIVAL_S = 5


@dataclass(frozen=True, slots=True)
class JoinedPair:
    """An instance, its peer and the link between them. `node` is `Attachment.node`.

    The peer consists of bare processes in a separate namespace, with the same files as the instance and without
    limits."""

    instance: Instance
    peer: Instance
    segment: Segment
    node: Testbed | None = None

    def built(self, testbed: Testbed, attachment: str, platform: str, **fields: Any) -> BuiltTopology:
        """Return the topology of instance, peer and link. `attachment` and `platform` are levels.

        `fields` are further fields of the instance's `Node`."""
        topology = BuiltTopology(testbed)
        topology.add(INSTANCE, self.instance, platform, **fields)
        topology.add(PEER, self.peer, Native.name)
        topology.join(attachment, [self.segment], node=self.node)
        return topology

    @property
    def everyone(self) -> dict[str, Instance]:
        return {INSTANCE: self.instance, PEER: self.peer}


@contextmanager
def joined(
    testbed: Testbed, native: Platform, platform: Platform, attachment: Attachment, spec: InstanceSpec
) -> Iterator[JoinedPair]:
    """Start an instance and its peer, and join them inside the block; a ping proves the link.

    Platforms and attachment must be prepared. An instance that sends by sockets of its host does not use the link, so
    it does not ping here; the scenario `uplink` proves its path. Raises: PlatformError when the instance does not reach
    its peer."""
    peer_spec = instance_spec(testbed, PEER, ports=(PORT,))
    with ExitStack() as stack:
        stack.enter_context(attachment.before_start(testbed, [native, platform]))
        peer = stack.enter_context(native.start(testbed, peer_spec))
        sysctls = {**peer_spec.sysctls, **spec.sysctls}
        spec = attachment.adapted_spec(replace(spec, ports=(PORT,), sysctls=sysctls), platform)
        instance = stack.enter_context(platform.start(testbed, spec))
        # The peer's port comes first, so that it exists when the instance takes its own.
        ports = (Port(peer, PORT, f"{PEER_ADDRESS}/24"), Port(instance, PORT, f"{INSTANCE_ADDRESS}/24"))
        segment = Segment("u", ports)
        stack.enter_context(attachment.connect(testbed, [segment]))
        if not instance.sends_by_host:
            prove(instance, PEER, PEER_ADDRESS)
        yield JoinedPair(instance, peer, segment, attachment.node)


def prove(instance: Instance, role: str, address: str) -> None:
    """Ping an address from the instance. Raises: PlatformError, which names `role` as the target, without an answer."""
    argv = ["ping", "-n", "-c", "1", "-w", str(_ARRIVAL_S), address]
    done = instance.run(argv, timeout_s=_ARRIVAL_S + 15, check=False)
    if done.returncode != 0:
        words = (done.error_text or done.text).strip()[-200:]
        raise PlatformError(f"the instance does not reach its {role} by a ping: {words}")
