"""What sockperf says of requests and responses, and what it cannot have measured."""

from __future__ import annotations

import pytest

from lastro.errors import InstrumentError
from lastro.instruments.sockperf_rr import SockperfRr

SAID = (
    "sockperf: Starting test...\n"
    "sockperf: [Total Run] RunTime={lasted} sec; Warm up time=400 msec; SentMessages=50001; "
    "ReceivedMessages={answered}\n"
    "sockperf: ========= Printing statistics for Server No: 0\n"
    "sockperf: [Valid Duration] RunTime={valid} sec; SentMessages=40000; ReceivedMessages={received}\n"
    "sockperf: Summary: Latency is 2.639 usec\n"
    "sockperf: ---> percentile 99.900 =   90.500\n"
    "sockperf: ---> percentile 99.000 =   60.250\n"
    "sockperf: ---> percentile 90.000 =   31.500\n"
    "sockperf: ---> percentile 50.000 =   22.000\n"
)
WHOLE = {"lasted": "2.000", "answered": "50000", "valid": "1.600", "received": "40000"}


def test_transactions_are_those_of_the_time_without_the_warm_up() -> None:
    reading = SockperfRr().read(SAID.format(**WHOLE), 2)
    times_ms = {"tcp_transaction_p50": 0.044, "tcp_transaction_p90": 0.063, "tcp_transaction_p99": 0.1205}
    assert reading.measurements == {"tcp_transactions": 25_000.0, **times_ms}
    assert [(each.kind, each.metrics) for each in reading.remarks] == [("closed loop", tuple(times_ms))]
    assert (reading.payload_bytes, reading.lasted_s, reading.invalid_because) == (64 * 50_000, 2.0, ())


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"lasted": "2.300"}, "its clock is wrong"),
        ({"received": "0"}, "no TCP request was answered"),
    ],
)
def test_what_it_could_not_measure_is_invalid(said: dict[str, str], reason: str) -> None:
    (found,) = SockperfRr().read(SAID.format(**WHOLE | said), 2).invalid_because
    assert reason in found


def test_a_percentile_needs_enough_transactions() -> None:
    reading = SockperfRr().read(SAID.format(**WHOLE | {"received": "298", "valid": "2.0"}), 2)
    assert set(reading.measurements) == {"tcp_transactions", "tcp_transaction_p50", "tcp_transaction_p90"}
    with pytest.raises(InstrumentError, match="no percentiles"):
        SockperfRr().read(SAID.format(**WHOLE).replace("percentile", "part"), 2)


@pytest.mark.parametrize(
    "said", [{"received": "40001"}, {"answered": "39999"}, {"valid": "2.001"}, {"valid": "0.000"}, {"lasted": "two"}]
)
def test_what_contradicts_itself_is_refused(said: dict[str, str]) -> None:
    with pytest.raises(InstrumentError):
        SockperfRr().read(SAID.format(**WHOLE | said), 2)
