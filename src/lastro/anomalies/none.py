"""No anomaly: there is no neighbour."""

from __future__ import annotations

from lastro.anomalies.base import Anomaly, Demand


class NoAnomaly(Anomaly):
    name = "none"
    summary = "no neighbour at all: the ideal case"

    def argv(self, demand: Demand) -> list[str]:
        return []
