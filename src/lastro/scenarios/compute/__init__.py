"""One workload in one instance, for CPU, memory or disk, with equal resources on every platform.

Every trial has a new instance. Time is measured on the host's clock around the workload, and read from the output of
the tool. The guest's clock is compared with the host's; if it drifted, the tool's times are dropped (Trindade 2018,
chapter 6: the clock inside a virtual machine distorts the reports of tools)."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, ClassVar

from lastro import registry
from lastro.errors import LastroError
from lastro.host.base import Host
from lastro.host.cgroups import Resources
from lastro.host.local import build_host
from lastro.image.rootfs import ImageAdditions
from lastro.instruments.base import TIME_HOST, Workload
from lastro.instruments.disk_workload import through_arc
from lastro.isolation.base import not_in_force
from lastro.meters.host import HostMeter
from lastro.platforms.base import AVAILABLE, Availability, Instance, InstanceSpec, Platform, unavailable
from lastro.results.samples import Metric, Outcome
from lastro.scenarios.base import Config, chosen_part, isolation_level, isolations_of, platform_level, slowdown, start_s
from lastro.scenarios.shared import resources
from lastro.scenarios.shared.accounts import METRICS
from lastro.scenarios.shared.bases import OnPlatforms
from lastro.scenarios.shared.clock_policy import MAX_TOOL_DRIFT
from lastro.scenarios.shared.host_limits import HOST_LIMITS, clock_kept
from lastro.scenarios.shared.probes import tried
from lastro.scenarios.shared.storage import reported_storage, storage
from lastro.scenarios.shared.topology import BuiltTopology, note_load
from lastro.scenarios.shared.window import MeasuredWindow
from lastro.study.levels import part_name
from lastro.study.model import DAY_S, Level, Setting
from lastro.testbed import Testbed
from lastro.units import MIB, human_bytes


def workloads() -> frozenset[str]:
    """Return the names of instruments that run inside one instance, including those that cannot be imported."""
    infos = registry.parts("instrument").values()
    return frozenset(info.name for info in infos if info.cls is None or issubclass(info.cls, Workload))


def workload_metrics(own: Sequence[Metric]) -> tuple[Metric, ...]:
    """Return the first metric of `own`, then the metrics of all workloads, then the other metrics of `own`.

    Each metric is returned once."""
    by_name = {own[0].name: own[0]}
    for info in registry.parts("instrument").values():
        if info.cls is not None and issubclass(info.cls, Workload):
            by_name |= {metric.name: metric for metric in info.cls.metrics}
    by_name |= {metric.name: metric for metric in own}
    return tuple(by_name.values())


InstanceStarter = Callable[[Workload], AbstractContextManager[Instance]]


class WorkloadProbes:
    """Probes of workloads: a short version of each is tried once on each platform.

    Options that also change the short version, such as thousands of threads, are tried separately."""

    def __init__(self, testbed: Testbed) -> None:
        self._testbed = testbed
        self._probed: dict[Hashable, Availability] = {}

    def availability(self, where: Hashable, tool: Workload, limits: Resources, start: InstanceStarter) -> Availability:
        """Return whether a workload fits into memory and its short version runs; each combination is tried once.

        `where` identifies the platform and isolation. `start` starts an instance there, as a trial would. `limits` are
        the instance's resources."""
        if not (availability := self._fits_into_memory(tool, limits)):
            return availability
        key = (where, limits, tool.name, *sorted(tool.brief().chosen.items()))
        return tried(self._probed, key, partial(self._probe, tool, start))

    def _fits_into_memory(self, tool: Workload, limits: Resources) -> Availability:
        """Return whether the full workload fits into memory; its short version would not show that.

        On every platform, memory is set aside for the kernel of a virtual machine, so that all platforms run the same
        task."""
        needed, memory_bytes = tool.least_memory_bytes(self._testbed.host, limits.cpuset), limits.memory_bytes
        if memory_bytes is None or needed <= memory_bytes * 63 // 64 - resources.KERNEL_BYTES:
            return AVAILABLE
        least_mib = math.ceil((needed + resources.KERNEL_BYTES) * 64 / 63 / MIB)
        why = f"{tool.name} needs {human_bytes(needed)}, but the instance has {human_bytes(memory_bytes)} of memory"
        return Availability(why, f'set memory = "{least_mib}M" or more, or choose a smaller task for the instrument')

    def _probe(self, tool: Workload, start: InstanceStarter) -> Availability:
        tool.require(build_host(self._testbed.host))
        brief = tool.brief()
        with start(brief) as instance, brief.prepared(instance):
            brief.run(instance, brief.probe_limit_s)
        return AVAILABLE


LIMIT_S = Setting("limit_s", 3600.0, "time limit of a workload, after which its trial is invalid", 1, DAY_S)
_ROLE = "instance"
_AROUND_S = 0.1  # verification, clocks and meters, roughly


class ComputeScenario(OnPlatforms):
    name = "compute"
    summary = "one workload in one instance: CPU, memory or disk, with equal resources on every platform"
    parts: ClassVar[tuple[str, ...]] = ("platform", "isolation", "instrument")
    combinable = frozenset({"isolation"})
    settings: ClassVar[tuple[Setting[Any], ...]] = (*resources.RESOURCES, LIMIT_S, *HOST_LIMITS, MAX_TOOL_DRIFT)
    metrics: ClassVar[tuple[Metric, ...]] = (TIME_HOST, *METRICS, *HostMeter.metrics)

    def __init__(self, testbed: Testbed | None) -> None:
        super().__init__(testbed)
        self._workloads = WorkloadProbes(self.testbed)

    @classmethod
    def part_names(cls, kind: str) -> frozenset[str]:
        return workloads() if kind == "instrument" else super().part_names(kind)

    @classmethod
    def known_metrics(cls) -> tuple[Metric, ...]:
        return workload_metrics(cls.metrics)

    @classmethod
    def tool(cls, config: Config) -> Workload:
        """Return the workload of a treatment with its options. Raises: as `make_part`."""
        return chosen_part(Workload, config)

    @classmethod
    def tools(cls, configs: Sequence[Config]) -> list[str]:
        """Return the names of a study's instruments."""
        return sorted({part_name(config, "instrument") for config in configs})

    @classmethod
    def image_needs(cls, host: Host, configs: Sequence[Config]) -> ImageAdditions:
        needs = ImageAdditions()
        for name in cls.tools(configs):
            kind = registry.parts("instrument")[name].cls
            needs = needs.combined_with(kind.needs(host)) if kind else needs
        return needs

    @classmethod
    def duration_s(cls, config: Config) -> float:
        try:
            work_s = cls.tool(config).expected_s(resources.expected_cpus(config), slowdown(config))
        except LastroError:  # what cannot run takes no time
            return 0.0
        return start_s(config) + _AROUND_S + work_s

    @classmethod
    def probing_s(cls, configs: Sequence[Config]) -> float:
        """Estimate the seconds of the probes as for any scenario, plus short versions of workloads on each platform."""
        brief_s: dict[tuple[object, ...], float] = {}  # by place and short version
        for config in configs:
            try:
                brief = cls.tool(config).brief()
            except LastroError:
                continue
            work_s = brief.expected_s(resources.expected_cpus(config), slowdown(config))
            place = platform_level(config), isolation_level(config), resources.CPUS.of(config)
            brief_s[(*place, brief.name, *brief.chosen.values())] = start_s(config) + _AROUND_S + work_s
        return super().probing_s(configs) + sum(brief_s.values())

    def availability(self, config: Config) -> Availability:
        level = platform_level(config)
        if not (availability := self.parts_available(config)):
            return availability
        try:
            platform, tool = self.pool.get(level), self.tool(config)
            spec = resources.limited_spec(config, self.testbed, _ROLE)
        except LastroError as error:
            return unavailable(error)
        start = partial(self._start_for_probe, config, platform, spec)
        availability = self._workloads.availability(self._place(config), tool, spec.resources, start)
        self.pool.residuals(level)  # read now, so that the first trial does not take longer than others
        return availability

    @classmethod
    def _place(cls, config: Config) -> tuple[Level, ...]:
        """Return what identifies where a workload runs, except resources, for `WorkloadProbes.availability`."""
        return platform_level(config), isolation_level(config)

    @contextmanager
    def _start_for_probe(
        self, config: Config, platform: Platform, spec: InstanceSpec, brief: Workload
    ) -> Iterator[Instance]:
        """Start the instance for a probe inside the block, as for a trial."""
        with self._start_all(config, platform, spec, brief) as (everyone, _):
            yield everyone[_ROLE]

    def run(self, config: Config, calibrations: Mapping[str, Any]) -> Outcome:
        outcome = Outcome()
        platform = self.pool.get(platform_level(config))
        spec = resources.limited_spec(config, self.testbed, _ROLE)
        isolations, tool = isolations_of(config), self.tool(config)
        with (
            clock_kept(self.testbed, config, outcome),
            self._start_all(config, platform, spec, tool) as (everyone, built),
        ):
            instance = everyone[_ROLE]
            outcome.invalidate(not_in_force(isolations, {_ROLE: instance}))
            reasons, seen = resources.check_resources(self.testbed, instance)
            outcome.invalidate(reasons)
            under = storage(platform, instance)
            outcome.notes |= {"limits": {_ROLE: resources.limits_of(spec)}, **seen, "storage": under}
            outcome.add_condition(reported_storage(under))
            built.note(outcome)
            self.testbed.flush()
            with tool.prepared(instance, LIMIT_S.of(config)):
                self._measure(config, tool, platform, everyone, under, outcome)
        return outcome

    def _client(self, config: Config) -> str:
        """Return the role in which the workload's client runs."""
        return _ROLE

    def _daemons(self, config: Config, platform: Platform) -> tuple[str, ...]:
        """Return the cgroups of daemons that serve the instance: their usage is part of the trial, not foreign load."""
        return platform.own_cgroups

    @contextmanager
    def _start_all(
        self, config: Config, platform: Platform, spec: InstanceSpec, tool: Workload
    ) -> Iterator[tuple[dict[str, Instance], BuiltTopology]]:
        """Start all instances of the workload inside the block; yield ({role: instance}, their topology)."""
        with platform.start(self.testbed, spec) as instance:
            built = BuiltTopology(self.testbed)
            built.add(_ROLE, instance, platform_level(config), isolation=isolation_level(config))
            yield {_ROLE: instance}, built

    def _measure(
        self,
        config: Config,
        tool: Workload,
        platform: Platform,
        everyone: Mapping[str, Instance],
        under: Mapping[str, str],
        outcome: Outcome,
    ) -> None:
        """Run the workload, with meters and clocks around its command, and add the results to `outcome`.

        `under` has the facts on the storage of the workload's files."""
        window = MeasuredWindow(self.testbed, everyone, config, self._daemons(config, platform), workload=_ROLE)
        reading = tool.run(everyone[_ROLE], LIMIT_S.of(config), window)
        reading = through_arc(reading, under, tool.past_caches)
        window.require_used(tool.name)
        note_load(outcome, tool.name, self._client(config), _ROLE)
        window.record_workload(reading, tool.by_host_clock, reading.measurements.get(TIME_HOST.name), outcome)
        outcome.notes["workload"] = {"instrument": tool.name, "options": tool.chosen, "command": tool.argv()}

    def version_commands(self, configs: Sequence[Config]) -> Mapping[str, Sequence[str]]:
        kinds = {name: registry.parts("instrument")[name].cls for name in self.tools(configs)}
        return {name: kind.version_argv for name, kind in kinds.items() if kind and kind.version_argv}
