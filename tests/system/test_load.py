"""The scenario `load` on real links: a bottleneck of known rate, traffic of every kind, and bad days."""

from __future__ import annotations

import os
import pathlib
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from lastro import registry
from lastro.attachments.veth_direct import VethDirect
from lastro.errors import TrialError
from lastro.functions.base import ForwardingPath, Function, Step
from lastro.instruments.load_generator import Traffic
from lastro.instruments.trafgen import Trafgen
from lastro.platforms.native import Native
from lastro.results.samples import GOAL_NOT_MET, Outcome
from lastro.results.topology import Topology
from lastro.results.trial_notes import remarks_of
from lastro.scenarios.load import LoadScenario
from lastro.scenarios.load.addresses import keep_addresses
from lastro.scenarios.load.probing import Prober
from lastro.scenarios.shared.chain import Chain, deployed
from lastro.testbed import Testbed
from lastro.testing.subject import trial_leftovers

from ..support.scenarios import SHORT, attempted, configured, image_needs

pytestmark = pytest.mark.root
__all__ = ["image_needs"]  # what `testbed` builds

CAPACITY_FPS = 4_000
_BURST, _QUEUE = 10, 20  # frames
_HELD = 1500  # frames, which leave a longer queue in 375 ms
_TRACKED = "/proc/sys/net/netfilter/nf_conntrack_count"
_BOTTLENECK = f'''"""A bottleneck of known rate: {CAPACITY_FPS} frames of 64 bytes in a second, behind a short queue."""

from lastro.functions.base import ForwardingPath, Function, Step


class Bottleneck(Function):
    name, summary = "bottleneck", "lets a known rate pass"

    def more_steps(self, path: ForwardingPath) -> tuple[Step, ...]:
        bucket = "tbf rate {CAPACITY_FPS * 60 * 8}bit burst {_BURST * 60} limit {_QUEUE * 60}"
        return (Step(("tc", "qdisc", "add", "dev", path.outside, "root", *bucket.split())),)
'''


@pytest.fixture(scope="module")
def running(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoadScenario]:
    parts = tmp_path_factory.mktemp("parts")
    (parts / "functions").mkdir()
    (parts / "functions" / "bottleneck.py").write_text(_BOTTLENECK)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("LASTRO_PARTS", str(parts))
        registry.scan.cache_clear()
        with closing(LoadScenario(testbed)) as made:
            yield made
    registry.scan.cache_clear()


def short(**chosen: Any) -> dict[str, Any]:
    levels = {"platform": "native", "isolation": "none", "anomaly": "none", **SHORT["load"], "at": "none"}
    return configured(LoadScenario, **{**levels, **chosen})


def searched(running: LoadScenario, **chosen: Any) -> Outcome:
    config = short(**chosen)
    found = running.availability(config)
    assert found, found.reason
    outcome = attempted(running, config)
    assert outcome.valid, outcome.invalid_because
    return outcome


def noted(outcome: Outcome, name: str) -> Any:
    return outcome.notes[name]


def tracked(chain: Chain) -> int:
    """The connections that the kernel of the function tracks."""
    argv = ["ip", "netns", "exec", chain.instances["function"].netns, "cat", _TRACKED]
    return int(chain.source.testbed.host.run(argv).text)


def test_a_bottleneck_of_known_rate_lies_in_the_interval(running: LoadScenario) -> None:
    chosen = {"probe_s": 0.5, "first_probe_s": 0.5, "deciding_s": 1.5, "width_percent": 3, "most_fps": 20_000}
    for _ in range(3):  # a busy machine may keep the generator below the bottleneck
        outcome = searched(running, function="bottleneck", **chosen)
        if {"ndr_upper", "pdr_upper"} <= outcome.measurements.keys():
            break
    found, waiting = outcome.measurements, (_BURST + _QUEUE) / 0.5
    for goal, loss in (("ndr", 0.0), ("pdr", 0.005)):
        assert found[goal] <= (CAPACITY_FPS + waiting) / (1 - loss) * 1.005, outcome.notes["probes"]
        assert found[f"{goal}_upper"] >= CAPACITY_FPS / (1 - loss) * 0.995, outcome.notes["probes"]
    assert found["pdr_conditional"] == pytest.approx(CAPACITY_FPS, rel=0.04)
    assert found["frame_mean"] == pytest.approx(60, abs=0.5)
    assert found["frames_per_cpu_s"] > 0


class Holding(Function):
    """The same bottleneck behind a long queue: it loses nothing, and passes frames long after they were sent."""

    name, summary = "holding", "lets a known rate pass, later"

    def more_steps(self, path: ForwardingPath) -> tuple[Step, ...]:
        bucket = f"tbf rate {CAPACITY_FPS * 60 * 8}bit burst {_BURST * 60} limit {_HELD * 60}"
        return (Step(("tc", "qdisc", "add", "dev", path.outside, "root", *bucket.split())),)


@pytest.mark.measures  # beside others, counters may be read when the queue is empty again
def test_frames_that_a_queue_holds_belong_to_the_probe_that_sent_them(testbed: Testbed) -> None:
    with deployed(testbed, Native(), VethDirect(), Holding(), offloads=False) as chain:
        prober = Prober(testbed, chain, Trafgen(), Traffic.of("64"))
        with prober.ready():
            first, second = prober.probe(10_000, 0.2), prober.probe(2_000, 0.2)
    assert first.sent == pytest.approx(2_000, abs=5) and first.loss_ratio == 0
    assert first.late > 500
    assert second.sent == pytest.approx(400, abs=5) and second.received == pytest.approx(400, abs=5)
    assert prober.overdue == 0


def test_no_hardware_address_is_asked_for_among_counted_frames(testbed: Testbed) -> None:
    """A kernel that did not know a neighbour for good would ask for it after 15 to 45 seconds."""
    function: Function = registry.get("function", "firewall")()
    with deployed(testbed, Native(), VethDirect(), function, offloads=False) as chain:
        assert keep_addresses(chain, 1.0) == {}
        for role, instance in chain.instances.items():
            known = testbed.host.run_json(["ip", "-n", instance.netns, "-j", "neigh", "show"])
            assert len(known) == (2 if role == "function" else 1)
            assert [each["state"] for each in known] == [["PERMANENT"]] * len(known), role
        prober = Prober(testbed, chain, Trafgen(), Traffic.of("64"))
        with prober.ready():
            probe = prober.probe(2_000, 0.5)
    assert probe.loss_ratio == 0 and probe.sent == pytest.approx(1_000, abs=2)


@pytest.mark.parametrize(
    "traffic",
    [
        {"instrument": "trafgen", "frame_size": "imix", "flows": 1000},
        {"instrument": "trafgen", "frame_size": "1518", "direction": "both"},
        {"instrument": "trafgen", "frame_size": "66", "ip": "6"},
        {"instrument": "sockperf", "frame_size": "64", "cost_s": 1},
    ],
    ids=lambda traffic: f"{traffic['instrument']}-{traffic['frame_size']}",
)
def test_traffic_of_every_kind_passes_a_firewall(running: LoadScenario, traffic: dict[str, Any]) -> None:
    outcome = searched(running, function="firewall", most_fps=4_000, **traffic)
    sent_bytes = Traffic.of(traffic["frame_size"], ip=traffic.get("ip", "4")).counted_bytes
    assert outcome.measurements["frame_mean"] == pytest.approx(sent_bytes, rel=0.01)
    cost, moved = noted(outcome, "cost"), noted(outcome, "witness")[traffic["instrument"]]
    shares = 2 if traffic.get("direction") == "both" else 1
    assert moved["source.out0"]["tx_packets"] == pytest.approx(cost["sent"] / shares, rel=0.005, abs=5)
    back = cost["sent"] / 2 if shares == 2 else 0
    assert moved["sink.in0"]["tx_packets"] == pytest.approx(back, rel=0.005, abs=5)


@pytest.mark.parametrize("instrument", ["trafgen", pytest.param("sockperf", marks=pytest.mark.slow)])
def test_a_function_that_is_too_slow_loses_frames_and_does_not_block_its_generator(
    running: LoadScenario, instrument: str
) -> None:
    """Its kernel works on another CPU, behind a queue, and a generator's socket holds more than that queue."""
    if len(running.testbed.usable_cpus) < 2:
        pytest.skip("with one CPU, the function blocks its generator")
    for _ in range(3):  # a busy machine may keep the generator below what the function carries
        outcome = searched(running, function="dpi:signatures=1000", instrument=instrument, least_fps=100)
        if {"ndr_upper", "pdr_upper"} <= outcome.measurements.keys():
            break
    assert outcome.measurements["pdr_upper"] < 20_000
    probes = outcome.notes["probes"]
    assert isinstance(probes, list) and any(probe["loss_ratio"] > 0.05 for probe in probes), probes


def test_nat_counts_flows_that_began_before_the_last_probe(running: LoadScenario) -> None:
    """The trial would be invalid: no flow of the last probe is new to its counter."""
    outcome = searched(running, function="nat", flows=10, most_fps=2_000)
    assert outcome.measurements["frame_mean"] == pytest.approx(60, abs=0.5)


def test_a_function_that_tracks_connections_has_an_entry_for_each_flow(testbed: Testbed) -> None:
    function: Function = registry.get("function", "nat")()
    with deployed(testbed, Native(), VethDirect(), function, offloads=False) as chain:
        prober = Prober(testbed, chain, Trafgen(), Traffic.of("64", flows=500))
        with prober.ready():
            before = tracked(chain)
            probe = prober.probe(2_000, 0.5)
            entries = tracked(chain) - before
    assert probe.sent == pytest.approx(1_000, abs=5)
    assert 500 <= entries <= 505, "and one or two for pings"


def test_a_rate_above_any_ceiling_is_the_generator_s_limit(running: LoadScenario) -> None:
    outcome = searched(running, most_fps=50_000_000)
    assert outcome.notes["generator_reached_its_limit"] is True
    probes = outcome.notes["probes"]
    assert isinstance(probes, list) and not probes[0]["reached"] and probes[0]["lasted_s"] < 2
    assert 1_000 < outcome.measurements["pdr"] < 5_000_000


# Network cards

CABLES = (("wire-c", "wire-1"), ("wire-2", "wire-s"))


@pytest.fixture
def cabled(testbed: Testbed) -> Iterator[Testbed]:
    """A testbed whose file names four cards: ends of two veth pairs, one of which is down."""
    ends = [end for cable in CABLES for end in cable]
    for a, b in CABLES:
        testbed.host.run(["ip", "link", "add", "name", a, "type", "veth", "peer", "name", b])
    try:
        for end in ends[1:]:
            testbed.host.run(["ip", "link", "set", "dev", end, "up"])
        client, server = (replace(testbed, cards={"dut": end}) for end in ("wire-c", "wire-s"))
        others = {"client": client, "server": server}
        yield replace(testbed, cards={"client": "wire-1", "server": "wire-2"}, others=others)
    finally:
        for a, _ in CABLES:
            testbed.host.run(["ip", "link", "del", "dev", a], check=False)


def card_states(testbed: Testbed) -> dict[str, tuple[bool, int, list[str]]]:
    """Return {card: whether it is up, its most segments, its addresses and offloads} of the host's own network."""
    states = {}
    for end in (end for cable in CABLES for end in cable):
        (shown,) = testbed.host.run_json(["ip", "-d", "-j", "address", "show", "dev", end])
        offloads = testbed.host.run(["ethtool", "--show-offload", end]).text.splitlines()
        addresses = [each["local"] for each in shown["addr_info"] if each["scope"] == "global"]
        states[end] = "UP" in shown["flags"], shown["gso_max_segs"], addresses + offloads
    return states


def test_a_load_crosses_cards_that_come_back_as_they_were(cabled: Testbed) -> None:
    before = card_states(cabled)
    assert [up for up, *_ in before.values()] == [False, True, True, True]
    with closing(LoadScenario(cabled)) as scenario:
        wanted = short(attachment="card", function="firewall", most_fps=4_000)
        found = scenario.availability(wanted)
        assert found, found.reason
        assert card_states(cabled) == before
        outcome = attempted(scenario, wanted)
    assert outcome.valid, outcome.invalid_because
    assert outcome.measurements["frame_mean"] == pytest.approx(60, abs=0.5)
    drawn = Topology.of(outcome.notes)
    assert drawn is not None and [link.attachment for link in drawn.links] == ["card", "card"]
    assert card_states(cabled) == before


def test_cards_that_no_file_names_are_unavailable(running: LoadScenario) -> None:
    found = running.availability(short(attachment="card"))
    assert found.reason == "no testbed file names the network card of the client for its link to the dut"
    assert found.remedy and "pass it with --testbed" in found.remedy


# Bad days


@contextmanager
def killed(comm: str, where: str, after_s: float = 1.0) -> Iterator[list[int]]:
    """Kill the first process of this name in a control group whose path has `where`, once it has been there a while."""
    done, pids = threading.Event(), list[int]()

    def kill() -> None:
        began_s = time.monotonic()
        while not done.wait(0.02):
            for process in pathlib.Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    mine = where in (process / "cgroup").read_text()
                    if mine and (process / "comm").read_text().strip() == comm and time.monotonic() - began_s > after_s:
                        os.kill(int(process.name), signal.SIGKILL)
                        pids.append(int(process.name))
                        return

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield pids
    finally:
        done.set()
        thread.join()


def invalid(running: LoadScenario, config: dict[str, Any]) -> list[str]:
    """Run a trial that must be invalid, and return why, as the runner of campaigns would note it."""
    before = trial_leftovers(running.testbed)
    try:
        with running.attempt():
            reasons = running.run(config, {}).invalid_because
    except TrialError as error:
        reasons = [error.message]
    assert reasons
    assert trial_leftovers(running.testbed) == before
    return reasons


def test_a_generator_that_is_killed_in_mid_search_makes_the_trial_invalid(running: LoadScenario) -> None:
    with killed("trafgen", "source") as pids:
        reasons = invalid(running, short(probe_s=0.5, deciding_s=5, width_percent=1))
    assert pids
    assert len(reasons) == 1 and "trafgen" in reasons[0], reasons


def test_a_function_that_is_killed_in_mid_search_makes_the_trial_invalid(running: LoadScenario) -> None:
    config = short(platform="runc", probe_s=0.5, deciding_s=5, width_percent=1, function="firewall")
    with killed("sleep", "function", after_s=2.0) as pids:
        reasons = invalid(running, config)
    assert pids
    assert any("function" in reason for reason in reasons), reasons


def test_a_pdr_that_no_rate_meets_is_a_result_without_cost_and_latency(running: LoadScenario) -> None:
    outcome = searched(running, function="bottleneck", least_fps=5_000, most_fps=6_000, at="50%")
    marked = {name for each in remarks_of(outcome.notes) if each.kind == GOAL_NOT_MET for name in each.metrics}
    assert {"pdr", "pdr_upper", "ndr", "frames_per_cpu_s", "host_cpus", "latency_p99_at_50pct"} <= marked
    assert not marked & outcome.measurements.keys()
