"""Service levels, costs and quantities as users write them."""

from __future__ import annotations

import pytest

from lastro.errors import InputError
from lastro.results.samples import Metric
from lastro.study.requirement import PROPERTIES, Requirement
from lastro.study.service_level import Cost, ServiceLevel
from lastro.units import in_unit

METRICS = (
    Metric("throughput", "Mbit/s", "higher", ""), Metric("latency_p99", "ms", "lower", ""),
    Metric("chain_cpus", "CPU", "lower", ""), Metric("frames", "1/s", "higher", ""),
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("2 Gbit/s", "Mbit/s", 2000.0), ("2Gbps", "Mbit/s", 2000.0), ("350", "Mbit/s", 350.0),
        ("800 us", "ms", 0.8), ("0.5 s", "ms", 500.0), ("1e3 µs", "ms", 1.0), ("100 kpps", "1/s", 100_000.0),
        ("1 GiB", "MiB", 1024.0), ("1 MB/s", "MiB/s", 1e6 / 2**20), ("5 %", "%", 5.0), ("0.4 CPUs", "CPU", 0.4),
    ],
)  # fmt: skip
def test_a_quantity_is_in_the_unit_of_its_metric(text: str, unit: str, value: float) -> None:
    assert in_unit(text, unit) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "words"),
    [("2 ms", "is not in Mbit/s"), ("fast", "is not a number with a unit"), ("2 parsec", "is not in"), ("", "number")],
)  # fmt: skip
def test_a_quantity_of_another_kind_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as error:
        in_unit(text, "Mbit/s")
    assert "2 Mbit/s" in (error.value.hint or "")


def test_a_level_names_its_metric_its_side_and_its_limit() -> None:
    rate, delay = (ServiceLevel.parse(text, METRICS) for text in ("throughput >= 2 Gbit/s", "latency_p99<1 ms"))
    assert (rate.metric.name, rate.limit, rate.at_least) == ("throughput", 2000.0, True)
    assert (delay.limit, delay.at_least) == (1.0, False)
    assert [rate.text, delay.text] == ["throughput ≥ 2000 Mbit/s", "latency_p99 ≤ 1 ms"]
    for wrong, words in {"throughput": "is not a service level", "latencyp99 < 1": "no metric is named"}.items():
        with pytest.raises(InputError, match=words):
            ServiceLevel.parse(wrong, METRICS)


def test_a_cost_is_a_metric_or_a_sum() -> None:
    assert Cost.parse("chain_cpus", METRICS).weights == {"chain_cpus": 1.0}
    assert Cost.parse("0.04*chain_cpus + 2 * latency_p99", METRICS).weights == {"chain_cpus": 0.04, "latency_p99": 2.0}
    for wrong in ("", "chain_cpus -", "2*", "no_such"):
        with pytest.raises(InputError):
            Cost.parse(wrong, METRICS)


def test_prices_are_those_of_what_a_scenario_measures() -> None:
    memory = Metric("chain_memory", "MiB", "lower", "")
    cost = Cost.parse("0.04*cpu_hour + 0.512*gib_hour + chain_cpus", (*METRICS, memory))
    assert cost.weights == {"chain_cpus": pytest.approx(1.04), "chain_memory": pytest.approx(0.0005)}
    assert cost.text == "0.04*cpu_hour + 0.512*gib_hour + chain_cpus"
    with pytest.raises(InputError, match="does not measure what gib_hour prices"):
        Cost.parse("0.5*gib_hour", METRICS)


@pytest.mark.parametrize(
    ("text", "found", "met"),
    [
        ("own-kernel", True, True), ("own_kernel", False, False), ("own-kernel", None, None),
        ("no daemon", False, True), ("no-daemon", True, False), ("interfaces >= 8", 8, True),
        ("interfaces>=8", 7, False), ("interface-added-ms < 50", 12.5, True),
        ("interface-added-ms < 50 ms", 80.0, False), ("image-mib < 500 MiB", 321, True), ("packages <= 2", 31, False),
        ("interface-added-ms < 50", False, False), ("interface-added-ms", 80.0, True), ("interfaces >= 8", None, None),
    ],
)  # fmt: skip
def test_a_requirement_is_met_by_what_a_probe_found(text: str, found: float | None, met: bool | None) -> None:
    assert Requirement.parse(text).met_by(found) is met


def test_a_probe_that_stopped_counting_proves_only_what_it_counted() -> None:
    assert Requirement.parse("interfaces >= 16").met_by(16, is_lower_bound=True) is True
    assert Requirement.parse("interfaces >= 17").met_by(16, is_lower_bound=True) is None
    assert Requirement.parse("interfaces <= 20").met_by(16, is_lower_bound=True) is None


def test_a_study_says_requirements_as_a_table_does() -> None:
    texts = [Requirement.of(*each).text for each in (("own_kernel", True), ("daemon", False), ("interfaces", ">= 8"))]
    assert texts == ["own_kernel", "no daemon", "interfaces ≥ 8"]
    assert set(PROPERTIES.values()) == {"platform", "attachment"}
    for wrong, words in {
        "own-kernl": "did you mean 'own_kernel'",
        "no interfaces > 3": "write it as",
        "": "write",
    }.items():
        with pytest.raises(InputError) as error:
            Requirement.parse(wrong)
        assert words in (error.value.hint or "")
