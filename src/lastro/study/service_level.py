"""Service levels and costs as users write them: 'latency_p99 < 1 ms', '0.04*chain_cpus + 0.005*function_memory'."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lastro.errors import InputError, did_you_mean
from lastro.results.samples import Metric
from lastro.shapes import MOST_MEASURED
from lastro.units import in_unit

# The factors that users choose. All others are conditions, and service levels must hold in every condition.
CHOICES = ("platform", "attachment", "isolation", "placement", "implementation")
_LEVEL = re.compile(r"(\w+)\s*(<=|>=|<|>|≤|≥)\s*(.+)")
_TERM = re.compile(r"\s*(?:(\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)\s*\*\s*)?(\w+)\s*", re.ASCII)


def is_choice(factor: str) -> bool:
    """Return whether a user chooses the levels of a factor, or of an option such as `platform.nic`."""
    return factor.partition(".")[0] in CHOICES


@dataclass(frozen=True, slots=True)
class ServiceLevel:
    """A limit on a metric, in the metric's unit: at least `limit` if `at_least`, else at most.

    `text` is the service level in a uniform spelling: 'latency_p99 ≤ 1 ms'."""

    metric: Metric
    limit: float
    at_least: bool
    text: str

    @classmethod
    def parse(cls, text: str, metrics: Sequence[Metric]) -> ServiceLevel:
        """Parse a service level such as 'latency_p99 < 1 ms'.

        Raises: InputError for any other text, and for a metric that is not in `metrics`."""
        if not (match := _LEVEL.fullmatch(text.strip())):
            raise InputError(f"'{text}' is not a service level", "write it as in 'latency_p99 < 1 ms'")
        metric = _named(match[1], metrics)
        limit = in_unit(match[3], metric.unit)
        sign = "≥" if match[2] in (">", ">=", "≥") else "≤"
        return cls(metric, limit, sign == "≥", f"{metric.name} {sign} {limit:.10g} {metric.unit}".strip())


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource with a price per hour, such as CPUs.

    `metrics` are the names of the metrics that measure its use; the first one that a study measures is used. `share`
    converts their unit to the unit of the price: 1/1024 if the metrics are in MiB and the price is per GiB."""

    metrics: tuple[str, ...]
    share: float = 1.0

    def metric(self, known: Sequence[str]) -> str | None:
        """Return the name of the first metric of the resource that is in `known`; None if there is none."""
        return next((name for name in self.metrics if name in known), None)


RESOURCES = {
    "cpu_hour": Resource(("chain_cpus", "instance_cpus", "dut_cpus")),
    "gib_hour": Resource(("chain_memory", "instance_memory", "dut_memory"), 1 / 1024),
}


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a candidate: a weighted sum of metrics. `weights` is {name of a metric: weight}.

    `text` is the sum in the names that the user wrote, which may be names of resources."""

    weights: Mapping[str, float]
    text: str

    @classmethod
    def of(cls, weights: Mapping[str, float], metrics: Sequence[Metric]) -> Cost:
        """Return the cost for {name of a metric: weight, or name of a resource: price per hour}.

        Raises: InputError for an unknown name, and for a resource that no metric measures."""
        by_metric: dict[str, float] = {}
        names = [metric.name for metric in metrics]
        for name, weight in weights.items():
            if resource := RESOURCES.get(name):
                if (used := resource.metric(names)) is None:
                    expected = " or ".join(resource.metrics)
                    raise InputError(f"this campaign does not measure what {name} prices", f"that is {expected}")
                by_metric[used] = by_metric.get(used, 0.0) + weight * resource.share
            else:
                by_metric[_named(name, metrics).name] = by_metric.get(name, 0.0) + weight
        terms = (name if weight == 1 else f"{weight:g}*{name}" for name, weight in weights.items())
        return cls(by_metric, " + ".join(terms))

    @classmethod
    def parse(cls, text: str, metrics: Sequence[Metric]) -> Cost:
        """Parse a sum of metrics such as '0.04*chain_cpus + 0.01*latency_p99'.

        Raises: InputError for any other text, and for a metric that is not in `metrics`."""
        weights: dict[str, float] = {}
        for term in text.split("+"):
            if not (match := _TERM.fullmatch(term)):
                hint = "write a metric, or a sum as in '0.04*chain_cpus + 0.01*latency_p99'"
                raise InputError(f"'{text}' is not a cost", hint)
            weights[match[2]] = weights.get(match[2], 0.0) + float(match[1] or 1)
        if max(weights.values()) > MOST_MEASURED:
            raise InputError(f"--cost: a weight is above {MOST_MEASURED:g}", "write it in other units")
        return cls.of(weights, metrics)


def _named(name: str, metrics: Sequence[Metric]) -> Metric:
    """Return the metric of this name. Raises: InputError if there is none."""
    names = [metric.name for metric in metrics]
    if name not in names:
        raise InputError(f"no metric is named '{name}'", did_you_mean(name, names))
    return metrics[names.index(name)]
