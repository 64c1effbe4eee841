"""The contracts of smaller parts: an anomaly reaches its dose and ends, a function forwards what it should."""

from __future__ import annotations

import time
from typing import ClassVar

from lastro import registry
from lastro.anomalies.base import Anomaly, Demand, Dose
from lastro.attachments.base import Attachment
from lastro.functions.base import CounterReading, Function
from lastro.host.cgroups import Resources
from lastro.platforms.base import InstanceSpec
from lastro.scenarios.base import make_part
from lastro.scenarios.shared.chain import deployed
from lastro.scenarios.shared.disturbance import bounded
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed
from lastro.units import MIB

_END_S = 5.0
_READINGS = 3  # of a dose, one second each; a reading may fail when other processes had the processors


class AnomalyContract:
    """The contract of an anomaly: it reaches its dose and ends with its trial; one that did too little is detected.

    Each test is a real run in a runc container, on an idle host."""

    anomaly: ClassVar[str]  # a level, with options if needed
    tools: ClassVar[tuple[str, ...]] = ("stress-ng",)  # that can produce it: levels of the setting `anomaly_tool`
    memory_bytes: ClassVar[int] = 32 * MIB

    def _demand(self, tool: str) -> Demand:
        return Demand(tool=tool, workers=2, memory_bytes=self.memory_bytes, timeout_s=20.0)

    def _part(self) -> Anomaly:
        return make_part(Anomaly, self.anomaly)

    def test_it_reaches_its_dose_and_ends_with_the_trial(self, testbed: Testbed, pool: PlatformPool) -> None:
        for tool in self.tools:
            part, demand = self._part(), self._demand(tool)
            spec = bounded(InstanceSpec("neighbour", "neighbour"), testbed, demand)
            with pool.get("runc").start(testbed, spec) as instance:
                at_rest = instance.pids()
                with part.at_work(instance, demand) as load:
                    load.require_alive()
                    for _ in range(_READINGS):
                        before = load.reading()
                        time.sleep(1.0)
                        dose = load.dose_since(before)
                        shortfall = part.unmet(dose, demand, instance.spec.resources)
                        if shortfall is None:
                            break
                assert shortfall is None, f"{tool}: {shortfall}"
                assert 0 < dose.cpus < 1 + demand.usable_cpus
                self.check(dose)
                deadline_s = time.monotonic() + _END_S
                while instance.pids() != at_rest and time.monotonic() < deadline_s:
                    time.sleep(0.05)
                assert instance.pids() == at_rest, f"{tool} left processes behind"

    def check(self, dose: Dose) -> None:
        """Assert what must be true of the anomaly's dose once it is reached; a subclass may define it."""

    def test_a_neighbour_that_did_nothing_or_ended_early_has_missed_its_dose(self) -> None:
        part, demand = self._part(), self._demand(self.tools[0])
        nothing = Dose(elapsed_s=1.0, cpus=0.0, memory_peak_bytes=0, written_bytes=0, alive=True)
        assert part.unmet(nothing, demand, Resources()), "an idle neighbour has no dose"
        ended = Dose(elapsed_s=1.0, cpus=9.0, memory_peak_bytes=1 << 40, written_bytes=1 << 40, alive=False)
        assert part.unmet(ended, demand, Resources()), "it ended before the measurement did"


class FunctionContract:
    """The contract of a function: a ping from end to end crosses it, and its counters count the ping."""

    function: ClassVar[str]

    def test_a_ping_crosses_it_and_its_counters_see_it(self, testbed: Testbed, pool: PlatformPool) -> None:
        function = registry.get(Function, self.function)()
        links = registry.get(Attachment, "veth-direct")()
        mark = testbed.session.mark()
        with links.prepare(testbed), deployed(testbed, pool.get("runc"), links, function) as chain:
            counted = chain.counted()
            assert counted.get("crossed", CounterReading(0, 0)).packets > 0, "a ping reached the sink by another path"
            for witness in function.witnesses:
                assert counted[witness].packets > 0, f"{witness} does not see a new flow"
        assert testbed.session.mark() == mark, "it left objects behind"
