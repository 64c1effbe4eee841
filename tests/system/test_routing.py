"""Networks of real routers: they converge, lose links, get them back; what goes wrong ends a trial, and is named."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from types import SimpleNamespace
from typing import Any

import pytest

from lastro import registry
from lastro.errors import PlatformError
from lastro.functions.ospf import OspfSettings
from lastro.functions.ospf_router import ROUTERS
from lastro.results.samples import GIVEN_BACK
from lastro.results.trial_notes import remarks_of
from lastro.scenarios.routing import RoutingScenario
from lastro.scenarios.routing.boot import booted
from lastro.scenarios.routing.convergence import LifecycleRun, wait_for_routes
from lastro.scenarios.routing.host_timeline import observers
from lastro.scenarios.routing.network import RouterNetwork
from lastro.study.topology import grid
from lastro.testbed import Testbed
from lastro.testing.subject import trial_leftovers

from ..support.scenarios import configured, image_needs

pytestmark = pytest.mark.root
__all__ = ["image_needs"]  # what `testbed` builds
FAST = OspfSettings(1, 4, "point-to-point", "fast")


@pytest.fixture(scope="module")
def scenario(testbed: Testbed) -> Iterator[RoutingScenario]:
    with closing(RoutingScenario(testbed)) as made:
        yield made


def config(platform: str, attachment: str, **settings: Any) -> dict[str, Any]:
    quick = {
        "topology": "2x2", "timers": "fast", "quiet_s": 4.0, "settle_s": 0.2, "regular_s": 2.0, "converge_s": 40.0,
    }  # fmt: skip
    return configured(RoutingScenario, **{**quick, "platform": platform, "attachment": attachment, **settings})


@pytest.mark.parametrize(
    ("platform", "attachment", "settings"),
    [
        ("native", "veth-bridge", {}),
        pytest.param(  # nearly that of the contract
            "runc",
            "veth-direct",
            {"network_type": "point-to-point", "failure": "carrier"},
            marks=pytest.mark.slow,
        ),
        pytest.param("native", "vxlan", {"quiet_s": 6.0}, marks=pytest.mark.slow),
        (
            "native",
            "ovs",
            {"network_type": "point-to-point", "implementation": "bird", "failure": "none", "quiet_s": 8.0},
        ),
    ],
)
def test_a_square_boots_converges_fails_and_recovers(
    scenario: RoutingScenario, testbed: Testbed, platform: str, attachment: str, settings: dict[str, Any]
) -> None:
    chosen = config(platform, attachment, **settings)
    scenario.pool.get(platform)
    scenario.attachments.get(attachment)
    mark = testbed.session.mark()
    with testbed.host.recorded() as transcript:
        outcome = scenario.run(chosen, {})
    assert outcome.valid, outcome.invalid_because
    places = {"veth-direct": 4, "vxlan": 2}
    watching = [step["kind"] for step in transcript.records if "tcpdump" in step.get("argv", [""])[-1]]
    assert watching == [kind for kind in ("spawn", "stop") for _ in range(places.get(attachment, 1))]
    values = outcome.measurements
    missing = {metric.name for metric in RoutingScenario.metrics} - set(values)
    if chosen["failure"] == "none":
        missing = {name for name in missing if not name.startswith(("failure", "recovery"))}
        missing -= {f"{what}_{event}" for what in ("cpu", "memory") for event in ("failure", "recovery")}
        missing -= {"memory_growth_failure", "memory_growth_after"}
    missing -= {name for each in remarks_of(outcome.notes) if each.kind == GIVEN_BACK for name in each.metrics}
    missing -= {"cpu_fallen"}  # it may not fall while other tests work; test_routing_readings.py has its rule
    assert missing == set()
    assert values["boot"] < values["initial_adjacency"] <= values["initial_routes"] < 60
    assert values["first_ospf_packet"] < values["initial_last_update"]
    assert 2 < values["ospf_regular"] < 30  # eight ends say hello every second
    if chosen["failure"] == "silent":
        assert 2 < values["failure_routes"] < 10  # no hello for four seconds, less what had gone of them
        assert 0.5 * values["failure_routes"] < values["failure_outage"] / 1000 < values["failure_routes"] + 1
    if chosen["failure"] == "carrier":
        assert values["failure_routes"] < 3
    assert testbed.session.mark() == mark, "nothing is left but what was prepared"


@pytest.fixture
def square(testbed: Testbed) -> Iterator[RouterNetwork]:
    platform, links = registry.get("platform", "native")(), registry.get("attachment", "veth-bridge")()
    links.separated = True
    with ExitStack() as stack:
        stack.enter_context(platform.prepare(testbed))
        stack.enter_context(links.prepare(testbed))
        watch = stack.enter_context(observers(testbed))
        yield stack.enter_context(booted(testbed, platform, links, grid(2, 2), ROUTERS["frr"], FAST, watch))


def test_a_daemon_that_dies_is_named_and_so_are_the_routes_that_are_missed(square: RouterNetwork) -> None:
    routes = square.topology.routes()
    assert wait_for_routes(square, routes, square.marks["booted"], quiet_s=0.5, within_s=30) == []
    assert square.dead() == []
    pid = next(
        pid for pid in square.instances[3].pids() if square.testbed.host.read_text(f"/proc/{pid}/comm") == "ospfd\n"
    )
    os.kill(pid, signal.SIGKILL)
    deadline_s = time.monotonic() + 20
    while not any(words.startswith("r0-1: ") for words in square.differences(routes)):
        assert time.monotonic() < deadline_s, "four hellos without an answer are a dead neighbour"
        time.sleep(0.2)
    assert square.dead() == ["r1-1: ospfd"]


def test_a_router_that_does_not_start_ends_the_trial_with_its_name_and_words(
    scenario: RoutingScenario, testbed: Testbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ROUTERS["frr"], "start_script", lambda files: "echo no such daemon here >&2\nexit 1\n")
    scenario.pool.get("native")
    scenario.attachments.get("veth-bridge")
    mark = testbed.session.mark()
    with pytest.raises(PlatformError, match=r"4 of 4 routers did not start frr: r0-0: .*no such daemon here"):
        scenario.run(config("native", "veth-bridge"), {})
    assert testbed.session.mark() == mark


@pytest.mark.slow
def test_a_switch_that_is_killed_costs_its_trial_and_leaves_nothing(
    scenario: RoutingScenario, testbed: Testbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In regular operation: with a failure to come a phase goes wrong, without one every phase may seem right."""
    scenario.pool.get("native")
    part: Any = scenario.attachments.get("ovs")
    chosen = config("native", "ovs", network_type="point-to-point", failure="none", converge_s=15.0)
    outcome = scenario.run(chosen, {})
    assert outcome.valid, outcome.invalid_because
    before, regular = trial_leftovers(testbed, part._directory), LifecycleRun._regular

    def lost_in_mid_trial(failure: str, short: str, daemon: str) -> None:
        def killing(run: LifecycleRun) -> None:
            os.kill(int((part._directory / f"{short}.pid").read_text()), signal.SIGKILL)
            regular(run)

        monkeypatch.setattr(LifecycleRun, "_regular", killing)
        began_s = time.monotonic()
        with pytest.raises(PlatformError, match=rf"Open vSwitch: {daemon} exited with code 137"), scenario.attempt():
            scenario.run({**chosen, "failure": failure}, {})
        assert time.monotonic() - began_s < 90, "nothing waits for a daemon that is not there"
        assert trial_leftovers(testbed, part._directory) == before
        monkeypatch.undo()

    lost_in_mid_trial("silent", "vs", "ovs-vswitchd")
    lost_in_mid_trial("none", "db", "ovsdb-server")  # it gets as far only if the switch is there again
    outcome = scenario.run(chosen, {})
    assert outcome.valid, outcome.invalid_because
    assert trial_leftovers(testbed, part._directory) == before


def test_pings_go_on_when_a_router_says_that_it_has_no_way(square: RouterNetwork) -> None:
    """As routers do while they converge, the more of them the oftener: then some have a way, and others not yet."""
    topology = square.topology
    assert wait_for_routes(square, topology.routes(), square.marks["booted"], quiet_s=0.5, within_s=30) == []
    work: Any = SimpleNamespace(config={"probe_interval_ms": 20, "converge_s": 5})
    run = LifecycleRun(square, work)
    refusal = ["INPUT", "-p", "icmp", "--icmp-type", "echo-request", "-j", "REJECT", "--reject-with"]

    def each_router(verb: str) -> None:
        for instance in square.instances:
            enter = ["ip", "netns", "exec", instance.netns]
            square.testbed.host.run([*enter, "iptables", "-w", verb, *refusal, "icmp-net-unreachable"])

    with run._flow(topology.spare_links()) as flow:
        assert flow is not None
        each_router("-A")
        with run._first_ping() as forwarding_s:
            time.sleep(0.5)
            each_router("-D")
            back_s = time.monotonic()
            assert forwarding_s() > back_s - 0.3
        time.sleep(0.5)
        assert max(at_s for at_s, _ in flow.answered()) > back_s


def test_what_is_sent_to_links_that_are_cut_is_not_counted(square: RouterNetwork) -> None:
    topology = square.topology
    assert wait_for_routes(square, topology.routes(), square.marks["booted"], quiet_s=0.5, within_s=30) == []
    spare = topology.spare_links()
    ends = {end for number in spare for end, _ in square.segments[number].ends()}
    cut_s = square.cut(spare, carrier=False)
    time.sleep(2.5)
    back_s = square.mend(spare, carrier=False)
    time.sleep(2.5)
    since = [packet for packet in square.watch.packets if packet.at_s >= cut_s]
    heard_s = [packet.at_s for packet in since if packet.device in ends]
    assert heard_s and min(heard_s) >= back_s, "every router says hello each second, to whomever"
    assert any(packet.at_s < back_s for packet in since)


# What the watch did not see

_HELLOS = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 89)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"{device}")
for _ in range(20_000):
    s.sendto(bytes([2, 1, 0, 44]) + bytes(40), ("224.0.0.5", 0))
"""


def observer(network: RouterNetwork, name: str) -> int:
    """The process of the network's watch that runs this program."""
    host = network.testbed.host
    (pid,) = (pid for pid in network.testbed.session.pids() if host.read_text(f"/proc/{pid}/comm") == f"{name}\n")
    return pid


def test_packets_and_changes_that_come_too_fast_are_reported(square: RouterNetwork) -> None:
    host, router = square.testbed.host, square.instances[0].netns
    stopped = [observer(square, name) for name in ("tcpdump", "ip")]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    device = square.topology.interface(0, square.topology.at[0][0])
    host.run(["ip", "netns", "exec", router, "python3", "-c", _HELLOS.format(device=device)])
    table = [
        f"route {verb} unreachable 198.19.{n // 256}.{n % 256}/32 table 99"
        for verb in ("add", "del")
        for n in range(20_000)
    ]
    host.run(["ip", "-n", router, "-batch", "-"], stdin="\n".join(table) + "\n")
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    time.sleep(1)  # they print what the kernel has kept for them: a signal would interrupt that
    packets, changes = square.watch.end()
    number, words = packets.split(maxsplit=1)
    assert int(number) > 1000 and words == "packets on the links were not counted: they came too fast"
    assert changes == "some changes of routes were not seen: they came too fast"


@pytest.mark.parametrize(("name", "words"), [("tcpdump", "tcpdump"), ("ip", "ip monitor")])
def test_an_observer_that_is_killed_is_reported(square: RouterNetwork, name: str, words: str) -> None:
    pid, deadline_s = observer(square, name), time.monotonic() + 10
    os.kill(pid, signal.SIGKILL)
    while "Z (zombie)" not in square.testbed.host.read_text(f"/proc/{pid}/status"):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    (reason,) = square.watch.end()
    assert reason.startswith(
        f"links and routes were not watched until the end of the trial: {words} exited with code 137"
    )
