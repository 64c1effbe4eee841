"""UDP loads: what two versions of iperf say of one flow, on real output, and on output that no tool should print.

The files `iperf2-udp*` in tests/data were captured from iperf 2.1.8 in Lastro's root filesystem over a veth pair: with
`--enhanced` and without, with a filter that dropped every fifth datagram, and with one that dropped all of them; and
from 2.2.1 of Debian 13 on a loopback."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastro.errors import InstrumentError
from lastro.instruments import iperf3
from lastro.instruments.iperf2_udp import Iperf2Udp
from lastro.instruments.iperf3_udp_load import Iperf3UdpLoad
from lastro.instruments.udp_load import UdpFlow, UdpLoad
from lastro.results.samples import Reading
from lastro.testing.replay import damaged_versions

from ...support.workload_samples import text_of

WHOLE = ["iperf2-udp.txt", "iperf2-udp-2.2.txt", "iperf2-udp-plain.txt", "iperf2-udp-loss.txt"]
GOOD = UdpFlow(1_470_000, 1.0, 1_323_000, 1.0, 0.01)


@pytest.mark.parametrize("name", WHOLE)
def test_real_output_of_iperf2_is_a_valid_reading(name: str) -> None:
    found = Iperf2Udp().read(text_of(name)).reading("iperf", 1, 1470)
    assert found.invalid_because == ()
    assert set(found.measurements) == {metric.name for metric in UdpLoad.metrics}
    assert found.measurements["udp_offered"] == pytest.approx(5 if "plain" in name else 20, rel=0.01)
    assert found.payload_bytes % 1470 == 0
    assert found.lasted_s == pytest.approx(1, rel=0.2)


def test_loss_is_what_the_two_ends_of_iperf2_counted() -> None:
    found = Iperf2Udp().read(text_of("iperf2-udp-loss.txt")).reading("iperf", 1, 1470)
    assert found.measurements["udp_loss"] == pytest.approx(100 * 357 / 1703)
    assert found.measurements["udp_throughput"] == pytest.approx(15.864, rel=0.001)
    assert found.payload_bytes == 1_978_620


def test_a_server_that_never_reported_is_no_measurement() -> None:
    with pytest.raises(InstrumentError, match="iperf printed no server report"):
        Iperf2Udp().read(text_of("iperf2-udp-no-report.txt"))


def test_the_format_of_older_versions_is_read() -> None:
    old = (
        "[  3]  0.0-10.0 sec  1252440000 Bytes  1001952000 bits/sec\n[  3] Sent 852000 datagrams\n"
        "[  3] Server Report:\n"
        "[  3]  0.0-10.0 sec  1252440000 Bytes  1001952000 bits/sec   0.011 ms    0/852000 (0%)\n"
    )
    assert Iperf2Udp().read(old) == UdpFlow(1_252_440_000, 10.0, 1_252_440_000, 10.0, 0.011)


def test_a_rate_that_is_not_bytes_over_time_and_a_loss_above_all_are_refused() -> None:
    text = text_of("iperf2-udp-loss.txt")
    with pytest.raises(InstrumentError, match=r"counts 2503410 bytes in .* but reports 99014191 bits/s"):
        Iperf2Udp().read(text.replace("20014191", "99014191"))
    with pytest.raises(InstrumentError, match="9357 lost datagrams of 1703"):
        Iperf2Udp().read(text.replace(" 357/", " 9357/"))


def read_or_refused(text: str) -> Reading | None:
    try:
        found = Iperf2Udp().read(text).reading("iperf", 1, 1470)
    except InstrumentError as error:
        assert len(error.message) < 1000
        return None
    assert all(math.isfinite(value) and value >= 0 for value in found.measurements.values())
    return found


@pytest.mark.parametrize("name", [*WHOLE, "iperf2-udp-no-report.txt"])
def test_damaged_output_of_iperf2_is_read_or_refused(name: str) -> None:
    """Never any other exception."""
    for version in damaged_versions(text_of(name)):
        read_or_refused(version)
    assert read_or_refused("") is None


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=400))
def test_anything_else_is_refused(text: str) -> None:
    assert read_or_refused(text) is None


# iperf3


def report(name: str) -> dict[str, Any]:
    return iperf3.parse(text_of(name), 0, "", ["iperf3"])


@pytest.mark.parametrize(
    ("name", "offered", "loss"),
    [
        ("iperf3-udp.json", 1, 0),
        ("iperf3-udp-loss.json", 2, 100 * 32 / 173),
        ("iperf3-udp-tail-loss.json", 2, 100 * 123 / 173),  # which iperf3 itself does not see
    ],
)
def test_real_reports_of_iperf3_are_valid_readings(name: str, offered: float, loss: float) -> None:
    found = Iperf3UdpLoad().read(report(name)).reading("iperf3", 1, 1448)
    assert found.invalid_because == ()
    assert found.measurements["udp_offered"] == pytest.approx(offered, rel=0.02)
    assert found.measurements["udp_loss"] == pytest.approx(loss)
    assert found.measurements["udp_throughput"] == pytest.approx(offered * (1 - loss / 100), rel=0.02)


@pytest.mark.parametrize("side", ["sum_sent", "sum_received"])
@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "12", None])
def test_a_number_of_iperf3_that_is_none_is_named(side: str, value: Any) -> None:
    damaged = copy.deepcopy(report("iperf3-udp.json"))
    damaged["end"][side]["bytes"] = value
    with pytest.raises(InstrumentError, match=f"{side}.bytes"):
        Iperf3UdpLoad().read(damaged)


# What holds for both


def test_rates_are_each_by_the_clock_of_their_own_end() -> None:
    found = replace(GOOD, sent_s=0.98, received_s=1.05).reading("it", 1, 1470).measurements
    assert found["udp_offered"] == pytest.approx(11.76 / 0.98)
    assert found["udp_throughput"] == pytest.approx(10.584 / 1.05)
    assert found["udp_loss"] == pytest.approx(10)


def test_a_sender_that_is_slower_than_its_rate_is_told_and_no_fault() -> None:
    found = GOOD.reading("it", 1, 1470)
    assert found.invalid_because == () and found.measurements["udp_offered"] == pytest.approx(11.76)


def test_a_flow_of_which_nothing_arrives_or_that_was_cut_short_is_doubted() -> None:
    nothing = replace(GOOD, received_bytes=0, received_s=0).reading("it", 1, 1470)
    assert nothing.invalid_because == ("no UDP traffic arrived",)
    assert nothing.measurements["udp_loss"] == 100 and "udp_throughput" not in nothing.measurements
    (reason,) = GOOD.reading("it", 10, 1470).invalid_because
    assert reason == "it says that it ran for 1.00 s instead of 10 s"


@pytest.mark.parametrize("changes", [{"sent_bytes": 0}, {"sent_s": 0}, {"received_s": 0}, {"received_bytes": 2e6}])
def test_what_cannot_be_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InstrumentError):
        replace(GOOD, **changes).reading("it", 1, 1470)


def test_the_datagrams_that_end_a_flow_may_be_counted_at_one_end_only() -> None:
    assert replace(GOOD, received_bytes=1_471_470).reading("it", 1, 1470).measurements["udp_loss"] == 0
