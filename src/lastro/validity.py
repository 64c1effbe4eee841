"""Reasons why a trial is invalid, from the readings of its witnesses. Pure. An empty list means: no reason.

Validity does not depend on the measured value: a check asks whether a value measures the right thing, never whether it
is a good value."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

_TOLERANCE = 0.05  # of bytes: some interfaces count headers, others retransmissions
_SLACK_BYTES = 64 * 1024  # ARP, a handshake, the report at the end of a test
_CLOCK_STEP_S = 0.25
_MOST_WAKE_UPS, _MOST_WAKE_UPS_PER_S = 80, 40  # of the apparatus, while an instrument measures
_NOTHING: Mapping[str, str] = {}
CHAIN_HOPS = (
    ("source.out0", "tx_bytes"), ("function.in0", "rx_bytes"),
    ("function.out0", "tx_bytes"), ("sink.in0", "rx_bytes"),
)  # fmt: skip


def path_reasons(
    phase: str,
    moved: Mapping[str, Mapping[str, int]],
    payload_bytes: int,
    hops: Sequence[tuple[str, str]] = CHAIN_HOPS,
    *,
    also_sent: Mapping[str, str] = _NOTHING,
) -> list[str]:
    """Return the reasons if a flow did not pass every hop of a chain, or if other traffic passed a hop.

    `moved` is {port: {counter: bytes}}. `hops` are (port, counter) pairs in the order of the path. `payload_bytes`
    arrived at the end of the chain, so each hop must have carried at least as many bytes: if it carried fewer, the flow
    took another path. If a hop received more bytes than the previous hop sent, there was foreign traffic. A neighbour
    may send to a hop, too: `also_sent` maps the port of that hop to the port of the neighbour, whose bytes are not
    foreign. Loss at a hop is not a reason: it is a result, not a fault of the trial."""
    missing = [port for port, _ in hops if port not in moved]
    if missing:
        return [f"{phase}: no counters for {', '.join(missing)}"]
    carried = [(port, moved[port][key]) for port, key in hops]
    reasons = [
        f"{phase}: {port} carried {n_bytes} bytes of a flow of {payload_bytes}: the flow took another path"
        for port, n_bytes in carried
        if n_bytes < payload_bytes * (1 - _TOLERANCE)
    ]
    for (before, sent), (port, n_bytes) in () if reasons else pairwise(carried):
        flooded = moved.get(also_sent.get(port, ""), {}).get("tx_bytes", 0)
        if n_bytes > (sent + flooded) * (1 + _TOLERANCE) + _SLACK_BYTES:
            senders = f"{before} and a neighbour" if flooded else before
            reasons.append(
                f"{phase}: {port} carried {n_bytes} bytes, more than the {sent + flooded} of {senders}: foreign traffic"
            )
    return reasons


def crossing_reasons(
    phase: str, crossed_bytes: int | None, payload_bytes: int, whose: str = "the function"
) -> list[str]:
    """Return a reason if a function's own counter shows fewer bytes than the flow had, or none.

    `crossed_bytes` is the counter's value; None means that it could not be read, which is a reason, too. `whose` names
    the function."""
    if crossed_bytes is None:
        return [f"{phase}: {whose}'s own counter could not be read"]
    if crossed_bytes < payload_bytes * (1 - _TOLERANCE) or crossed_bytes == 0:
        return [f"{phase}: {whose}'s own counter saw {crossed_bytes} bytes of a flow of {payload_bytes}"]
    return []


@dataclass(frozen=True, slots=True)
class Window:
    """The activity of the apparatus (Lastro, clients, daemons) from the start to the end of a measuring command."""

    elapsed_s: float
    # How often threads of the apparatus waited, and so woke up again; None if the kernel does not count it.
    wake_ups: int | None
    cpu_s: float | None  # CPU time of all these threads; None if the kernel does not count it
    # Usual number of wake-ups on the platform: for the messages that start the command and report its end, and for
    # timers of the platform's daemon.
    expected: float = 0.0
    # Number of processes of instances that the kernel killed because of a memory limit; if it is not 0, the platform's
    # daemon is not counted.
    killed: int = 0
    began_s: float = 0.0  # when the command started, on the host's monotonic clock

    @property
    def most_wake_ups(self) -> float:
        """The greatest permitted number of wake-ups. It grows with the duration, not with the number of samples."""
        return self.expected + _MOST_WAKE_UPS + _MOST_WAKE_UPS_PER_S * self.elapsed_s


def overlap_percent(windows: Sequence[Window]) -> float:
    """Return the time during which all windows overlap, in percent of the time from the first start to the last end."""
    ends_s = [window.began_s + window.elapsed_s for window in windows]
    starts_s = [window.began_s for window in windows]
    return 100 * max(0.0, min(ends_s) - max(starts_s)) / (max(ends_s) - min(starts_s))


def apparatus_reasons(windows: Sequence[Window]) -> list[str]:
    """Return a reason if the apparatus woke up too often in some window; it describes only the worst window."""
    counted = [(window.wake_ups, window) for window in windows if window.wake_ups is not None]
    above = [(wake_ups, window) for wake_ups, window in counted if wake_ups > window.most_wake_ups]
    if not above:
        return []
    wake_ups, worst = max(above, key=lambda counted_window: counted_window[0] / counted_window[1].most_wake_ups)
    return [
        f"the apparatus was in the measurement: Lastro, clients and daemons woke up {wake_ups} times in"
        f" {worst.elapsed_s:.2f} s (limit {worst.most_wake_ups:.0f})"
    ]


@dataclass(frozen=True, slots=True)
class HostLimits:
    """Limits of the CPU time that the hypervisor (in percent) and other processes (in CPUs) may take during a trial."""

    steal_percent: float
    foreign_cpus: float


def host_reasons(steal_percent: float, foreign_cpus: float, limits: HostLimits) -> list[str]:
    """Return a reason for each of the two limits that is exceeded: of steal time, and of CPUs of other processes."""
    return [f"the host was disturbed: {text}" for text in disturbances(steal_percent, foreign_cpus, limits)]


def disturbances(steal_percent: float, foreign_cpus: float, limits: HostLimits, who: str = "") -> list[str]:
    """Return a text for each of the two limits that is exceeded. `who` describes the busiest process, if known."""
    texts = []
    if steal_percent > limits.steal_percent:
        texts.append(f"{steal_percent:.1f} % of CPU time stolen by its hypervisor (limit {limits.steal_percent:g} %)")
    if foreign_cpus > limits.foreign_cpus:
        named = f"; {who}" if who else ""
        texts.append(f"other processes used {foreign_cpus:.2f} CPUs (limit {limits.foreign_cpus:g}{named})")
    return texts


@dataclass(frozen=True, slots=True)
class ClockReading:
    """A reading of two clocks at the same time: the monotonic clock, and the wall clock, which can be set."""

    monotonic_s: float
    realtime_s: float

    @classmethod
    def now(cls) -> ClockReading:
        return cls(time.monotonic(), time.time())


def clock_reasons(before: ClockReading, after: ClockReading, whose: str = "the host") -> list[str]:
    """Return a reason if the wall clock of `whose` was set between two readings.

    Tools that use this clock would report wrong but plausible times."""
    step_s = (after.realtime_s - before.realtime_s) - (after.monotonic_s - before.monotonic_s)
    return [f"{whose}'s clock jumped by {step_s:+.2f} s"] if abs(step_s) > _CLOCK_STEP_S else []


@dataclass(frozen=True, slots=True)
class ClockSample:
    """One reading of a guest's clocks, in seconds.

    `host_s` is on the host's monotonic clock, `guest_s` on the guest's, `guest_real_s` on the guest's wall clock. The
    reading took place at `host_s` ± `uncertainty_s`. A remote host is read in the same way: it is the guest, and the
    controller is the host."""

    host_s: float
    guest_s: float
    guest_real_s: float
    uncertainty_s: float

    @property
    def reading(self) -> ClockReading:
        """The guest's two clocks, without those of the host."""
        return ClockReading(self.guest_s, self.guest_real_s)


@dataclass(frozen=True, slots=True)
class ClockDrift:
    """The rate of a guest's clock (`ratio`): guest seconds per host second, 1.0 if the clock is right.

    The true rate is within `ratio` ± `uncertainty`."""

    ratio: float
    uncertainty: float

    @property
    def significant(self) -> bool:
        """True if the clock's rate differs from the host's by more than `uncertainty`."""
        return abs(self.ratio - 1.0) > self.uncertainty


def drift(before: ClockSample, after: ClockSample) -> ClockDrift:
    """Return the rate of the guest's monotonic clock between two readings; infinite uncertainty if no time passed."""
    elapsed_s = after.host_s - before.host_s
    if elapsed_s <= 0:
        return ClockDrift(1.0, math.inf)
    # The bracketing intervals are bounds, not deviations: they add up.
    ratio = (after.guest_s - before.guest_s) / elapsed_s
    uncertainty_s = before.uncertainty_s + after.uncertainty_s
    return ClockDrift(ratio, uncertainty_s / elapsed_s)


def reason_unverified(drift: ClockDrift | None, limit: float) -> str | None:
    """Return why the clock of another kernel than the host's is not verified; None if it is verified.

    It is verified if its drift plus the uncertainty of the drift is at most `limit`, a fraction such as 0.001. `drift`
    is None if the clocks could not be compared."""
    if drift is None:
        return "its clock cannot be compared with the host's"
    if drift.uncertainty > limit:
        return f"its clock was read too coarsely: ± {100 * drift.uncertainty:.3f} % (limit {100 * limit:g} %)"
    if abs(drift.ratio - 1) + drift.uncertainty > limit:
        within = f"within the limit of {100 * limit:g} %"
        return f"its clock drifted by {_drift(drift)} relative to the host's, which may or may not be {within}"
    return None


def _drift(drift: ClockDrift) -> str:
    """Format a drift: '+0.150 % (± 0.090 %)'."""
    return f"{100 * (drift.ratio - 1):+.3f} % (± {100 * drift.uncertainty:.3f} %)"


def drift_reasons(drifts: Mapping[str, ClockDrift], limit: float, against: str = "the host's") -> list[str]:
    """Return a reason for each clock that surely drifts by more than `limit`: tools that use it report wrong times.

    `drifts` is {whose clock: its drift}. `limit` is a fraction, such as 0.001; the uncertainty of a drift is subtracted
    before the comparison. `against` names the clock with which all were compared."""
    return [
        f"the clock of the {role} drifted by {_drift(drift)} relative to {against} (limit {100 * limit:g} %)"
        for role, drift in drifts.items()
        if abs(drift.ratio - 1) - drift.uncertainty > limit
    ]
