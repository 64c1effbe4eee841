"""What instruments make of their tools' output: real output, and output that no tool should print.

The files in tests/data were captured from iperf3 3.12 and ping (iputils 20221126) in Lastro's root filesystem on a
chain of runc containers, `ping-loss.txt` from one whose function dropped every fourth request; and from iperf3 3.18 of
Debian 13 on a loopback."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastro.errors import CommandFailed, CommandTimeout, InstrumentError
from lastro.host.base import Completed
from lastro.instruments import iperf3
from lastro.instruments.base import Watch
from lastro.instruments.iperf2_udp import Iperf2Udp
from lastro.instruments.iperf3_tcp import Iperf3Tcp
from lastro.instruments.iperf3_udp import Iperf3Udp
from lastro.instruments.ping import Ping
from lastro.results.samples import Reading

from ...support.recording import FakeInstance, answer

DATA = Path(__file__).parents[2] / "data"
ARGV = ("iperf3", "--client", "198.18.1.10")


def text_of(name: str) -> str:
    return (DATA / name).read_text()


def report(name: str) -> dict[str, Any]:
    return iperf3.parse(text_of(name), 0, "", ARGV)


# iperf3 over TCP


@pytest.mark.parametrize("name", ["iperf3-tcp.json", "iperf3-tcp-parallel.json", "iperf3-tcp-3.18.json"])
def test_tcp_throughput_is_what_the_receiver_counts(name: str) -> None:
    found = Iperf3Tcp().read(report(name), 1.0)
    received = json.loads(text_of(name))["end"]["sum_received"]
    assert found.invalid_because == ()
    assert found.measurements["throughput"] == pytest.approx(received["bits_per_second"] / 1e6)
    assert found.measurements["throughput"] == pytest.approx(
        8 * received["bytes"] / received["seconds"] / 1e6, rel=0.01
    )
    assert found.measurements["throughput"] > 100
    assert found.measurements["tcp_retransmits"] >= 0
    assert (found.payload_bytes, found.lasted_s) == (received["bytes"], received["seconds"])
    (series,) = found.series
    assert (series.name, series.unit, len(series.values)) == ("throughput", "Mbit/s", 1)
    assert series.values[0] == pytest.approx(found.measurements["throughput"], rel=0.1)


def test_every_second_of_a_test_is_kept() -> None:
    long = report("iperf3-tcp.json")
    long["intervals"] = [{"sum": {"bits_per_second": 1e9 * n}} for n in (1, 2, 3)]
    assert Iperf3Tcp().read(long, 1.0).series[0].values == (1000.0, 2000.0, 3000.0)


def test_a_test_without_traffic_or_cut_short_is_doubted() -> None:
    changed = report("iperf3-tcp.json")
    changed["end"]["sum_received"] |= {"bytes": 0, "seconds": 0.0, "bits_per_second": 0}
    reasons = Iperf3Tcp().read(changed, 5.0).invalid_because
    assert reasons == ("iperf3 says that it ran for 0.00 s instead of 5 s", "no TCP traffic reached the sink")


# iperf3 over UDP


@pytest.mark.parametrize(
    ("name", "rate_bps"), [("iperf3-udp.json", 1e6), ("iperf3-udp-parallel.json", 2e6), ("iperf3-udp-3.18.json", 2e7)]
)
def test_udp_jitter_and_traffic_are_the_receivers(name: str, rate_bps: float) -> None:
    found = Iperf3Udp().read(report(name), 1.0, rate_bps)
    received = json.loads(text_of(name))["end"]["sum_received"]
    assert found.invalid_because == ()
    assert found.measurements == {"jitter": received["jitter_ms"], "udp_loss": 0}
    assert 0 < found.measurements["jitter"] < 5
    assert found.payload_bytes == received["bytes"]


def test_lost_datagrams_are_no_payload() -> None:
    """A fifth was dropped at random: iperf3's own count of gaps says the same."""
    found = Iperf3Udp().read(report("iperf3-udp-loss.json"), 1.0, 2e6)
    assert found.measurements["udp_loss"] == pytest.approx(report("iperf3-udp-loss.json")["end"]["sum"]["lost_percent"])
    assert (found.payload_bytes, found.invalid_because) == (204_168, ())


def test_the_loss_of_the_last_datagrams_counts_although_iperf3_does_not_see_it() -> None:
    """Everything after the 50th of 173 was dropped. No later one shows the gap, so iperf3 reports a loss of 0 %."""
    tail = report("iperf3-udp-tail-loss.json")
    assert tail["end"]["sum"]["lost_percent"] == 0
    assert Iperf3Udp().read(tail, 1.0, 2e6).measurements["udp_loss"] == pytest.approx(100 * 123 / 173)


def test_a_udp_flow_of_which_nothing_arrives_is_doubted() -> None:
    lost = report("iperf3-udp.json")
    lost["end"]["sum_received"]["bytes"] = 0
    found = Iperf3Udp().read(lost, 1.0, 1e6)
    assert (found.measurements["udp_loss"], found.invalid_because) == (100, ("no UDP traffic reached the sink",))


def test_a_generator_that_does_not_keep_its_rate_is_the_bottleneck() -> None:
    (reason,) = Iperf3Udp().read(report("iperf3-udp.json"), 1.0, 2e6).invalid_because
    assert reason.startswith("the generator was the bottleneck: it offered 1.01 of 2.00 Mbit/s")


# Whatever else iperf3 may print


def test_the_tools_own_error_is_told() -> None:
    with pytest.raises(InstrumentError, match="unable to connect to server: Connection refused"):
        iperf3.parse(text_of("iperf3-unable-to-connect.json"), 1, "", ARGV)


@pytest.mark.parametrize(
    "text", ["", "<html><body>502</body></html>", "iperf3: error", '{"end": {', "\x00\xff", "[" * 10**5]
)
def test_what_is_no_report_is_refused(text: str) -> None:
    with pytest.raises(InstrumentError, match="printed"):
        iperf3.parse(text, 0, "", ARGV)
    with pytest.raises(CommandFailed, match="no such file"):
        iperf3.parse(text, 127, "no such file", ARGV)


@pytest.mark.parametrize("text", ["[]", "3", "null", '"fine"'])
def test_json_that_is_no_report_is_refused(text: str) -> None:
    with pytest.raises(InstrumentError, match="instead of a report"):
        iperf3.parse(text, 0, "", ARGV)


def test_a_good_report_of_a_failed_command_is_refused() -> None:
    with pytest.raises(CommandFailed, match="exited with 1"):
        iperf3.parse(text_of("iperf3-tcp.json"), 1, "", ARGV)


@pytest.mark.parametrize("cut", [1, 100, 1000, -3])
def test_a_truncated_report_is_refused(cut: int) -> None:
    with pytest.raises(InstrumentError, match="no JSON"):
        iperf3.parse(text_of("iperf3-tcp.json")[:cut], 0, "", ARGV)


NONSENSE = [-1, math.nan, math.inf, 10**400, "12", None, True, [], {}]


@pytest.mark.parametrize("value", NONSENSE, ids=lambda value: str(value)[:8])
@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("iperf3-tcp.json", ("end", "sum_received", "bits_per_second")),
        ("iperf3-tcp.json", ("end", "sum_received", "bytes")),
        ("iperf3-tcp.json", ("end", "sum_sent", "retransmits")),
        ("iperf3-udp.json", ("end", "sum_received", "jitter_ms")),
        ("iperf3-udp.json", ("end", "sum_received", "bytes")),
        ("iperf3-udp.json", ("end", "sum_sent", "seconds")),
    ],
)
def test_a_number_that_is_none_is_named(name: str, path: tuple[str, ...], value: Any) -> None:
    damaged = report(name)
    _put(damaged, path, value)
    with pytest.raises(InstrumentError, match=path[-1]):
        _read(name, damaged)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("iperf3-tcp.json", ("end",)),
        ("iperf3-tcp.json", ("end", "sum_sent")),
        ("iperf3-udp.json", ("start", "test_start")),
    ],
)
def test_a_missing_part_is_named(name: str, path: tuple[str, ...]) -> None:
    damaged = report(name)
    _put(damaged, path, None)
    with pytest.raises(InstrumentError, match=rf"has no {path[0]}\."):
        _read(name, damaged)


@pytest.mark.parametrize("intervals", [{}, "abc", 3, None, [None], [{}], [{"sum": []}]])
def test_intervals_that_are_none_are_refused(intervals: Any) -> None:
    with pytest.raises(InstrumentError):
        Iperf3Tcp().read(report("iperf3-tcp.json") | {"intervals": intervals}, 1.0)


@pytest.mark.parametrize(
    ("side", "key", "value"), [("sum_sent", "seconds", 0), ("sum_sent", "bytes", 0), ("sum_received", "bytes", 1e9)]
)
def test_impossible_numbers_of_udp_are_refused(side: str, key: str, value: float) -> None:
    damaged = report("iperf3-udp.json")
    damaged["end"][side][key] = value
    with pytest.raises(InstrumentError, match="impossible numbers"):
        Iperf3Udp().read(damaged, 1.0, 1e6)


def _put(tree: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        tree = tree[key]
    tree[path[-1]] = value


def _read(name: str, damaged: Any) -> Reading:
    return Iperf3Tcp().read(damaged, 1.0) if "tcp" in name else Iperf3Udp().read(damaged, 1.0, 1e6)


def _places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(place for key, child in children for place in _places(child, (*path, key)))]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["sum", "bytes", "x"]), inner, max_size=3)
    ),
    max_leaves=5,
)
REPORTS = {name: json.loads(text_of(name)) for name in ("iperf3-tcp-parallel.json", "iperf3-udp.json")}
PLACES = {name: _places(tree)[1:] for name, tree in REPORTS.items()}


@given(data=st.data(), name=st.sampled_from(sorted(REPORTS)))
def test_no_damage_to_a_report_is_a_traceback_or_a_nonsensical_measurement(data: st.DataObject, name: str) -> None:
    damaged = copy.deepcopy(REPORTS[name])
    _put(damaged, data.draw(st.sampled_from(PLACES[name])), data.draw(JSON))
    try:
        found = _read(name, iperf3.parse(json.dumps(damaged), 0, "", ARGV))
    except (InstrumentError, CommandFailed):
        return
    assert all(math.isfinite(value) and value >= 0 for value in found.measurements.values())
    assert found.payload_bytes >= 0


@given(data=st.data())
def test_no_damage_to_the_text_is_a_traceback(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["iperf3-tcp.json", "iperf3-udp.json", "ping.txt", "ping-loss.txt"]))
    text = text_of(name)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 200)))
    damaged = text[:start] + data.draw(st.text(max_size=20)) + text[end:]
    try:
        found = Ping().read(damaged) if "ping" in name else _read(name, iperf3.parse(damaged, 0, "", ARGV))
    except (InstrumentError, CommandFailed):
        return
    assert all(math.isfinite(value) and value >= 0 for value in found.measurements.values())


# ping


def test_every_round_trip_is_kept() -> None:
    found = Ping().read(text_of("ping.txt"))
    (series,) = found.series
    assert (series.name, series.unit, len(series.values)) == ("rtt", "ms", 100)
    summary = text_of("ping.txt").rpartition("= ")[2].split("/")  # min/avg/max/mdev, by ping itself
    assert min(series.values) == pytest.approx(float(summary[0]), abs=5e-4)
    assert found.measurements["latency_mean"] == pytest.approx(float(summary[1]), abs=1e-3)
    assert found.measurements["latency_max"] == pytest.approx(float(summary[2]), abs=5e-4)
    assert found.measurements["ping_loss"] == 0
    assert found.payload_bytes == 8400
    assert found.invalid_because == ()


def test_percentiles_only_where_the_sample_knows_them() -> None:
    assert {"latency_p50", "latency_p95"} <= Ping().read(text_of("ping.txt")).measurements.keys()
    assert "latency_p99" not in Ping().read(text_of("ping.txt")).measurements
    few = Ping().read(text_of("ping-loss.txt")).measurements
    assert "latency_p50" in few
    assert "latency_p95" not in few


def test_loss_is_a_measurement_and_no_reason() -> None:
    found = Ping().read(text_of("ping-loss.txt"))
    assert found.measurements["ping_loss"] == pytest.approx(25)
    assert len(found.series[0].values) == 15
    assert found.invalid_because == ()


def test_a_request_answered_twice_counts_once() -> None:
    """By hand: iputils marks the second answer."""
    first = next(line for line in text_of("ping-loss.txt").splitlines() if "icmp_seq=3 " in line)
    doubled = text_of("ping-loss.txt").replace(first, f"{first}\n{first.rpartition('time=')[0]}time=9.99 ms (DUP!)")
    assert Ping().read(doubled) == Ping().read(text_of("ping-loss.txt"))


def test_replies_count_on_when_the_sequence_starts_over() -> None:
    """icmp_seq has 16 bits: after 65,536 requests the numbers come again."""
    n = 70_000
    lines = [f"64 bytes from 198.18.1.10: icmp_seq={i % 65536} ttl=63 time=0.05 ms" for i in range(1, n + 1)]
    found = Ping().read("\n".join(lines) + f"\n\n{n} packets transmitted, {n} received, 0% packet loss\n")
    assert (found.measurements["ping_loss"], len(found.series[0].values)) == (0, n)


def test_no_reply_at_all_is_a_reason() -> None:
    found = Ping().read(text_of("ping-no-replies.txt"))
    assert found.measurements == {"ping_loss": 100.0}
    assert found.invalid_because == ("no echo request was answered",)


@pytest.mark.parametrize("text", ["", "ping: unknown host", "<html>", '{"end": {}}'])
def test_what_ping_never_prints_is_refused(text: str) -> None:
    with pytest.raises(InstrumentError, match="no summary"):
        Ping().read(text)


def test_more_replies_than_requests_are_refused() -> None:
    with pytest.raises(InstrumentError, match="counts 3 requests, but prints 15 replies"):
        Ping().read(text_of("ping-loss.txt").replace("20 packets transmitted", "3 packets transmitted"))


# How they run

OFFER = {"offered": "20M", "datagram_bytes": 1470, "load_s": 1}
RUNS: list[tuple[Any, dict[str, Any], str, list[str], list[str]]] = [
    (Iperf3Tcp(), {"tcp_s": 1, "tcp_streams": 1}, "iperf3-tcp.json", ["iperf3", "--server"], ["iperf3", "--client"]),
    (Iperf3Udp(), {"udp_s": 1, "udp_rate": "1M"}, "iperf3-udp.json", ["iperf3", "--server"], ["iperf3", "--client"]),
    (Iperf2Udp(), OFFER, "iperf2-udp.txt", ["iperf", "--server"], ["iperf", "--client"]),
    (Ping(), {"ping_s": 5, "ping_interval_ms": 100}, "ping.txt", [], ["ping", "-n"]),
]


@pytest.mark.parametrize(("tool", "settings", "file", "serves", "measures"), RUNS, ids=[run[0].name for run in RUNS])
def test_one_command_measures_and_its_server_is_ready_before_it(
    tool: Any, settings: dict[str, Any], file: str, serves: list[str], measures: list[str]
) -> None:
    """Neither prints anything that leaves its instance meanwhile, and nothing else runs in either."""
    order: list[str] = []

    class Noted(Watch):
        def __enter__(self) -> None:
            order.append("watch")

        def __exit__(self, *failure: object) -> None:
            order.append("watched")

    def printed(argv: Sequence[str]) -> Completed:
        order.append(argv[1])
        return answer(text_of(file))

    client, server = FakeInstance(printed), FakeInstance(lambda argv: order.append(argv[1]))
    found = tool.measure(client, server, "198.18.1.10", settings, Noted())
    assert found.measurements and found.invalid_because == ()
    assert [argv[:2] for argv in server.served] == ([serves] if serves else [])
    assert server.readiness == (["Server listening"] if serves else []) and server.commands == []
    (argv,) = client.measured
    assert argv[:2] == measures and client.commands == [argv] and "198.18.1.10" in argv
    assert order == [*serves[1:], "watch", argv[1], "watched"]


def test_a_server_that_is_not_ready_is_an_error_before_any_client_starts() -> None:
    client, server = FakeInstance(), FakeInstance(lambda argv: answer(error="unable to start listener"))
    with pytest.raises(CommandTimeout, match="iperf3 --server"):
        Iperf3Tcp().measure(client, server, "198.18.1.10", {"tcp_s": 1, "tcp_streams": 1})  # type: ignore[arg-type]
    assert client.measured == []
