"""The schedule of an open load, found from the times when packets left."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from lastro.instruments._schedule import due_times

Times = NDArray[np.float64]
N = 6000


def sent_at(due: Times, stops: dict[int, float], period_ns: float, seed: int) -> Times:
    """When packets leave a generator that is `stops`ped at packets for so many nanoseconds, and then catches up."""
    jitter = np.random.default_rng(seed).exponential(0.03 * period_ns, len(due))
    sent, free = np.empty(len(due)), 0.0
    for at, ready in enumerate(due + jitter):
        free = max(free + 0.02 * period_ns, ready)
        free = max([free, *(due[stop] + length for stop, length in stops.items() if due[stop] <= free)])
        sent[at] = free
    return sent


@pytest.mark.parametrize(("period_ns", "really_ns"), [(1e6, 1e6), (1e5, 99_995.0), (5e4, 49_996.0)])
@pytest.mark.parametrize("stops", [{}, {2000: 2e7}, {0: 1e8, 4500: 5e6}])
@pytest.mark.parametrize("lost", [0.0, 0.002])
def test_packets_are_due_when_they_were(
    period_ns: float, really_ns: float, stops: dict[int, float], lost: float
) -> None:
    """Whatever the generator did, and although its period is rounded: the error is below a hundredth of a period."""
    due = 1e9 + np.arange(N) * really_ns
    sent = sent_at(due, stops, period_ns, 3)
    burst = np.zeros(N, bool)
    for at, length in stops.items():  # a packet that is lost in a burst could be any of the burst
        burst[at : at + int(1.1 * length / really_ns) + 2] = True
    kept = (np.random.default_rng(5).random(N) >= lost) | burst
    found = due_times(sent[kept], period_ns, lost > 0, (-10.0, 1.0))
    assert np.abs(found - due[kept]).max() < 0.01 * period_ns


def test_no_packet_is_early() -> None:
    rng = np.random.default_rng(1)
    sent = np.sort(rng.uniform(0, 1e9, 1000))
    assert (due_times(sent, 1e6, True, (-10.0, 1.0)) <= sent + 1e-3).all()


def test_lost_packets_leave_their_places_empty() -> None:
    due = np.arange(1000) * 1e5
    kept = np.ones(1000, bool)
    kept[200:400] = False
    assert np.abs(due_times(due[kept], 1e5, True) - due[kept]).max() < 1


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_packets(n: int) -> None:
    sent = np.arange(n) * 1e6
    assert due_times(sent, 1e6, True, (-1.0, 1.0)).tolist() == pytest.approx(sent.tolist())


def test_late_packets_among_lost_ones_do_not_move_the_schedule() -> None:
    """A busy host makes many packets late by up to two periods: all others stay where they were."""
    rng = np.random.default_rng(8)
    due = np.arange(N) * 1e6
    stops = {int(at): float(rng.uniform(0.4e6, 2e6)) for at in range(20, N, 40)}
    sent = sent_at(due, stops, 1e5, 9)
    kept = rng.random(N) >= 0.05
    errors = np.abs(due_times(sent[kept], 1e6, True, (-10.0, 1.0)) - due[kept])
    assert np.median(errors) < 0.01e6 and np.mean(errors > 0.01e6) < 0.02
