"""The boot of a network of routers: instances, a switch for each link, the watch over them, and their daemons."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from lastro.attachments.base import Segment
from lastro.attachments.separable import SeparableLinks
from lastro.errors import PlatformError, TrialError
from lastro.functions.ospf import CAPABILITIES, Interface, OspfSettings, Router, host_name
from lastro.grouping import by_key
from lastro.platforms.base import Instance, Platform, Port, start_all
from lastro.results.samples import Outcome
from lastro.scenarios.routing.host_timeline import HostReading, Observers
from lastro.scenarios.routing.network import AT_ONCE, START_S, RouterNetwork, shortened
from lastro.scenarios.routing.ospf_capture import CapturePoint, watching
from lastro.scenarios.shared.instance_spec import ROUTER, instance_spec
from lastro.scenarios.shared.topology import BuiltTopology, note_witness
from lastro.study.topology import RouterTopology
from lastro.testbed import Testbed


@contextmanager
def booted(
    testbed: Testbed,
    platform: Platform,
    attachment: SeparableLinks,
    topology: RouterTopology,
    router: Router,
    protocol: OspfSettings,
    observers: Observers,
    read: Callable[[], HostReading] | None = None,
) -> Iterator[RouterNetwork]:
    """Boot a network of routers, and yield it when all daemons answer. Platform and attachment must be prepared.

    `network.marks` has four times: 'begin' (the first start is requested), 'created', 'linked' and 'booted' (all
    daemons answer). The marks do not include the start of the watch, between 'linked' and 'booted', nor the time that
    commands take to a remote host: earlier marks are moved later by these durations. `read` is called before and after
    the watch's start, to set `network.watch_cpu_s`. Raises: PlatformError with the routers that did not start."""
    numbers = range(len(topology.names))
    ports = [[topology.interface(number, link) for link in topology.at[number]] for number in numbers]
    plain_specs = [instance_spec(testbed, "router", CAPABILITIES, tuple(interfaces)) for interfaces in ports]
    specs = [replace(spec, sysctls={**spec.sysctls, **ROUTER}) for spec in plain_specs]
    host = testbed.host
    with ExitStack() as stack:
        with host.timed() as creation:
            instances = start_all(stack, platform, testbed, specs, at_once=AT_ONCE)
        segments = segments_of(topology, instances)
        with host.timed() as linking:
            stack.enter_context(attachment.connect(testbed, segments))
        tables = [instance.netns for instance in instances if instance.shares_kernel]
        before = read() if read else None  # between the two readings, nothing but the watch starts
        watch = stack.enter_context(watching(observers, _capture_points(testbed, attachment, segments), tables))
        network = RouterNetwork(testbed, topology, router, attachment, instances, segments, watch)
        if before and read:
            network.watch_cpu_s = read().busy_s - before.busy_s
        with host.timed() as starting:
            _start_daemons(network, protocol)
        linked_s = starting.began_s
        created_s = linked_s - linking.took_s
        begin_s = created_s - creation.took_s
        network.marks = {"begin": begin_s, "created": created_s, "linked": linked_s, "booted": starting.ended_s}
        yield network


def note_network(testbed: Testbed, network: RouterNetwork, platform: str, outcome: Outcome) -> None:
    """Record the topology of a network of routers in `outcome`; `platform` is the level of the routers' platform."""
    built = BuiltTopology(testbed)
    for name, instance in zip(network.names, network.instances, strict=True):
        built.add(name, instance, platform, does=network.router.name)
    built.join(network.attachment.level, network.segments)
    built.note(outcome)
    note_witness(outcome, "links", "OSPF packets on every link, and changes of routes", network.names)


def segments_of(topology: RouterTopology, instances: Sequence[Instance]) -> list[Segment]:
    """Return the links of a topology as segments, in the order of `topology.links`.

    `instances` are the routers in the order of `topology.names`."""
    segments = []
    for number, link in enumerate(topology.links):
        subnet = topology.subnet(number)
        a, b = (
            Port(instances[end], topology.interface(end, number), f"{topology.address(end, number)}/{subnet.prefixlen}")
            for end in (link.a, link.b)
        )
        segments.append(Segment(str(number), (a, b)))
    return segments


def _capture_points(testbed: Testbed, attachment: SeparableLinks, segments: Sequence[Segment]) -> list[CapturePoint]:
    """Return capture points that show each packet on a link exactly once.

    They are at the links' ends if packets pass the DUT's namespace, and otherwise at the routers' ports."""
    if attachment.passes_dut or any(port.instance.takes_taps for port in segments[0].ports):
        ends = attachment.ends(testbed, segments).items()
        return [CapturePoint(netns, frozenset(names), outgoing=False) for netns, names in ends]
    ports = by_key((port.netns, port.name) for segment in segments for port in segment.ports)
    return [CapturePoint(netns, frozenset(names), outgoing=True) for netns, names in ports.items()]


def _start_daemons(network: RouterNetwork, protocol: OspfSettings) -> None:
    topology, router = network.topology, network.router

    def start(number: int) -> str:
        ends = [Interface(topology.interface(number, link), topology.links[link].cost) for link in topology.at[number]]
        files = router.configuration(host_name(topology.names[number], number), number, ends, protocol)
        try:
            network.instances[number].run(["sh", "-e"], stdin=router.start_script(files), timeout_s=START_S)
        except TrialError as error:
            return f"{topology.names[number]}: {error.message}"
        return ""

    with ThreadPoolExecutor(AT_ONCE) as pool:
        failed = [reason for reason in pool.map(start, range(len(topology.names))) if reason]
    if failed:
        n = len(topology.names)
        raise PlatformError(f"{len(failed)} of {n} routers did not start {router.name}: {shortened(failed)}")
