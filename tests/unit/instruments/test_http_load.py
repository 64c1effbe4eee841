"""HTTP loads: what JMeter and vegeta say of one, on real output, and on output that no tool should print.

The files were captured from JMeter 5.6.3 and vegeta 12.12.0 against tests/support/httpserver.py: straight with a
connection for each request, and by two proxies with connections that are kept."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastro.errors import InstrumentError
from lastro.instruments import _jmeter_plan, http_load
from lastro.instruments.http_load import ClosedLoad, Endpoint, OpenLoad, Request, RequestedPage
from lastro.instruments.jmeter import Jmeter
from lastro.instruments.vegeta import Vegeta
from lastro.results.samples import CLOSED_LOOP, GENERATOR_DELAY, OVERLOADED, Reading
from lastro.testing.replay import damaged_versions

from ...support.httpserver import BODY
from ...support.workload_samples import DATA, text_of

PROXIES = (Endpoint("198.18.200.1", 8080), Endpoint("127.0.0.1", 8080))
STRAIGHT = RequestedPage.of("http://198.18.200.1:8080/object", BODY)
THROUGH = RequestedPage.of("http://198.18.200.9/object", BODY)
CLOSED = {
    "jmeter-straight.jtl": ClosedLoad(STRAIGHT, clients=2, requests=30, warm_up=0, keep_alive=False),
    "jmeter-proxies.jtl": ClosedLoad(THROUGH, PROXIES, clients=3, requests=20, warm_up=2),
}
OPEN = {
    ("vegeta-straight.csv",): OpenLoad(STRAIGHT, rate_per_s=100, duration_s=0.5, keep_alive=False),
    ("vegeta-proxy-0.csv", "vegeta-proxy-1.csv"): OpenLoad(THROUGH, PROXIES, rate_per_s=80, duration_s=0.5),
}


def refused_or_finite(reading: Reading | None, prefix: str) -> None:
    if reading is not None:
        assert all(math.isfinite(value) and value >= 0 for value in reading.measurements.values())
        assert f"{prefix}request_time" not in reading.measurements or reading.measurements[f"{prefix}request_time"] > 0


def closed(text: str, load: ClosedLoad) -> Reading | None:
    try:
        return Jmeter().read(text, load)
    except InstrumentError:
        return None


def opened(tables: list[str], load: OpenLoad) -> Reading | None:
    try:
        return Vegeta().read(tables, load)
    except InstrumentError:
        return None


# JMeter


@pytest.mark.parametrize("name", CLOSED)
def test_real_results_of_jmeter_are_a_valid_reading(name: str) -> None:
    load = CLOSED[name]
    found = Jmeter().read(text_of(name), load)
    n = load.clients * load.requests
    assert found.invalid_because == ()
    assert len(found.series[0].values) == n and found.payload_bytes == n * len(BODY)
    assert found.measurements["request_time"] == pytest.approx(sum(found.series[0].values) / n)
    assert found.measurements["request_cycle"] > found.measurements["request_time"]
    assert "request_time_p95" in found.measurements and "request_time_p99" not in found.measurements  # 60 requests
    assert set(found.measurements) <= {metric.name for metric in Jmeter.metrics}


def test_a_clients_cycle_is_its_whole_time_by_its_requests() -> None:
    head = (
        "timeStamp,elapsed,label,responseCode,responseMessage,threadName,success,failureMessage,bytes,Latency,Connect\n"
    )
    rows = [(1000, 40), (1050, 60), (1120, 80)]
    text = head + "".join(f"{t},{e},request,200,OK,clients straight 1-1,true,,16499,{e},0\n" for t, e in rows)
    found = Jmeter().read(text, ClosedLoad(STRAIGHT, clients=1, requests=3, warm_up=0))
    assert found.measurements["request_time"] == 60
    assert found.measurements["request_cycle"] == pytest.approx(200 / 3)
    assert found.measurements["requests_per_s"] == pytest.approx(15)


def test_one_wrong_response_takes_all_times_and_rates_away() -> None:
    text = text_of("jmeter-straight.jtl").replace(
        "200,OK,clients straight 1-2,true,", "500,Oh no,clients straight 1-2,false,", 1
    )
    found = Jmeter().read(text, CLOSED["jmeter-straight.jtl"])
    assert found.measurements == {"request_errors": pytest.approx(100 / 60)} and not found.series
    assert found.invalid_because == ("1 of 60 requests got no correct response; 1 of them: 500 Oh no",)


def test_a_wrong_response_in_the_warm_up_counts_too() -> None:
    text = text_of("jmeter-proxies.jtl")
    line = next(line for line in text.splitlines() if "warm-up" in line)
    text = text.replace(line, line.replace("true,", "false,the hash is wrong"))
    found = Jmeter().read(text, CLOSED["jmeter-proxies.jtl"])
    assert (
        found.measurements == {}
        and "warm-up requests got no correct response: the hash is wrong" in found.invalid_because[0]
    )


def test_results_that_lack_requests_are_refused() -> None:
    lines = text_of("jmeter-straight.jtl").splitlines(keepends=True)
    for fewer in (lines[:-1], [*lines[:10], *lines[11:]], lines[:1], []):
        with pytest.raises(InstrumentError):
            Jmeter().read("".join(fewer), CLOSED["jmeter-straight.jtl"])


def test_a_status_that_jmeter_calls_a_success_is_not_believed() -> None:
    text = text_of("jmeter-straight.jtl").replace(",200,OK,", ",404,Gone,", 1)
    with pytest.raises(InstrumentError, match="404"):
        Jmeter().read(text, CLOSED["jmeter-straight.jtl"])


@pytest.mark.parametrize("name", CLOSED)
def test_damaged_results_of_jmeter_are_read_or_refused(name: str) -> None:
    for version in damaged_versions(text_of(name)):
        refused_or_finite(closed(version, CLOSED[name]), "")


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=400))
def test_anything_else_is_refused(text: str) -> None:
    assert closed(text, CLOSED["jmeter-straight.jtl"]) is None
    assert opened([text], OPEN["vegeta-straight.csv",]) is None


# The plan


def test_the_plan_is_the_one_that_people_can_read() -> None:
    load = ClosedLoad(RequestedPage.of("http://198.19.2.10/a?b=<&>", BODY), PROXIES, clients=3, requests=250, warm_up=5)
    assert _jmeter_plan.test_plan(load) == (DATA / "jmeter-plan.jmx").read_text()


@given(clients=st.integers(1, 100), requests=st.integers(1, 3000), n_proxies=st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_every_client_of_every_proxy_sends_its_requests(clients: int, requests: int, n_proxies: int) -> None:
    proxies = tuple(Endpoint(f"198.18.0.{n}", 3128) for n in range(n_proxies))
    load = ClosedLoad(STRAIGHT, proxies, clients=clients, requests=requests, warm_up=7)
    tree = ElementTree.fromstring(_jmeter_plan.test_plan(load)).find("hashTree/hashTree")
    assert tree is not None
    threads = 0
    for element, below in pairwise(tree):
        if element.tag in ("ThreadGroup", "SetupThreadGroup"):
            n = int(element.findtext("intProp[@name='ThreadGroup.num_threads']", "0"))
            loops = int(element.findtext(".//intProp[@name='LoopController.loops']", "0"))
            warm_up = element.tag == "SetupThreadGroup"
            assert loops * samples(below) == (7 if warm_up else requests)
            threads += 0 if warm_up else n
    assert threads == clients
    shares = [n for _, n in _jmeter_plan.clients_by_proxy(load)]
    assert max(shares) - min(shares) <= 1


def samples(tree: ElementTree.Element) -> int:
    """How many requests one pass through a tree makes."""
    n = 0
    for element, below in pairwise(tree):
        if element.tag == "HTTPSamplerProxy":
            n += 1
        elif element.tag == "LoopController":
            n += int(element.findtext("intProp[@name='LoopController.loops']", "0")) * samples(below)
    return n


# vegeta


@pytest.mark.parametrize("names", OPEN, ids=str)
def test_real_results_of_vegeta_are_a_valid_reading(names: tuple[str, ...]) -> None:
    load = OPEN[names]
    found = Vegeta().read([text_of(name) for name in names], load)
    assert found.invalid_because == ()
    assert found.measurements["open_rate"] == pytest.approx(load.rate_per_s, rel=0.05)
    assert len(found.series[0].values) == load.rate_per_s * load.duration_s
    assert found.measurements["open_request_time"] > found.measurements["open_lag"] > 0
    assert set(found.measurements) <= {metric.name for metric in Vegeta.metrics}


def test_what_went_through_each_proxy_is_told() -> None:
    two = (Endpoint("127.0.0.1", 8080), Endpoint("127.0.0.1", 8081))
    tables = ["".join(hit(n, at + 200 * n, 10) for n in range(25)) for at in (0, 100)]
    found = Vegeta().read(tables, OpenLoad(STRAIGHT, two, rate_per_s=10, duration_s=5))
    assert found.notes == {"sent": 58, "shares": [29, 29]}, "four checks beside the load, and two each around it"
    assert http_load.clients_per_proxy(ClosedLoad(STRAIGHT, two, clients=5)) == [3, 2]
    assert http_load.clients_per_proxy(ClosedLoad(STRAIGHT, clients=5)) == [5]


def hit(number: int, left_ms: float, took_ms: float, head: str = "Q29udGVudC1MZW5ndGg6IDE2Mzg0DQoNCg==") -> str:
    times = f"{10**18 + round(1e6 * left_ms)},200,{round(1e6 * took_ms)}"
    return f"{times},0,0,,,,{number},GET,{STRAIGHT.url},{head}\n"


def test_times_count_from_when_a_request_should_have_left() -> None:
    """Ten a second; the generator stood still from the third to the sixth, which all leave at once."""
    left_ms = [0, 100, 600, 600, 600, 600, 600, 700, 800, 900]
    table = "".join(hit(n, at_ms, 10) for n, at_ms in enumerate(left_ms))
    load = OpenLoad(STRAIGHT, rate_per_s=10, duration_s=1)
    found = Vegeta().read([table], load)
    assert found.series[0].values == pytest.approx((10, 10, 410, 310, 210, 110, 10, 10, 10, 10))
    assert found.measurements["open_lag"] == pytest.approx(100)
    assert "the generator was the bottleneck" in found.invalid_because[0]


def marks(took_ms: list[float], late_ms: list[float] | None = None) -> dict[str, tuple[str, ...]]:
    """Of an open loop of a hundred requests per second: what is remarked on which metrics."""
    late = late_ms or [0.0] * len(took_ms)
    table = "".join(hit(n, 10 * n + late[n], took_ms[n] - late[n]) for n in range(len(took_ms)))
    found = Vegeta().read([table], OpenLoad(STRAIGHT, rate_per_s=100, duration_s=len(took_ms) / 100))
    assert found.invalid_because == ()
    dropped = [name for remark in found.remarks for name in remark.metrics if remark.kind == GENERATOR_DELAY]
    assert not set(dropped) & set(found.measurements)
    return {remark.kind: remark.metrics for remark in found.remarks}


def test_more_than_is_answered_is_marked_whatever_the_times() -> None:
    """At 80 a second of 100, each waits 2.5 ms more than the one before. A steady wait, however long, is no backlog."""
    assert OVERLOADED in marks([20 + 2.5 * n for n in range(400)])
    assert marks([500.0] * 400) == {}
    assert marks([20.0] * 399 + [2000.0]) == {}, "the last one alone"


def test_a_tail_that_is_the_generators_own_is_dropped() -> None:
    """Of 400 requests, 8 left 40 ms late: of the 99th percentile most, of the mean little."""
    late = [40.0 if n % 50 == 20 else 0.0 for n in range(400)]
    assert marks([20.0 + own for own in late], late) == {GENERATOR_DELAY: ("open_request_time_p99",)}


def test_a_generator_that_sends_too_little_is_told() -> None:
    table = "".join(hit(n, 100 * n, 10) for n in range(8))
    found = Vegeta().read([table], OpenLoad(STRAIGHT, rate_per_s=10, duration_s=1))
    assert found.invalid_because == ("the generator was the bottleneck: it sent 8.0 of 10 requests/s",)


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        (",200,", ",503,", "status 503"),
        (",0,0,,,", ",0,0,context deadline exceeded,,", "context deadline exceeded"),
        ("Q29udGVudC1MZW5ndGg6IDE2Mzg0DQoNCg==", "Q29udGVudC1MZW5ndGg6IDE2DQoNCg==", "16 bytes instead of 16384"),
        ("Q29udGVudC1MZW5ndGg6IDE2Mzg0DQoNCg==", "", "the response has no Content-Length"),
    ],
)
def test_one_wrong_answer_takes_times_and_rates_of_the_open_loop_away(old: str, new: str, wrong: str) -> None:
    table = "".join(hit(n, 100 * n, 10) for n in range(10)).replace(old, new, 1)
    found = Vegeta().read([table], OpenLoad(STRAIGHT, rate_per_s=10, duration_s=1))
    assert found.measurements == {"open_request_errors": 10.0}
    assert found.invalid_because == (f"1 of 10 requests got no correct response; 1 of them: {wrong}",)


@pytest.mark.parametrize("names", OPEN, ids=str)
def test_damaged_results_of_vegeta_are_read_or_refused(names: tuple[str, ...]) -> None:
    first, *others = (text_of(name) for name in names)
    for version in damaged_versions(first):
        refused_or_finite(opened([version, *others], OPEN[names]), "open_")


def test_vegetas_command_can_be_typed() -> None:
    script = Vegeta().script("/var/tmp/load", replace(OPEN["vegeta-proxy-0.csv", "vegeta-proxy-1.csv"], duration_s=3))
    assert script.count("vegeta attack -rate=1/25000000ns -duration=3s") == 2
    assert "http_proxy=http://127.0.0.1:8080 vegeta" in script and script.count("\ncheck ") == 2


# Both


def test_percentiles_of_a_closed_loop_are_marked_and_those_of_an_open_one_are_not() -> None:
    some = [Request(float(i), 5.0, "1") for i in range(60)]
    (remark,) = http_load.read("", some, STRAIGHT).remarks
    assert remark.kind == CLOSED_LOOP and remark.metrics == ("request_time_p50", "request_time_p95")
    assert http_load.read("open_", some, STRAIGHT).remarks == ()


@pytest.mark.parametrize(("n", "names"), [(58, {"p50"}), (59, {"p50", "p95"}), (2995, {"p50", "p95", "p99", "p99_9"})])
def test_percentiles_only_where_the_sample_knows_them(n: int, names: set[str]) -> None:
    found = http_load.read("", [Request(float(i), 5.0, "1") for i in range(n)], STRAIGHT)
    assert {
        name.removeprefix("request_time_") for name in found.measurements if "_p" in name and "per" not in name
    } == names


def test_what_curl_had_is_compared_whole() -> None:
    right = f"check 198.18.200.1:8080 200 {len(BODY)} {STRAIGHT.sha256} -\n"
    assert http_load.check_reasons(2 * right, STRAIGHT, 2) == []
    assert http_load.check_reasons(right, STRAIGHT, 2) == ["1 of 2 bodies were checked"]
    for wrong in (
        right.replace(" 200 ", " 502 "),
        right.replace(STRAIGHT.sha256, "0" * 64),
        "check straight\n",
        "check\n",
    ):
        assert len(http_load.check_reasons(wrong, STRAIGHT, 1)) == 1
