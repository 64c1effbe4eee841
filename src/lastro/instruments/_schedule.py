"""Compute when packets were due, from the times at which they left; delays count from when a packet was due. Pure.

A generator with a constant rate sends packet n at `begin + n * period`, or as soon after that as it can. After a delay
it catches up. So `begin` is the latest time for which no packet left before it was due. If the generator is stopped, or
blocked by a full queue, all packets that were due meanwhile show this delay (coordinated omission: Tene 2013)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Times = NDArray[np.float64]

_WINDOW = 512  # packets in which the schedule drifts by much less than a period
_ALIKE = 0.5  # least agreement of the phases in a window, as `_phase` returns it: 1 if all are equal
_EARLY = 0.02  # of a period: how much the phase of a packet on time varies
_ON_TIME = 0.05  # least fraction of the packets that leave on time
_ROUNDS, _SLOPES = 4, 21  # of the search for the period: least number of rounds, and slopes tried in each
_MOST_SEARCHED = 20_000  # packets in that search; more would take time without making it more precise
_PRECISION_NS = 1.0  # of the due time of the last packet after that search


def due_times(sent_ns: Times, period_ns: float, gaps: bool, slack_ns: tuple[float, float] = (0.0, 0.0)) -> Times:
    """Return when each packet was due, in nanoseconds, from the ordered times `sent_ns` at which the packets left.

    `gaps` is true if packets of the schedule may be missing in `sent_ns`, such as those without an answer. Where they
    are missing is then computed from the phases of the other packets. The true period is `period_ns` plus a value in
    the range `slack_ns`, such as (-1, 0), because generators round the period to ticks of their clock."""
    if not len(sent_ns):
        return sent_ns
    if gaps:
        middle_ns = period_ns + sum(slack_ns) / 2
        slack = (slack_ns[1] - slack_ns[0]) / 2 / period_ns
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
    """Return the true period minus the nominal one, in nanoseconds: a value between `low` and `high`.

    `places` are the positions of the packets in the schedule. `early_ns` are the times at which they left, relative to
    the nominal schedule. With the true period, the packets that left on time deviate least from their schedule, so the
    search minimizes the width of their deviations."""
    best, thin = (low + high) / 2, math.ceil(len(places) / _MOST_SEARCHED)  # only every `thin`-th packet is searched
    places, early_ns = places[::thin], early_ns[::thin]
    if low >= high:
        return best
    # Each round narrows the range to two of its twenty steps, a tenth, until the last packet's place is precise enough.
    rounds = math.ceil(math.log10(max(1.0, (high - low) * float(places[-1]) / _PRECISION_NS)))
    for _ in range(max(_ROUNDS, rounds)):
        slopes = np.linspace(low, high, _SLOPES)
        widths = [_densest(early_ns - slope * places)[1] for slope in slopes]
        best, step = float(slopes[int(np.argmin(widths))]), (high - low) / (_SLOPES - 1)
        low, high = best - step, best + step
    return best


def _densest(values: Times) -> tuple[float, float]:
    """Return (lower end, width) of the shortest interval that contains the fraction `_ON_TIME` of the values.

    The interval contains at least three values, if there are three."""
    ordered = np.sort(values)
    n = min(len(ordered) - 1, max(2, int(_ON_TIME * len(ordered))))
    widths = ordered[n:] - ordered[: len(ordered) - n]
    at = int(widths.argmin())
    return float(ordered[at]), float(widths[at])


def _places(turns: Times, slack: float) -> Times:
    """Return the position of each packet in the schedule, counted from 0, when packets are missing.

    `turns` are the times at which packets left, in nominal periods. The true period may differ from the nominal one by
    the fraction `slack`.

    Many packets leave on time: their phases agree, and their positions are certain. A late packet gets the last
    position that was due when it left, which is too high if it is late by more than a period. But no two packets have
    the same position, so a burst that catches up is numbered backwards from its end."""
    windows = [turns[start : start + _WINDOW] for start in range(0, len(turns), _WINDOW)]
    window_phases, agreements = np.array([_phase(window) for window in windows]).T
    alike = agreements >= min(_ALIKE, agreements.max())  # in a burst that catches up, phases do not agree
    phases = np.unwrap(window_phases[alike], period=1.0)
    middles = np.array([window.mean() for window in windows])[alike]
    drift = float(np.clip(np.polyfit(middles, phases, 1)[0], -slack, slack)) if len(phases) > 1 else 0.0
    steady = turns - drift * turns
    order = np.arange(len(turns))
    nearest = np.floor(steady - _phase(steady)[0] + _EARLY) - order
    places: Times = np.minimum.accumulate(nearest[::-1])[::-1] + order
    places -= places[0]
    return places


def _phase(turns: Times) -> tuple[float, float]:
    """Return (phase, agreement): the phase of the packets that left on time, and how much all phases agree.

    The phase is a fraction of a period. The agreement is the norm of the mean of unit vectors whose angles are the
    phases: 1 if all phases are equal, near 0 if they are spread evenly."""
    mean = np.exp(2j * np.pi * turns).mean()
    centre = np.angle(mean) / (2 * np.pi)
    around = (turns - centre + 0.5) % 1 - 0.5
    return float(centre + _densest(around)[0]), float(np.abs(mean))
