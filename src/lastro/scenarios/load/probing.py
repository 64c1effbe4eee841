"""One probe of a search, on a chain: a rate is offered for a time, and the counters of interfaces tell what arrived."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from lastro.errors import InstrumentError
from lastro.host.threads import all_of
from lastro.instruments._load_generator import LoadGenerator, Offered, Traffic, Way
from lastro.meters.interfaces import Counters, InterfaceMeter
from lastro.scenarios.load.search import Probe
from lastro.scenarios.shared.chain import SINK_PORT, SOURCE_PORT, Chain
from lastro.testbed import Testbed

FORWARD, BOTH = "forward", "both"
_SLACK = 100  # frames of others: ARP, a ping
_TOLERANCE = 0.05  # of frames that the sender's interface counted and its generator did not
_HEADERS_BYTES = 14  # of Ethernet, which the counters of a function do not include
_SIZE_TOLERANCE = 0.02  # of the mean size of frames


@dataclass(frozen=True, slots=True)
class _Hops:
    """The ports on a direction: of the sender, of the function where frames come in and go out, of the receiver."""

    sender: str
    entry: str
    exit: str
    receiver: str


class Prober:
    """Probes of a chain by one generator. `directions` is "forward", or "both", which shares a rate evenly."""

    def __init__(
        self, testbed: Testbed, chain: Chain, generator: LoadGenerator, traffic: Traffic, directions: str = FORWARD
    ) -> None:
        self._testbed, self._chain, self._generator, self._traffic = testbed, chain, generator, traffic
        path = chain.path
        there = _Hops(
            f"source.{SOURCE_PORT}", f"function.{path.inside}", f"function.{path.outside}", f"sink.{SINK_PORT}"
        )
        self.ways = {Way(chain.source, chain.sink, path.sink): there}
        if directions == BOTH:
            back = _Hops(there.receiver, there.exit, there.entry, there.sender)
            self.ways[Way(chain.sink, chain.source, path.source)] = back
        self.moved: Counters = {}  # of the last probe

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Keep the receivers running inside the block."""
        with ExitStack() as stack:
            for way in self.ways:
                stack.enter_context(self._generator.receiving(way))
            yield

    def probe(self, rate_fps: float, duration_s: float) -> Probe:
        """Offer a rate, over all directions, for a time.

        Raises: InstrumentError; CommandFailed; CommandTimeout; PlatformError when an instance has ended."""
        each_fps = rate_fps / len(self.ways)
        meter = InterfaceMeter(self._testbed, self._chain.instances)
        meter.start()
        offer = self._generator.offer
        calls = [partial(offer, way, self._traffic, each_fps, duration_s) for way in self.ways]
        offered = [future.result() for future in all_of(calls, len(calls))]
        meter.stop()
        self.moved = meter.moved
        for instance in self._chain.instances.values():
            instance.usage()  # its links outlive an instance, and would carry on
        probes = [
            _seen(hops, meter.moved, each_fps, duration_s, own)
            for hops, own in zip(self.ways.values(), offered, strict=True)
        ]
        return _together(probes, rate_fps)

    def size_reasons(self) -> list[str]:
        """Return why the frames of the last probe were not those of the study: offloads, or other traffic."""
        wanted = self._traffic.counted_bytes
        found = {hops.entry: mean_bytes(self.moved, hops.entry) for hops in self.ways.values()}
        return [
            f"{port} received frames of {size:.1f} B on average instead of {wanted:.1f} B"
            for port, size in found.items()
            if size is not None and abs(size - wanted) > _SIZE_TOLERANCE * wanted
        ]

    @property
    def carried_bytes(self) -> int:
        """The bytes of the packets, without the header of Ethernet, that arrived at the sink in the last probe."""
        frames = self.moved[next(iter(self.ways.values())).receiver]["rx_packets"]
        return int(frames * (self._traffic.counted_bytes - _HEADERS_BYTES))

    @property
    def mean_bytes(self) -> float | None:
        """The mean size of the frames that the function received in the last probe; None if it received none."""
        return mean_bytes(self.moved, next(iter(self.ways.values())).entry)


def mean_bytes(moved: Mapping[str, Mapping[str, int]], port: str) -> float | None:
    counted = moved.get(port, {})
    return counted["rx_bytes"] / counted["rx_packets"] if counted.get("rx_packets") else None


def _seen(hops: _Hops, moved: Counters, rate_fps: float, duration_s: float, offered: Offered) -> Probe:
    """Return a probe in one direction as the interfaces counted it.

    Raises: InstrumentError when they contradict the generator."""
    missing = [port for port in (hops.sender, hops.entry, hops.exit, hops.receiver) if port not in moved]
    if missing:
        raise InstrumentError(f"no counters for {', '.join(missing)}")
    left, refused = moved[hops.sender]["tx_packets"], moved[hops.sender]["tx_dropped"]
    if not _near(left, offered.sent) and not _near(left + refused, offered.sent):
        raise InstrumentError(
            f"the generator reports {offered.sent:,} frames sent, but its interface {hops.sender} counted {left:,}"
        )
    came, gone = moved[hops.entry]["rx_packets"], moved[hops.exit]["tx_packets"]
    kept, received = moved[hops.exit]["tx_dropped"], moved[hops.receiver]["rx_packets"]
    if received > left + _SLACK + _TOLERANCE * left:
        raise InstrumentError(f"{hops.receiver} received {received:,} frames of {left:,} sent: foreign traffic")
    lost_at = {
        "to the function": max(0, left + refused - came),
        "in the function": max(0, came - gone - kept),
        "from the function": max(0, gone + kept - received),
    }
    return Probe(rate_fps, duration_s, left + refused, received, offered.lasted_s, lost_at)


def _near(counted: int, reported: int) -> bool:
    return abs(counted - reported) <= _SLACK + _TOLERANCE * reported


def _together(probes: Sequence[Probe], rate_fps: float) -> Probe:
    """Return the sum of simultaneous probes in all directions."""
    first, *others = probes
    if not others:
        return first
    lost_at = {place: sum(probe.lost_at[place] for probe in probes) for place in first.lost_at}
    return Probe(
        rate_fps,
        first.duration_s,
        sum(probe.sent for probe in probes),
        sum(min(probe.received, probe.sent) for probe in probes),
        max(probe.lasted_s for probe in probes),
        lost_at,
    )
