"""Captures at the interfaces of source and sink, from which the one-way delays of a chain are computed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from lastro.instruments.packet_capture import PacketCapture
from lastro.platforms.base import Instance, InstanceSpec
from lastro.platforms.native import Native
from lastro.scenarios.shared.chain import SINK_PORT, SOURCE_PORT, Chain
from lastro.testbed import Testbed


@dataclass(frozen=True, slots=True)
class Ends:
    """Packet captures at both ends of a path."""

    sender: PacketCapture
    receiver: PacketCapture

    @contextmanager
    def running(self) -> Iterator[None]:
        """Capture at both ends inside the block. Raises: as `PacketCapture.running`."""
        with self.receiver.running(), self.sender.running():
            yield


def have_one_clock(chain: Chain) -> bool:
    """Return whether both ends use the host's kernel, so that one clock stamps the packets of both."""
    return all(end.shares_kernel and not end.takes_taps for end in (chain.source, chain.sink))


@contextmanager
def both_ends(testbed: Testbed, chain: Chain) -> Iterator[Ends]:
    """Prepare captures in the network namespaces of source and sink inside the block, without starting them.

    The capturing processes are outside the confinement and the limits of the instances."""
    with ExitStack() as stack:

        def capture_at(instance: Instance, device: str) -> PacketCapture:
            spec = InstanceSpec(testbed.session.unique("capture"), "capture", netns=instance.netns)
            return PacketCapture(stack.enter_context(Native().start(testbed, spec)), device)

        yield Ends(capture_at(chain.source, SOURCE_PORT), capture_at(chain.sink, SINK_PORT))
