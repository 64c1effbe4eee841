"""The parts of a host that a network function can reach: one idle instance, examined once from inside.

The instance is the same as a chain starts for its function, with the capabilities that the function needs. A trial is a
count, not a sample: two trials of a treatment differ only if the host has changed between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lastro.functions.base import Function
from lastro.isolation.base import Profile, isolate, not_in_force
from lastro.meters.exposure import ExposureMeter
from lastro.platforms.base import Availability
from lastro.results.samples import Outcome
from lastro.scenarios.base import Config, isolation_level, isolations_of, platform_level
from lastro.scenarios.shared.bases import OnPlatforms
from lastro.scenarios.shared.instance_spec import instance_spec
from lastro.scenarios.shared.topology import BuiltTopology, note_meter

_ROLE = "function"
_DURATION_S = 2.5


class ExposureScenario(OnPlatforms):
    name = "exposure"
    summary = "the parts of the host that a function's instance can reach, counted from inside"
    parts = ("platform", "isolation")
    combinable = frozenset({"isolation"})
    metrics = ExposureMeter.metrics

    @classmethod
    def duration_s(cls, config: Config) -> float:
        return _DURATION_S

    def availability(self, config: Config) -> Availability:
        return self.parts_available(config)

    def run(self, config: Config, calibrations: Mapping[str, Any]) -> Outcome:
        outcome, isolations = Outcome(), isolations_of(config)
        spec = instance_spec(self.testbed, _ROLE, Function.capabilities)
        platform = self.pool.get(platform_level(config))
        spec = isolate(spec, isolations, Profile.unmeasured(self.testbed).on(platform))
        with platform.start(self.testbed, spec) as instance:
            outcome.invalidate(not_in_force(isolations, {_ROLE: instance}))
            built = BuiltTopology(self.testbed)
            built.add(_ROLE, instance, platform_level(config), isolation=isolation_level(config))
            built.note(outcome)
            meter = ExposureMeter(self.testbed, {_ROLE: instance})
            note_meter(outcome, meter)
            meter.start()
            meter.stop()
            outcome.measurements.update(meter.read())
            outcome.notes.update(meter.notes())
        return outcome
