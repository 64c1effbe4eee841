"""The impairments of a chain's last link: what `tc` is told, and by which witnesses a trial is invalid."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro.attachments.base import Segment
from lastro.errors import InputError, Unavailable
from lastro.host.base import Completed
from lastro.platforms.base import Port
from lastro.results.samples import Outcome, Reading, Series
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.load import LoadScenario, _require_supported
from lastro.scenarios.shared.impaired_link import RATE, Impairment, impaired

from ...support.recording import FakeInstance, RecordingHost, answer, recording_testbed
from ...support.scenarios import SHORT, configured

DUT = "lastro-0a1b2c-dut"
ALL = Impairment(10.0, 1.0, 1e8)
NETEM = "qdisc add dev out0 handle 1: root netem limit 200000"
# As iproute2 6.1 of Debian 12 prints it.
SHOWN = json.loads("""
[{"kind":"netem","handle":"1:","root":true,"refcnt":2,"options":{"limit":200000,
  "delay":{"delay":0.01,"jitter":0,"correlation":0},"loss-random":{"loss":0.01,"correlation":0},
  "ecn":false,"gap":0},"bytes":1400000,"packets":9900,"drops":105,"overlimits":0,"requeues":0,"backlog":0,"qlen":0},
 {"kind":"tbf","handle":"8001:","parent":"1:1","options":{"rate":12500000,"burst":125000,"lat":50000},
  "bytes":1400000,"packets":9895,"drops":5,"overlimits":7,"requeues":0,"backlog":0,"qlen":0}]
""")


@pytest.mark.parametrize(
    ("impairment", "lines"),
    [
        (Impairment(), []),
        (Impairment(delay_ms=2.5), [f"{NETEM} delay 2.5ms"]),
        (Impairment(loss_percent=0.1), [f"{NETEM} loss 0.1%"]),
        (Impairment(rate_bps=1e6), ["qdisc add dev out0 handle 1: root tbf rate 1000000bit burst 4096 latency 50ms"]),
        (
            ALL,
            [
                f"{NETEM} delay 10ms loss 1%",
                "qdisc add dev out0 parent 1:1 tbf rate 100000000bit burst 125000 latency 50ms",
            ],
        ),
    ],
    ids=str,
)
def test_a_rate_is_a_bucket_alone_or_below_delay_and_loss(impairment: Impairment, lines: list[str]) -> None:
    assert impairment.lines("out0") == lines
    assert bool(impairment) is bool(lines)


def test_an_impairment_is_that_of_a_treatment_and_is_read_back() -> None:
    chosen = configured(ChainScenario, **{"link.delay_ms": 10.0, "link.loss": 1.0, "link.rate": "100M"})
    assert Impairment.of(chosen) == ALL and str(ALL) == "10 ms delay, 1 % loss, 100 Mbit/s"
    assert not Impairment.of(configured(LoadScenario)), "without a setting, a link is as it is"
    assert Impairment.from_tc(SHOWN).is_close_to(ALL) and not Impairment.from_tc(SHOWN[1:]).is_close_to(ALL)
    assert Impairment.from_tc([{"kind": "noqueue", "handle": "0:", "root": True, "options": {}}]) == Impairment()


@pytest.mark.parametrize("text", ["0", "99k", "101G", "fast", "100 MB"])
def test_a_rate_that_no_link_has_is_refused(text: str) -> None:
    assert RATE.check is not None
    with pytest.raises(InputError) as caught:
        RATE.check(text)
    assert caught.value.hint


class Link:
    """A chain whose last link is from a function to a sink; `trips_ms` are what pings see, before and after."""

    def __init__(
        self,
        place: Path,
        trips_ms: Sequence[float] = (0.1, 20.1),
        shown: object = SHOWN,
        error: str = "",
        taps: bool = False,
    ) -> None:
        self.host = RecordingHost(self._answer)
        self._shown, self._error, trips = shown, error, iter(trips_ms)
        bed = recording_testbed(self.host, place)
        ends = [
            FakeInstance(testbed=bed, netns=role, takes_taps=taps, spec=SimpleNamespace(role=role))
            for role in ("function", "sink")
        ]
        ports = [Port(end, name, "198.18.0.1/24") for end, name in zip(ends, ("out0", "in0"), strict=True)]  # type: ignore[arg-type]
        rtt = "rtt min/avg/max/mdev = {0}/{0}/{0}/0.001 ms\n"
        source = FakeInstance(lambda argv: answer(rtt.format(trip) if (trip := next(trips)) else "no reply"))
        path = SimpleNamespace(sink="198.18.1.10")
        segments = [Segment("b", tuple(ports))]  # type: ignore[arg-type]
        self.chain: Any = SimpleNamespace(source=source, sink=ends[1], path=path, segments=segments)

    def _answer(self, argv: Sequence[str]) -> Completed | None:
        if "show" in argv:
            return answer(json.dumps(self._shown))
        return answer(code=1, error=self._error) if self._error and "-batch" in argv else None

    def outcome(self, impairment: Impairment = ALL) -> Outcome:
        outcome = Outcome()
        with impaired(self.chain, impairment, outcome):
            pass
        return outcome


@pytest.mark.parametrize(
    ("taps", "places"),
    [(False, [("function", "out0"), ("sink", "in0")]), (True, [(DUT, "hub-ba"), (DUT, "hub-bb")])],
)
def test_the_device_that_sends_in_each_direction_is_impaired_and_freed(
    tmp_path: Path, taps: bool, places: list[tuple[str, str]]
) -> None:
    link = Link(tmp_path, taps=taps)
    outcome = link.outcome()
    assert outcome.valid, outcome.invalid_because
    for (netns, device), argv, lines in zip(places, link.host.commands, link.host.stdins, strict=False):
        assert argv == ["tc", "-n", netns, "-batch", "-"]
        assert lines == "\n".join(ALL.lines(device)) + "\n"
    ends = [["tc", "-n", netns, "qdisc", "del", "dev", device, "root"] for netns, device in places]
    assert link.host.commands[-2:] == ends
    assert outcome.notes["round_trip_ms"] == {"without delay": 0.1, "with delay": 20.1}
    towards = {"shown": "10 ms delay, 1 % loss, 100 Mbit/s", "passed": 9900, "lost": 100}
    assert outcome.notes["impaired_link"] == {"towards the sink": towards, "towards the function": towards}


def test_a_link_without_an_impairment_is_left_alone(tmp_path: Path) -> None:
    link = Link(tmp_path)
    assert link.outcome(Impairment()) == Outcome()
    assert not link.host.commands


CHANGED = [{**SHOWN[0], "options": {"limit": 1000, "delay": {"delay": 0.01}}}, SHOWN[1]]
LOSSY = [{**SHOWN[0], "drops": 205}, SHOWN[1]]
UNUSED = [{**SHOWN[0], "packets": 0, "drops": 0}, {**SHOWN[1], "drops": 0}]


@pytest.mark.parametrize(
    ("trips_ms", "shown", "reason"),
    [
        (
            (0.1, 0.2),
            SHOWN,
            "a round trip took 0.2 ms over a link that delays it by twice 10 ms: the delay did not act",
        ),
        ((0.1, 10.1), SHOWN, "a round trip took 10.1 ms"),
        ((0.1, 40.1), SHOWN, "its delay of 10 ms made round trips 40 ms longer"),
        ((0.1, 0), SHOWN, "no ping was answered"),
        ((0.1, 20.1), [], "had no impairment at the end instead of 10 ms delay, 1 % loss, 100 Mbit/s"),
        ((0.1, 20.1), CHANGED, "had 10 ms delay, 100 Mbit/s at the end instead of"),
        ((0.1, 20.1), LOSSY, "lost 200 of 10100 packets instead of 1 %"),
        ((0.1, 20.1), UNUSED, "no packet passed the queueing discipline of the link towards the sink"),
    ],
)
def test_an_impairment_that_did_not_act_invalidates_the_trial(
    tmp_path: Path, trips_ms: Sequence[float], shown: object, reason: str
) -> None:
    outcome = Link(tmp_path, trips_ms, shown).outcome()
    assert outcome.invalid_because and reason in outcome.invalid_because[0]


@pytest.mark.parametrize(
    ("impairment", "kinds"),
    [(ALL, "sch_netem and sch_tbf"), (Impairment(delay_ms=1), "sch_netem"), (Impairment(rate_bps=1e6), "sch_tbf")],
)
def test_a_kernel_that_lacks_it_says_so_with_the_remedy_and_nothing_is_left(
    tmp_path: Path, impairment: Impairment, kinds: str
) -> None:
    link = Link(tmp_path, error="Error: Specified qdisc kind is unknown.\nCommand failed -:1\n")
    with pytest.raises(Unavailable) as caught:
        link.outcome(impairment)
    assert (
        str(caught.value.message)
        == f"this kernel does not impair a link by {kinds}: Error: Specified qdisc kind is unknown."
    )
    assert (
        caught.value.hint == f"use a kernel with {kinds}, or measure in a guest, whose kernel has it (--testbed guest)"
    )
    assert [argv[3] for argv in link.host.commands[-2:]] == ["qdisc", "qdisc"]


def test_the_link_is_freed_when_the_trial_fails(tmp_path: Path) -> None:
    link = Link(tmp_path)
    with suppress(ZeroDivisionError), impaired(link.chain, ALL, Outcome()):
        raise ZeroDivisionError
    assert [argv[4] for argv in link.host.commands[-2:]] == ["del", "del"]


def test_an_instrument_that_was_faster_than_the_link_invalidates_the_trial() -> None:
    second = Reading({}, payload_bytes=12_500_000, lasted_s=1.0)
    assert Impairment(rate_bps=1e8).reasons("iperf3-tcp", second) == []
    assert Impairment().reasons("iperf3-tcp", second) == []
    (reason,) = Impairment(rate_bps=9e7).reasons("iperf3-tcp", second)
    assert reason == "iperf3-tcp: 100.0 Mbit/s crossed a link of 90 Mbit/s: its rate did not act"
    trips = Reading({}, (Series("rtt", "ms", (25.0, 20.1)),), payload_bytes=4200)
    assert Impairment(10, 1, 1e5).reasons("ping", trips) == []
    (reason,) = Impairment(15).reasons("ping", trips)
    assert "ping: a round trip took 20.1 ms over a link that delays it by twice 15 ms" in reason


def test_plain_forwarding_and_profiles_are_measured_over_the_same_link() -> None:
    levels = {"platform": "runc", "isolation": "cgroups", "anomaly": "none", **SHORT["chain"], "function": "firewall"}
    plain = configured(ChainScenario, **levels)
    slow = {**plain, "link.rate": "10M"}
    assert not ChainScenario.calibrations(plain).keys() & ChainScenario.calibrations(slow).keys()
    assert all(each["link.rate"] == "10M" for each in ChainScenario.calibrations(slow).values())


def test_a_generator_that_sends_back_cannot_share_the_sink_s_device() -> None:
    levels = {"platform": "runc", "isolation": "none", "anomaly": "none", **SHORT["load"], "direction": "both"}
    with pytest.raises(Unavailable) as caught:
        _require_supported(configured(LoadScenario, **levels, **{"link.rate": "10M"}), (0, 1))
    assert caught.value.hint == 'use direction = "forward"'
    _require_supported(configured(LoadScenario, **levels), (0, 1))
