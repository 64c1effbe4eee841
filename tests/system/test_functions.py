"""Functions at work between a real source and a real sink: what must pass passes, what must not does not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lastro import registry
from lastro.errors import CommandTimeout, LastroError
from lastro.functions.base import ForwardingPath
from lastro.functions.dpi import SIGNATURE
from lastro.functions.firewall import BLOCKED_PORTS, BLOCKED_SOURCES
from lastro.host.base import Process
from lastro.host.local import LocalHost
from lastro.platforms.base import InstanceSpec
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.shared.chain import Chain, deployed
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed

from ..support.products import one_of

pytestmark = pytest.mark.root

SINK, SOURCE = ForwardingPath().sink, ForwardingPath().source
OUTSIDE = ForwardingPath().outside_address
PATIENCE_S = 3.0
SILENCE_S = 0.3

RUNC, DOCKER, NATIVE = ("runc", "veth-direct"), ("docker", "veth-bridge"), ("native", "macvlan-bridge")


@pytest.fixture(scope="module")
def chain(request: pytest.FixtureRequest, testbed: Testbed, pool: PlatformPool) -> Iterator[Chain | None]:
    """One at a time, as the parameter says: function, platform, attachment. Or none at all."""
    if request.param is None:
        yield None
        return
    function, platform, attachment = request.param
    link = registry.get("attachment", attachment)()
    with deployed(testbed, pool.get(platform), link, registry.get("function", function)()) as made:
        yield made


def on(function: str, *places: tuple[str, str]) -> pytest.MarkDecorator:
    """Run a test with a chain of this function in each of these places, of which `make test` takes the first."""
    chains = one_of((function, *place) for place in places)
    return pytest.mark.parametrize("chain", chains, indirect=True, ids=lambda each: "+".join(each))


no_chain = pytest.mark.parametrize("chain", [None], indirect=True, ids=["no chain"])


@contextmanager
def listening(chain: Chain, protocol: str, port: int, answer: str = "") -> Iterator[Process]:
    """A sink that prints what it gets, and says on standard error who sent it. It ends by itself in any case."""
    flag = "-u" if protocol == "udp" else "-N"
    script = f'printf "%s" "{answer}" | nc -n -v -l {flag} {port}'
    listener = chain.sink.spawn(["timeout", "15", "sh", "-c", script])
    try:
        there = f"ss -Hln --{protocol} sport = :{port} | grep -q ."
        chain.sink.run(["sh", "-c", f"for n in $(seq 100); do {there} && exit; sleep 0.02; done; exit 1"])
        yield listener
    finally:
        listener.stop()
        chain.sink.run(["sh", "-c", "for p in $(ss -Hlnptu | grep -o 'pid=[0-9]*' | cut -d= -f2); do kill $p; done"])


def send(chain: Chain, protocol: str, port: int, text: str) -> str:
    """What comes back. The sender gives up soon, whether or not anybody listens."""
    flags = ["0.4", "nc", "-u"] if protocol == "udp" else ["4", "nc", "-N", "-w", "1"]
    done = chain.source.run(["timeout", *flags, "-n", SINK, str(port)], stdin=f"{text}\n", check=False)
    return done.text


def passes(chain: Chain, protocol: str, port: int, text: str = "hello") -> bool:
    with listening(chain, protocol, port) as listener:
        send(chain, protocol, port, text)
        try:
            return listener.wait_line(text, SILENCE_S) == f"{text}\n"
        except CommandTimeout:
            return False


def counters(chain: Chain) -> dict[str, int]:
    """Packets by name of the counter."""
    found = chain.counted()
    assert all(counted.bytes >= 28 * counted.packets for counted in found.values())  # an IP header and more
    return {name: counted.packets for name, counted in found.items()}


def detoured(chain: Chain) -> int:
    netns = chain.instances["function"].netns
    links = chain.instances["function"].testbed.host.run_json(
        ["ip", "-n", netns, "-j", "-s", "link", "show", "detour1"]
    )
    packets: int = links[0]["stats64"]["rx"]["packets"]
    return packets


# No function


@on("none", RUNC)
@pytest.mark.parametrize("protocol", ["tcp", "udp"])
@pytest.mark.parametrize("port", [9, 5000])
def test_plain_forwarding_passes_everything_and_counts_it(chain: Chain, protocol: str, port: int) -> None:
    before = counters(chain)["crossed"]
    assert passes(chain, protocol, port)
    assert counters(chain)["crossed"] > before
    assert counters(chain).keys() == {"crossed"}


@on("none", RUNC)
def test_without_forwarding_nothing_gets_through(testbed: Testbed, chain: Chain) -> None:
    """There is one way, and it leads through the function."""
    netns = chain.instances["function"].netns
    switch = "/proc/sys/net/ipv4/ip_forward"
    ping = ["ping", "-n", "-c", "1", "-W", "1", SINK]
    assert chain.source.run(ping, check=False).returncode == 0
    testbed.host.run(["nsenter", f"--net=/run/netns/{netns}", "sh", "-c", f"echo 0 > {switch}"])
    assert chain.source.run(ping, check=False).returncode != 0
    testbed.host.run(["nsenter", f"--net=/run/netns/{netns}", "sh", "-c", f"echo 1 > {switch}"])
    assert chain.source.run(ping, check=False).returncode == 0


# Firewall


@on("firewall", RUNC, DOCKER, NATIVE)
@pytest.mark.parametrize("protocol", ["tcp", "udp"])
@pytest.mark.parametrize("port", [BLOCKED_PORTS[1], 445])
def test_the_firewall_stops_blocked_ports(chain: Chain, protocol: str, port: int) -> None:
    before = counters(chain)
    assert not passes(chain, protocol, port)
    assert counters(chain)["blocked"] > before["blocked"]
    assert counters(chain)["crossed"] > before["crossed"]  # they were seen, then dropped


@on("firewall", RUNC, DOCKER, NATIVE)
@pytest.mark.parametrize("protocol", ["tcp", "udp"])
@pytest.mark.parametrize("port", [10, 446, 5201])
def test_the_firewall_passes_all_other_ports(chain: Chain, protocol: str, port: int) -> None:
    before = counters(chain)["blocked"]
    assert passes(chain, protocol, port)
    assert counters(chain)["blocked"] == before


@on("firewall", RUNC, DOCKER, NATIVE)
@pytest.mark.parametrize("network", BLOCKED_SOURCES)
def test_the_firewall_stops_blocked_sources(testbed: Testbed, chain: Chain, network: str) -> None:
    address = network.replace(".0/24", ".5")
    source = chain.source.netns
    testbed.host.run(["ip", "-n", source, "address", "add", f"{address}/32", "dev", "out0"])
    before = counters(chain)["blocked"]
    chain.source.run(["ping", "-n", "-c", "2", "-i", "0.1", "-W", "1", "-I", address, SINK], check=False)
    assert counters(chain)["blocked"] == before + 2
    testbed.host.run(["ip", "-n", source, "address", "del", f"{address}/32", "dev", "out0"])


@on("firewall", RUNC, DOCKER, NATIVE)
def test_the_firewall_passes_pings(chain: Chain) -> None:
    before = counters(chain)["blocked"]
    chain.source.run(["ping", "-n", "-c", "2", "-i", "0.1", "-W", "1", SINK])
    assert counters(chain)["blocked"] == before


# Deep packet inspection


@on("dpi", RUNC, DOCKER)
@pytest.mark.parametrize("protocol", ["tcp", "udp"])
@pytest.mark.parametrize("payload", [f"GET / {SIGNATURE}: 1", SIGNATURE, "x" * 700 + SIGNATURE])
def test_a_payload_with_the_signature_takes_the_detour_and_arrives(chain: Chain, protocol: str, payload: str) -> None:
    before = detoured(chain)
    assert passes(chain, protocol, 5000, payload)
    assert 1 <= detoured(chain) - before <= 3  # once, but for a retransmission: no loop


@on("dpi", RUNC, DOCKER)
@pytest.mark.parametrize("protocol", ["tcp", "udp"])
@pytest.mark.parametrize("payload", ["GET / HTTP/1.1", SIGNATURE[:-1], SIGNATURE.lower()])
def test_a_payload_without_it_does_not(chain: Chain, protocol: str, payload: str) -> None:
    before, crossed = detoured(chain), counters(chain)["crossed"]
    assert passes(chain, protocol, 5000, payload)
    assert detoured(chain) == before
    assert counters(chain)["crossed"] > crossed


# Network address translation


@on("nat", RUNC, DOCKER)
@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_the_sink_sees_the_functions_address(chain: Chain, protocol: str) -> None:
    before = counters(chain)
    with listening(chain, protocol, 5000) as listener:
        send(chain, protocol, 5000, "who am I")
        assert listener.wait_line("who am I", PATIENCE_S)
        words = listener.stop().error_text
    assert re.search(rf"Connection received on {re.escape(OUTSIDE)} \d+", words), words
    after = counters(chain)
    assert after["translated"] == before["translated"] + 1  # a flow, not its packets
    assert after["crossed"] > before["crossed"]


@on("none", RUNC)
def test_without_translation_it_sees_the_source(chain: Chain) -> None:
    with listening(chain, "tcp", 5000) as listener:
        send(chain, "tcp", 5000, "who am I")
        assert listener.wait_line("who am I", PATIENCE_S)
        assert f"Connection received on {SOURCE} " in listener.stop().error_text


@on("nat", RUNC, DOCKER)
@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_answers_find_their_way_back(chain: Chain, protocol: str) -> None:
    with listening(chain, protocol, 5000, answer="an answer") as listener:
        back = send(chain, protocol, 5000, "a question")
        assert listener.wait_line("a question", PATIENCE_S)
    assert back == "an answer"
    chain.source.run(["ping", "-n", "-c", "1", "-W", "1", SINK])


# Counters of functions that are not there


def test_an_instance_without_a_function_counts_nothing(testbed: Testbed, pool: PlatformPool) -> None:
    with pool.get("runc").start(testbed, InstanceSpec("plain", "plain")) as instance:
        assert registry.get("function", "nat")().counters(instance) == {}


# Click. Where there is one, tests/system/test_click.py runs it.

FUNCTIONS = sorted(ChainScenario.part_names("function"))


without_click = pytest.mark.skipif(
    LocalHost().which("click") is not None, reason="this host has a click: tests/system/test_click.py runs it"
)


@without_click
@no_chain
@pytest.mark.parametrize("name", FUNCTIONS)
def test_click_without_click_is_honestly_unavailable(
    testbed: Testbed, scenario: ChainScenario, chain: None, name: str
) -> None:
    config = {setting.name: setting.default for setting in scenario.settings} | {
        "platform": "runc", "attachment": "veth-direct", "isolation": "none", "function": name, "anomaly": "none",
    }  # fmt: skip
    assert scenario.availability(config)
    found = scenario.availability(config | {"implementation": "click"})
    assert not found
    assert "click" in str(found.reason)
    assert "lastro setup click --source DIR" in str(found.remedy)


@pytest.fixture(scope="module")
def scenario(testbed: Testbed) -> Iterator[ChainScenario]:
    made = ChainScenario(testbed)
    yield made
    made.close()


@without_click
@no_chain
def test_click_is_never_silently_replaced_by_the_kernel(testbed: Testbed, pool: PlatformPool, chain: None) -> None:
    direct = registry.get("attachment", "veth-direct")()
    with (
        pytest.raises(LastroError, match="click"),
        deployed(testbed, pool.get("runc"), direct, registry.get("function", "nat")(), implementation="click"),
    ):
        pytest.fail("a chain without its function was deployed")
