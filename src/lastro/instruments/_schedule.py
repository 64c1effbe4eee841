"""When a packet should have left, from the times when it did: waiting counts from there, so that no delay hides.

A generator that keeps a constant rate sends packet n at `begin + n * period`, or as soon after as it can. When it is
late, it catches up. So its schedule is the latest line of this slope that no packet precedes. A generator that is
stopped, or blocked by a full queue, then shows its own delay in every packet that was due meanwhile (coordinated
omission: Tene 2013). Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Times = NDArray[np.float64]

_WINDOW = 512  # packets in which the schedule drifts by much less than a period
_ALIKE = 0.5  # the length of the mean of unit vectors with these phases; 1 if all are equal
_EARLY = 0.02  # of a period: how much the phase of a packet on time varies
_ON_TIME = 0.05  # of the packets, at least
_ROUNDS, _SLOPES = 4, 21  # of the search for the period, at least
_ENOUGH = 20_000  # packets for that search
_CLOSE_NS = 1.0  # by which the last packet may be wrong after it


def due_times(sent_ns: Times, period_ns: float, gaps: bool, slack_ns: tuple[float, float] = (0.0, 0.0)) -> Times:
    """Return when each packet was due, in nanoseconds, from the times when they left, in order.

    `gaps` is true if some packets of the schedule are not among them, such as those without an answer: their places are
    found by the phase of the others. The true period differs from `period_ns` by `slack_ns`, such as (-1, 0), at most:
    generators round it to ticks of their clock."""
    if not len(sent_ns):
        return sent_ns
    if gaps:
        middle_ns, slack = period_ns + sum(slack_ns) / 2, (slack_ns[1] - slack_ns[0]) / 2 / period_ns
        places = _places((sent_ns - sent_ns[0]) / middle_ns, slack)
    else:
        places = np.arange(len(sent_ns), dtype=np.float64)
    early_ns = sent_ns - places * period_ns  # relative to a schedule that begins at 0
    slope_ns = _slope(places, early_ns, *slack_ns)
    left_ns = early_ns - slope_ns * places
    # A place may be one too high if a packet was late by a whole period and others are missing: it then seems early.
    begin_ns = _densest(left_ns)[0] if gaps else float(left_ns.min())
    return np.minimum(sent_ns, begin_ns + places * (period_ns + slope_ns))


def _slope(places: Times, early_ns: Times, low: float, high: float) -> float:
    """Return how much longer than its nominal value the period is, in nanoseconds, from `low` to `high`.

    With the right period, the packets that were sent on time are the closest to their schedule: the shortest interval
    that holds their deviations is the narrowest."""
    best, every = (low + high) / 2, math.ceil(len(places) / _ENOUGH)
    places, early_ns = places[::every], early_ns[::every]
    rounds = math.ceil(math.log10(max(1.0, (high - low) * float(places[-1]) / _CLOSE_NS)))
    for _ in range(max(_ROUNDS, rounds) if low < high else 0):
        slopes = np.linspace(low, high, _SLOPES)
        widths = [width for slope in slopes for _, width in [_densest(early_ns - slope * places)]]
        best, step = float(slopes[int(np.argmin(widths))]), (high - low) / (_SLOPES - 1)
        low, high = best - step, best + step
    return best


def _densest(values: Times) -> tuple[float, float]:
    """Return the lower end and the width of the shortest interval that holds the packets on time."""
    ordered = np.sort(values)
    n = min(len(ordered) - 1, max(2, int(_ON_TIME * len(ordered))))
    widths = ordered[n:] - ordered[: len(ordered) - n]
    at = int(widths.argmin())
    return float(ordered[at]), float(widths[at])


def _places(turns: Times, slack: float) -> Times:
    """Return the number of each packet in the schedule, from 0, if some are missing.

    `turns` are the times in periods, which may be wrong by the fraction `slack` at most.

    Many packets leave on time, so their phases are alike, and their places are certain. A packet that is late has the
    place before it, which is too high if it is late by more than a period. But no two packets have the same place, so a
    burst that catches up is numbered from its end."""
    windows = [turns[start : start + _WINDOW] for start in range(0, len(turns), _WINDOW)]
    of_windows = [_phase(window) for window in windows]
    likeness = np.array([each for _, each in of_windows])
    alike = likeness >= min(_ALIKE, likeness.max())  # in a burst that catches up, phases are not alike
    phases = np.unwrap(np.array([phase for phase, _ in of_windows])[alike], period=1.0)
    middles = np.array([window.mean() for window in windows])[alike]
    drift = float(np.clip(np.polyfit(middles, phases, 1)[0], -slack, slack)) if len(phases) > 1 else 0.0
    steady = turns - drift * turns
    order = np.arange(len(turns))
    nearest = np.floor(steady - _phase(steady)[0] + _EARLY) - order
    places: Times = np.minimum.accumulate(nearest[::-1])[::-1] + order
    places -= places[0]
    return places


def _phase(turns: Times) -> tuple[float, float]:
    """Return the phase of the packets on time, as a fraction of a period, and how closely all phases agree."""
    mean = np.exp(2j * np.pi * turns).mean()
    centre = np.angle(mean) / (2 * np.pi)
    around = (turns - centre + 0.5) % 1 - 0.5
    return float(centre + _densest(around)[0]), float(np.abs(mean))
