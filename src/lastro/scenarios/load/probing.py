"""One probe of a search: a rate is offered for a time, and the counters of interfaces show what arrived.

If a trial has several chains, each gets the same part of the rate, at the same time. The chain that loses most decides
whether a load meets a goal.

Frames that arrive late, from queues, belong to the probe that sent them. So a probe ends when all its frames have
arrived, or when no frame moves any more. The next probe begins when no frame moves.

RFC 2544, section 23, waits for two seconds after each trial for late frames, and for five more before the next trial.
Here, counters show when the path is empty, so a probe waits only while frames move, and at most as long as in the RFC.
If a function stops for longer than `_PAUSE_S` after the last frame was sent, the frames that it holds count as lost."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from lastro import registry
from lastro.errors import InstrumentError
from lastro.grouping import by_key
from lastro.instruments.base import UNWATCHED
from lastro.instruments.load_generator import Direction, LoadGenerator, SentLoad, Traffic
from lastro.meters.interfaces import Counters, InterfaceMeter, moved
from lastro.platforms.base import AVAILABLE, Availability, Platform
from lastro.scenarios.load.search import Probe
from lastro.scenarios.shared.chain import Chain, hops_of
from lastro.scenarios.shared.probes import ChainProbes, once
from lastro.scenarios.shared.simultaneous import at_the_same_time
from lastro.study.model import Setting
from lastro.testbed import Testbed
from lastro.validity import overlap_percent

RESIDUAL_S, RESTABILIZED_S = 2.0, 5.0
_PAUSE_S = 0.1  # without a frame, and the path is empty
_PERIODS = 3  # of the offered rate, at least: a generator may still have frames to send in its own queue


def wait_until_at_rest(
    first: Counters,
    read: Callable[[], Counters],
    frames: Callable[[Counters], tuple[int, ...]],
    is_over: Callable[[Counters], bool],
    rate_fps: float,
    delay_s: float = 0.0,
) -> Counters:
    """Wait until all frames have arrived or no frame moves; return the counters as last read within 2 s of the start.

    Frames that arrive later count as lost. `first` is the reading when the generator ended; `read` takes another one.
    `frames` returns the counts in a reading that change while frames move. `is_over` returns whether all frames have
    arrived. A link on the path delays frames by `delay_s`.

    Raises: InstrumentError when frames still move after another 5 s."""
    counted = last = first
    pause_s = max(_PAUSE_S, _PERIODS / rate_fps) + delay_s
    began_s = time.monotonic()
    while not is_over(last):
        time.sleep(pause_s)
        now, elapsed_s = read(), time.monotonic() - began_s
        if frames(now) == frames(last):
            break
        if elapsed_s > RESIDUAL_S + RESTABILIZED_S:
            raise InstrumentError(
                f"frames moved for {elapsed_s:.1f} s in which none was offered: foreign traffic, or a function that"
                " needs longer to empty its queues",
                "keep other traffic off the links of the chain, or search at smaller loads, by `most_fps`",
            )
        last, counted = now, now if elapsed_s <= RESIDUAL_S else counted
    return counted


FORWARD, BOTH = "forward", "both"
DIRECTION = Setting("direction", FORWARD, "from the source to the sink, or both ways at once", choices=(FORWARD, BOTH))
_SLACK = 100  # frames of a sender that its generator does not report: a ping, sockperf's own
_REFRESH_S = 30.0  # a switch forgets an address that sends nothing for five minutes
# Frames of others at a receiver: none where hardware addresses are permanent; elsewhere, a kernel asks for one.
_OTHERS, _OTHERS_PER_S = 5, 0.1
_REPEATS = 2  # of a probe that received frames that a function had held back
_TOLERANCE = 0.05  # of frames that the sender's interface counted and its generator did not
_HEADERS_BYTES = 14  # of Ethernet, which the counters of a function do not include
_SIZE_TOLERANCE = 0.02  # of the mean size of frames


class TooManyFrames(InstrumentError):
    """Error: a receiver counted more frames than were sent, so lost frames could go unnoticed."""


@dataclass(frozen=True, slots=True)
class _Hops:
    """The path of the frames of one direction: pairs (port, "tx" or "rx": the counter that counts these frames there).

    Ports are as in `hops_of`, with the trial's names of roles. `chain` is the number of the chain, from 0. `forward` is
    true if the direction is from source to sink."""

    ports: Sequence[tuple[str, str]]
    chain: int = 0
    forward: bool = True

    @classmethod
    def of(cls, chain: Chain) -> _Hops:
        ports = [(port.partition("."), way) for port, way in hops_of(chain)]
        named = [(f"{chain.trial_role(role)}.{name}", way) for (role, _, name), way in ports]
        return cls(named, chain.path.chain)

    @property
    def sender(self) -> str:
        return self.ports[0][0]

    @property
    def entry(self) -> str:
        """The port at which frames reach the first function."""
        return self.ports[1][0]

    @property
    def receiver(self) -> str:
        return self.ports[-1][0]

    @property
    def back(self) -> _Hops:
        ports = [(port, "rx" if way == "tx" else "tx") for port, way in reversed(self.ports)]
        return _Hops(ports, self.chain, forward=False)

    def frames(self, counted: Counters) -> tuple[int, ...]:
        """Return the frames that each port counted in this direction, in the order of the path.

        Ports without counters are left out."""
        return tuple(counted[port][f"{way}_packets"] for port, way in self.ports if port in counted)

    def lost_at(self, counted: Counters) -> dict[str, int]:
        """Return {place: lost frames}; places are 'to the function', 'in the function', 'from the function'."""
        # A frame that a port dropped was lost behind the port.
        seen = [
            counted[port][f"{way}_packets"] + (counted[port]["tx_dropped"] if way == "tx" else 0)
            for port, way in self.ports
        ]
        through = [(port.partition(".")[0], way) for port, way in self.ports[1:-1]]
        places = [f"{'to' if way == 'rx' else 'in'} the {role}" for role, way in through]
        places.append(f"from the {through[-1][0]}")
        return {place: max(0, came - left) for place, (came, left) in zip(places, pairwise(seen), strict=True)}


class Prober:
    """Probes a chain and its copies with one kind of generator.

    `directions` is "forward", or "both" with half of a chain's rate each. `delay_s` is the delay of a chain's impaired
    link."""

    def __init__(
        self,
        testbed: Testbed,
        chain: Chain,
        generator: LoadGenerator,
        traffic: Traffic,
        directions: str = FORWARD,
        delay_s: float = 0.0,
    ) -> None:
        self._testbed, self._chains, self._generator, self._traffic = testbed, chain.all, generator, traffic
        self._delay_s = delay_s
        self.ways: dict[Direction, _Hops] = {}
        for each in self._chains:
            there = _Hops.of(each)
            self.ways[Direction(each.source, each.sink, each.path.sink)] = there
            if directions == BOTH:
                self.ways[Direction(each.sink, each.source, each.path.source)] = there.back
        self._instances = {
            each.trial_role(role): instance for each in self._chains for role, instance in each.instances.items()
        }
        self._meter = InterfaceMeter(testbed, self._instances)
        self._ended: Counters | None = None  # the reading at the end of the last probe
        self.moved: Counters = {}  # in the last probe
        self._refreshed_s = time.monotonic()
        self.overdue = 0  # frames that arrived when their probe had ended, in which they are lost

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Run the generator's receivers inside the block."""
        with ExitStack() as stack:
            for way in self.ways:
                stack.enter_context(self._generator.receiving(way))
            self.refresh()
            yield

    def refresh(self) -> None:
        """Ping from source to sink, so that switches do not forget the port of an end that only receives."""
        for chain in self._chains:
            chain.source.run(["ping", "-n", "-c", "1", "-w", "5", chain.path.sink], timeout_s=20, check=False)
        self._refreshed_s = time.monotonic()

    def probe(self, rate_fps: float, duration_s: float) -> Probe:
        """Offer `rate_fps` for `duration_s`, and return what was sent and received.

        The rate is the sum of all directions and chains. If more frames arrive than were sent, since a function had
        held frames of an earlier probe, the probe is repeated. Raises: InstrumentError; CommandFailed; CommandTimeout;
        PlatformError when an instance has ended."""
        for _ in range(_REPEATS):
            with suppress(TooManyFrames):
                return self._probe(rate_fps, duration_s)
        return self._probe(rate_fps, duration_s)

    def _probe(self, rate_fps: float, duration_s: float) -> Probe:
        each_fps = rate_fps / len(self.ways)
        before = self._begin(each_fps)
        offer = self._generator.offer
        calls = [partial(offer, way, self._traffic, each_fps, duration_s) for way in self.ways]
        offered, windows = at_the_same_time(self._testbed, calls, UNWATCHED)
        first = self._meter.now()
        self._ended = self._wait_until_at_rest(first, each_fps, partial(self._have_arrived, before, offered))
        self.moved, late = moved(before, self._ended), moved(first, self._ended)
        for instance in self._instances.values():
            instance.usage()  # its links outlive an instance, and would carry on
        loads = zip(self.ways.values(), offered, strict=True)
        probes = [_counted_probe(hops, self.moved, late, each_fps, duration_s, own) for hops, own in loads]
        whole = _sum_of(probes, rate_fps)
        if len(windows) > 1:
            whole = replace(whole, overlap=overlap_percent(windows) / 100)
        if len(self._chains) > 1:
            by_chain = by_key(zip((hops.chain for hops in self.ways.values()), probes, strict=True))
            whole = replace(whole, worst_loss=max(_sum_of(own, rate_fps).loss_ratio for own in by_chain.values()))
        return whole

    def _begin(self, each_fps: float) -> Counters:
        """Wait until the queues hold no frames of the last probe, and return a reading of the counters."""
        if time.monotonic() - self._refreshed_s > _REFRESH_S:
            self.refresh()
        now = self._meter.now()
        if self._ended is None or not (came := self._received(moved(self._ended, now))):
            return now
        now = self._wait_until_at_rest(now, each_fps)
        came = self._received(moved(self._ended, now))
        self.overdue += came if came > _OTHERS * len(self.ways) else 0
        return now

    def _wait_until_at_rest(
        self, first: Counters, each_fps: float, is_over: Callable[[Counters], bool] = lambda _: False
    ) -> Counters:
        return wait_until_at_rest(first, self._meter.now, self._frames, is_over, each_fps, self._delay_s)

    def _frames(self, counted: Counters) -> tuple[int, ...]:
        return tuple(frames for hops in self.ways.values() for frames in hops.frames(counted))

    def _received(self, counted: Counters) -> int:
        return sum(counted.get(hops.receiver, {}).get("rx_packets", 0) for hops in self.ways.values())

    def _have_arrived(self, before: Counters, offered: Sequence[SentLoad], now: Counters) -> bool:
        """Return whether all frames that the generators report as sent have left, and have arrived."""
        counted = [hops.frames(moved(before, now)) for hops in self.ways.values()]
        return all(
            len(frames) == len(hops.ports) and frames[0] >= own.sent and frames[-1] >= frames[0]
            for hops, frames, own in zip(self.ways.values(), counted, offered, strict=True)
        )

    def size_reasons(self) -> list[str]:
        """Return a reason for each direction in which the last probe's frames had another mean size than the study's.

        The cause may be offloads, or other traffic."""
        wanted = self._traffic.counted_bytes
        mean_sizes = {hops.entry: self._mean_bytes(hops.entry) for hops in self.ways.values()}
        return [
            f"{port} received frames of {size:.1f} B on average instead of {wanted:.1f} B"
            for port, size in mean_sizes.items()
            if size is not None and abs(size - wanted) > _SIZE_TOLERANCE * wanted
        ]

    def carried_bytes(self, chain: int) -> int:
        """Return the bytes that arrived at the sink of this chain in the last probe, without Ethernet headers."""
        frames = sum(self.moved[hops.receiver]["rx_packets"] for hops in self._forward if hops.chain == chain)
        return int(frames * (self._traffic.counted_bytes - _HEADERS_BYTES))

    @property
    def mean_bytes(self) -> float | None:
        """The mean size of the frames that the functions received in the last probe; None if they received none."""
        return self._mean_bytes(*(hops.entry for hops in self._forward))

    def _mean_bytes(self, *entries: str) -> float | None:
        """Return the mean size of the frames that these ports received from an end of the flow; None without frames.

        A veth hands its XDP program a frame of a kernel's stack without counting the Ethernet header."""
        counted = [(self.moved[port], port in self._meter.in_xdp) for port in entries if port in self.moved]
        n_packets = sum(each["rx_packets"] for each, _ in counted)
        n_bytes = sum(each["rx_bytes"] + each["rx_packets"] * _HEADERS_BYTES * in_xdp for each, in_xdp in counted)
        return n_bytes / n_packets if n_packets else None

    @property
    def _forward(self) -> list[_Hops]:
        return [hops for hops in self.ways.values() if hops.forward]


def _counted_probe(
    hops: _Hops, counted: Counters, late: Counters, rate_fps: float, duration_s: float, offered: SentLoad
) -> Probe:
    """Return a probe in one direction, as counted by the interfaces during the probe (`counted`).

    `late` has the part of `counted` that came after the generator had ended. `offered` is what the generator
    reports. Raises: InstrumentError when the counters contradict the generator."""
    missing = [port for port, _ in hops.ports if port not in counted]
    if missing:
        raise InstrumentError(f"no counters for {', '.join(missing)}")
    left, refused = counted[hops.sender]["tx_packets"], counted[hops.sender]["tx_dropped"]
    if not _nearly_equal(left, offered.sent) and not _nearly_equal(left + refused, offered.sent):
        text = f"the generator reports {offered.sent:,} frames sent, but its interface {hops.sender} counted {left:,}"
        raise InstrumentError(text)
    received = counted[hops.receiver]["rx_packets"]
    if received > left + _OTHERS + _OTHERS_PER_S * duration_s:  # more would hide as many lost frames
        raise TooManyFrames(
            f"{hops.receiver} received {received:,} frames of {left:,} sent: foreign traffic, or frames of an earlier"
            " probe that the function held",
            "keep other traffic off the links of the chain",
        )
    left_late, *_, came_late = hops.frames(late)
    queued, lost_at = max(0, came_late - left_late), hops.lost_at(counted)
    probe = Probe(rate_fps, duration_s, left + refused, received, offered.lasted_s, lost_at, queued)
    return replace(probe, waited_s=offered.waited_s, kernel_s=offered.kernel_s)


def _nearly_equal(counted: int, reported: int) -> bool:
    return abs(counted - reported) <= _SLACK + _TOLERANCE * reported


def _sum_of(probes: Sequence[Probe], rate_fps: float) -> Probe:
    """Return the sum of simultaneous probes of several senders.

    The sum has the `least_part` of the sender that fell short most, which it would hide otherwise."""
    first, *others = probes
    if not others:
        return first
    lost_at: Counter[str] = Counter()
    for probe in probes:
        lost_at.update(probe.lost_at)
    return Probe(
        rate_fps,
        first.duration_s,
        sum(probe.sent for probe in probes),
        sum(min(probe.received, probe.sent) for probe in probes),
        max(probe.lasted_s for probe in probes),
        lost_at,
        sum(probe.late for probe in probes),
        min(probe.part_sent for probe in probes),
        sum(probe.waited_s for probe in probes),
        sum(probe.kernel_s for probe in probes),
    )


_RATE_FPS, _SECONDS, _LONGER_S = 500, 0.2, 2.0  # the latter where a generator takes long to start
_SIZE = "128"  # large enough for every generator and version of IP


class LoadProbes(ChainProbes):
    @once
    def generator(self, name: str, platform: Platform, attachment: str, ip: str) -> Availability:
        """Return whether the generator's frames arrive over this attachment on this platform, by sending some."""
        with self._forwarding(attachment, platform, offloads=False, ip=ip) as chain:
            prober = Prober(self._testbed, chain, registry.get(LoadGenerator, name)(), Traffic.of(_SIZE, ip=ip))
            with prober.ready():
                try:
                    probe = prober.probe(_RATE_FPS, _SECONDS)
                except InstrumentError:
                    probe = prober.probe(_RATE_FPS, _LONGER_S)
        if not probe.received:
            return Availability(f"no frame of {name} arrived over {attachment} on {platform.name}")
        return AVAILABLE
