"""Service levels and costs as users write them: 'latency_p99 < 1 ms', '0.04*chain_cpus + 0.005*function_memory'."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lastro.errors import InputError, did_you_mean
from lastro.results.samples import Metric
from lastro.units import in_unit

_LEVEL = re.compile(r"\s*(\w+)\s*(<=|>=|<|>|≤|≥)\s*(.+?)\s*")
_TERM = re.compile(r"\s*(?:(\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)\s*\*\s*)?(\w+)\s*")


@dataclass(frozen=True, slots=True)
class ServiceLevel:
    """A limit on a metric, in the unit of the metric: at least `limit`, or at most. `text` is it on one line."""

    metric: Metric
    limit: float
    at_least: bool
    text: str

    @classmethod
    def parse(cls, text: str, metrics: Sequence[Metric]) -> ServiceLevel:
        """Raises: InputError for what is no level, or one of a metric that is not among these."""
        if not (match := _LEVEL.fullmatch(text)):
            raise InputError(f"'{text}' is not a service level", "write it as in 'latency_p99 < 1 ms'")
        metric = _named(match[1], metrics)
        limit = in_unit(match[3], metric.unit)
        sign = "≥" if match[2] in (">", ">=", "≥") else "≤"
        return cls(metric, limit, sign == "≥", f"{metric.name} {sign} {limit:.10g} {metric.unit}".strip())


@dataclass(frozen=True, slots=True)
class Cost:
    """What a candidate costs: a weighted sum of metrics, {name: weight}; `text` is that sum."""

    weights: Mapping[str, float]
    text: str

    @classmethod
    def of(cls, weights: Mapping[str, float]) -> Cost:
        terms = (name if weight == 1 else f"{weight:g}*{name}" for name, weight in weights.items())
        return cls(dict(weights), " + ".join(terms))

    @classmethod
    def parse(cls, text: str, metrics: Sequence[Metric]) -> Cost:
        """Raises: InputError for what is no sum, or for a metric that is not among these."""
        weights: dict[str, float] = {}
        for term in text.split("+"):
            if not (match := _TERM.fullmatch(term)):
                raise InputError(
                    f"'{text}' is not a cost", "write a metric, or a sum as in '0.04*chain_cpus + 0.01*latency_p99'"
                )
            name = _named(match[2], metrics).name
            weights[name] = weights.get(name, 0.0) + float(match[1] or 1)
        return cls.of(weights)


def _named(name: str, metrics: Sequence[Metric]) -> Metric:
    names = [metric.name for metric in metrics]
    if name not in names:
        raise InputError(f"this campaign has no metric '{name}'", did_you_mean(name, names))
    return metrics[names.index(name)]
