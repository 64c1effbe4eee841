"""One workload in one instance: CPU, memory, disk, front by front, with equal resources on every platform.

Every trial has a fresh instance. Time is taken on the host's clock around the workload as well as from the tool's own
output; the guest's clock is compared with the host's, and where it drifted the tool's times are dropped (Trindade 2018,
chapter 6: the clock inside a virtual machine distorts what tools tell)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, ClassVar

from lastro import registry, validity
from lastro.errors import LastroError
from lastro.host.base import Host
from lastro.image.rootfs import Needs
from lastro.instruments.base import TIME_HOST, Workload
from lastro.isolation.base import isolate, not_in_force, parts_of
from lastro.meters.host import HostMeter
from lastro.platforms.base import Availability, Instance, InstanceSpec, Platform, unavailable
from lastro.results.samples import Metric, Outcome
from lastro.scenarios import _workload
from lastro.scenarios._probes import Probes
from lastro.scenarios._storage import storage
from lastro.scenarios._workload import GuestAccount, WorkloadProbes, workload
from lastro.scenarios.base import (
    AttachmentPool,
    Config,
    PlatformPool,
    Scenario,
    first_unavailable,
    platform_level,
    setup_s,
)
from lastro.study.levels import split_options
from lastro.study.model import Setting
from lastro.testbed import Testbed

_DAY_S = 86_400
_ROLE = "instance"
_AROUND_S = 0.4  # verification, clocks and meters, about


class ComputeScenario(Scenario):
    name = "compute"
    summary = "one workload in one instance: CPU, memory or disk, with equal resources on every platform"
    parts: ClassVar[tuple[str, ...]] = ("platform", "isolation", "instrument")
    combinable = frozenset({"isolation"})
    settings: ClassVar[tuple[Setting, ...]] = (
        *_workload.RESOURCES,
        Setting("limit_s", 3600.0, "time after which a workload is given up, and its trial invalid", 1, _DAY_S),
        Setting("max_steal_percent", 5.0, "CPU time stolen from this host above which a trial is invalid", 0, 100),
        Setting("max_drift_percent", 0.1, "drift of a guest's clock above which a tool's times are dropped", 0, 100),
        Setting("max_foreign_cpus", 0.3, "CPUs used by other processes above which a trial is invalid", 0, 4096),
    )
    metrics: ClassVar[tuple[Metric, ...]] = (TIME_HOST, *_workload.METRICS, *HostMeter.metrics)

    def __init__(self, testbed: Testbed | None) -> None:
        super().__init__(testbed)
        self.pool = PlatformPool(self.testbed, self._stack)
        self.attachments = AttachmentPool(self.testbed, self._stack)
        self._probes = Probes(self.testbed, self.pool, self.attachments)
        self._workloads = WorkloadProbes(self.testbed)

    @classmethod
    def part_names(cls, kind: str) -> frozenset[str]:
        return _workload.workloads() if kind == "instrument" else super().part_names(kind)

    @classmethod
    def known_metrics(cls) -> tuple[Metric, ...]:
        return _workload.workload_metrics(cls.metrics)

    @classmethod
    def tool(cls, config: Config) -> Workload:
        """What a treatment runs. Raises: Unavailable, InputError."""
        return workload(config)

    @classmethod
    def tools(cls, configs: Sequence[Config]) -> list[str]:
        """Names of the instruments of a study."""
        return sorted({split_options(str(config["instrument"]))[0] for config in configs})

    @classmethod
    def image_needs(cls, host: Host, configs: Sequence[Config]) -> Needs:
        needs = Needs()
        for name in cls.tools(configs):
            kind = registry.parts("instrument")[name].cls
            needs = needs.and_of(kind.needs(host)) if kind else needs
        return needs

    @classmethod
    def duration_s(cls, config: Config) -> float:
        try:
            work_s = cls.tool(config).expected_s(float(config["cpus"]), _workload.slowdown(config))
        except LastroError:  # what cannot run takes no time
            return 0.0
        return setup_s(config) / 3 + _AROUND_S + work_s  # that of a chain is for its three instances

    def availability(self, config: Config) -> Availability:
        level = platform_level(config)
        found = first_unavailable(
            self._probes.platform(level),
            *(self._probes.isolation(part, level) for part in parts_of(str(config["isolation"]))),
        )
        if not found:
            return found
        try:
            platform, tool, spec = self.pool.get(level), self.tool(config), self._spec(config)
        except LastroError as error:
            return unavailable(error)
        found = self._workloads.availability(config, platform, tool, spec)
        self.pool.residuals(level)  # they are found once, and not by the first trial, which would then take longer
        return found

    def _spec(self, config: Config) -> InstanceSpec:
        """Raises: Unavailable when the host has not the resources, or the isolation would change them."""
        limits = _workload.resources(config)
        spec = InstanceSpec(self.testbed.session.unique(_ROLE), _ROLE, resources=limits)
        isolations = [registry.get("isolation", part)() for part in parts_of(str(config["isolation"]))]
        return isolate(spec, _workload.without_limits(isolations), None)

    def run(self, config: Config, calibrations: Mapping[str, Any]) -> Outcome:
        outcome = Outcome()
        platform, spec = self.pool.get(platform_level(config)), self._spec(config)
        isolations = [registry.get("isolation", part)() for part in parts_of(str(config["isolation"]))]
        clock = validity.ClockReading.now()
        tool = self.tool(config)
        with self._started(config, platform, spec, tool) as everyone:
            instance = everyone[_ROLE]
            outcome.doubt(not_in_force(isolations, {_ROLE: instance}))
            reasons, seen = _workload.unequal(self.testbed, instance)
            outcome.doubt(reasons)
            limits = {name: value for name, value in asdict(spec.resources).items() if value is not None}
            outcome.notes |= {"limits": {_ROLE: limits}, "seen inside": seen, "storage": storage(platform, instance)}
            with tool.prepared(instance):
                self._measure(config, tool, platform, everyone, outcome)
        outcome.doubt(validity.clock_reasons(clock, validity.ClockReading.now()))
        return outcome

    def _daemons(self, config: Config, platform: Platform) -> tuple[str, ...]:
        """Their cgroups: what they use is the trial's own load."""
        return platform.own_cgroups

    @contextmanager
    def _started(
        self, config: Config, platform: Platform, spec: InstanceSpec, tool: Workload
    ) -> Iterator[dict[str, Instance]]:
        """The instance, and others that have a part in the workload, by role."""
        with platform.start(self.testbed, spec) as instance:
            yield {_ROLE: instance}

    def _measure(
        self, config: Config, tool: Workload, platform: Platform, everyone: Mapping[str, Instance], outcome: Outcome
    ) -> None:
        """The workload, with meters and clocks around it."""
        instance, host = everyone[_ROLE], HostMeter(self.testbed, everyone, self._daemons(config, platform))
        others = {role: other.usage() for role, other in everyone.items() if role != _ROLE}
        guest, before, clock = GuestAccount.of(instance), instance.usage(), instance.clock()
        started_s = time.monotonic()
        host.start()
        reading = tool.run(instance, float(config["limit_s"]))
        host.stop()
        elapsed_s = time.monotonic() - started_s
        clock_after, used, guest_after = instance.clock(), instance.usage().since(before), GuestAccount.of(instance)
        usage = {_ROLE: used, **{role: everyone[role].usage().since(other) for role, other in others.items()}}
        drift_limit = float(config["max_drift_percent"]) / 100
        _workload.judge_clock(tool, reading, clock, clock_after, drift_limit, outcome)
        outcome.measurements |= {
            **_workload.account(used, elapsed_s, guest, guest_after),
            **host.read(),
        }
        if guest and guest_after:
            outcome.notes["guest"] = {"stolen_s": round(guest_after.stolen_s - guest.stolen_s, 3)}
        foreign_cpus = host.foreign_cpus(sum(each.user_s for each in usage.values()))
        outcome.notes |= {
            "usage": {role: asdict(each) for role, each in usage.items()},
            "elapsed_s": elapsed_s,
            "host": {"foreign_cpus": round(foreign_cpus, 3), **host.notes(), **host.pressure()},
            "workload": {"instrument": tool.name, "options": tool.chosen, "command": tool.argv()},
        }
        thresholds = {key: float(config[key]) for key in ("max_steal_percent", "max_foreign_cpus")}
        outcome.doubt(validity.host_reasons(host.steal_percent, foreign_cpus, thresholds))

    def facts(self, configs: Sequence[Config]) -> dict[str, Any]:
        """Versions of the workloads' tools, as they are in the image."""
        names = self.tools(configs)
        found: dict[str, Any] = {"image_tools": {}}
        try:
            spec = InstanceSpec(self.testbed.session.unique("facts"), "probe")
            with self.pool.get("native").start(self.testbed, spec) as instance:
                for name in names:
                    kind = registry.parts("instrument")[name].cls
                    if kind and kind.version_argv:
                        done = instance.run(kind.version_argv, check=False)
                        found["image_tools"][name] = next(iter((done.text + done.error_text).splitlines()), "")
        except LastroError as error:
            found["not_told"] = error.message
        return found

    def preparation(self, config: Config) -> list[dict[str, Any]]:
        return [*self.testbed.preparation, *self.pool.preparations.get(platform_level(config), ())]

    def residuals(self, config: Config) -> dict[str, Any]:
        return self.pool.residuals(platform_level(config))
