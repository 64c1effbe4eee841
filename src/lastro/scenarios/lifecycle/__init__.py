"""The lifecycle of instances: the times to start, to answer and to stop, and the resources of each while it is idle.

The attachment joins every instance to a port of one peer, so that a packet can prove its connection."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from typing import Any

from lastro.attachments.base import Attachment
from lastro.errors import InstrumentError, LastroError, PlatformError
from lastro.host.base import Completed
from lastro.host.cgroups import Usage
from lastro.platforms.base import Availability, Instance, InstanceSpec, Platform
from lastro.platforms.native import Native
from lastro.results.samples import Metric, Outcome, Series
from lastro.results.trial_notes import SearchEnd
from lastro.scenarios.base import Config, chosen_class, links_level, part_name, platform_level, start_s
from lastro.scenarios.lifecycle.peer_links import MOST, PeerLinks, linked_peer
from lastro.scenarios.shared.bases import OnPlatforms
from lastro.scenarios.shared.flow import rest
from lastro.scenarios.shared.host_limits import HOST_LIMITS, clock_kept
from lastro.scenarios.shared.host_memory import ENOUGH, record_capacity, require_room, used_memory_bytes
from lastro.scenarios.shared.timing import InstanceTimes, TimedPlatform
from lastro.scenarios.shared.topology import BuiltTopology
from lastro.scenarios.shared.window import MeasuredWindow
from lastro.study.model import DAY_S, Setting
from lastro.testbed import Testbed
from lastro.units import MIB


@dataclass(frozen=True, slots=True)
class Footprint:
    """The resources in use at one moment, in bytes; `processes` is a count.

    `taken_bytes` is the used memory of the host (total less available). `charged_bytes` is the memory of the
    session's cgroup, with instances, their monitors, and the platform's daemons. `disk_bytes` is the size of the
    files in the session's directories and in the platforms' stores. `disk_used_bytes` is the used space of the whole
    file system below these directories."""

    taken_bytes: int
    charged_bytes: int
    disk_bytes: int
    disk_used_bytes: int
    processes: int

    def since(self, earlier: Footprint) -> Footprint:
        return Footprint(*(getattr(self, field.name) - getattr(earlier, field.name) for field in fields(self)))

    @classmethod
    def of(cls, testbed: Testbed) -> Footprint:
        disk_bytes, disk_used_bytes = _disk(testbed)
        return cls(
            taken_bytes=used_memory_bytes(testbed.host),
            charged_bytes=testbed.cgroups.usage(testbed.session.cgroup).memory_bytes,
            disk_bytes=disk_bytes,
            disk_used_bytes=disk_used_bytes,
            processes=len(testbed.session.pids()),
        )

    def per_instance(self, n: int) -> dict[str, float]:
        """Return measurements by metric; this footprint is the difference that `n` instances made."""
        return {
            "memory": self.charged_bytes / n / MIB,
            "memory_host": self.taken_bytes / n / MIB,
            "memory_total": self.taken_bytes / MIB,
            "disk": self.disk_bytes / n / MIB,
            "disk_host": self.disk_used_bytes / n / MIB,
            "processes": self.processes / n,
        }


def _disk(testbed: Testbed) -> tuple[int, int]:
    """Return (bytes of files in Lastro's directories without the image, bytes used on the instances' file system)."""
    state = testbed.session.state
    count = ["du", "-cskx", f"--exclude={state}/rootfs", str(state), str(testbed.run_dir)]
    counted = testbed.host.run(count, check=False)  # files may vanish meanwhile
    used = testbed.host.run(["df", "-k", "--output=used", str(testbed.scratch_dir)])
    return _last_kib("du", counted) * 1024, _last_kib("df", used) * 1024


def _last_kib(tool: str, done: Completed) -> int:
    """Return the KiB at the beginning of the last line of a tool's output. Raises: InstrumentError without a number."""
    try:
        return int(done.text.splitlines()[-1].split()[0])
    except (IndexError, ValueError):
        words = (done.error_text or done.text).strip()[-200:] or f"exit code {done.returncode}"
        raise InstrumentError(f"{tool} did not report the disk space of instances: {words}") from None


INSTANCES = Setting("instances", 4, "number of concurrent instances", 1, MOST)
PARALLEL = Setting("parallel", False, "start them together rather than one after the other")
SETTLE_S = Setting("settle_s", 1.0, "pause before the host is measured, without instances and with them", 0, DAY_S)
MAX_INSTANCES = Setting(
    "max_instances", 0, "afterwards, double their number until the host refuses, up to this; 0: do not", 0, MOST
)
CAPACITY_S = Setting("capacity_s", 120.0, "time after which the doubling ends", 1, DAY_S)
_HUBS_S = 0.5  # for what is made before the first instance


class LifecycleScenario(OnPlatforms):
    name = "lifecycle"
    summary = "how long instances take to start, answer and stop, and which resources of the host each uses while idle"
    parts = ("platform", "attachment")
    settings = (INSTANCES, PARALLEL, SETTLE_S, MAX_INSTANCES, CAPACITY_S, *HOST_LIMITS)
    metrics = (
        Metric("start", "ms", "lower", "time to create and start an instance, until its port is configured; mean"),
        Metric("first_command", "ms", "lower", "the same until its first command has exited"),
        Metric("first_packet", "ms", "lower", "the same until its first packet has reached its peer"),
        Metric("stop", "ms", "lower", "time to remove an instance completely, after its links; mean"),
        Metric("start_all", "ms", "lower", "time to create and start all instances of the trial, without their links"),
        Metric(
            "memory", "MiB", "lower",
            "memory charged to its cgroup, its monitor and the platform's daemons, per idle instance",
        ),
        Metric("memory_host", "MiB", "lower", "decrease of the host's available memory, per instance", signed=True),
        Metric("memory_total", "MiB", "lower", "decrease of the host's available memory, all instances", signed=True),
        Metric("disk", "MiB", "lower", "disk space in the directories of Lastro and the platform, per idle instance"),
        Metric("disk_host", "MiB", "lower", "space used on the file system below them, per instance", signed=True),
        Metric("processes", "1", "lower", "processes on the host, per idle instance"),
        Metric("capacity", "1", "higher", "most instances that ran at the same time; limited by host or study"),
    )  # fmt: skip

    @classmethod
    def duration_s(cls, config: Config) -> float:
        more_s = CAPACITY_S.of(config) if MAX_INSTANCES.of(config) else 0.0
        lives_s = (start_s(config) + 0.25) * INSTANCES.of(config)
        return _HUBS_S + 2 * SETTLE_S.of(config) + lives_s + more_s

    def availability(self, config: Config) -> Availability:
        if chosen_class(Attachment, config).by_platform:
            why = f"the platform itself makes the links of {part_name(config, 'attachment')}, within the measured times"
            return Availability(why, 'choose an attachment that Lastro makes, such as "veth-bridge"')
        return self.parts_available(config)

    def run(self, config: Config, calibrations: Mapping[str, Any]) -> Outcome:
        outcome = Outcome()
        platform = self.pool.get(platform_level(config))
        timed, n = TimedPlatform(platform), INSTANCES.of(config)
        native = self.pool.native
        attachment = links_level(config)
        together = PARALLEL.of(config)
        with (
            clock_kept(self.testbed, config, outcome),
            linked_peer(self.testbed, native, attachment, n, together=together) as links,
        ):
            rest(SETTLE_S.of(config))  # meanwhile, the kernel frees memory of an earlier trial
            own_cgroups = (*platform.own_cgroups, *links.own_cgroups)
            window = MeasuredWindow(self.testbed, {}, config, own_cgroups, with_commands=True)
            before = Footprint.of(self.testbed)
            with ExitStack() as stack:
                with window:
                    window.add({instance.spec.name: instance for instance in links.start_instances(stack, timed)})
                    rest(SETTLE_S.of(config))
                taken = Footprint.of(self.testbed).since(before)
                _record_footprint(outcome, taken, [*window.usage.used.values()])
                self._note_topology(config, links, outcome)
                window.judge(outcome)
                if MAX_INSTANCES.of(config):
                    self._fill_up(config, platform, n, before, outcome)
        _record_lifecycles(outcome, list(timed.times_by_name.values()), together=together)
        return outcome

    def _note_topology(self, config: Config, links: PeerLinks, outcome: Outcome) -> None:
        """Note the topology with one instance for all, and their count: all instances and links are alike."""
        assert links.first is not None
        testbed, segment = links.first
        built = BuiltTopology(self.testbed)
        built.add("peer", links.peer, Native.name)
        built.add("instance", segment.ports[1].instance, platform_level(config), count=INSTANCES.of(config))
        built.join(links_level(config), [segment], testbed)
        built.note(outcome)

    def _fill_up(self, config: Config, platform: Platform, n: int, empty: Footprint, outcome: Outcome) -> None:
        """Double the number of instances until one does not start, memory runs short, or the study sets a limit.

        `n` instances run already; `empty` is the footprint before them. The number that ran in the end is recorded as
        `capacity`."""
        deadline_s = time.monotonic() + CAPACITY_S.of(config)
        most, goal = MAX_INSTANCES.of(config), 2 * n
        more: list[tuple[Instance, bool]] = []  # (instance, whether it had processes when it had started)
        steps = []
        stopped_by = f"{ENOUGH}: max_instances = {most}"
        with ExitStack() as stack:
            while n + len(more) < most:
                try:
                    while n + len(more) < min(goal, most):
                        require_room(self.testbed.host)
                        if time.monotonic() > deadline_s:
                            raise PlatformError(f"{ENOUGH}: capacity_s = {CAPACITY_S.of(config):g}")
                        spec = InstanceSpec(self.testbed.session.unique("more"), "instance")
                        instance = stack.enter_context(platform.start(self.testbed, spec))
                        more.append((instance, bool(instance.pids())))
                except LastroError as error:
                    stopped_by = error.message
                    break
                finally:
                    taken_bytes = used_memory_bytes(self.testbed.host) - empty.taken_bytes
                    steps.append({"instances": n + len(more), "memory_total": round(taken_bytes / MIB, 1)})
                goal *= 2
            n_ended = sum(had_processes and not instance.pids() for instance, had_processes in more)
            running = n + len(more) - n_ended
        record_capacity(outcome, SearchEnd("instances", running, stopped_by, steps))


def _record_lifecycles(outcome: Outcome, all_times: Sequence[InstanceTimes], *, together: bool) -> None:
    """Add the mean times of the instances to `outcome`, and series with the times of each instance, in ms.

    `together` is true if the instances were started at the same time; `start_all` depends on it."""
    means = ("start", "first_command", "first_packet", "stop")
    for name in (*means, "create", "port", "command", "packet"):
        values = tuple(1000 * float(getattr(times, f"{name}_s")) for times in all_times)
        outcome.series.append(Series(name, "ms", values))
        if name in means:
            outcome.measurements[name] = math.fsum(values) / len(values)
    all_s = math.fsum(times.start_s for times in all_times)
    if together:
        created_s = max(times.began_s + times.create_s for times in all_times)
        began_s = min(times.began_s for times in all_times)
        all_s = created_s - began_s + max(times.port_s for times in all_times)
    outcome.measurements["start_all"] = 1000 * all_s


def _record_footprint(outcome: Outcome, footprint: Footprint, usage: Sequence[Usage]) -> None:
    memory_bytes = [used.memory_bytes for used in usage]
    outcome.measurements.update(footprint.per_instance(len(usage)))
    outcome.series.append(Series("memory", "MiB", tuple(used / MIB for used in memory_bytes)))
    outcome.notes["usage"] = {
        "instances": {"cpu_s": math.fsum(used.cpu_s for used in usage), "memory_bytes": sum(memory_bytes)},
        "with what watches over them": {"memory_bytes": footprint.charged_bytes},
    }
