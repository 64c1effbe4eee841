"""Checks that nothing disturbed a host during a measurement, and that its clock was not set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lastro import validity
from lastro.meters.host import HostMeter
from lastro.results.samples import Outcome
from lastro.scenarios.base import Config
from lastro.study.model import Setting

# Settings of every scenario that judges its hosts; `lastro.validity` and `lastro.campaign.quiet` read them.
HOST_LIMITS = (
    Setting("max_steal_percent", 5.0, "CPU time stolen from this host above which a trial is invalid", 0, 100),
    Setting("max_foreign_cpus", 0.3, "CPUs used by other processes above which a trial is invalid", 0, 4096),
    Setting("max_wait_s", 120.0, "longest wait for a quiet host before each trial; 0: do not wait", 0, 86400),
)


def judged(host: HostMeter, foreign_cpus: float, config: Config) -> tuple[dict[str, Any], list[str]]:
    """Return a note of foreign load while the meter ran, and a reason for each limit that it exceeded."""
    note = {"foreign_cpus": round(foreign_cpus, 3), **host.notes()}
    return note, validity.host_reasons(host.steal_percent, foreign_cpus, config)


def judge_host(host: HostMeter, own_user_s: float, config: Config, outcome: Outcome) -> None:
    """Judge the host of a trial. `own_user_s`: user time of the trial's own processes while the meter ran."""
    outcome.notes["host"], reasons = judged(host, host.foreign_cpus(own_user_s), config)
    outcome.invalidate(reasons)


@contextmanager
def clock_kept(outcome: Outcome) -> Iterator[None]:
    """Invalidate the trial if the host's clock was set while the block ran."""
    before = validity.ClockReading.now()
    yield
    outcome.invalidate(validity.clock_reasons(before, validity.ClockReading.now()))
