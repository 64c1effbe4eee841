"""Impairments of a chain's last link, in whole trials: by the host's kernel where it has them, and in a guest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from lastro.host.base import Host
from lastro.results.samples import Outcome
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.load import LoadScenario
from lastro.testbed import Testbed

from ..support.products import one_of
from ..support.scenarios import SHORT, attempted, configured, image_needs

pytestmark = pytest.mark.root
__all__ = ["image_needs"]  # what `testbed` builds

RATE_MBIT_S = 10
PLACES = [
    ("native", "veth-direct"), ("runc", "veth-bridge"), ("runc", "macvlan-bridge"), ("docker", "ovs-userspace"),
    ("gvisor", "veth-bridge"), ("qemu-tcg", "veth-direct"),
]  # fmt: skip


@pytest.fixture(scope="module")
def running(testbed: Testbed) -> Iterator[ChainScenario]:
    with closing(ChainScenario(testbed)) as made:
        yield made


def config(platform: str, attachment: str, **chosen: Any) -> dict[str, Any]:
    levels = {"platform": platform, "attachment": attachment, "isolation": "none", "anomaly": "none"}
    return configured(ChainScenario, **{**SHORT["chain"], **levels, "function": "firewall", "udp_s": 0, **chosen})


def queues(host: Host) -> str:
    """The queueing disciplines in all network namespaces."""
    return host.run(
        ["sh", "-c", "tc qdisc; for each in /run/netns/*; do ip netns exec ${each##*/} tc qdisc; done"]
    ).text


@pytest.mark.parametrize("place", one_of(PLACES), ids="+".join)
def test_a_link_carries_no_more_than_its_rate(running: ChainScenario, testbed: Testbed, place: tuple[str, str]) -> None:
    wanted = config(*place, function="none", **{"link.rate": f"{RATE_MBIT_S}M", "tcp_s": 2})
    found = running.availability(wanted)
    assert found, found
    outcome = attempted(running, wanted)
    assert outcome.valid, outcome.invalid_because
    least = 0.7 if place[0] in ("native", "runc", "docker") else 0  # a TCP of its own may yield to lost packets
    assert least * RATE_MBIT_S < outcome.measurements["throughput"] <= RATE_MBIT_S
    towards = outcome.notes["impaired_link"]
    assert isinstance(towards, dict) and set(towards) == {"towards the function", "towards the sink"}
    assert {each["shown"] for each in towards.values()} == {f"{RATE_MBIT_S} Mbit/s"}
    assert "tbf" not in queues(testbed.host), "nothing is left"


def test_the_rate_of_a_link_is_what_a_search_finds(testbed: Testbed) -> None:
    levels = {"platform": "native", "isolation": "none", "anomaly": "none", "frame_size": "512", "at": "none"}
    short = {**SHORT["load"], "probe_s": 0.5, "deciding_s": 1.0, **levels}
    with closing(LoadScenario(testbed)) as load:
        wanted = configured(LoadScenario, **short, **{"link.rate": "20M"})
        assert load.availability(wanted)
        outcome = attempted(load, wanted)
    assert outcome.valid, outcome.invalid_because
    assert outcome.measurements["pdr"] == pytest.approx(20e6 / 8 / 508, rel=0.25)


def test_delay_and_loss_act_or_the_kernel_s_lack_of_them_is_the_reason(
    running: ChainScenario, testbed: Testbed
) -> None:
    wanted = config("native", "veth-direct", offloads="off", **{"link.delay_ms": 5.0, "link.loss": 1.0})
    if found := running.availability(wanted):
        assert_long_and_lossy(attempted(running, wanted), 5.0)
    else:
        assert "sch_netem" in str(found.reason) and "--testbed guest" in str(found.remedy)
    assert "netem" not in queues(testbed.host)


def test_a_loss_of_segments_is_unavailable(running: ChainScenario) -> None:
    found = running.availability(config("native", "veth-direct", **{"link.loss": 1.0}))
    assert "segments of up to 64 kB" in str(found.reason) and found.remedy == 'set offloads = "off"'


def assert_long_and_lossy(outcome: Outcome, delay_ms: float) -> None:
    assert outcome.valid, outcome.invalid_because
    trips = outcome.notes["round_trip_ms"]
    assert isinstance(trips, dict) and 2 * delay_ms < trips["with delay"] - trips["without delay"] + 0.5
    assert min(next(each for each in outcome.series if each.name == "rtt").values) >= 2 * delay_ms
