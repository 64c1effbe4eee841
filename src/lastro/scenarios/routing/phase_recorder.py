"""The resources that each phase of a network's lifecycle takes, and whether the host was undisturbed in the phase."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import fmean

from lastro.functions import ospf
from lastro.functions.ospf_router import ROUTERS
from lastro.platforms.base import AVAILABLE, Availability, Instance
from lastro.results.samples import GIVEN_BACK, Outcome, Remark, Series
from lastro.scenarios.base import Config
from lastro.scenarios.routing.additions import HOST_CPU
from lastro.scenarios.routing.host_timeline import HostReading, HostTimeline
from lastro.scenarios.shared.host_memory import used_memory_bytes
from lastro.scenarios.shared.window import Meters
from lastro.study.model import Setting
from lastro.testbed import Testbed
from lastro.units import MIB

IMPLEMENTATION = Setting("implementation", "frr", "implementation of OSPF", choices=tuple(ROUTERS))
HELLO_S = Setting("hello_s", 1, "time between two hellos; a neighbour is dead after four without one", 1, 3600)
# By profile, since it decides how long every exchange lasts.
TIMERS = Setting(
    "timers", "standard", "timers of link-state updates and path computation", choices=ospf.TIMERS, by_profile=True
)
FAILURE = Setting("failure", "silent", "how a router sees that a link is cut", choices=("silent", "carrier", "none"))
QUIET_S = Setting(
    "quiet_s", 8.0, "time without updates and changes of routes after which an exchange has ended", 1, 600
)
# For the boot, memory at its end counts: during the boot, it rises from zero.
_MOMENTS = {
    "booted": "at the end of the boot", "regular": "in regular operation", "failure": "in the failure",
    "recovery": "in the recovery", "quiet": "in the quiet after it",
}  # fmt: skip
_DELAYED_S = 7  # MinLSInterval of RFC 2328, appendix B, plus 2 s: updates were seen 7.0 s apart on a grid of four
_NEAR_PERCENT = 5.0  # of all CPUs: CPU usage is back to regular operation if it exceeds it by no more
_SETTLED_S = 5  # over which CPU usage is averaged
_RETRANSMITTED_S = 2  # with a retransmit interval of 1 s and no answer, updates were seen that far apart


class PhaseRecorder:
    """The state that all phases share: configuration, outcome, and a host time series from before the first start."""

    def __init__(
        self, testbed: Testbed, config: Config, outcome: Outcome, own_cgroups: Sequence[str], timeline: HostTimeline
    ) -> None:
        self.testbed, self.config, self.outcome, self.timeline = testbed, config, outcome, timeline
        self.own_cgroups = own_cgroups
        self._hosts: dict[str, object] = {}  # by phase
        outcome.notes["host_by_phase"] = self._hosts
        self.routers: Mapping[str, Instance] = {}  # none before the first start
        self._empty_bytes = used_memory_bytes(testbed.host)
        self._boot = self._meters()
        self._boot.start()
        self._boot_began = timeline.take()

    def record(self, name: str, value: float | None) -> None:
        if value is not None:
            self.outcome.measurements[name] = value

    def record_boot(self, begin_s: float, booted_s: float, watch_cpu_s: float) -> None:
        """Record CPU usage and memory of the boot, without `watch_cpu_s`, the CPU seconds of the watch's start."""
        self._boot.add(self.routers)
        now = self._end(self._boot, "boot", begin_s)
        self.record("memory_booted", self._taken_mib(now.at_s, now.at_s))
        busy_s = now.busy_s - self._boot_began.busy_s - watch_cpu_s
        self.record("cpu_boot", self._percent(busy_s, booted_s - begin_s))

    def record_host_series(self, from_s: float, until_s: float) -> None:
        """Record the time series of the host's CPU and memory, for figures and later analysis."""
        self.outcome.series.append(Series(HOST_CPU, "%", self.timeline.cpu_percent(from_s, until_s)))
        taken = tuple((n_bytes - self._empty_bytes) / MIB for n_bytes in self.timeline.taken_bytes(from_s, until_s))
        self.outcome.series.append(Series("host memory", "MiB", taken))

    def record_quiet(self, ended_s: float) -> None:
        """Record the growth of memory from regular operation to the quiet period at the end of a recovery."""
        quiet_mib = self._taken_mib(ended_s - QUIET_S.of(self.config), ended_s)
        self._record_growth_of("memory_growth_after", {**self._memory_mib(), "quiet": quiet_mib}, "regular", "quiet")

    def record_drift(self) -> None:
        """Record how much more memory the host uses than before the trial. Call this when the network is removed.

        The memory of a phase is measured on the whole host. So it includes memory that the kernel and a platform's
        daemons use for the network, for which no router's cgroup is charged, but also the memory of unrelated programs.
        The drift is the memory that unrelated programs still use, or that the kernel has not yet freed."""
        now_s = self.timeline.take().at_s
        self.record("memory_drift", self._taken_mib(now_s, now_s))

    def _taken_mib(self, from_s: float, until_s: float) -> float:
        """Return the mean MiB that the host uses in a period, less those before the first start."""
        return (self.timeline.mean_taken_bytes(from_s, until_s) - self._empty_bytes) / MIB

    def record_growth(self, from_s: float, until_s: float) -> None:
        """Record how memory grows from phase to phase, and when CPU usage has fallen to the level of regular operation.

        Only the CPU usage from `from_s` to `until_s` is examined."""
        measured = self.outcome.measurements
        taken = self._memory_mib()
        self._record_growth_of("memory_growth", taken, "booted", "regular")
        self._record_growth_of("memory_growth_failure", taken, "regular", "failure")
        if taken:
            least, most = min(taken, key=taken.__getitem__), max(taken, key=taken.__getitem__)
            self._record_growth_of("memory_spread", taken, least, most)
        if (level := measured.get("cpu_regular")) is not None:
            self.record("cpu_fallen", fallen_s(self.timeline.cpu_percent(from_s, until_s), level + _NEAR_PERCENT))

    def _memory_mib(self) -> dict[str, float]:
        """Return {phase: MiB that the network took} for the measured phases, and for the end of the boot ('booted')."""
        memory = {phase: self.outcome.measurements.get(f"memory_{phase}") for phase in _MOMENTS}
        return {phase: mib for phase, mib in memory.items() if mib is not None}

    def _record_growth_of(self, metric: str, taken: Mapping[str, float], before: str, after: str) -> None:
        """Record the growth of memory from phase `before` to phase `after` in percent, as `metric`.

        `taken` has the MiB of each phase. If the memory of one of the two phases is not positive, since other programs
        freed memory, add a caveat instead. If a phase was not measured, do nothing."""
        if before not in taken or after not in taken:
            return
        if min(taken[before], taken[after]) > 0:
            self.record(metric, 100 * (taken[after] / taken[before] - 1))
            return
        text = (
            f"the network took {taken[before]:.1f} MiB {_MOMENTS[before]}, and {taken[after]:.1f} MiB "
            f"{_MOMENTS[after]}: other programs gave memory back"
        )
        unknown = [f"memory_{phase}" for phase in (before, after) if phase != "quiet" and taken[phase] <= 0]
        self.outcome.add_caveat(Remark(GIVEN_BACK, text, (metric, *unknown)))

    @contextmanager
    def phase(self, phase: str) -> Iterator[None]:
        """Measure the CPU time and memory of a phase, in which the host must be undisturbed.

        Observers, and the commands that Lastro runs to cut links and to read tables, are not part of its CPU time."""
        meters = self._meters()
        meters.start()
        began = self.timeline.take()
        yield
        ended = self._end(meters, phase, began.at_s)
        busy_s, commands_s = ended.busy_s - began.busy_s, ended.commands_s - began.commands_s
        self.record(f"cpu_{phase}", self._percent(busy_s - commands_s, ended.at_s - began.at_s))

    def _meters(self) -> Meters:
        return Meters(self.testbed, self.routers, self.own_cgroups, with_commands=True)

    def _end(self, meters: Meters, phase: str, began_s: float) -> HostReading:
        """End the meters of a phase, record its memory, and return the reading of the host at its end.

        The trial is invalid if the host was disturbed. This is judged for each phase, since the disturbance of a
        short phase looks small in a whole trial."""
        ended = self.timeline.take()
        meters.stop()
        self.record(f"memory_{phase}", self._taken_mib(began_s, ended.at_s))
        reasons = meters.judged(self.config)
        self._hosts[phase] = reasons.notes["host"]
        self.outcome.invalidate(f"{phase}: {reason}" for reason in reasons.invalid_because)
        return ended

    def _percent(self, busy_s: float, elapsed_s: float) -> float:
        return 100 * max(0.0, busy_s) / elapsed_s / self.timeline.cpus


def fallen_s(percent: Sequence[float], level: float) -> float | None:
    """Return the first second from which the mean busy percentage is at most `level`; None if there is none.

    `percent` has a value for each second; the mean is over `_SETTLED_S` values."""
    for second in range(len(percent) - _SETTLED_S + 1):
        if fmean(percent[second : second + _SETTLED_S]) <= level:
            return float(second)
    return None


def quiet_suffices(config: Config) -> Availability:
    """Return whether the setting `quiet_s` is longer than each pause that the protocol may make in an exchange."""
    pauses = []
    if TIMERS.of(config) != "fast" or not ROUTERS[IMPLEMENTATION.of(config)].all_timers:
        pauses.append((_DELAYED_S, "a router may hold back its next link-state update"))
    else:
        pauses.append((_RETRANSMITTED_S, "a router may wait before it retransmits an update"))
    if FAILURE.of(config) == "silent":
        pauses.append((HELLO_S.of(config), "the ends of a silently failed link may detect it at different times"))
    longest_s, because = max(pauses)
    if QUIET_S.of(config) > longest_s:
        return AVAILABLE
    why = f"quiet_s = {QUIET_S.of(config):g} cannot detect the end of an exchange: for {longest_s} s, {because}"
    return Availability(why, f"set quiet_s to more than {longest_s}")
