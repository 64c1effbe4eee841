"""The window in which proxies start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lastro.meters.host import HostMeter
from lastro.platforms.base import Instance
from lastro.results.samples import Reading
from lastro.scenarios.base import Config
from lastro.scenarios.proxy.three_node import SERVER, ThreeNodeTestbed
from lastro.scenarios.shared.window import Meters

_LEAST_S = 1.0  # CPU time is counted in ticks: in a shorter time, a few would look like a busy CPU


class StartsWindow(Meters):
    """Meters on each distinct host while Lastro starts many commands, whose CPU time is not foreign.

    On a remote host that CPU time is not known, so only the time that its hypervisor stole is judged there. In a guest
    it is known: the guest is a process of the machine below, on which foreign load is measured."""

    def __init__(self, wire: ThreeNodeTestbed, server: Instance, own_cgroups: Sequence[str]) -> None:
        beds = [place.testbed for place in wire.places]
        super().__init__(wire.dut.testbed, {SERVER: server}, own_cgroups, elsewhere=beds, with_commands=True)

    def foreign_cpus(self, meter: HostMeter) -> float:
        unknown = meter.testbed.host.remote and not meter.testbed.near
        return 0.0 if unknown else super().foreign_cpus(meter) * min(1.0, meter.elapsed_s / _LEAST_S)

    def judged(self, config: Config) -> Reading:
        found = super().judged(config)
        reasons = tuple(f"while the proxies started, {reason}" for reason in found.invalid_because)
        return replace(
            found, notes={f"{name} at start": note for name, note in found.notes.items()}, invalid_because=reasons
        )
