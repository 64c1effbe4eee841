"""Functions at work between a real source and a real sink: what must pass passes, what must not does not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lastro import registry
from lastro.errors import CommandTimeout, LastroError
from lastro.functions._click import configuration
from lastro.functions.base import Function, Path
from lastro.functions.dpi import SIGNATURE
from lastro.functions.firewall import BLOCKED_PORTS, BLOCKED_SOURCES
from lastro.host.base import Process
from lastro.platforms.base import InstanceSpec
from lastro.scenarios._deploy import Chain, deployed
from lastro.scenarios.base import PlatformPool
from lastro.scenarios.chain import ChainScenario
from lastro.testbed import Testbed

pytestmark = pytest.mark.root

SINK, SOURCE = Path().sink, Path().source
OUTSIDE = Path().outside_address
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
    """Run a test with a chain of this function in each of these places."""
    return pytest.mark.parametrize("chain", [(function, *place) for place in places], indirect=True, ids="+".join)


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
    found = chain.function.counters(chain.instances["function"])
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


# Click. No host of ours has one (Debian packages none): what follows looks at the text of the configurations, which
# were written from the documentation of Click's elements and have not been run for real.

FUNCTIONS = sorted(ChainScenario.part_names("function"))
EXPECTED_BODIES = {
    "none": "input[0] -> [0]output; input[1] -> [1]output;",
    "firewall": (
        "input[0] -> IPFilter(deny src net 198.18.66.0/24 || src net 198.19.66.0/24, deny dst port 7 || dst port 9 || "
        "dst port 13 || dst port 19 || dst port 23 || dst port 135 || dst port 137 || dst port 138 || dst port 139 || "
        "dst port 445, allow all) -> [0]output; input[1] -> [1]output;"
    ),
    "dpi": (
        "input[0] -> inspect :: Search(X-Lastro-Suspect); inspect[1] -> [0]output; "
        "inspect[0] -> StripToNetworkHeader -> suspects :: Counter -> Queue -> Unqueue -> [0]output; "
        "input[1] -> [1]output;"
    ),
    "nat": (
        "flows :: IPRewriter(pattern 198.18.1.1 1024-65535 - - 0 1, drop); "
        "pings :: ICMPPingRewriter(pattern 198.18.1.1 1024-65535 - - 0 1, drop); "
        "there :: IPClassifier(tcp or udp, icmp type echo); back :: IPClassifier(tcp or udp, icmp type echo-reply); "
        "input[0] -> there; there[0] -> [0]flows; there[1] -> [0]pings; "
        "input[1] -> back; back[0] -> [1]flows; back[1] -> [1]pings; "
        "flows[0] -> [0]output; pings[0] -> [0]output; flows[1] -> [1]output; pings[1] -> [1]output;"
    ),
}


def function(name: str) -> Function:
    made: Function = registry.get("function", name)()
    return made


def statements(text: str) -> list[str]:
    """Those of a Click configuration at its top level, without comments and compound elements."""
    text = re.sub(r"//.*", "", text)
    text = re.sub(r"elementclass \w+ \{.*?\}", "", text, flags=re.DOTALL)
    return [" ".join(statement.split()) for statement in text.split(";") if statement.strip()]


def bare(statement: str) -> str:
    """Without arguments, which hold arrows and names of their own."""
    while (shorter := re.sub(r"\([^()]*\)", "", statement)) != statement:
        statement = shorter
    return statement


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_click_body_of_each_function(name: str) -> None:
    """Not run for real: there is no Click here."""
    assert function(name).click(Path()) == EXPECTED_BODIES[name]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_element_of_a_click_configuration_is_named_and_joined(name: str) -> None:
    """Not run for real: there is no Click here."""
    text = configuration(function(name).click(Path()), Path())
    declared = set(re.findall(r"(\w+) :: ", " ; ".join(bare(each) for each in statements(text))))
    joined = [bare(each) for each in statements(text) if "->" in each]
    used = {word.strip() for each in joined for word in re.split(r"->|\[\d\]|::", each)} - {""}
    classes = {word for word in used if word[0].isupper()}
    assert used - classes <= declared
    assert {re.sub(r"_(inside|outside)$", "", each) for each in declared} == {"from", "to", "kind", "arp", "function"}
    assert text.count("{") == text.count("}") == 1
    assert text.count("(") == text.count(")")
    for statement in joined:
        assert len(statement.split("->")) >= 2


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_click_configuration_serves_both_directions_and_arp(name: str) -> None:
    """Not run for real: there is no Click here."""
    found = statements(configuration(function(name).click(Path()), Path()))
    for side, interface, address in (("inside", "in0", "198.18.0.1"), ("outside", "out0", OUTSIDE)):
        assert f"from_{side} :: FromDevice({interface}, SNIFFER false, PROMISC false)" in found
        assert f"to_{side} :: Queue(4096) -> ToDevice({interface})" in found
        assert f"arp_{side} :: ARPQuerier({address}, {interface}:eth)" in found
        assert f"kind_{side}[0] -> ARPResponder({address} {interface}:eth) -> to_{side}" in found
        assert f"kind_{side}[1] -> [1]arp_{side}" in found
        assert f"arp_{side} -> to_{side}" in found
    assert "kind_inside[2] -> Strip(14) -> CheckIPHeader -> DecIPTTL -> [0]function" in found
    assert f"function[0] -> SetIPAddress({SINK}) -> [0]arp_outside" in found
    assert "kind_outside[2] -> Strip(14) -> CheckIPHeader -> DecIPTTL -> [1]function" in found
    assert f"function[1] -> SetIPAddress({SOURCE}) -> [0]arp_inside" in found


@no_chain
@pytest.mark.parametrize("name", FUNCTIONS)
def test_click_without_click_is_honestly_unavailable(
    testbed: Testbed, scenario: ChainScenario, chain: None, name: str
) -> None:
    if (testbed.image.tree / "usr/local/bin/click").exists():
        pytest.fail("this host has a Click: run the configurations for real, and test that")
    config = {setting.name: setting.default for setting in scenario.settings} | {
        "platform": "runc", "attachment": "veth-direct", "isolation": "none", "function": name, "anomaly": "none",
    }  # fmt: skip
    assert scenario.availability(config)
    found = scenario.availability(config | {"implementation": "click"})
    assert not found
    assert "click" in str(found.reason)
    assert "build Click" in str(found.remedy)


@pytest.fixture(scope="module")
def scenario(testbed: Testbed) -> Iterator[ChainScenario]:
    made = ChainScenario(testbed)
    yield made
    made.close()


@no_chain
def test_click_is_never_silently_replaced_by_the_kernel(testbed: Testbed, pool: PlatformPool, chain: None) -> None:
    direct = registry.get("attachment", "veth-direct")()
    with (
        pytest.raises(LastroError, match="click"),
        deployed(testbed, pool.get("runc"), direct, function("nat"), implementation="click"),
    ):
        pytest.fail("a chain without its function was deployed")
