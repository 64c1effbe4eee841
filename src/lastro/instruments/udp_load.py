"""The base of the UDP instruments: bytes sent by the sender's clock, and bytes received by the receiver's clock."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from lastro.errors import InstrumentError
from lastro.instruments.base import UNWATCHED, Instrument, Watch, bounded, positive
from lastro.instruments.iperf3 import check_duration
from lastro.instruments.iperf3_udp import Iperf3Udp
from lastro.platforms.base import Instance
from lastro.results.samples import Metric, Reading
from lastro.study.model import DAY_S, Level, Setting
from lastro.units import parse_rate_bps

RATE = Setting("offered", "1G", "rate of a UDP flow in bit/s", check=parse_rate_bps)
DATAGRAM_BYTES = Setting("datagram_bytes", 1470, "payload of a datagram", 64, 1472)
LOAD_S = Setting("load_s", 10, "length of the flow, in whole seconds as iperf3 takes them", 1, DAY_S)
OFFERED = Metric("udp_offered", "Mbit/s", "neither", "UDP payload sent, by the sender's clock")
ACHIEVED = Metric("udp_throughput", "Mbit/s", "higher", "UDP payload that arrived, by the receiver's clock")
_JITTER, _LOSS = Iperf3Udp.metrics
_EXTRA = 16  # datagrams at the end of a flow, which only the sender or only the receiver may count


@dataclass(frozen=True, slots=True)
class UdpFlow:
    """One flow, as its sender and its receiver report it."""

    sent_bytes: float
    sent_s: float
    received_bytes: float
    received_s: float
    jitter_ms: float

    def reading(self, tool: str, duration_s: float, datagram_bytes: int) -> Reading:
        """Return the rates, the loss and the jitter; `tool` names the load generator in errors.

        A sender that does not reach the offered rate does not invalidate the trial. Loss is computed from the bytes at
        both ends: gaps in the sequence would miss the loss of the last datagrams.

        Raises: InstrumentError for impossible numbers."""
        sent_bytes = positive(f"{tool}'s number of bytes sent", self.sent_bytes)
        sent_s = positive(f"{tool}'s time of sending", self.sent_s)
        if self.received_bytes > sent_bytes + _EXTRA * datagram_bytes:
            raise InstrumentError(f"{tool} reports {self.received_bytes:g} bytes received but only {sent_bytes:g} sent")
        reasons = list(check_duration(sent_s, duration_s, tool))
        measured = {OFFERED.name: 8 * sent_bytes / sent_s / 1e6}
        measured[_LOSS.name] = 100 * max(0.0, 1 - self.received_bytes / sent_bytes)
        if self.received_bytes:
            received_s = positive(f"{tool}'s time of receiving", self.received_s)
            reasons += check_duration(received_s, duration_s, tool)
            measured |= {ACHIEVED.name: 8 * self.received_bytes / received_s / 1e6, _JITTER.name: self.jitter_ms}
        else:
            reasons.append("no UDP traffic arrived")
        why, n_bytes = tuple(dict.fromkeys(reasons)), int(self.received_bytes)
        reading = Reading(measured, payload_bytes=n_bytes, lasted_s=self.received_s, invalid_because=why)
        return bounded(UdpLoad.metrics, reading, duration_s)


@dataclass(frozen=True, slots=True)
class OfferedLoad:
    """The offered load: datagrams of one size at a nominal rate, for a time."""

    rate_bps: float
    datagram_bytes: int
    duration_s: float


class UdpLoad(Instrument):
    """Datagrams of one size at a nominal rate: settings `offered` (bit/s), `datagram_bytes` and `load_s`.

    `by_receiver` are the metrics that do not depend on the sender's clock. `packages` are the Debian packages that the
    tool needs in the image."""

    metrics = (OFFERED, ACHIEVED, _LOSS, _JITTER)
    by_receiver: ClassVar[frozenset[str]] = frozenset({ACHIEVED.name, _LOSS.name})
    packages: ClassVar[tuple[str, ...]] = ()
    tool: ClassVar[str]

    def measure(
        self, client: Instance, server: Instance, target: str, settings: Mapping[str, Level], watch: Watch = UNWATCHED
    ) -> Reading:
        offer = OfferedLoad(parse_rate_bps(RATE.of(settings)), DATAGRAM_BYTES.of(settings), LOAD_S.of(settings))
        flow = self.flow(client, server, target, offer, watch)
        return flow.reading(self.tool, offer.duration_s, offer.datagram_bytes)

    @abstractmethod
    def flow(self, client: Instance, server: Instance, target: str, offer: OfferedLoad, watch: Watch) -> UdpFlow:
        """Send one flow as `offer` describes it, and run the client's command inside `watch`.

        Raises: InstrumentError; CommandFailed; CommandTimeout."""
