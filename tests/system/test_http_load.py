"""JMeter and vegeta against a small server in a namespace: right ones are measured, wrong ones are never fast."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lastro.host.local import LocalHost
from lastro.instruments.http_load import ClosedLoad, Endpoint, LoadOrigin, OpenLoad, RequestedPage
from lastro.instruments.jmeter import HOME, Jmeter
from lastro.instruments.vegeta import Vegeta
from lastro.results.samples import Reading

from ..support import httpserver

pytestmark = pytest.mark.root
# Where they could not be had (`lastro setup` said why), they cannot run.
needs_jmeter = pytest.mark.skipif(not Path(HOME).exists(), reason="no JMeter here, and no Maven to fetch it")
needs_vegeta = pytest.mark.skipif(shutil.which("vegeta") is None, reason="no vegeta here, and no Go to build it")
NETNS = "lastro-http-load"
ORIGIN, SECOND = Endpoint("198.18.200.1", 8080), Endpoint("198.18.200.2", 8080)
PAGE = RequestedPage.of(f"http://{ORIGIN}/object", httpserver.BODY)
ELSEWHERE = RequestedPage.of("http://198.18.200.3/object", httpserver.BODY)  # where nobody is: only a proxy has it


@pytest.fixture(scope="module")
def host() -> Iterator[LocalHost]:
    found = LocalHost()
    found.run(["ip", "netns", "add", NETNS])
    try:
        lines = ["link set lo up", *(f"address add {each.address}/32 dev lo" for each in (ORIGIN, SECOND))]
        found.run(["ip", "-n", NETNS, "-batch", "-"], stdin="\n".join(lines) + "\n")
        yield found
    finally:
        found.run(["ip", "netns", "del", NETNS])


@pytest.fixture
def station(host: LocalHost, tmp_path: Path) -> LoadOrigin:
    return LoadOrigin(host, ("ip", "netns", "exec", NETNS), str(tmp_path / "load"))


@contextmanager
def serving(host: LocalHost, fault: str = "none", every: float = 1, at: Endpoint = ORIGIN) -> Iterator[list[str]]:
    """The requests that came, which are known when the block has ended."""
    enter = ["ip", "netns", "exec", NETNS]
    argv = [*enter, sys.executable, httpserver.__file__, at.address, str(at.port), fault, str(every)]
    process, came = host.spawn(argv), list[str]()
    try:
        process.wait_line("ready", 20)
        yield came
    finally:
        came += process.stop().text.splitlines()[1:]


def sent(reading: Reading) -> int:
    told = reading.notes["http"]
    assert isinstance(told, dict)
    return int(told["sent"])


@needs_jmeter
def test_jmeter_sends_every_request_by_its_proxy_and_its_files_are_kept(host: LocalHost, station: LoadOrigin) -> None:
    load = ClosedLoad(ELSEWHERE, (ORIGIN, SECOND), clients=4, requests=25, warm_up=2)
    with host.recorded() as transcript, serving(host) as first, serving(host, at=SECOND) as second:
        reading = Jmeter().measure(station, load)
    assert reading.invalid_because == ()
    assert first == second == [ELSEWHERE.url] * (2 * (25 + 2) + 2)
    assert sent(reading) == len(first) + len(second)
    assert 0 < reading.measurements["request_time"] <= reading.measurements["request_cycle"]
    kept = [record["stdout"] for record in transcript.records if record["kind"] == "run" and record["argv"][0] == "dd"]
    assert "".join(kept) == Path(station.file("load.jtl")).read_text()
    assert Path(station.file("load.jmx")).read_text() in [record.get("text") for record in transcript.records]


@needs_jmeter
@pytest.mark.parametrize(
    ("fault", "every", "told"),
    [
        pytest.param("status", 30, "500 Internal Server Error", marks=pytest.mark.slow),
        pytest.param("length", 30, "wrong size", marks=pytest.mark.slow),
        pytest.param("short", 30, "ConnectionClosedException", marks=pytest.mark.slow),
        ("hang", 40, "SocketTimeoutException"),
        pytest.param("content", 3, "MD5 sum", marks=pytest.mark.slow),  # two of the requests are hashed
    ],
)
def test_what_goes_wrong_is_never_fast_by_jmeter(
    host: LocalHost, station: LoadOrigin, fault: str, every: int, told: str
) -> None:
    load = ClosedLoad(PAGE, clients=2, requests=25, warm_up=0, timeout_s=1)
    with serving(host, fault, every):
        reading = Jmeter().measure(station, load)
    assert told in reading.invalid_because[0], reading.invalid_because
    assert set(reading.measurements) == {"request_errors"} and reading.measurements["request_errors"] > 0
    assert reading.series == ()


@needs_vegeta
def test_vegeta_sends_at_its_rate_by_all_proxies(host: LocalHost, station: LoadOrigin) -> None:
    load = OpenLoad(ELSEWHERE, (ORIGIN, SECOND), rate_per_s=100, duration_s=2)
    with serving(host) as first, serving(host, at=SECOND) as second:
        reading = Vegeta().measure(station, load)
    assert reading.measurements["open_request_errors"] == 0
    assert sent(reading) == len(first) + len(second)
    assert abs(len(first) - len(second)) <= 3
    assert len(reading.series[0].values) == pytest.approx(200, abs=3)


@needs_vegeta
@pytest.mark.parametrize(
    ("fault", "every", "told"),
    [
        ("status", 30, "500 Internal Server Error"),
        ("length", 30, "16383 bytes instead of 16384"),
        ("short", 30, "unexpected EOF"),
        ("hang", 30, "deadline exceeded"),
    ],
)
def test_what_goes_wrong_is_never_fast_by_vegeta(
    host: LocalHost, station: LoadOrigin, fault: str, every: int, told: str
) -> None:
    with serving(host, fault, every):
        reading = Vegeta().measure(station, OpenLoad(PAGE, rate_per_s=100, duration_s=1, timeout_s=1))
    assert told in reading.invalid_because[0], reading.invalid_because
    assert set(reading.measurements) == {"open_request_errors"}


@needs_vegeta
def test_other_bytes_of_the_right_length_are_found_beside_vegeta(host: LocalHost, station: LoadOrigin) -> None:
    with serving(host, "content", 50):
        reading = Vegeta().measure(station, OpenLoad(PAGE, rate_per_s=100, duration_s=2))
    assert "is not the page" in reading.invalid_because[-1]


@needs_jmeter
@needs_vegeta
def test_a_server_that_stands_still_shows_in_the_open_loop_and_hides_from_the_closed_one(
    host: LocalHost, station: LoadOrigin
) -> None:
    """It answers only in every other half second: half of all moments are followed by a wait of 250 ms on average."""
    with serving(host, "stall", 1):
        opened = Vegeta().measure(station, OpenLoad(PAGE, rate_per_s=100, duration_s=3))
        closed = Jmeter().measure(station, ClosedLoad(PAGE, clients=1, requests=800, warm_up=5))
    assert opened.measurements["open_request_time"] == pytest.approx(125, rel=0.4)
    dropped = {name for remark in opened.remarks for name in remark.metrics}  # of a generator that had no CPU
    p95 = "open_request_time_p95"
    assert p95 in dropped or opened.measurements[p95] == pytest.approx(450, rel=0.3)
    assert closed.invalid_because == ()
    waited = [time_ms for time_ms in closed.series[0].values if time_ms > 100]
    assert 1 <= len(waited) < 30  # one for each half second, however long that was
    assert closed.measurements["request_time_p95"] < 100


@needs_jmeter
def test_a_server_that_does_not_answer_is_told_before_any_load(host: LocalHost, station: LoadOrigin) -> None:
    reading = Jmeter().measure(station, ClosedLoad(PAGE, timeout_s=1))
    assert reading.measurements == {} and "status 000" in reading.invalid_because[0]
