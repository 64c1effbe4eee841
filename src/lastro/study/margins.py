"""Margins: the relative change of a metric that matters, as a study states it in its table [margins]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lastro.results.samples import Metric
from lastro.study.model import Study

DEFAULT_MARGIN = 0.03  # for comparisons of variants and campaigns, if the study does not give the metric's margin


@dataclass(frozen=True, slots=True)
class Margins:
    """The margin of each metric, as a fraction: from `by_metric`, {name of a metric: margin}, or else `default`."""

    default: float = DEFAULT_MARGIN
    by_metric: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of_studies(cls, *studies: Study) -> Margins:
        """Return the margins of these studies; where several give a margin for a metric, the first one counts."""
        return cls(by_metric={name: margin for study in reversed(studies) for name, margin in study.margins.items()})

    def of(self, metric: str) -> float:
        return self.by_metric.get(metric, self.default)

    def judged(self, metrics: Sequence[Metric]) -> dict[str, float]:
        """Return {name: margin} of the metrics that have a better direction, or of all metrics if none has."""
        directed = [metric for metric in metrics if metric.better != "neither"]
        return {metric.name: self.of(metric.name) for metric in directed or metrics}
