"""A load in a neighbour: the demand of the treatment, and whether the load reached its dose."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from lastro import registry
from lastro.anomalies.base import Anomaly, Demand, Neighbour
from lastro.host.cgroups import Usage
from lastro.meters.host import HostMeter
from lastro.results.samples import Outcome
from lastro.scenarios.base import Config
from lastro.testbed import Testbed
from lastro.units import parse_size_bytes


@dataclass(frozen=True, slots=True)
class Disturbance:
    """A load that runs in an instance."""

    neighbour: Neighbour
    anomaly: Anomaly
    demand: Demand

    @property
    def fields(self) -> dict[str, str]:
        """The fields of the neighbour in the topology of a trial."""
        return {"does": " ".join(self.anomaly.argv(self.demand)), "anomaly": self.anomaly.name}

    def judge_dose(
        self, what: str, before: tuple[Usage, int], elapsed_s: float, host: HostMeter, outcome: Outcome
    ) -> None:
        """Note the dose since `before`; invalidate the trial if it was missed. `what` names the load in the reason."""
        dose = self.neighbour.dose_since(before, elapsed_s)
        outcome.notes["doses"] = {**asdict(dose), **host.pressure()}
        unmet = self.anomaly.unmet(dose, self.demand, self.neighbour.instance.spec.resources)
        outcome.invalidate([f"{what} missed its dose: {unmet}"] if unmet else [])


def demanded(config: Config, testbed: Testbed, timeout_s: float) -> tuple[Anomaly, Demand] | None:
    """Return the treatment's anomaly and its demand in `testbed`; None when the anomaly does nothing."""
    anomaly: Anomaly = registry.get("anomaly", str(config["anomaly"]))()
    demand = Demand(
        tool=str(config["anomaly_tool"]),
        workers=int(config["anomaly_workers"]),
        memory_bytes=parse_size_bytes(str(config["anomaly_memory"])),
        timeout_s=timeout_s,
        usable_cpus=len(testbed.usable_cpus),
    )
    return (anomaly, demand) if anomaly.argv(demand) else None
