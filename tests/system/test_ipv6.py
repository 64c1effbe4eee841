"""IPv6 through real functions: what must pass passes, what must not does not, and a trial measures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from lastro import registry
from lastro.functions.dpi import SIGNATURE
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.shared.chain import Chain, deployed
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import QUIET, Testbed

from ..support.products import one_of
from ..support.scenarios import SHORT, attempted, configured

pytestmark = pytest.mark.root

PLACES = [("runc", "veth-bridge"), ("native", "macvlan-bridge"), ("docker", "veth-direct"), ("native", "vxlan")]


N = 20  # requests: more than what the kernel itself sends meanwhile to find routers and groups


def ping(chain: Chain, *words: str) -> int:
    """The number of replies from the sink to N requests."""
    argv = ["ping", "-n", "-c", str(N), "-i", "0.02", "-W", "1", *words, chain.path.sink]
    return chain.source.run(argv, check=False).text.count("bytes from")


@pytest.fixture
def chain(request: pytest.FixtureRequest, testbed: Testbed, pool: PlatformPool) -> Iterator[Chain]:
    links, function = registry.get("attachment", "veth-direct")(), registry.get("function", request.param)()
    with deployed(testbed, pool.get("native"), links, function, ip="6") as made:
        yield made


def test_no_frame_on_a_bridge_of_the_testbed_passes_netfilter(testbed: Testbed) -> None:
    """Of no family: else `ip = "6"` is measured with a hook that `ip = "4"` lacks."""
    names = [name for name in QUIET if name.startswith("net.bridge.")]
    argv = ["ip", "netns", "exec", testbed.dut, "sysctl", "-n", "-e", *names]
    found = testbed.host.run(argv).text.split()
    assert len(names) == 3 and found == ["0"] * len(found)
    assert found or not Path("/proc/sys/net/bridge").exists(), "the host has br_netfilter, and the namespace does not"


@pytest.mark.parametrize("chain", ["firewall"], indirect=True)
def test_the_firewall_drops_blocked_sources(chain: Chain) -> None:
    assert ping(chain) == N
    assert chain.counted()["blocked"].packets == 0
    chain.source.testbed.host.run(["ip", "-n", chain.source.netns, "address", "add", "2001:2:0:66::5/128", "dev", "lo"])
    assert ping(chain, "-I", "2001:2:0:66::5") == 0
    assert chain.counted()["blocked"].packets == N


@pytest.mark.parametrize("chain", ["dpi"], indirect=True)
def test_only_packets_with_the_signature_take_the_detour(chain: Chain) -> None:
    def detoured() -> int:
        function = chain.instances["function"]
        (link,) = (each for each in function.links() if each["ifname"] == "detour0")
        packets: int = link["stats64"]["tx"]["packets"]
        return packets

    before = detoured()
    assert ping(chain) == N
    clean = detoured() - before
    assert ping(chain, "-p", SIGNATURE.encode().hex()) == N
    assert detoured() - before - clean >= N > clean


@pytest.mark.parametrize("chain", ["nat"], indirect=True)
def test_the_sink_sees_the_address_of_the_function(chain: Chain) -> None:
    sink, netns = chain.sink.testbed.host, chain.sink.netns
    sink.run(["ip", "-n", netns, "route", "del", f"{chain.path.source}/128"])  # so that replies need the translation
    assert ping(chain) == N
    assert chain.counted()["translated"].packets > 0


@pytest.mark.parametrize("place", one_of(PLACES), ids="+".join)
def test_a_trial_measures(testbed: Testbed, place: tuple[str, str]) -> None:
    platform, attachment = place
    chosen = {**SHORT["chain"], "platform": platform, "attachment": attachment, "function": "dpi", "ip": "6"}
    config = configured(ChainScenario, isolation="none", anomaly="none", offloads="off", **chosen)
    with closing(ChainScenario(testbed)) as running:
        found = running.availability(config)
        assert found, found.reason
        outcome = attempted(running, config)
        elsewhere = running.availability({**config, "attachment": "routed", "offloads": "kernel"})
    assert outcome.valid, outcome.invalid_because
    assert 1400 < outcome.measurements["frame_size"] <= 1514
    assert outcome.measurements["throughput"] > 10 and outcome.measurements["latency_mean"] > 0
    ends = {end["address"] for link in outcome.notes["topology"]["links"] for end in (link["a"], link["b"])}  # type: ignore[index]
    assert ends == {"2001:2::10/64", "2001:2::1/64", "2001:2:0:1::1/64", "2001:2:0:1::10/64"}
    assert not elsewhere and elsewhere.reason == "the DUT routes IPv4 only"
