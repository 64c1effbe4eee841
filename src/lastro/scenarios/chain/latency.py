"""The latency of a chain: while it is idle, and during a TCP stream over the same path."""

from __future__ import annotations

from collections.abc import Mapping

from lastro.functions.dpi import SIGNATURE
from lastro.instruments import iperf3
from lastro.instruments.ab import CRR_S, Ab
from lastro.instruments.base import UNWATCHED, Instrument, Watch
from lastro.instruments.iperf3_tcp import TCP_STREAMS
from lastro.instruments.irtt import LOADED, LOADED_LOSS, LOADED_S, PROBE_INTERVAL_MS, Irtt, without_own_lateness
from lastro.instruments.load_generator import Direction
from lastro.instruments.ping import MARKED_PERCENT, PATTERN, PING_INTERVAL_MS, PING_S, Ping, echo_requests, idle_reading
from lastro.instruments.sockperf_rr import RR_S, SockperfRr
from lastro.platforms.base import AVAILABLE, Availability, Instance
from lastro.results.samples import Metric, Reading
from lastro.scenarios.base import Config
from lastro.scenarios.shared.awake import CPUS_IDLE
from lastro.scenarios.shared.flow import rest
from lastro.study.model import Level, Setting

TRANSACTIONS = ((RR_S, SockperfRr), (CRR_S, Ab))  # (length, which may be 0, and instrument)
PING, IRTT = Ping.name, Irtt.name
LATENCY_TOOL = Setting(
    "latency_tool", PING, "what measures latency on the idle link", choices=(PING, IRTT), by_profile=True
)
SETTINGS = (PING_S, PING_INTERVAL_MS, LATENCY_TOOL, PROBE_INTERVAL_MS, MARKED_PERCENT, CPUS_IDLE, LOADED_S)
LOADED_METRICS: tuple[Metric, ...] = (*LOADED, LOADED_LOSS)
_RAMP_S, _MARGIN_S, _PATIENCE_S = 0.5, 10.0, 15.0  # until TCP has its window; the stream outlasts the probe
_LEAST_LOAD = 0.5  # of the throughput that the trial measured without a probe


class IdleByIrtt(Instrument):
    """irtt instead of ping: the same metrics, timed from when each datagram was due, at shorter intervals."""

    name, summary, version_argv, metrics = IRTT, Irtt.summary, Irtt.version_argv, Ping.metrics

    def measure(
        self, client: Instance, server: Instance, target: str, settings: Mapping[str, Level], watch: Watch = UNWATCHED
    ) -> Reading:
        probed = Irtt().probe(Direction(client, server, target), PING_S.of(settings), settings, watch)
        if not probed.trips_ms:
            return Reading({"ping_loss": 100.0}, invalid_because=("no datagram of irtt was answered",))
        reading = idle_reading(probed.trips_ms, probed.sent, Irtt.packet_bytes)
        sent_late = idle_reading(probed.late_ms, probed.sent, Irtt.packet_bytes).measurements  # the same statistics
        measurements, remarks = without_own_lateness(reading.measurements, sent_late)
        return Reading(
            measurements,
            reading.series,
            payload_bytes=Irtt.packet_bytes * probed.answered,
            really={"latency on the idle link": f"by irtt, every {PROBE_INTERVAL_MS.of(settings):g} ms, from when due"},
            remarks=remarks,
        )


def idle_instrument(config: Config) -> Instrument:
    """Return the instrument that measures latency on the idle chain, as the setting `latency_tool` says."""
    return IdleByIrtt() if LATENCY_TOOL.of(config) == IRTT else Ping()


def signed(config: Config) -> Config:
    """Return the settings of a treatment, plus the signature that ping puts into the payload of some requests."""
    return {**config, PATTERN: SIGNATURE.encode().hex()}


def signable(config: Config) -> Availability:
    """Return whether the treatment's latency tool can send requests with the signature, if any are asked for."""
    if MARKED_PERCENT.of(config) and (tool := LATENCY_TOOL.of(config)) != PING:
        why = f"{MARKED_PERCENT.name} is about ping, and {tool} measures the latency"
        return Availability(why, f'set latency_tool = "{PING}", or {MARKED_PERCENT.name} = 0')
    return AVAILABLE


def missed_redirections(reading: Reading, redirected: int, config: Config) -> list[str]:
    """Return a reason if the function redirected too few of the requests with its signature; else [].

    `redirected` is how many it redirected. Lost requests may be missing among them."""
    n, marked = echo_requests(signed(config))
    n_lost = round(n * reading.measurements.get("ping_loss", 0.0) / 100)
    if redirected >= marked - n_lost:
        return []
    return [f"ping: the function redirected {redirected} of {marked} requests with its signature"]


def image_packages(config: Config) -> tuple[str, ...]:
    """Return the Debian packages that the instruments of a treatment need in the root filesystem."""
    irtt = Irtt.packages if LATENCY_TOOL.of(config) == IRTT or LOADED_S.of(config) else ()
    return (*irtt, *(package for length, tool in TRANSACTIONS if length.of(config) for package in tool.packages))


class BesideTcp(Instrument):
    """irtt, which measures latency during a TCP stream over the same path."""

    name, summary, version_argv, metrics = "irtt beside TCP", Irtt.summary, Irtt.version_argv, LOADED_METRICS

    def measure(
        self, client: Instance, server: Instance, target: str, settings: Mapping[str, Level], watch: Watch = UNWATCHED
    ) -> Reading:
        port, seconds = str(iperf3.PORT), LOADED_S.of(settings) + _MARGIN_S
        stream = ["iperf3", "--client", target, "--port", port, "--time", f"{seconds:.0f}", "--forceflush"]
        stream += ["--parallel", str(TCP_STREAMS.of(settings))]
        with (
            server.during(["iperf3", "--server", "--one-off", "--forceflush", "--port", port], "Server listening"),
            client.during(stream, "connected to", _PATIENCE_S),
        ):
            rest(_RAMP_S)
            return Irtt().measure(client, server, target, settings, watch)


def load_reasons(carried_bytes: int, elapsed_s: float, throughput_mbit_s: float) -> list[str]:
    """Return a reason if the TCP stream during the latency probe carried less than half of the throughput; else [].

    `throughput_mbit_s` is what the trial measured without the probe."""
    carried_mbit_s = 8 * carried_bytes / elapsed_s / 1e6
    if carried_mbit_s >= _LEAST_LOAD * throughput_mbit_s:
        return []
    return [
        f"latency under load: the TCP stream carried {carried_mbit_s:.0f} Mbit/s beside the probe, less than half of"
        f" the {throughput_mbit_s:.0f} Mbit/s without it"
    ]
