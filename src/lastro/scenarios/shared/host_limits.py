"""Checks that nothing disturbed a host during a measurement, and that its clock was right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lastro import validity
from lastro.host.base import Host
from lastro.results.samples import Outcome
from lastro.scenarios.base import Config
from lastro.study.model import DAY_S, Setting
from lastro.testbed import Testbed

MAX_STEAL_PERCENT = Setting(
    "max_steal_percent", 5.0, "CPU time stolen from this host above which a trial is invalid", 0, 100
)
MAX_FOREIGN_CPUS = Setting(
    "max_foreign_cpus", 0.3, "CPUs used by other processes above which a trial is invalid", 0, 4096
)
MAX_WAIT_S = Setting("max_wait_s", 120.0, "longest wait for a quiet host before each trial; 0: do not wait", 0, DAY_S)
HOST_LIMITS = (MAX_STEAL_PERCENT, MAX_FOREIGN_CPUS, MAX_WAIT_S)  # settings of every scenario that judges its hosts
MAX_DRIFT_PERCENT = Setting("max_drift_percent", 0.1, "drift of a guest's clock above which a trial is invalid", 0, 100)


def host_limits(config: Config) -> validity.HostLimits:
    """Return the treatment's limits on stolen and foreign CPU time, beyond which a host is disturbed."""
    return validity.HostLimits(MAX_STEAL_PERCENT.of(config), MAX_FOREIGN_CPUS.of(config))


class HostClocks:
    """The clocks of each distinct host, read when this object is made, to compare with later readings.

    Tools and the kernel's counters depend on these clocks."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self._before = {host: host.clock() for host in dict.fromkeys(hosts)}

    def judge(self, outcome: Outcome, limit: float | None) -> None:
        """Invalidate the trial if a clock was set since the first reading, or if a remote host's drifted too much.

        `limit` is the largest drift as a fraction, such as 0.001; None if the trial does not depend on the drift.
        The drift of remote hosts is always noted."""
        for host, before in self._before.items():
            after = host.clock()
            reasons = validity.clock_reasons(before.reading, after.reading)
            if host.remote:
                drift = validity.drift(before, after)
                clocks = outcome.notes.setdefault("clocks", {})  # together with the drifts of guests
                assert isinstance(clocks, dict)
                clocks[host.name] = {"drift": drift.ratio - 1, "uncertainty": drift.uncertainty}
                if limit is not None:
                    reasons += validity.drift_reasons({"host": drift}, limit, "the controller's")
                reasons = [f"{host.name}: {reason}" for reason in reasons]
            outcome.invalidate(reasons)


@contextmanager
def clock_kept(testbed: Testbed, config: Config, outcome: Outcome) -> Iterator[None]:
    """Invalidate the trial if the host's clock was set while the block ran, or drifted too much on a remote host.

    The limit is `max_drift_percent`. A scenario without this setting has no limit, since the controller measures its
    times."""
    clocks = HostClocks([testbed.host])
    yield
    clocks.judge(outcome, MAX_DRIFT_PERCENT.of(config) / 100 if MAX_DRIFT_PERCENT.name in config else None)
