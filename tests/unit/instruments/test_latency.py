"""Latency under an open load: what sockperf logs, from when each packet was due, and which percentiles are kept."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from lastro.errors import CommandFailed, InstrumentError
from lastro.host.base import Completed
from lastro.instruments.latency import MeasurementDisturbed, percentiles_reading
from lastro.instruments.load_generator import Direction, Traffic
from lastro.instruments.sockperf_latency import SockperfLatency
from lastro.results.samples import AMONG_LOST, AT_LEAST, GENERATOR_DELAY, TOO_FEW
from lastro.stats.histograms import Histogram

from ...support.recording import FakeInstance, answer

DATA = Path(__file__).parents[2] / "data" / "sockperf"
FROZEN = (DATA / "frozen-200ms.csv").read_text()  # 1,000 packets a second, the receiver frozen for 200 ms
LOST = (DATA / "frozen-and-lost.csv").read_text()  # 5,000 packets a second: its socket's buffer overflowed
US = 1000


def test_every_packet_due_in_a_freeze_is_counted_with_its_waiting() -> None:
    """One of ten asks for an answer, every 10 ms. The first waits for the whole freeze, each later one 10 ms less.

    All are answered when it ends, within the few milliseconds that this busy host took."""
    trips = SockperfLatency().read(FROZEN, 1000, 3)
    assert (len(trips.due_ns), trips.lost, trips.sent, trips.asked) == (253, 0, 3001, 300)
    waits_ms = (trips.answered_ns - trips.due_ns) / 1e6
    worst = int(waits_ms.argmax())
    assert waits_ms[worst] == pytest.approx(200, abs=10)
    ends_ms = trips.answered_ns[worst : worst + 19] / 1e6
    assert ends_ms.max() - ends_ms.min() < 8
    assert waits_ms[worst : worst + 19] == pytest.approx(np.arange(200, 10, -10), abs=8)
    assert np.diff(trips.due_ns) == pytest.approx([1e7] * 252, rel=1e-5), "due at a constant rate, whenever it left"
    assert (trips.due_ns <= trips.sent_ns).all()
    for q in (0.5, 0.9, 0.99, 0.999):
        raw = np.quantile(trips.answered_ns - trips.due_ns, q, method="inverted_cdf")
        assert trips.histogram.quantile(q) == pytest.approx(raw, rel=0.01)


def test_packets_without_an_answer_are_lost_and_the_others_keep_their_places() -> None:
    trips = SockperfLatency().read(LOST, 5000, 3)
    assert (trips.lost, trips.histogram.lost) == (86, 86)
    gaps = np.diff(trips.due_ns) / 2e6
    assert gaps == pytest.approx(gaps.round(), abs=1e-3), "whole periods"
    assert int(gaps.round().sum()) + 1 - len(trips.due_ns) == trips.lost


def test_no_answer_at_all_is_all_lost() -> None:
    trips = SockperfLatency().read(
        "sockperf: No messages were received from the server. Is the server down?\n", 1000, 2
    )
    assert (len(trips.due_ns), trips.lost, trips.rate_fps) == (0, 200, 1100)
    reading = percentiles_reading(trips.histogram, None, "{}".format)
    assert reading.measurements == {} and {remark.kind for remark in reading.remarks} == {AMONG_LOST, TOO_FEW}


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("SentMessages=3001", "SentMessages=9001", "sent 9001 packets"),
        ("dropped messages = 0", "dropped messages = 400", "253 of 3001 packets were answered and 400 were not"),
        ("out-of-order messages = 0", "out-of-order messages = 3", "3 answers came out of order"),
        ("# dropped", "dropped", "no summary"),
        ("packet, txTime", "txTime", "no complete table"),
        ("\n1, ", "\n7, ", "line 1 of sockperf's log is not a packet: '7, "),
        ("\n252, ", "\n252, 1.000000000, ", "line 252"),
    ],
)
def test_a_log_that_cannot_be_right_is_refused(old: str, new: str, why: str) -> None:
    assert old in FROZEN
    with pytest.raises(InstrumentError, match=why.replace("(", r"\(")):
        SockperfLatency().read(FROZEN.replace(old, new), 1000, 3)


@pytest.mark.parametrize(
    ("lasted", "sent", "why"),
    [
        ("3.307", 2934, "sockperf had no CPU at the end of its run: it ran for 3.307 s instead of 3 s"),
        ("3.307", 3308, "clock is wrong: it ran for 3 s, and measured 3.307 s"),
        ("2.700", 2701, "clock is wrong: it ran for 3 s, and measured 2.7 s"),
    ],
)
def test_a_run_of_another_length_was_disturbed(lasted: str, sent: int, why: str) -> None:
    """It keeps its rate by its own clock, 1,000 packets a second: only a clock that runs fast sends too many."""
    log = FROZEN.replace("RunTime=3.000", f"RunTime={lasted}").replace("SentMessages=3001", f"SentMessages={sent}")
    with pytest.raises(MeasurementDisturbed, match=re.escape(why)):
        SockperfLatency().read(log, 1000, 3)
    assert SockperfLatency().read(FROZEN.replace("RunTime=3.000", "RunTime=3.050"), 1000, 3).lasted_s == 3.05


def test_a_log_that_is_cut_is_refused() -> None:
    for end in range(0, len(FROZEN) - 10, 997):
        with pytest.raises(InstrumentError):
            SockperfLatency().read(FROZEN[:end], 1000, 3)


# Which percentiles are kept


def reading_of(n: int, lost: int = 0, own_us: float = 0.0) -> tuple[dict[str, float], dict[str, str]]:
    own = Histogram.of([round(own_us * US)] * 20_000) if own_us else None
    found = percentiles_reading(Histogram.of([100 * US] * n, lost), own, "{}".format)
    return found.measurements, {remark.metrics[0]: remark.kind for remark in found.remarks}


def test_all_percentiles_of_enough_packets() -> None:
    found, dropped = reading_of(10_000, own_us=49)
    assert dropped == {} and found == pytest.approx(dict.fromkeys(("p50", "p90", "p99", "p99_9", "max"), 100), rel=1e-3)


@pytest.mark.parametrize(
    ("n", "dropped"), [(9_999, {"p99_9"}), (999, {"p99", "p99_9"}), (19, {"p50", "p90", "p99", "p99_9"})]
)
def test_a_percentile_with_fewer_than_ten_packets_beyond_it_is_said_missing(n: int, dropped: set[str]) -> None:
    found, why = reading_of(n)
    assert why == dict.fromkeys(dropped, TOO_FEW) and not dropped & found.keys()


def test_a_percentile_of_lost_packets_has_no_value_and_the_maximum_is_of_the_answered_ones() -> None:
    found, why = reading_of(9_800, lost=200)
    assert why == {"p99": AMONG_LOST, "p99_9": AMONG_LOST, "max": AT_LEAST} and found.keys() == {"p50", "p90", "max"}


def test_packets_that_the_receiver_lost_do_not_make_a_percentile() -> None:
    """With 8 % of them, the 90th percentile is the 97.8th of the answered packets, which may be ten times as long."""
    trips = Histogram.of([100 * US] * 9_000 + [1_000 * US] * 200, lost=800)
    kept = percentiles_reading(trips, None, "{}".format)
    assert kept.measurements["p90"] == pytest.approx(100, rel=1e-3), "packets that the path lost"
    trips = Histogram.of([100 * US] * 8_900 + [1_000 * US] * 300, lost=800)
    assert percentiles_reading(trips, None, "{}".format, 0).measurements["p90"] == pytest.approx(1000, rel=1e-3)
    found = percentiles_reading(trips, None, "{}".format, 800)
    dropped = {remark.metrics[0]: remark.text for remark in found.remarks if remark.kind == GENERATOR_DELAY}
    assert dropped["p90"] == "1000.4 µs; 100.0 µs without the packets that the receiver lost"
    assert found.measurements["p50"] == pytest.approx(100, rel=1e-3)


def test_what_is_mostly_the_generators_own_delay_is_dropped() -> None:
    found, why = reading_of(10_000, own_us=51)
    assert found == {} and set(why.values()) == {GENERATOR_DELAY}


@pytest.mark.parametrize(("n_own", "dropped"), [(9_999, {"p99_9"}), (999, {"p99", "p99_9"}), (10_000, set())])
def test_what_the_generator_does_alone_is_not_known_from_few_packets(n_own: int, dropped: set[str]) -> None:
    found = percentiles_reading(Histogram.of([100 * US] * 10_000), Histogram.of([9 * US] * n_own), "{}".format)
    assert {remark.metrics[0]: remark.kind for remark in found.remarks} == dict.fromkeys(dropped, TOO_FEW)
    assert not dropped & found.measurements.keys() and "max" in found.measurements


# How it runs


def test_its_log_is_in_memory_and_is_read_after_its_end() -> None:
    """What it prints itself is not needed. The log is removed: a trial has several loads."""
    log = "/dev/shm/lastro-latency.csv"

    def answers(argv: Sequence[str]) -> Completed:
        return answer(FROZEN if argv[0] == "sh" else "sockperf: [SERVER] listen on:\n")

    sender = FakeInstance(answers, testbed=SimpleNamespace(usable_cpus=[2, 3]))
    trips = SockperfLatency().round_trips(_way(sender), Traffic.of("64"), 1100, 2)
    assert trips.sent == 3001
    (argv,) = sender.measured
    assert argv[:2] == ["sockperf", "under-load"] and argv[argv.index("--full-log") + 1] == log
    assert argv[argv.index("--sender-affinity") + 1] == "2"
    assert sender.commands == [argv, ["sh", "-c", 'cat "$1"; rm "$1"', "sh", log]]


def test_a_sockperf_that_fails_is_one_clear_error_and_its_log_is_not_read() -> None:
    sender = FakeInstance(lambda argv: answer(code=1, error="no route"), testbed=SimpleNamespace(usable_cpus=[2, 3]))
    with pytest.raises(CommandFailed, match="no route"):
        SockperfLatency().round_trips(_way(sender), Traffic.of("64"), 1100, 2)
    assert len(sender.commands) == 1


def test_it_answers_when_it_blocks_on_its_socket() -> None:
    receiver = FakeInstance()
    with SockperfLatency().answering(Direction(cast(Any, None), cast(Any, receiver), "198.18.1.10")) as server:
        assert server.alive()
    (argv,) = receiver.served
    assert argv[:4] == ["stdbuf", "-oL", "sockperf", "server"] and receiver.readiness == ["block on socket"]
    assert not server.alive()


def _way(sender: FakeInstance) -> Direction:
    return Direction(cast(Any, sender), cast(Any, None), "198.18.1.10")
