"""Checks that no host was disturbed. Each host is read once, even if it has several roles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lastro.host.cgroups import Usage
from lastro.meters.host import HostMeter
from lastro.platforms.base import Instance
from lastro.results.samples import Outcome
from lastro.scenarios.base import Config
from lastro.scenarios.proxy.three_node import ThreeNodeTestbed
from lastro.scenarios.shared.host_limits import judged

_LEAST_S = 1.0  # CPU time is counted in ticks: in a shorter time, a few would look like a busy CPU


class HostsMeter:
    """A meter on each distinct host. Only the metrics of `dut` are reported, but all hosts are judged."""

    def __init__(self, wire: ThreeNodeTestbed, own_cgroups: Sequence[str]) -> None:
        """Make the meters. `own_cgroups` are those of the platform's daemons, which run on the DUT's host."""
        self.dut = HostMeter(wire.dut.testbed, {}, own_cgroups)
        others = {place.testbed.host: place.testbed for place in (wire.client, wire.server)}
        others.pop(wire.dut.testbed.host, None)
        self._others = {host: HostMeter(bed, {}) for host, bed in others.items()}
        self._dut_host = wire.dut.testbed.host

    def start(self) -> None:
        for meter in (*self._others.values(), self.dut):
            meter.start()

    def stop(self) -> None:
        for meter in (self.dut, *self._others.values()):
            meter.stop()

    def judge(self, used: Mapping[str, Usage], everyone: Mapping[str, Instance], config: Config) -> Outcome:
        """Judge the time of a load, in which Lastro itself started almost no commands; return notes and reasons."""
        return self._judged(used, everyone, config)

    def judge_starts(self, used: Mapping[str, Usage], everyone: Mapping[str, Instance], config: Config) -> Outcome:
        """Judge a time in which Lastro started many commands, whose CPU time is not foreign; return notes and reasons.

        On a remote host that CPU time is not known, so only the time that its hypervisor stole is judged there. In a
        guest it is known: the guest is a process of the machine below, on which foreign load is measured."""
        found = self._judged(used, everyone, config, starts=True)
        reasons = [f"while the proxies started, {reason}" for reason in found.invalid_because]
        return Outcome(notes={f"{name} at start": note for name, note in found.notes.items()}, invalid_because=reasons)

    def _judged(
        self, used: Mapping[str, Usage], everyone: Mapping[str, Instance], config: Config, *, starts: bool = False
    ) -> Outcome:
        found = Outcome()
        for host, meter in {self._dut_host: self.dut, **self._others}.items():
            own_s = sum(each.user_s for role, each in used.items() if everyone[role].testbed.host is host)
            foreign_cpus = meter.foreign_cpus(own_s + starts * meter.commands_user_s)
            if starts:
                unknown = host.remote and not meter.testbed.near
                foreign_cpus *= 0.0 if unknown else min(1.0, meter.elapsed_s / _LEAST_S)
            note, reasons = judged(meter, foreign_cpus, config)
            note |= meter.pressure()
            if meter is self.dut:
                found.notes["host"] = note
            else:
                found.notes[f"host {host.name}"] = note
                reasons = [f"{host.name}: {reason}" for reason in reasons]
            found.invalidate(reasons)
        return found
