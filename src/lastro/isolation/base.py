"""Isolations: pure changes of an instance's specification, which the platform translates or refuses."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from lastro.errors import LastroError
from lastro.host.cgroups import Usage, block_device_of
from lastro.platforms.base import AVAILABLE, Availability, Instance, InstanceSpec, Platform, unavailable
from lastro.study.parts import Part
from lastro.testbed import Testbed

NEIGHBOUR = "neighbour"


@dataclass(frozen=True, slots=True)
class MeasuredUse:
    """The resources that one instance used in a calibration run without an anomaly; rates are per second."""

    cpus: float
    memory_bytes: int
    read_bps: float
    write_bps: float
    read_iops: float
    write_iops: float

    @classmethod
    def of(cls, usage: Usage, elapsed_s: float) -> MeasuredUse:
        rates = (usage.read_bytes, usage.write_bytes, usage.read_ops, usage.write_ops)
        return cls(usage.cpu_s / elapsed_s, usage.memory_peak_bytes, *(rate / elapsed_s for rate in rates))


@dataclass(frozen=True, slots=True)
class Profile:
    """The results of a calibration run."""

    needs: dict[str, MeasuredUse]  # {role: what its instance used}
    # How many CPUs the chain kept busy while it carried TCP, with the kernel's work on packets, which no cgroup counts.
    chain_cpus: float
    block_device: str | None  # the disk on which rates are limited
    # On which chain and neighbour may run; a profile that was stored without it gets the number of this machine.
    usable_cpus: int = field(default_factory=lambda: os.cpu_count() or 1)
    least_memory_bytes: int = 0  # that the platform needs to start an instance

    def on(self, platform: Platform) -> Profile:
        """Return this profile with the memory that `platform` needs to start an instance."""
        return replace(self, least_memory_bytes=platform.least_memory_bytes)

    @classmethod
    def unmeasured(cls, testbed: Testbed) -> Profile:
        """Return a profile without measurements, only to check that limits take effect.

        It gives the neighbour half of the CPUs: with the minimum, an instance on an emulated CPU would hardly start."""
        n_cpus = len(testbed.usable_cpus)
        return cls({}, n_cpus / 2, block_device_of(testbed.scratch_dir, testbed.host), n_cpus)


class Isolation(Part):
    kind = "isolation"
    needs_profile: ClassVar[bool] = False

    @abstractmethod
    def apply(self, spec: InstanceSpec, profile: Profile | None) -> InstanceSpec:
        """Return `spec`, changed so that the instance is isolated. `profile` is not None if `needs_profile` is true."""

    def verify(self, instance: Instance) -> str | None:
        """Check inside the instance, or in the host's kernel; return why it is not isolated, or None if it is."""
        return None

    def probe(self, testbed: Testbed, platform: Platform) -> Availability:
        """Start and verify an isolated instance; return whether the platform can do that, with a reason if not."""
        profile = Profile.unmeasured(testbed).on(platform) if self.needs_profile else None
        spec = InstanceSpec(name=f"probe-{platform.name}-{self.name}", role=NEIGHBOUR)
        try:
            with platform.start(testbed, self.apply(spec, profile)) as instance:
                reason = self.verify(instance)
        except LastroError as error:
            return unavailable(error)
        return Availability(f"{platform.name} started an instance without it: {reason}") if reason else AVAILABLE


def parts_of(level: str) -> list[str]:
    """Split a level into the names of its isolations: 'cgroups+apparmor' -> ['cgroups', 'apparmor']."""
    return level.split("+")


def isolate(spec: InstanceSpec, isolations: Iterable[Isolation], profile: Profile | None) -> InstanceSpec:
    for isolation in isolations:
        spec = isolation.apply(spec, profile)
    return spec


def not_in_force(isolations: Iterable[Isolation], instances: Mapping[str, Instance]) -> list[str]:
    """Return a reason for each isolation that does not take effect on one of `instances`, which are {role: instance}.

    With any reason, the trial is invalid, since it would measure another treatment."""
    return [
        f"isolation '{isolation.name}' is not in force on the {role}: {reason}"
        for isolation in isolations
        for role, instance in instances.items()
        if (reason := isolation.verify(instance))
    ]
