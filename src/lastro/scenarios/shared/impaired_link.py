"""The impairments of a chain's last link, from its function to its sink: delay, loss and a bit rate.

The impairments act in each direction, as if the link were a long or a slow cable, so a round trip takes twice the
delay. They are set on the device that sends in a direction: the port of the function or of the sink in its network
namespace, or the tap behind which a virtual machine receives. Delay and loss use tc-netem(8); a rate uses tc-tbf(8),
alone or below netem.

All settings are verified. Before the neighbour starts, pings show that the delay acts once in each direction. When
the trial ends, the settings are read back, and the counters of netem show how many packets it lost."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from lastro.errors import CommandFailed, Unavailable
from lastro.host.base import Host
from lastro.results.samples import Outcome, Reading
from lastro.scenarios.base import Config
from lastro.scenarios.shared.chain import Chain
from lastro.scenarios.shared.topology import note_witness
from lastro.study.levels import NONE
from lastro.study.model import Setting
from lastro.testbed import IN_A_GUEST
from lastro.units import link_rate_bps

DELAY_MS = Setting(
    "link.delay_ms", 0.0, "delay of the link to the sink in each direction; a round trip takes twice as much", 0, 400
)
LOSS = Setting(
    "link.loss", 0.0, 'packets that the link to the sink loses in each direction, in percent; needs offloads = "off"',
    0, 20,
)  # fmt: skip
RATE = Setting(
    "link.rate", NONE, "bit rate of the link to the sink in each direction; none: not limited", check=link_rate_bps
)
LINK_SETTINGS = (DELAY_MS, LOSS, RATE)
_ROOT, _BELOW = "handle 1: root", "parent 1:1"
_MOST_QUEUED = 200_000  # packets that are delayed: those of 400 ms at 500,000 a second
_BURST_S, _LEAST_BURST_BYTES = 0.01, 4096  # of the bucket; two frames
_QUEUE_S = 0.05  # the longest wait for the bucket; packets that would wait longer are dropped
_PRECISE = 1e-3  # a fraction: tc prints six digits
_PINGS, _PING_INTERVAL_S = 10, "0.02"
_ROUNDED = 0.98  # of the delay, since ping prints three digits
_SLACK_MS = 5.0  # of a round trip, besides its delay
_OVER = 1.02  # how much faster than its rate a flow may seem
_SIGMAS = 5
_FASTEST = re.compile(r"^(?:rtt|round-trip) min/\S* = (\d{1,9}(?:\.\d{1,9})?)/", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Impairment:
    """What a link does to packets in each direction. A value of 0 does nothing."""

    delay_ms: float = 0.0
    loss_percent: float = 0.0
    rate_bps: float = 0.0

    @classmethod
    def of(cls, config: Config) -> Impairment:
        return cls(DELAY_MS.of(config), LOSS.of(config), link_rate_bps(RATE.of(config)))

    @classmethod
    def from_tc(cls, disciplines: Sequence[Mapping[str, Any]]) -> Impairment:
        """Parse the impairment of one device from its queueing disciplines, as `tc -j qdisc` shows them."""
        options = {discipline.get("kind"): discipline.get("options", {}) for discipline in disciplines}
        netem, bucket = options.get("netem", {}), options.get("tbf", {})
        delay_s = float(netem.get("delay", {}).get("delay", 0))
        loss_ratio = float(netem.get("loss-random", {}).get("loss", 0))
        return cls(1000 * delay_s, 100 * loss_ratio, 8 * float(bucket.get("rate", 0)))

    def __bool__(self) -> bool:
        return self != Impairment()

    def __str__(self) -> str:
        words = [
            f"{self.delay_ms:g} ms delay" if self.delay_ms else "",
            f"{self.loss_percent:g} % loss" if self.loss_percent else "",
            f"{self.rate_bps / 1e6:g} Mbit/s" if self.rate_bps else "",
        ]
        return ", ".join(filter(None, words)) or "no impairment"

    def lines(self, device: str) -> list[str]:
        """Return the `tc -batch` commands that impair the packets that `device` sends; [] without an impairment."""
        netem = [f"delay {self.delay_ms:g}ms"] if self.delay_ms else []
        netem += [f"loss {self.loss_percent:g}%"] if self.loss_percent else []
        lines = [f"qdisc add dev {device} {_ROOT} netem limit {_MOST_QUEUED} {' '.join(netem)}"] if netem else []
        if self.rate_bps:
            burst = max(_LEAST_BURST_BYTES, round(self.rate_bps / 8 * _BURST_S))
            bucket = f"tbf rate {self.rate_bps:.0f}bit burst {burst} latency {1000 * _QUEUE_S:g}ms"
            lines.append(f"qdisc add dev {device} {_BELOW if netem else _ROOT} {bucket}")
        return lines

    def is_close_to(self, other: Impairment) -> bool:
        pairs = zip(asdict(self).values(), asdict(other).values(), strict=True)
        return all(math.isclose(a, b, rel_tol=_PRECISE) for a, b in pairs)

    def reasons(self, phase: str, reading: Reading) -> list[str]:
        """Return why a reading is faster than this link allows, so that the impairment did not act; [] if it is not."""
        trips_ms = [value for series in reading.series if series.name.startswith("rtt") for value in series.values]
        reasons = self.delay_reasons(phase, min(trips_ms)) if trips_ms else []
        if reading.lasted_s:
            reasons += self.rate_reasons(phase, reading.payload_bytes, reading.lasted_s)
        return reasons

    def rate_reasons(self, phase: str, n_bytes: float, lasted_s: float) -> list[str]:
        """Return a reason if more bytes arrived in `lasted_s` than rate, bucket and queue allow; [] otherwise."""
        if not self.rate_bps or 8 * n_bytes <= self.rate_bps * (_OVER * lasted_s + _BURST_S + _QUEUE_S):
            return []
        arrived_mbit_s, limit_mbit_s = 8 * n_bytes / lasted_s / 1e6, self.rate_bps / 1e6
        return [f"{phase}: {arrived_mbit_s:.1f} Mbit/s crossed a link of {limit_mbit_s:g} Mbit/s: its rate did not act"]

    def delay_reasons(self, phase: str, trip_ms: float) -> list[str]:
        if trip_ms >= _ROUNDED * 2 * self.delay_ms:
            return []
        return [
            f"{phase}: a round trip took {trip_ms:g} ms over a link that delays it by twice {self.delay_ms:g} ms: the"
            " delay did not act"
        ]


@contextmanager
def impaired(chain: Chain, impairment: Impairment, outcome: Outcome) -> Iterator[None]:
    """Impair the last link of a chain inside the `with` block; the trial is invalid if it was not impaired throughout.

    Raises: Unavailable when the kernel lacks the queueing discipline of the impairment, netem or tbf."""
    if not impairment:
        yield
        return
    host, devices = chain.sink.testbed.host, _devices(chain)
    plain_ms = _fastest_ms(chain) if impairment.delay_ms else None
    try:
        for netns, device in devices.values():
            _impair(host, netns, impairment.lines(device))
        if impairment.delay_ms:
            delayed_ms = _fastest_ms(chain)
            outcome.invalidate(_delay_reasons(impairment.delay_ms, plain_ms, delayed_ms))
            to_sink = "" if chain.sink.spec.role == "sink" else f" to the {chain.sink.spec.role}"
            outcome.notes[f"round_trip_ms{to_sink}"] = {"without delay": plain_ms, "with delay": delayed_ms}
        yield
        _judge(host, devices, impairment, outcome)
    finally:
        for netns, device in devices.values():
            host.run(["tc", "-n", netns, "qdisc", "del", "dev", device, "root"], check=False)


def _devices(chain: Chain) -> dict[str, tuple[str, str]]:
    """Return {receiving role: (namespace, name) of the device that sends to it} for both ends of the last link."""
    (near_end, near), (far_end, far) = chain.segments[-1].ends()
    devices = {}
    for end, port, other in ((near_end, near, far), (far_end, far, near)):
        if port.instance.takes_taps:  # the machine behind a tap receives what the kernel sends to the tap
            devices[port.instance.spec.role] = (port.instance.testbed.dut, end)
        else:
            devices[other.instance.spec.role] = (port.netns, port.name)
    return devices


def _impair(host: Host, netns: str, lines: Sequence[str]) -> None:
    try:
        host.run(["tc", "-n", netns, "-batch", "-"], stdin="\n".join(lines) + "\n")
    except CommandFailed as error:
        words = next(iter(error.stderr.strip().splitlines()), "tc printed no reason")
        kinds = " and ".join(dict.fromkeys("sch_netem" if "netem" in line else "sch_tbf" for line in lines))
        why = f"this kernel does not impair a link by {kinds}: {words}"
        raise Unavailable(why, f"use a kernel with {kinds}, {IN_A_GUEST}") from error


def _fastest_ms(chain: Chain) -> float | None:
    """Return the shortest of a few round-trip times from source to sink in ms; None if no ping was answered."""
    argv = ["ping", "-n", "-q", "-c", str(_PINGS), "-i", _PING_INTERVAL_S, "-W", "1", chain.path.sink]
    match = _FASTEST.search(chain.source.run(argv, timeout_s=20, check=False).text)
    return float(match[1]) if match else None


def _delay_reasons(delay_ms: float, plain_ms: float | None, delayed_ms: float | None) -> list[str]:
    """Return why a link does not delay packets once in each direction; [] if it does.

    `plain_ms` and `delayed_ms` are the shortest round trips without and with the delay."""
    if plain_ms is None or delayed_ms is None:
        return ["the impaired link: no ping was answered, so its delay is not known"]
    if reasons := Impairment(delay_ms).delay_reasons("the impaired link", delayed_ms):
        return reasons
    if delayed_ms - plain_ms <= 3 * delay_ms + _SLACK_MS:
        return []
    return [f"the impaired link: its delay of {delay_ms:g} ms made round trips {delayed_ms - plain_ms:g} ms longer"]


def _judge(host: Host, devices: Mapping[str, tuple[str, str]], wanted: Impairment, outcome: Outcome) -> None:
    """Note the settings and counters of the queueing disciplines; invalidate the trial if they are not as `wanted`."""
    notes: dict[str, object] = {}
    for role, (netns, device) in devices.items():
        shown = host.run_json(["tc", "-n", netns, "-j", "-s", "qdisc", "show", "dev", device])
        actual = Impairment.from_tc(shown)
        counts = {discipline["kind"]: (int(discipline["packets"]), int(discipline["drops"])) for discipline in shown}
        passed, dropped = counts.get("netem", counts.get("tbf", (0, 0)))
        lost = dropped - counts.get("tbf", (0, 0))[1]  # netem also counts the drops of the bucket below it
        notes[f"towards the {role}"] = {"shown": str(actual), "passed": passed, "lost": lost}
        if not actual.is_close_to(wanted):
            outcome.invalidate([f"the link towards the {role} had {actual} at the end instead of {wanted}"])
        elif not passed:
            outcome.invalidate([f"no packet passed the queueing discipline of the link towards the {role}"])
        else:
            n, probability = passed + lost, wanted.loss_percent / 100
            if abs(lost - n * probability) > _SIGMAS * math.sqrt(n * probability * (1 - probability)) + 1:
                text = f"the link towards the {role} lost {lost} of {n} packets"
                outcome.invalidate([f"{text} instead of {wanted.loss_percent:g} %"])
    known: Any = outcome.notes.get("impaired_link", {})
    outcome.notes["impaired_link"] = {**known, **notes}
    note_witness(outcome, "queueing disciplines", f"the last link: {wanted}, each way", list(devices))
