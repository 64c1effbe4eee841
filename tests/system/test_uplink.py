"""Flows from real instances to their host: over the platforms' default way and others, with witnesses on the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from lastro.results.samples import Outcome
from lastro.scenarios.uplink import UplinkScenario
from lastro.testbed import Testbed

from ..support.products import combinations
from ..support.scenarios import attempted, configured, image_needs

pytestmark = pytest.mark.root
__all__ = ["image_needs"]  # what `testbed` builds

PLATFORMS = ("native", "runc", "docker")
INSTRUMENTS = ("iperf2-udp", "iperf3-udp-load", "iperf3-tcp")


@pytest.fixture(scope="module")
def scenario(testbed: Testbed) -> Iterator[UplinkScenario]:
    with closing(UplinkScenario(testbed)) as made:
        yield made


def config(platform: str, instrument: str, attachment: str = "nat", **more: Any) -> dict[str, Any]:
    """A second at a low rate."""
    short = {"load_s": 1, "offered": "20M", "settle_s": 0.0, "memory": "512M"}
    parts = {"platform": platform, "isolation": "none", "instrument": instrument, "attachment": attachment}
    return configured(UplinkScenario, **{**short, **parts, **more})


def run(scenario: UplinkScenario, wanted: dict[str, Any], calibrations: dict[str, Any] | None = None) -> Outcome:
    return attempted(scenario, wanted, calibrations)


def assert_carried(outcome: Outcome, instrument: str) -> None:
    assert outcome.valid, outcome.invalid_because
    values = outcome.measurements
    assert {"instance_cpus", "instance_memory", "host_cpus"} <= set(values)
    if instrument == "iperf3-tcp":
        assert values["throughput"] > 20
        return
    assert 10 < values["udp_offered"] < 21  # a busy host may hold up the sender
    assert values["udp_throughput"] == pytest.approx(values["udp_offered"] * (1 - values["udp_loss"] / 100), rel=0.2)


@pytest.mark.parametrize(("platform", "instrument"), combinations(PLATFORMS, INSTRUMENTS))
def test_a_flow_reaches_the_host_through_bridge_and_nat(
    scenario: UplinkScenario, testbed: Testbed, platform: str, instrument: str
) -> None:
    wanted = config(platform, instrument)
    found = scenario.availability(wanted)
    assert found, found
    mark = testbed.session.mark()
    outcome = run(scenario, wanted)
    assert testbed.session.mark() == mark, "nothing is left but what the platform was prepared with"
    assert_carried(outcome, instrument)
    links, witness = outcome.notes["links"], outcome.notes["witness"]
    assert isinstance(links, dict) and links["translated"] > 0 and links["routed"] > 0
    assert isinstance(witness, dict) and witness[instrument]["peer.eth0"]["rx_packets"] > 1


@pytest.mark.parametrize(
    ("platform", "attachment"),
    [("native", "nat"), ("native:network=host", "nat"), ("runc", "nat"), ("runc", "routed")],
)
def test_the_host_itself_is_the_end_of_a_flow(
    scenario: UplinkScenario, testbed: Testbed, platform: str, attachment: str
) -> None:
    """Nothing is routed or translated on the way, and the host's answers find back."""
    wanted = config(platform, "iperf2-udp", attachment, towards="host")
    assert scenario.availability(wanted)
    mark = testbed.session.mark()
    outcome = run(scenario, wanted)
    assert testbed.session.mark() == mark
    assert_carried(outcome, "iperf2-udp")
    moved = outcome.notes["witness"]["iperf2-udp"]  # type: ignore[index]
    assert moved["peer.eth0"]["rx_packets"] < 20, "the peer has no part in it"
    if platform == "native:network=host":
        assert moved["instance.lo"]["tx_packets"] > 1000, "by its own stack, and no link"
        assert "sends by the host's own network" in str(scenario.availability({**wanted, "towards": "peer"}).reason)
        return
    assert "host" not in str(scenario.availability({**wanted, "towards": "peer"}).reason)
    assert not scenario.availability({**wanted, "attachment": "veth-direct"})


def test_a_machine_reaches_its_host(scenario: UplinkScenario) -> None:
    outcome = run(scenario, config("qemu-tcg", "iperf3-udp-load", towards="host"))
    assert_carried(outcome, "iperf3-udp-load")


def test_rates_are_shares_of_what_was_found(scenario: UplinkScenario) -> None:
    wanted = config("runc", "iperf2-udp", offered="50%")
    ((key, bare),) = scenario.calibrations(wanted).items()
    capacity = scenario.calibration_value(key, run(scenario, bare))
    assert capacity["udp_throughput"] > 100
    outcome = run(scenario, wanted, {key: {**capacity, "udp_throughput": 40.0}})
    assert_carried(outcome, "iperf2-udp")
    assert outcome.notes["offered"]["rate_mbit_s"] == 20.0  # type: ignore[index]


@pytest.mark.parametrize("attachment", ["veth-bridge", "veth-direct", "macvlan-bridge", "routed", "vxlan"])
def test_a_flow_reaches_the_host_over_other_links(scenario: UplinkScenario, attachment: str) -> None:
    assert_carried(run(scenario, config("runc", "iperf2-udp", attachment)), "iperf2-udp")


@pytest.mark.slow  # with a clock that is wrong, and thus by both ends, a machine's flow is timed below
@pytest.mark.parametrize("instrument", ["iperf2-udp", "iperf3-tcp"])
def test_a_machines_flow_is_timed_by_both_ends(scenario: UplinkScenario, instrument: str) -> None:
    outcome = run(scenario, config("qemu-tcg", instrument))
    assert_carried(outcome, instrument)
    assert {"guest_cpus", "guest_memory"} <= set(outcome.measurements)
    assert "instance" in outcome.notes["clocks"]  # type: ignore[operator]


def test_what_a_machine_timed_by_a_wrong_clock_is_dropped_and_its_hosts_rate_remains(
    scenario: UplinkScenario, slow_guests: None
) -> None:
    outcome = run(scenario, config("qemu-tcg", "iperf2-udp"))
    assert outcome.valid
    assert {"udp_throughput", "udp_loss"} <= set(outcome.measurements)
    assert not {"udp_offered", "jitter", "guest_cpus"} & set(outcome.measurements)


def test_more_than_can_be_offered_is_the_generators_limit(scenario: UplinkScenario) -> None:
    """The bare host is its own ceiling; a container is held against it."""
    wanted = config("native", "iperf2-udp", offered="500G")
    outcome = run(scenario, wanted)
    assert outcome.valid, outcome.invalid_because
    assert outcome.notes["generator_limited"] is True and "udp_offered" in outcome.notes["ceiling"]  # type: ignore[operator]
    assert outcome.measurements["udp_offered"] < 0.95 * 500_000
    calibrations = scenario.calibrations({**wanted, "platform": "runc"})
    assert list(calibrations.values()) == [wanted]
    (key,) = calibrations
    value = scenario.calibration_value(key, outcome)
    contained = run(scenario, {**wanted, "platform": "runc", "offered": "20M"}, {key: value})
    assert contained.notes["ceiling"] == value and contained.notes["generator_limited"] is False


def test_isolation_holds_and_resources_are_equal(scenario: UplinkScenario) -> None:
    outcome = run(scenario, config("runc", "iperf2-udp", isolation="seccomp"))
    assert outcome.valid, outcome.invalid_because
    assert outcome.notes["seen inside"]["cpus"] == 1  # type: ignore[index]
    assert "limits" in str(scenario.availability(config("runc", "iperf2-udp", isolation="cgroups")).reason)


def test_versions_of_the_tools_are_told(scenario: UplinkScenario) -> None:
    found = scenario.facts([config("native", name) for name in INSTRUMENTS])
    assert found["image_tools"]["iperf2-udp"].startswith("iperf version 2.")
    assert found["image_tools"]["iperf3-tcp"].startswith("iperf 3.")
