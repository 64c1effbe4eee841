"""Links from timed instances to one peer: a packet over its link proves that an instance is connected."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from lastro.attachments.base import Attachment, Segment
from lastro.errors import PlatformError
from lastro.platforms.base import Instance, InstanceSpec, Platform, Port, start_all
from lastro.scenarios.base import make_part
from lastro.scenarios.shared.host_memory import require_room
from lastro.scenarios.shared.instance_spec import instance_spec
from lastro.scenarios.shared.timing import TimedPlatform
from lastro.testbed import Testbed, with_new_dut

MOST = 4096  # instances: each link takes eight addresses, and a link's name has at most 15 letters
_NETWORK = ipaddress.ip_network("198.18.0.0/15")
_PORT = "eth0"
_ANSWER_S = 60.0
_REACH_S = 10


class PeerLinks:
    """One peer, and namespaces (`hubs`) for the links from `n` instances to it, made before the measured time.

    Instances that start one after the other have a hub each, so that the attachment makes what a link needs, such as a
    bridge, for each instance. Instances that start together share one hub."""

    def __init__(self, peer: Instance, hubs: Sequence[tuple[Testbed, Attachment]], n: int) -> None:
        """Use `peer` and `hubs`, pairs (testbed of a namespace, prepared attachment that makes the links there)."""
        self.peer, self._hubs, self._n = peer, hubs, n
        self.first: tuple[Testbed, Segment] | None = None  # where the first instance was joined

    @property
    def own_cgroups(self) -> list[str]:
        """The cgroups of the daemons that the attachments run."""
        return [name for _, links in self._hubs for name in links.own_cgroups]

    def start_instances(self, stack: ExitStack, platform: TimedPlatform) -> list[Instance]:
        """Start the `n` instances, join them to the peer, and time the first packet and the first command of each.

        The instances end with the stack.
        Raises: any error of a start; PlatformError when an instance does not answer or is not reached."""
        session = self._hubs[0][0].session
        specs = [InstanceSpec(session.unique("life"), "instance", ports=(_PORT,)) for _ in range(self._n)]
        instances: list[Instance] = []
        for number, (hub, links) in enumerate(self._hubs):
            require_room(hub.host)
            new = start_all(stack, platform, hub, specs if len(self._hubs) == 1 else [specs[number]])
            segments = [self._segment(number, instance) for number, instance in enumerate(new, len(instances))]
            stack.enter_context(links.connect(hub, segments))
            self.first = self.first or (hub, segments[0])
            for segment in segments:
                self._time_first_answers(platform, segment)
            instances += new
        return instances

    def _segment(self, number: int, instance: Instance) -> Segment:
        """Return the link of the instance with this number to the peer.

        The peer's port comes first, so that it exists when the instance takes its own."""
        near, far = (f"{_NETWORK[8 * number + side]}/29" for side in (1, 2))
        return Segment(str(number), (Port(self.peer, f"to{number}", near), Port(instance, _PORT, far)))

    def _time_first_answers(self, platform: TimedPlatform, segment: Segment) -> None:
        """Time the first packet and the first command of a segment's instance, and record them in `platform`.

        The peer pings for the first packet, so that no command inside the instance delays it."""
        port = segment.ports[1]
        name = port.instance.spec.name
        times = platform.times_by_name[port.instance.spec.name]
        ping = ["ping", "-n", "-q", "-c", "1", "-i", "0.002", "-w", str(_REACH_S), port.ip]
        packet = self.peer.run(ping, timeout_s=_REACH_S + 20, check=False)
        if packet.returncode != 0:
            raise PlatformError(f"no packet of instance {name} reached its peer within {_REACH_S} s")
        command = port.instance.run(["true"], timeout_s=_ANSWER_S, check=False)
        if command.returncode != 0:
            words = (command.error_text or command.text).strip()[-200:] or f"`true` exited with {command.returncode}"
            raise PlatformError(f"instance {name} did not answer: {words}")
        times.packet_s, times.command_s = packet.duration_s, command.duration_s


@contextmanager
def linked_peer(testbed: Testbed, native: Platform, attachment: str, n: int, *, together: bool) -> Iterator[PeerLinks]:
    """Prepare the links of `n` instances inside the block. The peer runs on the platform `native`."""
    with ExitStack() as stack:
        hubs = []
        for name in [testbed.session.unique("hub") for _ in range(1 if together else n)]:
            hub = stack.enter_context(with_new_dut(testbed, name))
            links = make_part(Attachment, attachment)
            stack.enter_context(links.prepare(hub))
            hubs.append((hub, links))
        yield PeerLinks(stack.enter_context(native.start(testbed, instance_spec(testbed, "peer"))), hubs, n)
