"""Chains on networks that Docker or Podman makes itself, in whole trials and after a kill."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from lastro.functions.none import Forwarding
from lastro.results.topology import Topology
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.shared.chain import deployed, joined
from lastro.scenarios.shared.instance_spec import instance_spec
from lastro.testbed import Testbed
from lastro.testing.attachments import contents
from lastro.testing.ending import nothing_is_left_after_a_kill
from lastro.testing.network import reaches
from lastro.testing.subject import trial_leftovers

from ..support.scenarios import attempted, on_chain

pytestmark = pytest.mark.root

_CHAIN = """
platform, links = pool.get(sys.argv[2]), AttachmentPool(bed, stack).get(sys.argv[3])
from lastro.functions.none import Forwarding
from lastro.scenarios.shared.chain import deployed
stack.enter_context(deployed(bed, platform, links, Forwarding()))
"""


@pytest.fixture(scope="module")
def scenario(testbed: Testbed) -> Iterator[ChainScenario]:
    with closing(ChainScenario(testbed)) as made:
        yield made


needs_netavark = pytest.mark.skipif(not Path("/usr/lib/podman/netavark").exists(), reason="Podman finds no netavark")


@pytest.mark.parametrize(
    ("level", "maker"),
    [
        ("docker", "dockerd, with DOCKER_INSECURE_NO_IPTABLES_RAW=1"),
        pytest.param("podman:network_backend=cni", "CNI plug-ins", marks=pytest.mark.slow),
        pytest.param("podman:network_backend=netavark", "netavark", marks=[pytest.mark.slow, needs_netavark]),
    ],
)
def test_a_trial_crosses_the_networks_of_the_platform_and_leaves_nothing(
    scenario: ChainScenario, testbed: Testbed, level: str, maker: str
) -> None:
    platform = level.partition(":")[0]
    wanted = on_chain((level, f"{platform}-nat"), "nat", udp_s=0)
    found = scenario.availability(wanted)
    assert found, found
    before = trial_leftovers(testbed), contents(testbed)
    outcome = attempted(scenario, wanted)
    assert outcome.valid, outcome.invalid_because
    assert (trial_leftovers(testbed), contents(testbed)) == before
    assert outcome.measurements["throughput"] > 1
    topology = Topology.of(outcome.notes)
    assert topology is not None
    ways = [[device.kind for device in link.way] for link in topology.links]
    assert ways == 2 * [["veth", "bridge", "veth"]]
    assert {link.attachment for link in topology.links} == {f"{platform}-nat"}
    assert scenario.residuals(wanted)[f"{platform}-nat: made by"] == maker


def test_ends_on_the_bare_host_and_a_neighbour_are_on_dockers_bridges_too(
    scenario: ChainScenario, testbed: Testbed
) -> None:
    native, docker, links = scenario.pool.native, scenario.pool.get("docker"), scenario.attachments.get("docker-nat")
    before = contents(testbed)
    with deployed(testbed, native, links, Forwarding(), hosts=[docker]) as chain:
        assert links.node is not None
        rules = testbed.host.run(["ip", "netns", "exec", links.node.dut, "iptables-save"]).text
        assert rules.count("-A DOCKER-ISOLATION-STAGE-2 ") >= 3, "rules for each network"
        filtered = links.counters(testbed)
        assert reaches(chain.source, chain.path.sink)
        assert all(now > filtered[name] for name, now in links.counters(testbed).items())
        assert not reaches(chain.source, "198.19.255.1", within_s=1), "Docker's default network"
        with native.start(testbed, instance_spec(testbed, "third")) as third, joined(chain, third):
            assert reaches(third, chain.path.inside_address)
            assert not reaches(third, chain.path.sink, within_s=1)
    assert contents(testbed) == before


def test_a_platform_that_is_not_the_engine_is_refused_with_a_remedy(scenario: ChainScenario) -> None:
    found = scenario.availability(on_chain(("runc", "docker-nat"), "none"))
    assert found.reason == "runc does not start instances on Docker's own network"
    assert "platform docker" in str(found.remedy)


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["docker", "podman"])
def test_killed_in_a_trial_it_is_cleaned_up_and_starts_again(testbed: Testbed, tmp_path: Path, platform: str) -> None:
    """The second victim finds the networks and containers that Docker's data root has of the first."""
    for _ in range(2):
        nothing_is_left_after_a_kill(testbed, tmp_path, _CHAIN, platform, f"{platform}-nat")
        for kept in filter(Path.is_symlink, tmp_path.iterdir()):
            kept.unlink()
