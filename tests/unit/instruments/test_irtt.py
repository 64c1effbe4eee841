"""irtt: what it reports, counted from when each datagram was due."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lastro.errors import InstrumentError
from lastro.instruments.irtt import Irtt, ProbedRoundTrips, loaded_reading, without_own_lateness

MS = 1_000_000


def trip(sent_ms: float, back_ms: float | None) -> dict[str, Any]:
    stamps: dict[str, Any] = {"send": {"wall": 0, "monotonic": round(sent_ms * MS)}}
    if back_ms is not None:
        stamps["receive"] = {"wall": 0, "monotonic": round(back_ms * MS)}
    return {"lost": "false" if back_ms is not None else "true", "timestamps": {"client": stamps}}


def report(*trips: dict[str, Any]) -> str:
    return json.dumps({"version": {}, "round_trips": list(trips)})


def read(*trips: dict[str, Any], interval_ms: float = 10) -> ProbedRoundTrips:
    return Irtt().read(report(*trips), interval_ms, len(trips) * interval_ms / 1000)


def test_a_datagram_on_time_counts_from_when_it_was_sent() -> None:
    found = read(*(trip(5 + 10 * n, 5.5 + 10 * n) for n in range(20)))
    assert found.trips_ms == pytest.approx([0.5] * 20)
    assert (found.late_ms, found.lost, found.sent) == (pytest.approx([0.0] * 20), 0, 20)


def test_a_late_datagram_counts_from_when_it_was_due() -> None:
    """irtt had no CPU for 4 ms: a user's packet would have waited as long."""
    found = read(trip(0, 1), trip(14, 15), trip(20, 21))
    assert found.trips_ms == pytest.approx([1, 5, 1])
    assert found.late_ms == pytest.approx([0, 4, 0])


def test_datagrams_that_a_stopped_sender_skipped_count_as_if_they_had_waited() -> None:
    """It sent at 0, and again at 35 ms: those of 10 and 20 ms would have left with that of 30 ms."""
    found = Irtt().read(report(trip(0, 1), trip(35, 36), trip(40, 41)), 10, 0.05)
    assert found.trips_ms == pytest.approx([1, 26, 16, 6, 1])
    assert found.late_ms == pytest.approx([0, 25, 15, 5, 0])
    assert loaded_reading(found).payload_bytes == 3 * Irtt.packet_bytes, "those that were skipped never left"


def test_a_percentile_among_lost_datagrams_has_no_value() -> None:
    found = ProbedRoundTrips((1.0,) * 80, (0.0,) * 100, 20, 80)
    reading = loaded_reading(found)
    assert reading.measurements == {"loss_loaded": 20, "latency_p50_loaded": 1.0}
    (remark,) = reading.remarks
    assert (remark.kind, remark.metrics) == ("among lost packets", ("latency_p95_loaded",))


def test_without_any_answer_the_trial_is_invalid() -> None:
    reading = loaded_reading(ProbedRoundTrips((), (0.0,) * 10, 10, 0))
    assert reading.measurements == {"loss_loaded": 100.0} and reading.invalid_because


def test_on_an_idle_link_too_no_latency_is_that_of_the_sender() -> None:
    kept, (remark,) = without_own_lateness(
        {"latency_mean": 0.3, "latency_max": 9.0, "ping_loss": 0.0}, {"latency_mean": 0.1, "latency_max": 8.0}
    )
    assert kept == {"latency_mean": 0.3, "ping_loss": 0.0} and remark.metrics == ("latency_max",)


def test_a_percentile_that_is_mostly_the_senders_own_is_marked() -> None:
    (remark,) = loaded_reading(ProbedRoundTrips((2.0,) * 60, (1.5,) * 60, 0, 60)).remarks[:1]
    assert remark.kind == "generator delay" and remark.metrics == ("latency_p50_loaded",)
    assert loaded_reading(ProbedRoundTrips((2.0,) * 60, (0.5,) * 60, 0, 60)).remarks == ()


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"round_trips": 3}', '{"round_trips": [{}]}', '{"round_trips": []}',
        report(trip(0, -1)), report(trip(5, 4), trip(15, 16)), report(trip(10, 11), trip(5, 6)),
        report(trip(0, 1), trip(10, 99_000_000)), report({**trip(0, 1), "lost": None}, trip(10, 5)),
        report({"lost": "false", "timestamps": {"client": {"send": {"monotonic": 1.5}, "receive": {"monotonic": 2}}}}),
    ],
)  # fmt: skip
def test_what_cannot_be_right_is_refused(text: str) -> None:
    with pytest.raises(InstrumentError):
        Irtt().read(text, 10, 0.02)


def test_far_fewer_datagrams_than_asked_are_no_measurement() -> None:
    with pytest.raises(InstrumentError, match="3 datagrams instead of 100"):
        Irtt().read(report(trip(0, 1), trip(10, 11), trip(20, 21)), 10, 1.0)
