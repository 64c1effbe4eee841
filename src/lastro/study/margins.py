"""Margins: the relative change of a metric that matters, as a study states it in its table [margins]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lastro.results.samples import Metric
from lastro.study.model import Study

USUAL = 0.03  # of a metric that the study does not name, where its variants or campaigns are judged


@dataclass(frozen=True, slots=True)
class Margins:
    """The margin of each metric, as a fraction: that of `by_metric`, {name: margin}, or else `usual`."""

    usual: float = USUAL
    by_metric: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of_studies(cls, *studies: Study) -> Margins:
        """Return the margins in the tables of these studies; of a metric in several tables, that of the first."""
        return cls(by_metric={name: margin for study in reversed(studies) for name, margin in study.margins.items()})

    def of(self, metric: str) -> float:
        return self.by_metric.get(metric, self.usual)

    def judged(self, metrics: Sequence[Metric]) -> dict[str, float]:
        """Return {name of a metric: its margin} of those metrics that have a better direction; of all if none has."""
        directed = [metric for metric in metrics if metric.better != "neither"]
        return {metric.name: self.of(metric.name) for metric in directed or metrics}
