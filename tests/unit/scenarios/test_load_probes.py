"""The probes of the scenario load: what interfaces counted, against what the generator reports."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lastro.errors import InstrumentError
from lastro.functions.base import PATHS
from lastro.instruments.load_generator import SentLoad, Traffic
from lastro.scenarios.load import probing
from lastro.scenarios.load import probing as probing_module
from lastro.scenarios.load.probing import BOTH, Prober, TooManyFrames
from lastro.scenarios.load.search import REACHED, Probe


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
    monkeypatch.setattr(probing_module, "InterfaceMeter", lambda *_: SimpleNamespace(now=lambda: next(now)))
    monkeypatch.setattr(probing.time, "sleep", lambda _: None)
    reported = {"source": SentLoad(sent, sent, 1.0, None, 0.25), "sink": SentLoad(back, back, 1.0, None, 0.5)}
    generator = SimpleNamespace(offer=lambda way, *_: reported[way.sender])
    roles = {role: SimpleNamespace(usage=dict) for role in ("source", "function", "sink")}
    chain = SimpleNamespace(path=PATHS["4"], instances=roles, source="source", sink="sink")
    return Prober(cast(Any, None), cast(Any, chain), cast(Any, generator), Traffic.of("64"), directions)


def test_a_probe_is_what_the_interfaces_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    found = prober(monkeypatch, counters(9_900, 9_000, refused=100), 10_000, "forward")
    probe = found.probe(10_000, 1)
    assert (probe.sent, probe.received, probe.loss_ratio, probe.reached) == (10_000, 9_000, pytest.approx(0.1), True)
    assert probe.lost_at == {"to the function": 100, "in the function": 900, "from the function": 0}
    assert found.size_reasons() == []
    assert found.carried_bytes == 9_000 * 46 and found.mean_bytes == 60 and probe.waited_s == 0.25


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
    assert found.carried_bytes == 9_980 * 46


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
    monkeypatch.setattr(found._chain, "source", SimpleNamespace(run=lambda argv, **_: pings.append(argv)))
    assert found.probe(10_000, 1).loss_ratio == 0
    assert [argv[0] for argv in pings] == n_pings * ["ping"]


def test_segments_beyond_the_frame_are_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    found = prober(monkeypatch, counters(10_000, 10_000, size=600), 10_000, "forward")
    found.probe(10_000, 1)
    assert found.size_reasons() == ["function.in0 received frames of 600.0 B on average instead of 60.0 B"]
