"""Several chains side by side: addresses, one start for all, what the host carries, and whether it did at one time."""

from __future__ import annotations

import ipaddress
import threading
from itertools import combinations
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lastro.errors import InstrumentError, StudyError
from lastro.functions.base import MOST_CHAINS, PATHS, Function
from lastro.functions.firewall import BLOCKED_SOURCES
from lastro.instruments.base import Watch
from lastro.platforms.base import configuration
from lastro.results.samples import (
    GENERATOR_DELAY,
    GENERATOR_LIMITED,
    LARGE_SEGMENTS,
    Metric,
    Outcome,
    Reading,
    Remark,
    Series,
)
from lastro.results.trial_notes import Ceiling, remarks_of
from lastro.scenarios.base import make_parts, schemas
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.chain import measuring as side
from lastro.scenarios.load.measuring import SIDE_BY_SIDE
from lastro.scenarios.shared import simultaneous
from lastro.scenarios.shared.chain import _segments
from lastro.scenarios.shared.on_chain import starts_s
from lastro.study.load import parse
from lastro.validity import Window, overlap_percent

from ...support.scenarios import configured

PARTS = {"platform": "docker", "attachment": "veth-bridge", "function": "nat", "anomaly": "none", "isolation": "none"}


# Addresses


@pytest.mark.parametrize("ip", ["4", "6"])
def test_no_two_chains_share_a_network_or_one_that_a_function_uses(ip: str) -> None:
    paths = [PATHS[ip].beside(number) for number in range(MOST_CHAINS)]
    assert paths[0] == PATHS[ip]
    networks = []
    for path in paths:
        hops = path.through(8)
        inside = {ipaddress.ip_interface(f"{each.inside_address}/{path.prefix}").network for each in hops}
        assert all(ipaddress.ip_address(each.sink) for each in hops)
        outside = {ipaddress.ip_interface(f"{each.outside_address}/{path.prefix}").network for each in hops}
        ends = [ipaddress.ip_interface(f"{each}/{path.prefix}").network for each in (path.source, path.sink)]
        assert ends == [
            ipaddress.ip_interface(f"{each}/{path.prefix}").network
            for each in (path.inside_address, path.outside_address)
        ]
        networks.append(inside | outside)
        assert len(inside | outside) == 9
    for one, other in combinations(networks, 2):
        assert not one & other
    taken = [ipaddress.ip_network(text) for text in (*BLOCKED_SOURCES, "198.18.2.0/24", "2001:2:0:77::/64")]
    taken.append(ipaddress.ip_network("2001:2:0:2::/64"))
    every = set().union(*networks)
    assert not every & {*taken, ipaddress.ip_network("198.18.255.0/24")}


def test_segments_of_all_chains_have_names_of_their_own() -> None:
    instances: Any = {role: SimpleNamespace(netns=role) for role in ("source", "function", "function2", "sink")}
    found = [_segments(instances, PATHS["4"].beside(number)) for number in (0, 1, 7)]
    names = [segment.name for segments in found for segment in segments]
    assert names == ["a", "b", "c", "a2", "b2", "c2", "a8", "b8", "c8"]
    assert max(len(end) for segments in found for each in segments for end, _ in each.ends()) <= 15
    assert "route add 198.18.169.10/32 via 198.18.168.1 dev out0" in configuration(found[2][0].ports[0])


# One start


class Meter(Watch):
    def __init__(self) -> None:
        self.events: list[str] = []

    def __enter__(self) -> None:
        self.events.append("start")

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self.events.append("stop" if kind is None else "failed")


class Recorder:
    """An instrument whose command begins when its watch is entered; it fails in the chains of `broken`."""

    def __init__(self, bed: Any, meter: Meter, broken: tuple[int, ...] = ()) -> None:
        self.bed, self.meter, self.broken, self.entered = bed, meter, broken, threading.Semaphore(0)

    def measure(self, client: Any, server: Any, target: str, settings: Any, watch: Watch) -> Reading:
        if client in self.broken:
            raise InstrumentError(f"chain {client} has no client")
        with watch:
            assert self.meter.events[0] == "start", "meters start before the first command"
            self.bed.apparatus.windows.append(Window(1.0, 3, 0.1, expected=2.0 + client, began_s=10.0))
        return Reading({"throughput": 100.0 + client}, payload_bytes=10)


def chains(n: int) -> list[Any]:
    return [
        SimpleNamespace(source=number, sink=number, path=SimpleNamespace(sink="198.18.1.10")) for number in range(n)
    ]


def testbed() -> Any:
    return SimpleNamespace(apparatus=SimpleNamespace(windows=[Window(5.0, 1, 1.0, began_s=1.0)]))


testbed.__test__ = False  # type: ignore[attr-defined]


def test_the_commands_of_all_chains_begin_together() -> None:
    bed, meter = testbed(), Meter()
    readings, windows = side.measure_on_all(bed, cast(Any, Recorder(bed, meter)), chains(4), {}, meter)
    assert [each.measurements["throughput"] for each in readings] == [100, 101, 102, 103]
    assert meter.events == ["start", "stop"], "from the first start to the last end"
    assert len(windows) == 4 and {each.expected for each in windows} == {2 + 3 + 4 + 5}
    assert bed.apparatus.windows[0].expected == 0.0, "of another measurement"
    assert bed.apparatus.windows[1:] == windows


def test_one_chain_measures_as_ever() -> None:
    bed, meter = testbed(), Meter()
    (reading,), windows = side.measure_on_all(bed, cast(Any, Recorder(bed, meter)), chains(1), {}, meter)
    assert reading.measurements == {"throughput": 100} and meter.events == ["start", "stop"]
    assert [each.expected for each in windows] == [2.0]


def test_a_chain_that_cannot_begin_stops_the_others_and_says_why() -> None:
    bed, meter = testbed(), Meter()
    with pytest.raises(InstrumentError, match="chain 2 has no client"):
        side.measure_on_all(bed, cast(Any, Recorder(bed, meter, (2,))), chains(4), {}, meter)
    assert meter.events == []


# What the host carries


@pytest.mark.parametrize(
    ("spans", "percent"),
    [([(0, 10), (0, 10)], 100), ([(0, 10), (1, 11)], 100 * 9 / 11), ([(0, 2), (2, 4)], 0), ([(0, 2), (5, 7)], 0)],
)
def test_the_overlap_is_that_of_all_windows(spans: list[tuple[float, float]], percent: float) -> None:
    windows = [Window(end - begin, None, None, began_s=begin) for begin, end in spans]
    assert overlap_percent(windows) == pytest.approx(percent)
    wanted = configured(ChainScenario, **PARTS)
    reasons = simultaneous.overlap_reasons("ping", overlap_percent(windows), wanted)
    assert bool(reasons) is (percent < 90)
    if reasons:
        assert reasons[0].startswith(f"ping: all chains carried their load in {percent:.0f} % of the time")
    assert simultaneous.overlap_reasons("ping", percent, {**wanted, "min_overlap_percent": 0.0}) == []


def test_the_host_carries_the_sum_and_fairness_is_jains() -> None:
    windows = [Window(10.0, None, None, began_s=0.0)] * 3
    found = side.of_host([300.0, 100.0, 200.0], windows)
    assert found == {
        "host_throughput": 600.0, "worst_throughput": 100.0, "chains_overlap": 100.0,
        "throughput_fairness": pytest.approx(600**2 / (3 * (300**2 + 100**2 + 200**2))),
    }  # fmt: skip
    assert side.of_host([500.0, 0.0], windows)["throughput_fairness"] == 0.5, "one has all: 1/n"
    assert side.of_host([7.0], windows)["throughput_fairness"] == 1.0
    assert "throughput_fairness" not in side.of_host([0.0, 0.0], windows)


def test_a_reading_of_several_chains_is_the_mean_with_all_samples() -> None:
    def reading(value: float, *reasons: str, **more: float) -> Reading:
        rtt = Series("rtt", "ms", (value, value + 1))
        remark = Remark("too few packets", "of 2")
        return Reading({"latency_mean": value, **more}, (rtt,), 10, tuple(reasons), {"n": value}, (remark,))

    alone = reading(1.0)
    assert side.combined([alone]) is alone
    both = side.combined([reading(1.0, latency_p99=5.0), reading(3.0, "it stopped")])
    assert both.measurements == {"latency_mean": 2.0}, "what a chain lacks has no mean over the chains"
    assert both.series == (Series("rtt", "ms", (1.0, 2.0, 3.0, 4.0)),)
    assert (both.payload_bytes, both.invalid_because) == (20, ("chain 2: it stopped",))
    assert both.remarks == (Remark("too few packets", "of 2"),)
    assert both.notes == {"n": 1.0, "chain 2": {"n": 3.0}}


def test_a_reason_names_its_chain_where_there_are_several() -> None:
    chains = [cast(Any, SimpleNamespace(path=PATHS["4"].beside(number))) for number in (0, 1)]
    outcome = Outcome(invalid_because=["before"])
    with simultaneous.prefixing_reasons(outcome, chains[1], 2):
        outcome.invalidate(["another path"])
    with simultaneous.prefixing_reasons(outcome, chains[0], 1):
        outcome.invalidate(["another path"])
    assert outcome.invalid_because == ["before", "chain 2: another path", "another path"]


# Plans


@pytest.mark.parametrize(("scenario", "metrics"), [("chain", side.SIDE_BY_SIDE), ("load", SIDE_BY_SIDE)])
def test_a_study_of_several_chains_has_their_metrics(scenario: str, metrics: tuple[Metric, ...]) -> None:
    head = f'[study]\nname = "x"\nscenario = "{scenario}"\n[factors]\nfunction = ["nat"]\n{{}}'
    head += '[settings]\nplatform = "runc"\nattachment = "veth-bridge"\n{}'
    head += 'instrument = "trafgen"\n' if scenario == "load" else ""
    names = {metric.name for metric in metrics}
    usual = parse(head.format("", ""), "s.toml", schemas())
    assert not names & {metric.name for metric in usual.all_metrics}
    for texts in (("", "chains = 4\n"), ("chains = [1, 2]\n", "")):
        assert names <= {metric.name for metric in parse(head.format(*texts), "s.toml", schemas()).metrics}
    for wrong in ("chains = 0\n", "chains = 9\n"):
        with pytest.raises(StudyError, match=r"settings\.chains: must be at"):
            parse(head.format("", wrong), "s.toml", schemas())


def test_more_chains_take_longer_to_start_and_have_a_ceiling_of_their_own() -> None:
    one, four = configured(ChainScenario, **PARTS), configured(ChainScenario, **PARTS, chains=4)
    assert starts_s(one) < starts_s(four) and ChainScenario.duration_s(one) < ChainScenario.duration_s(four)
    assert ChainScenario.calibrations(one).keys() != ChainScenario.calibrations(four).keys()
    (ceiling,) = ChainScenario.calibrations(four).values()
    assert ceiling["chains"] == 4
    assert len(make_parts(Function, str(ceiling["function"]))) == 1


def test_what_the_host_carries_has_the_marks_of_the_throughput_from_which_it_is_computed() -> None:
    outcome = Outcome(notes=Ceiling({"throughput": 100.0}, limited=True).as_notes())
    outcome.add_caveat(Remark(LARGE_SEGMENTS, "of 20,000 B", ("throughput",)))
    outcome.add_caveat(Remark(GENERATOR_DELAY, "late", ("latency_mean",)))
    simultaneous.extend_marks(outcome, side.THROUGHPUT, side.TOTAL, side.WORST)
    found = {(remark.kind, name) for remark in remarks_of(outcome.notes) for name in remark.metrics}
    of_rates = {(kind, name) for kind, name in found if name in {"host_throughput", "worst_throughput"}}
    assert {kind for kind, _ in of_rates} == {GENERATOR_LIMITED, LARGE_SEGMENTS} and len(of_rates) == 4
    assert (GENERATOR_DELAY, "latency_mean") in found and len(found) == 7
