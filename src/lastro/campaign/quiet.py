"""Wait before a trial until nothing else runs on its hosts: a disturbed attempt costs more than a wait.

The limits are those that invalidate a trial (`validity.disturbances`), and one on pressure (PSI). Pressure cannot
invalidate a trial, since the trial's own load causes some. But before a trial, only other processes can cause it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lastro import validity
from lastro.host.activity import ActivityReading, read_activity
from lastro.host.ledger import Session
from lastro.scenarios.base import Config
from lastro.scenarios.shared.host_limits import HOST_LIMITS, MAX_WAIT_S, host_limits

MAX_PRESSURE_PERCENT = 20.0  # of the time, for memory and disk; a quiet host has none
_GLANCE_S = 0.25  # the shortest time over which CPUs are judged: 25 ticks of each
_STEP_S = 1.0  # between glances at a host that is not quiet
_CALM_S = 2.0  # a disturbed host must then be quiet for this long, and for longer after each disturbed attempt
_LEAST_PATIENCE_S = 5.0
_MOST_HALVINGS = 16
_JUDGED = {setting.name for setting in HOST_LIMITS}  # a scenario without these settings does not judge its hosts


@dataclass(frozen=True, slots=True)
class QuietWait:
    """A wait that has ended. `reasons` are the first disturbances; `in_vain` is true if the time limit ended it."""

    waited_s: float
    reasons: tuple[str, ...]
    in_vain: bool

    @property
    def text(self) -> str:
        end = "; the host was still busy" if self.in_vain else " until the host was quiet"
        return f"waited {self.waited_s:.0f} s{end}: {'; '.join(self.reasons)}"


OnDisturbance = Callable[[Sequence[str], float], None]  # reasons, and the seconds left to wait


class QuietHosts:
    """Waits until the hosts of a campaign are quiet.

    The time limit of a wait is halved after each wait in vain, and restored once the hosts have been quiet. So a host
    that is never quiet costs a campaign a few minutes, rather than the full limit before every trial."""

    def __init__(
        self,
        sessions: Sequence[Session],
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sessions, self._sleep, self._clock = sessions, sleep, clock
        self._vain = 0

    def wait(self, config: Config, failed_attempts: int, on_wait: OnDisturbance) -> QuietWait | None:
        """Wait until the hosts are quiet, for at most the setting `max_wait_s`; return None if no wait was needed.

        `failed_attempts` is the number of failed attempts at the trial so far; each doubles the time for which the
        hosts must be quiet. `on_wait` is called with the disturbances and the seconds left, again and again during the
        wait."""
        if not self._sessions or not config.keys() >= _JUDGED:
            return None
        limit_s = MAX_WAIT_S.of(config)
        if not limit_s:
            return None
        limits = host_limits(config)
        limit_s = min(limit_s, max(_LEAST_PATIENCE_S, limit_s / 2**self._vain))
        began_s = quiet_since_s = self._clock()
        calm_s = min(_CALM_S * 2**failed_attempts, limit_s / 2) if failed_attempts else _GLANCE_S
        disturbed: tuple[str, ...] = ()
        glances = [_Glance(session) for session in self._sessions]
        while True:
            self._sleep(_STEP_S if disturbed else _GLANCE_S)
            reasons = tuple(reason for glance in glances for reason in glance.reasons(limits))
            now_s = self._clock()
            left_s = limit_s - (now_s - began_s)
            if reasons:
                disturbed = disturbed or reasons
                quiet_since_s = now_s
                calm_s = max(calm_s, min(_CALM_S, limit_s / 2))
            elif now_s - quiet_since_s >= calm_s:
                self._vain = 0
                return QuietWait(now_s - began_s, disturbed, in_vain=False) if disturbed else None
            if left_s <= 0 and disturbed:
                self._vain = min(self._vain + 1, _MOST_HALVINGS)
                return QuietWait(now_s - began_s, disturbed, in_vain=True)
            if disturbed:
                on_wait(reasons or disturbed, left_s)


class _Glance:
    """The activity on one host from one call of `reasons` to the next."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._before, self._own_s = self._look()

    def _look(self) -> tuple[ActivityReading, float]:
        """Return the activity of the host, and this process's CPU seconds in user mode there: 0 on a remote host."""
        with self._session.host.recorded():
            seen = read_activity(self._session.host)
        times = os.times()
        return seen, 0.0 if self._session.host.remote else times.user + times.children_user

    def reasons(self, limits: validity.HostLimits) -> list[str]:
        """Return what disturbed the host since the last call, with the busiest process; empty if it was quiet."""
        (before, own_before_s), (now, own_s) = (self._before, self._own_s), self._look()
        self._before, self._own_s = now, own_s
        elapsed_s, totals = now.at_s - before.at_s, now.totals.since(before.totals)
        if (totals.user_s - (own_s - own_before_s)) / elapsed_s <= limits.foreign_cpus:
            disturbances = validity.disturbances(totals.steal_percent, 0.0, limits)
        else:  # only now, since collecting the PIDs of Lastro's processes takes long
            ours = {*self._session.pids(), *now.servers(before), os.getpid()}
            foreign_s, culprit = now.foreign_user_s(before, ours, own_s - own_before_s), ""
            if busiest := now.busiest(before, ours):
                process, cpus = busiest
                culprit = f"{process.name}, process {process.pid}: {cpus:.2f} CPUs"
            disturbances = validity.disturbances(totals.steal_percent, foreign_s / elapsed_s, limits, culprit)
        disturbances += [
            f"processes waited for {name} {100 * seconds / elapsed_s:.0f} % of the time"
            f" (limit {MAX_PRESSURE_PERCENT:g} %)"
            for name, seconds in totals.stalled_s.items()
            if name != "cpu" and 100 * seconds / elapsed_s > MAX_PRESSURE_PERCENT
        ]
        if self._session.host.remote:
            return [f"{self._session.host.name}: {reason}" for reason in disturbances]
        return disturbances
