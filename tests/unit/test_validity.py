"""Reasons why a trial cannot be used: each witness says so when it should, and only then."""

from __future__ import annotations

import pytest

from lastro.validity import ClockReading, HostLimits, clock_reasons, crossing_reasons, host_reasons, path_reasons

MB = 1_000_000
LIMITS = HostLimits(steal_percent=5.0, foreign_cpus=0.5)


def moved(source: int, arrived: int, left: int, sink: int, back: int = 2 * MB) -> dict[str, dict[str, int]]:
    """Bytes of a flow at the four ports; the way back carries acknowledgements, which nobody counts."""
    return {
        "source.out0": {"tx_bytes": source, "rx_bytes": back},
        "function.in0": {"rx_bytes": arrived, "tx_bytes": back},
        "function.out0": {"tx_bytes": left, "rx_bytes": back},
        "sink.in0": {"rx_bytes": sink, "tx_bytes": back},
        "source.lo": {"tx_bytes": 0, "rx_bytes": 0},
    }


def test_a_flow_that_took_its_way_is_accepted() -> None:
    assert path_reasons("tcp", moved(104 * MB, 104 * MB, 104 * MB, 104 * MB), 100 * MB) == []


def test_headers_and_retransmissions_are_no_reason() -> None:
    assert path_reasons("tcp", moved(107 * MB, 106 * MB, 105 * MB, 104 * MB), 100 * MB) == []
    assert path_reasons("ping", moved(8_000, 8_000, 8_000, 60_000), 8_400) == []  # the slack of a small flow


def test_a_shortcut_past_the_function_is_seen() -> None:
    reasons = path_reasons("tcp", moved(104 * MB, 1_000, 1_000, 104 * MB), 100 * MB)
    assert len(reasons) == 2
    assert reasons[0].startswith("tcp: function.in0 carried 1000 bytes of a flow of 100000000")
    assert "function.out0" in reasons[1]


def test_a_function_that_passes_part_of_the_flow_is_seen() -> None:
    (reason,) = path_reasons("tcp", moved(104 * MB, 104 * MB, 50 * MB, 104 * MB), 100 * MB)
    assert "function.out0" in reason


def test_foreign_traffic_on_the_path_is_seen() -> None:
    """All have carried the payload, and one received far more than was sent to it: somebody else is on the path."""
    (reason,) = path_reasons("udp", moved(10 * MB, 20 * MB, 10 * MB, 10 * MB), 10 * MB)
    assert "function.in0 carried 20000000 bytes, more than the 10000000 of source.out0: foreign traffic" in reason


def test_what_a_neighbour_sent_over_the_link_is_not_foreign_and_more_than_that_is() -> None:
    also = {"function.in0": "neighbour.load0"}
    flooded = {**moved(10 * MB, 20 * MB, 10 * MB, 10 * MB), "neighbour.load0": {"tx_bytes": 10 * MB}}
    assert path_reasons("udp", flooded, 10 * MB, also_sent=also) == []
    (reason,) = path_reasons("udp", {**flooded, "neighbour.load0": {"tx_bytes": MB}}, 10 * MB, also_sent=also)
    assert "function.in0 carried 20000000 bytes, more than the 11000000 of source.out0 and a neighbour" in reason


def test_loss_on_the_way_is_a_result_and_no_reason() -> None:
    """Of what was sent, a half was lost in the function and a part behind it; what arrived went the whole way."""
    assert path_reasons("udp", moved(100 * MB, 100 * MB, 50 * MB, 40 * MB), 40 * MB) == []


def test_a_missing_counter_is_no_proof() -> None:
    counters = moved(MB, MB, MB, MB)
    del counters["function.out0"], counters["sink.in0"]
    assert path_reasons("udp", counters, MB) == ["udp: no counters for function.out0, sink.in0"]


def test_no_traffic_needs_no_path() -> None:
    assert path_reasons("ping", moved(0, 0, 0, 0), 0) == []


@pytest.mark.parametrize(
    ("crossed_bytes", "accepted"), [(MB, True), (10**9, True), (MB // 2, False), (0, False), (None, False)]
)
def test_the_functions_own_counter_must_account_for_the_flow(crossed_bytes: int | None, accepted: bool) -> None:
    assert (crossing_reasons("tcp", crossed_bytes, MB) == []) is accepted


def test_a_counter_that_stood_still_is_no_proof_of_an_empty_flow() -> None:
    assert crossing_reasons("tcp", 0, 0) == ["tcp: the function's own counter saw 0 bytes of a flow of 0"]


@pytest.mark.parametrize(
    ("steal_percent", "foreign_cpus", "words"),
    [
        (0.0, 0.0, []),
        (5.0, 0.5, []),
        (5.1, 0.0, ["5.1 % of CPU time stolen"]),
        (0.0, 0.75, ["other processes used 0.75 CPUs (limit 0.5)"]),
        (99.0, 2.0, ["99.0 % of CPU time stolen", "other processes used 2.00 CPUs"]),
    ],
)
def test_a_disturbed_host_is_told_with_its_limits(steal_percent: float, foreign_cpus: float, words: list[str]) -> None:
    reasons = host_reasons(steal_percent, foreign_cpus, LIMITS)
    assert len(reasons) == len(words)
    assert all(word in reason for word, reason in zip(words, reasons, strict=True))


@pytest.mark.parametrize(
    ("step_s", "accepted"), [(0.0, True), (0.2, True), (-0.2, True), (0.3, False), (-3600, False), (1e9, False)]
)
def test_a_clock_that_was_set_is_seen(step_s: float, accepted: bool) -> None:
    before, after = ClockReading(100.0, 1_700_000_000.0), ClockReading(160.0, 1_700_000_060.0 + step_s)
    reasons = clock_reasons(before, after)
    assert (reasons == []) is accepted
    if not accepted:
        assert f"{step_s:+.2f} s" in reasons[0]


def test_the_clocks_of_this_moment_agree() -> None:
    assert clock_reasons(ClockReading.now(), ClockReading.now()) == []
