"""The probes of the scenario load: what interfaces counted, against what the generator reports."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lastro.errors import InstrumentError
from lastro.functions.base import PATHS
from lastro.instruments.base import Watch
from lastro.instruments.load_generator import SentLoad, Traffic
from lastro.platforms.base import AVAILABLE
from lastro.results.samples import Outcome
from lastro.scenarios.load import probing
from lastro.scenarios.load import probing as probing_module
from lastro.scenarios.load.goals import Goal
from lastro.scenarios.load.measuring import _judge_overlap
from lastro.scenarios.load.probing import BOTH, LoadProbes, Prober, TooManyFrames
from lastro.scenarios.load.search import METHODS, REACHED, Bounds, Probe, search
from lastro.validity import Window

from ...support.loading import config


def counters(sent: int, received: int, refused: int = 0, size: int = 60) -> dict[str, dict[str, int]]:
    """What interfaces count of a flow that loses frames only inside the function."""
    nothing = {f"{side}_{what}": 0 for side in ("rx", "tx") for what in ("bytes", "packets", "dropped")}
    out = {"tx_packets": sent, "tx_bytes": sent * size, "tx_dropped": refused}
    come, gone = {"rx_packets": sent, "rx_bytes": sent * size}, {"tx_packets": received, "tx_bytes": received * size}
    return {
        "source.out0": {**nothing, **out},
        "function.in0": {**nothing, **come},
        "function.out0": {**nothing, **gone},
        "sink.in0": {**nothing, "rx_packets": received, "rx_bytes": received * size},
    }


Counted = dict[str, dict[str, int]]


def chain_of(number: int = 0, *copies: Any) -> Any:
    """A chain of the trial, whose instances are the trial's names of their roles."""
    tail = f"-{number + 1}" if number else ""
    roles = {role: SimpleNamespace(usage=dict) for role in ("source", "function", "sink")}
    ends = {role: f"{role}{tail}" for role in ("source", "sink")}
    chain = SimpleNamespace(path=PATHS["4"].beside(number), instances=roles, trial_role=lambda role: f"{role}{tail}")
    vars(chain).update(ends, all=(chain, *copies))
    return chain


def both_ways(there: int, back: int) -> Counted:
    """What interfaces count of two flows that lose nothing, one in each direction."""
    found = counters(there, there)
    for counted in found.values():
        empty = "tx" if counted["rx_packets"] else "rx"
        counted |= {f"{empty}_packets": back, f"{empty}_bytes": 60 * back}
    return found


def prober(
    monkeypatch: pytest.MonkeyPatch, counted: Counted, sent: int, directions: str, *later: Counted, back: int = 0
) -> Prober:
    """A prober whose interfaces count from 0; `later` are readings after `counted`.

    Its generator reports `sent` frames, and `back` in the other direction; it waits for 0.25 and 0.5 CPU-seconds."""
    zero = {port: dict.fromkeys(each, 0) for port, each in counted.items()}
    now = iter([zero, counted, *(later or (counted,))])
    monkeypatch.setattr(
        probing_module, "InterfaceMeter", lambda *_: SimpleNamespace(now=lambda: next(now), in_xdp=set())
    )
    monkeypatch.setattr(probing.time, "sleep", lambda _: None)
    reported = {"source": SentLoad(sent, sent, 1.0, None, 0.25), "sink": SentLoad(back, back, 1.0, None, 0.5)}
    generator = SimpleNamespace(offer=lambda way, *_: reported[way.sender])
    bed = SimpleNamespace(apparatus=SimpleNamespace(windows=[]))
    return Prober(cast(Any, bed), chain_of(), cast(Any, generator), Traffic.of("64"), directions)


def test_a_probe_is_what_the_interfaces_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    found = prober(monkeypatch, counters(9_900, 9_000, refused=100), 10_000, "forward")
    probe = found.probe(10_000, 1)
    assert (probe.sent, probe.received, probe.loss_ratio, probe.reached) == (10_000, 9_000, pytest.approx(0.1), True)
    assert probe.lost_at == {"to the function": 100, "in the function": 900, "from the function": 0}
    assert found.size_reasons() == []
    assert found.carried_bytes(0) == 9_000 * 46 and found.mean_bytes == 60 and probe.waited_s == 0.25


def test_a_veth_with_an_xdp_program_counts_frames_without_their_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = counters(1_000, 1_000)
    counted["function.in0"]["rx_bytes"] = 46 * 1_000
    found = prober(monkeypatch, counted, 1_000, "forward")
    found.probe(1_000, 1)
    assert found.size_reasons() == ["function.in0 received frames of 46.0 B on average instead of 60.0 B"]
    found._meter.in_xdp = {"function.in0"}
    assert found.size_reasons() == [] and found.mean_bytes == 60


def test_a_generator_that_takes_long_to_start_is_tried_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a guest emulated in software: one unlucky probe would make it unavailable to the whole campaign."""
    tried: list[float] = []

    def probe(rate_fps: float, duration_s: float) -> Probe:
        tried.append(duration_s)
        if duration_s < 1:
            raise InstrumentError("trafgen's number of frames sent cannot be 0")
        return Probe(rate_fps, duration_s, 1_000, 1_000, duration_s, {})

    slow = SimpleNamespace(ready=nullcontext, probe=probe)
    monkeypatch.setattr(LoadProbes, "_forwarding", lambda *_, **__: nullcontext())
    monkeypatch.setattr(probing_module, "Prober", lambda *_: slow)
    pool = cast(Any, SimpleNamespace(get=lambda level: None, availability=lambda level: AVAILABLE))
    assert LoadProbes(cast(Any, SimpleNamespace(guest=None)), pool, pool).generator(
        "trafgen", "native", "veth-direct", "4"
    )
    assert tried == [0.2, 2.0]


def test_both_directions_share_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    probe = prober(monkeypatch, both_ways(5_000, 5_000), 5_000, BOTH, back=5_000).probe(10_000, 1)
    assert (probe.rate_fps, probe.sent, probe.received, probe.loss_ratio) == (10_000, 10_000, 10_000, 0)
    assert probe.reached and probe.waited_s == 0.75


def test_one_direction_that_falls_short_is_not_hidden_by_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    probe = prober(monkeypatch, both_ways(5_000, 4_960), 5_000, BOTH, back=4_960).probe(10_000, 1)
    assert probe.sent_fps >= REACHED * probe.rate_fps, "the sum does not show it"
    assert probe.part_sent == pytest.approx(4_960 / 5_000) and not probe.reached


def test_a_probe_that_was_not_sent_is_the_generator_s_limit_and_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    probe = prober(monkeypatch, counters(9_900, 9_900), 9_900, "forward").probe(10_000, 1)
    assert not probe.reached and probe.loss_ratio == 0


@pytest.mark.parametrize(
    ("moved", "match"),
    [
        (counters(5_000, 5_000), r"reports 10,000 frames sent, but its interface source.out0 counted 5,000"),
        (counters(10_000, 11_000), r"sink.in0 received 11,000 frames of 10,000 sent: foreign traffic"),
        (counters(10_000, 10_006), r"sink.in0 received 10,006 frames of 10,000 sent: foreign traffic"),
        ({"source.out0": counters(1, 1)["source.out0"]}, "no counters for function.in0, function.out0, sink.in0"),
    ],
)
def test_counters_that_contradict_the_generator_end_the_trial(
    monkeypatch: pytest.MonkeyPatch, moved: dict[str, dict[str, int]], match: str
) -> None:
    monkeypatch.setattr(probing_module, "_REPEATS", 0)
    with pytest.raises(InstrumentError, match=match):
        prober(monkeypatch, moved, 10_000, "forward").probe(10_000, 1)


@pytest.mark.parametrize("n_held", [0, 1, 2, 3])
def test_a_probe_with_frames_of_an_earlier_one_is_repeated(monkeypatch: pytest.MonkeyPatch, n_held: int) -> None:
    """A function that stands still holds them. The third such probe makes the trial invalid."""
    found, times = prober(monkeypatch, counters(1, 1), 1, "forward"), iter(range(9))
    sound = Probe(10_000, 1, 10_000, 10_000, 1.0, {})

    def once(rate_fps: float, duration_s: float) -> Probe:
        if next(times) < n_held:
            raise TooManyFrames("sink.in0 received more than was sent")
        return sound

    monkeypatch.setattr(found, "_probe", once)
    if n_held < 3:
        assert found.probe(10_000, 1) is sound
    else:
        with pytest.raises(TooManyFrames):
            found.probe(10_000, 1)


def test_a_few_frames_of_others_are_borne(monkeypatch: pytest.MonkeyPatch) -> None:
    assert prober(monkeypatch, counters(10_000, 10_005), 10_000, "forward").probe(10_000, 1).loss_ratio == 0


def test_foreign_frames_are_found_in_either_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 frames of others arrive at the source, and 300 of its own are lost on their way to the sink."""
    moved = both_ways(5_000, 5_000)
    moved["source.out0"]["rx_packets"] += 300
    moved["sink.in0"]["rx_packets"] -= 300
    monkeypatch.setattr(probing_module, "_REPEATS", 0)
    with pytest.raises(InstrumentError, match=r"source.out0 received 5,300 frames of 5,000 sent: foreign traffic"):
        prober(monkeypatch, moved, 5_000, BOTH, back=5_000).probe(10_000, 1)


def test_late_frames_are_those_of_their_own_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """The function holds 1,000 frames when the generator ends, and passes all of them but 20."""
    held, end = counters(10_000, 9_000), counters(10_000, 9_980)
    found = prober(monkeypatch, held, 10_000, "forward", counters(10_000, 9_600), end, end, end)
    probe = found.probe(10_000, 1)
    assert (probe.sent, probe.received, probe.late) == (10_000, 9_980, 980)
    assert found.carried_bytes(0) == 9_980 * 46


def test_a_probe_without_loss_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = prober(monkeypatch, counters(10_000, 10_000), 10_000, "forward")
    monkeypatch.setattr(probing.time, "sleep", lambda _: pytest.fail("it waits"))
    assert found.probe(10_000, 1).late == 0


def test_frames_of_a_function_that_stood_still_are_not_those_of_the_next_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is frozen at the end of the first probe, with 500 frames, which it passes before the second."""
    frozen, thawed, passed = counters(10_000, 9_500), counters(10_000, 9_800), counters(10_000, 10_000)
    found = prober(monkeypatch, frozen, 10_000, "forward", frozen, thawed, passed, passed, counters(20_000, 20_000))
    assert found.probe(10_000, 1).received == 9_500
    second = found.probe(10_000, 1)
    assert (second.sent, second.received, second.late) == (10_000, 10_000, 0)
    assert found.overdue == 500


@pytest.mark.parametrize("rate_fps", [10, 100_000])
def test_frames_that_never_stand_still_are_foreign_traffic(monkeypatch: pytest.MonkeyPatch, rate_fps: int) -> None:
    clock, reading = [0.0], [0]

    def sleep(seconds: float) -> None:
        assert seconds * rate_fps >= 3, "a generator may have frames left in its own queue"
        clock[0] += seconds

    def read() -> Counted:
        reading[0] += 1
        return counters(1000, reading[0])

    monkeypatch.setattr(probing.time, "sleep", sleep)
    monkeypatch.setattr(probing.time, "monotonic", lambda: clock[0])
    frames = lambda counted: (counted["sink.in0"]["rx_packets"],)  # noqa: E731
    with pytest.raises(InstrumentError, match=r"frames moved for 7\.\d s in which none was offered: foreign"):
        probing.wait_until_at_rest(counters(1000, 0), read, frames, lambda _: False, rate_fps)
    end = clock[0] + 3  # after two seconds, frames are lost; after three, all is quiet
    reading[0] = 0

    def read_until() -> Counted:
        reading[0] += clock[0] < end
        return counters(1000, reading[0])

    counted = probing.wait_until_at_rest(counters(1000, 0), read_until, frames, lambda _: False, rate_fps)
    assert counted["sink.in0"]["rx_packets"] == pytest.approx(2 / 3 * reading[0], abs=2)


@pytest.mark.parametrize(("refresh_s", "n_pings"), [(0.0, 1), (30.0, 0)])
def test_a_ping_before_a_probe_reminds_switches_of_an_end_that_only_receives(
    monkeypatch: pytest.MonkeyPatch, refresh_s: float, n_pings: int
) -> None:
    pings: list[Sequence[str]] = []
    found = prober(monkeypatch, counters(10_000, 10_000), 10_000, "forward")
    monkeypatch.setattr(probing_module, "_REFRESH_S", refresh_s)
    monkeypatch.setattr(found._chains[0], "source", SimpleNamespace(run=lambda argv, **_: pings.append(argv)))
    assert found.probe(10_000, 1).loss_ratio == 0
    assert [argv[0] for argv in pings] == n_pings * ["ping"]


def test_segments_beyond_the_frame_are_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    found = prober(monkeypatch, counters(10_000, 10_000, size=600), 10_000, "forward")
    found.probe(10_000, 1)
    assert found.size_reasons() == ["function.in0 received frames of 600.0 B on average instead of 60.0 B"]


# Several chains


def two_chains(
    monkeypatch: pytest.MonkeyPatch, received: tuple[int, int], windows: Sequence[Window], sent: int = 5_000
) -> Prober:
    """A prober of two chains, each of which sends `sent` frames; the commands of the generators run in `windows`."""
    counted = counters(sent, received[0])
    counted |= {port.replace(".", "-2."): each for port, each in counters(sent, received[1]).items()}
    zero = {port: dict.fromkeys(each, 0) for port, each in counted.items()}
    now = iter([zero, counted, counted])
    monkeypatch.setattr(
        probing_module, "InterfaceMeter", lambda *_: SimpleNamespace(now=lambda: next(now), in_xdp=set())
    )
    monkeypatch.setattr(probing.time, "sleep", lambda _: None)
    bed, left = SimpleNamespace(apparatus=SimpleNamespace(windows=[])), iter(windows)

    def offer(way: Any, traffic: Traffic, rate_fps: float, duration_s: float, watch: Watch) -> SentLoad:
        assert (way.sender, way.target) in {("source", "198.18.1.10"), ("source-2", PATHS["4"].beside(1).sink)}
        with watch:
            bed.apparatus.windows.append(next(left))
        return SentLoad(round(rate_fps * duration_s), sent, duration_s)

    return Prober(cast(Any, bed), chain_of(0, chain_of(1)), cast(Any, SimpleNamespace(offer=offer)), Traffic.of("64"))


TOGETHER = (Window(1.0, 0, 0.0, began_s=5.0), Window(1.0, 0, 0.0, began_s=5.25))


def test_chains_share_the_rate_and_the_worst_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    found = two_chains(monkeypatch, (5_000, 4_900), TOGETHER)
    probe = found.probe(10_000, 1)
    assert (probe.rate_fps, probe.sent, probe.received) == (10_000, 10_000, 9_900)
    assert probe.loss_ratio == pytest.approx(0.02) and probe.lost == 200, "in all chains, one percent was lost"
    assert probe.overlap == pytest.approx(0.75 / 1.25) and probe.reached
    assert probe.lost_at["in the function-2"] == 100 and probe.lost_at["in the function"] == 0
    assert [found.carried_bytes(number) for number in (0, 1)] == [5_000 * 46, 4_900 * 46]
    assert found.mean_bytes == 60 and found.size_reasons() == []
    as_note = probe.as_note()
    assert (as_note["worst_loss"], as_note["loss_ratio"]) == (pytest.approx(0.02), pytest.approx(0.02))


@pytest.mark.parametrize(("sent", "reached"), [(33, True), (32, False)])
def test_whole_frames_of_a_rate_that_does_not_divide_evenly_are_no_limit(
    monkeypatch: pytest.MonkeyPatch, sent: int, reached: bool
) -> None:
    """Each of six chains would send 33.3 frames; here are two of the six."""
    probe = two_chains(monkeypatch, (sent, sent), TOGETHER, sent).probe(1_000 / 3, 0.2)
    assert probe.reached is reached and probe.sent == 2 * sent


def test_frames_of_one_chain_are_foreign_to_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing_module, "_REPEATS", 0)
    with pytest.raises(InstrumentError, match=r"sink-2.in0 received 5,100 frames of 5,000 sent: foreign traffic"):
        two_chains(monkeypatch, (4_900, 5_100), TOGETHER).probe(10_000, 1)


def test_the_search_takes_the_loss_of_the_worst_chain() -> None:
    """One of two chains carries 40,000 frames a second, the other one 60,000."""

    def measure(rate_fps: float, duration_s: float) -> Probe:
        sent = round(rate_fps * duration_s)
        lost = [max(0.0, 1 - capacity / (rate_fps / 2)) for capacity in (40_000, 60_000)]
        received = round(sent * (1 - sum(lost) / 2))
        return Probe(rate_fps, duration_s, sent, received, duration_s, {}, worst_loss=max(lost))

    for method in METHODS:
        found = search(method, (Goal("pdr", 0.005), Goal("ndr", 0.0)), Bounds(1_000, 1_000_000), measure)
        for name, truth_fps in (("pdr", 80_000 / 0.995), ("ndr", 80_000)):
            interval = found.of(name)
            assert interval and interval.lower_fps <= truth_fps + 1 and truth_fps - 1 <= (interval.upper_fps or 0)


def test_chains_must_carry_their_load_at_the_same_time_in_the_probes_that_count() -> None:
    probes = [
        Probe(1_000, 0.2, 200, 200, 0.2, {}, overlap=0.1),
        Probe(1_000, 1.0, 1_000, 1_000, 1.0, {}, overlap=0.95),
        Probe(1_000, 3.0, 3_000, 3_000, 3.0, {}, overlap=0.75),
    ]
    outcome = Outcome()
    _judge_overlap("trafgen", probes, 1.0, config(chains=2), outcome)
    assert outcome.measurements == {"chains_overlap": pytest.approx(80)}
    assert outcome.invalid_because == [
        "trafgen: all chains carried their load in 80 % of the time in which any did (limit 90 %)"
    ]
    _judge_overlap("trafgen", probes, 1.0, config(chains=2, min_overlap_percent=80), valid := Outcome())
    assert valid.valid
    _judge_overlap("trafgen", probes, 1.0, config(direction="both"), alone := Outcome())
    assert alone.valid and alone.measurements == {"chains_overlap": 100}, "of one chain, in both directions"
