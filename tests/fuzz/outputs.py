"""The readers of what tools printed: each takes any text for numbers that are finite, or refuses it.

An input is the name of a recorded output, a line end, and the output itself."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from random import Random

from lastro import registry
from lastro.errors import InstrumentError
from lastro.instruments import iperf3
from lastro.instruments.ab import Ab
from lastro.instruments.curl import Curl
from lastro.instruments.http_load import ClosedLoad, OpenLoad, RequestedPage
from lastro.instruments.iperf2_udp import Iperf2Udp
from lastro.instruments.iperf3_tcp import Iperf3Tcp
from lastro.instruments.iperf3_udp import Iperf3Udp
from lastro.instruments.iperf3_udp_load import Iperf3UdpLoad
from lastro.instruments.irtt import Irtt, loaded_reading
from lastro.instruments.jmeter import Jmeter
from lastro.instruments.load_generator import SentLoad
from lastro.instruments.ping import Ping
from lastro.instruments.pktgen import Pktgen
from lastro.instruments.sockperf import Sockperf
from lastro.instruments.sockperf_latency import SockperfLatency
from lastro.instruments.sockperf_rr import SockperfRr
from lastro.instruments.trafgen import Trafgen
from lastro.instruments.vegeta import Vegeta
from lastro.results.samples import Reading

from ..support.httpserver import BODY
from ..support.workload_samples import DATA, SAMPLES
from .mutation import mutated


def _trip(n: int) -> dict[str, object]:
    times = {"send": {"monotonic": n * 10_000_000}, "receive": {"monotonic": n * 10_000_000 + 300_000}}
    return {"lost": "false", "timestamps": {"client": times}}


MOST_WORDS = 1000  # characters of a message
_PAGE = RequestedPage.of("http://198.18.200.1:8080/object", BODY)
_CURL = "0 200 16384 0.001 0\n0 200 16384 0.002 0\n1700000000.1 1700000000.2\n"
_SOCKPERF = "sockperf: Total of 100013 messages sent in 1.000 sec\n"
_SOCKPERF_RR = (
    "sockperf: [Total Run] RunTime=2.000 sec; Warm up time=400 msec; SentMessages=35410; ReceivedMessages=35409\n"
    "sockperf: [Valid Duration] RunTime=1.550 sec; SentMessages=29226; ReceivedMessages=29226\n"
    "sockperf: ---> percentile 99.000 =   60.270\n"
    "sockperf: ---> percentile 90.000 =   31.310\n"
    "sockperf: ---> percentile 50.000 =   22.004\n"
)
_TRAFGEN = "50000 packets outgoing\n 0 sec, 993211 usec on CPU0 (50000 packets)\n backlog 15780b 263p requeues 0\n"
_PKTGEN = """Current:
     pkts-sofar: 50000  errors: 0
     started: 5000000us  stopped: 5999990us idle: 900000us
Result: OK: 999990(c99990+d900000) usec, 50000 (60byte,0frags)
  50003pps 24Mb/sec (24001440bps) errors: 0
ran 998000000 ns
"""
_IRTT = json.dumps({"round_trips": [_trip(n) for n in range(5)]})


def _of_reading(reading: Reading) -> Iterator[float]:
    yield from reading.measurements.values()
    for series in reading.series:
        yield from series.values


def _of_load(offered: SentLoad) -> Iterator[float]:
    yield from (offered.rate_fps, offered.waited_s, offered.kernel_s)


def _round_trips(text: str) -> Iterator[float]:
    trips = SockperfLatency().read(text, 1000, 3)
    yield from (float(trips.lost), float(trips.sent), trips.lasted_s)
    for times in (trips.due_ns, trips.sent_ns, trips.answered_ns):
        yield from times.tolist()


Numbers = Callable[[str], Iterable[float]]


def _reading(read: Callable[[str], Reading]) -> Numbers:
    return lambda text: _of_reading(read(text))


def _json(text: str) -> Mapping[str, object]:
    return iperf3.parse(text, 0, "", ("iperf3",))


def _readers() -> dict[str, tuple[str, Numbers]]:
    """Return the recorded output and its reader, by name."""
    recorded: dict[str, Numbers] = {
        file: _reading(registry.get("instrument", name)(**options).read)
        for name, files in SAMPLES.items()
        for file, options in files
    }
    for file in ("iperf3-tcp.json", "iperf3-tcp-parallel.json"):
        recorded[file] = _reading(lambda text: Iperf3Tcp().read(_json(text), 1.0))
    for file in ("iperf3-udp.json", "iperf3-udp-loss.json"):
        recorded[file] = _reading(lambda text: Iperf3Udp().read(_json(text), 1.0, 1e6))
    for file in ("iperf2-udp.txt", "iperf2-udp-loss.txt"):
        recorded[file] = _reading(lambda text: Iperf2Udp().read(text).reading("iperf", 1, 1470))
    for file in ("ping.txt", "ping-loss.txt"):
        recorded[file] = _reading(Ping().read)
    straight = ClosedLoad(_PAGE, clients=2, requests=30, warm_up=0, keep_alive=False)
    recorded["jmeter-straight.jtl"] = _reading(lambda text: Jmeter().read(text, straight))
    open_loop = OpenLoad(_PAGE, rate_per_s=100, duration_s=0.5, keep_alive=False)
    recorded["vegeta-straight.csv"] = _reading(lambda text: Vegeta().read([text], open_loop))
    recorded["sockperf/frozen-200ms.csv"] = _round_trips
    found = {file: ((DATA / file).read_text(), numbers) for file, numbers in recorded.items()}
    pair = ClosedLoad(_PAGE, clients=1, requests=2, warm_up=0)
    return {
        **found,
        "iperf3 as a load": (
            found["iperf3-udp.json"][0],
            _reading(lambda text: Iperf3UdpLoad().read(_json(text)).reading("iperf3", 1, 1448)),
        ),
        "curl": (_CURL, _reading(lambda text: Curl().read(pair, text))),
        "irtt": (_IRTT, _reading(lambda text: loaded_reading(Irtt().read(text, 10, 0.05)))),
        "sockperf": (_SOCKPERF, lambda text: _of_load(Sockperf().read(text, 100_000, 1))),
        "ab": ((DATA / "ab.txt").read_text(), _reading(lambda text: Ab().read(text, 2))),
        "sockperf-rr": (_SOCKPERF_RR, _reading(lambda text: SockperfRr().read(text, 2))),
        "pktgen": (_PKTGEN, lambda text: _of_load(Pktgen().read(text, 1, 50_000, 1))),
        "trafgen": (_TRAFGEN, lambda text: _of_load(Trafgen().read(text, 50_000, 1))),
    }


READERS = cache(_readers)


def check(data: bytes) -> None:
    name, _, text = data.decode("utf-8", "replace").partition("\n")
    if name in READERS():
        with refusing():
            assert all(math.isfinite(number) for number in READERS()[name][1](text))


@contextmanager
def refusing() -> Iterator[None]:
    """Allow that output is refused; what a tool printed is made printable where the error is shown."""
    try:
        yield
    except InstrumentError as error:
        assert 0 < len(error.message) < MOST_WORDS, error.message


def seeds() -> Iterator[bytes]:
    for name, (text, _) in READERS().items():
        yield f"{name}\n{text}".encode()


def after_name(data: bytes, chance: Random) -> bytes:
    name, _, text = data.partition(b"\n")
    return name + b"\n" + mutated(text, text, chance)
