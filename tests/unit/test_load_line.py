"""The scenario load without a host: traffic, generators with their commands and reports, probes, what is recorded."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lastro.analysis.remarks import lost_by_its_size, marks_by_metric
from lastro.campaign.executor import Executor
from lastro.errors import CommandFailed, InputError, InstrumentError, Unavailable
from lastro.functions.base import PATHS
from lastro.host.base import Completed
from lastro.instruments._load_generator import Offered, Traffic, Way
from lastro.instruments.sockperf import Sockperf
from lastro.instruments.trafgen import Trafgen
from lastro.results.noted import Noted
from lastro.results.rows import Attempt
from lastro.results.samples import AT_LEAST, GENERATOR_LIMITED, Outcome
from lastro.scenarios.base import schema
from lastro.scenarios.load import LoadScenario, _require_able, settling
from lastro.scenarios.load import probing as probing_module
from lastro.scenarios.load.goals import Goal, UnmetGoal
from lastro.scenarios.load.measuring import METRICS, bounds_of, goals_of, leave_out, record
from lastro.scenarios.load.probing import BOTH, Prober, TooManyFrames
from lastro.scenarios.load.search import REACHED, Found, Probe, Searched
from lastro.scenarios.load.steering import _mask, short_buffer, steer

from ..scenarios import configured
from .recording import RecordingHost, answer

ROOT = Path(__file__).parents[2]
SENT_BY_SOCKPERF = (
    "sockperf: Total of 100013 messages sent in 1.000 sec\n\nsockperf: Summary: Message Rate is 100000 [msg/sec]\n"
)
SENT_BY_TRAFGEN = """
       50000 packets outgoing
     3000000 bytes outgoing
           0 sec, 993211 usec on CPU0 (50000 packets)
qdisc tbf 8001: root refcnt 2 rate 24Mbit burst 3000b lat 1.4s
 Sent 2984220 bytes 49737 pkt (dropped 0, overlimits 99512 requeues 0)
 backlog 15780b 263p requeues 0
"""


def config(**chosen: Any) -> dict[str, Any]:
    levels = {"platform": "native", "attachment": "veth-direct", "function": "none", "anomaly": "none"}
    return configured(LoadScenario, **{**levels, "isolation": "none", "instrument": "trafgen", **chosen})


# Traffic and generators


def test_a_frame_counts_its_check_sequence_and_its_payload_does_not() -> None:
    assert Traffic.of("64").payload_bytes == (18,)
    assert Traffic.of("1518").payload_bytes == (1472,)
    assert Traffic.of("64").counted_bytes == 60
    assert Traffic.of("86", ip="6").payload_bytes == (20,), "the header of IPv6 has 20 bytes more"
    imix = Traffic.of("imix", 100)
    assert [imix.sizes.count(size) for size in (64, 570, 1518)] == [7, 4, 1]
    assert imix.counted_bytes == pytest.approx((7 * 64 + 4 * 570 + 1518) / 12 - 4)


def test_a_generator_that_binds_itself_to_a_cpu_needs_it() -> None:
    with pytest.raises(Unavailable, match=r"trafgen binds itself to CPU 0, and the first .* is 2") as caught:
        _require_able(config(instrument="trafgen"), [2, 3])
    assert "sockperf" in str(caught.value.hint)
    _require_able(config(instrument="trafgen"), [0, 1])
    _require_able(config(instrument="trafgen", platform="qemu-tcg"), [2, 3])  # it has CPUs of its own
    _require_able(config(instrument="sockperf"), [2, 3])


@pytest.mark.parametrize("size", ["", "63", "1519", "64 B", "IMIX", "-64", "6.4e1", "६४"])
def test_what_is_not_a_frame_size_is_refused(size: str) -> None:
    with pytest.raises(InputError, match="is not a frame size"):
        Traffic.of(size)


@pytest.mark.parametrize(
    ("kind", "traffic", "refusal"),
    [
        (Sockperf, Traffic.of("64"), ""),
        (Sockperf, Traffic.of("64", 2), "sockperf sends at most 1 flow"),
        (Sockperf, Traffic.of("imix"), "sockperf sends frames of one size"),
        (Sockperf, Traffic.of("79", ip="6"), "sockperf needs frames of 80 B for UDP over IPv6, not 79 B"),
        (Sockperf, Traffic.of("80", ip="6"), ""),
        (Trafgen, Traffic.of("imix", 10_000), ""),
        (Trafgen, Traffic.of("imix", ip="6"), "trafgen needs frames of 66 B for UDP over IPv6, not 64 B"),
        (Trafgen, Traffic.of("66", ip="6"), ""),
    ],
)
def test_a_generator_refuses_what_it_cannot_send(kind: Any, traffic: Traffic, refusal: str) -> None:
    assert kind.refusal(traffic) == refusal


@pytest.mark.parametrize(
    ("chosen", "hint"),
    [
        ({"instrument": "trafgen", "frame_size": "imix", "ip": "6"}, "use one frame size of 66 B or more"),
        ({"instrument": "trafgen", "frame_size": "64", "ip": "6"}, "raise frame_size to 66"),
        ({"instrument": "sockperf", "frame_size": "64", "ip": "6"}, "raise frame_size to 80"),
        ({"instrument": "sockperf", "frame_size": "64", "ip": "6", "flows": 2}, 'use instrument = "trafgen"'),
        ({"instrument": "sockperf", "frame_size": "imix", "ip": "6"}, 'use instrument = "trafgen"'),
    ],
)
def test_what_it_cannot_send_has_a_hint_that_helps(chosen: dict[str, Any], hint: str) -> None:
    with pytest.raises(Unavailable) as caught:
        _require_able(config(**chosen), [0, 1])
    assert caught.value.hint == hint


def test_a_generator_that_keeps_its_cpu_busy_sends_in_one_direction() -> None:
    """Two would take turns on one CPU, and each send in bursts what it had missed."""
    with pytest.raises(Unavailable, match="sockperf keeps CPU 2 busy for one direction"):
        _require_able(config(instrument="sockperf", direction="both"), [2, 3])
    _require_able(config(instrument="trafgen", direction="both"), [0, 1])
    _require_able(config(instrument="sockperf", direction="both", platform="qemu-tcg"), [2, 3])  # in each guest


class _Sender:
    """An instance that answers as a source does, and keeps what it was asked."""

    takes_taps, shares_kernel, netns = False, True, "N1"

    def __init__(self, report: str, code: int = 0) -> None:
        self.host = RecordingHost()
        self.testbed = SimpleNamespace(usable_cpus=[2, 3], host=self.host)
        self.commands: list[list[str]] = []
        self.stdin: str | None = None
        self._report, self._code = report, code

    def run(self, argv: Sequence[str], *, stdin: str | None = None, **_: Any) -> Completed:
        self.commands.append(list(argv))
        self.stdin = stdin or self.stdin
        replies = {
            "route": [{"dst": "198.18.1.10", "gateway": "198.18.0.1", "dev": "out0", "prefsrc": "198.18.0.10"}],
            "neigh": [{"dst": "198.18.0.1", "lladdr": "02:00:00:00:00:01"}],
            "link": [{"ifname": "out0", "address": "02:00:00:00:00:0a"}],
        }
        if argv[0] == "ip":
            return answer(json.dumps(replies[argv[2]]))
        return answer(self._report, code=self._code)


def way(sender: _Sender) -> Way:
    return Way(cast(Any, sender), cast(Any, None), "198.18.1.10")


def test_sockperf_sends_at_a_rate_for_whole_seconds_on_one_cpu() -> None:
    sender = _Sender(SENT_BY_SOCKPERF)
    found = Sockperf().offer(way(sender), Traffic.of("64"), 100_000.4, 0.2)
    assert found == Offered(100_000, 100_013, 1.0)
    (argv,) = sender.commands
    words = "sockperf throughput --ip 198.18.1.10 --port 11111 --time 1 --mps 100000 --msg-size 18"
    words += " --buffer-size 4000000"
    assert argv == ["taskset", "--cpu-list", "2", *words.split()]


def test_trafgen_is_paced_by_a_token_bucket_on_its_link() -> None:
    sender, generator = _Sender(SENT_BY_TRAFGEN), Trafgen()
    for _ in range(2):
        found = generator.offer(way(sender), Traffic.of("64", 100), 50_000, 1)
    assert found == Offered(50_000, 50_000, 1.0), "the last frames leave the queue after trafgen has ended"
    bucket = "rate 24000000bit burst 3000 limit 4194304"
    link, *paced = sender.host.commands
    assert link == ["ip", "netns", "exec", "N1", "sh", "-e"]
    assert 'device "pace1" priority 0; policy drop; ether saddr 02:00:00:00:00:0a dup to "out0"' in str(
        sender.host.stdins[0]
    )
    assert paced == 2 * [["tc", "-n", "N1", *f"qdisc replace dev pace0 root tbf {bucket}".split()]]
    assert sender.stdin == (
        "{ eth(da=02:00:00:00:00:01, sa=02:00:00:00:00:0a), ipv4(sa=198.18.0.10, da=198.18.1.10, ttl=64, df), "
        "udp(sp=dinc(20000, 20099, 1), dp=11111), fill(0x00, 18) }\n"
    )
    runs = [argv for argv in sender.commands if "trafgen" in argv]
    assert all(argv[3:5] == ["pace0", "1.400"] for argv in runs) and len(runs) == 2
    assert all(argv[argv.index("--num") + 1] == "50000" for argv in runs)
    assert all(argv[argv.index("--out") + 1] == "pace0" for argv in runs)
    assert sum(argv[0] == "ping" for argv in sender.commands) == 1, "the first hop is looked up once"


def test_frames_that_trafgen_leaves_in_a_slow_bucket_take_their_time() -> None:
    late = SENT_BY_TRAFGEN.replace("0 sec, 993211", "1 sec, 4000")
    found = Trafgen().offer(way(_Sender(late)), Traffic.of("64"), 50_000, 1)
    assert found.lasted_s == pytest.approx(1.004 + 263 / 50_000)
    assert found.rate_fps < 0.995 * 50_000


def test_where_nothing_copies_frames_trafgen_is_paced_on_its_own_link(monkeypatch: pytest.MonkeyPatch) -> None:
    sender = _Sender(SENT_BY_TRAFGEN)
    run = sender.host.run

    def without_copies(argv: Sequence[str], **how: Any) -> Completed:
        done = run(argv, **how)
        if argv[1:3] == ["netns", "exec"]:
            raise CommandFailed(argv, 1, "Could not process rule: No such file or directory")
        return done

    monkeypatch.setattr(sender.host, "run", without_copies)
    Trafgen().offer(way(sender), Traffic.of("64"), 50_000, 1)
    assert ["ip", "-n", "N1", "link", "delete", "pace0"] in sender.host.commands
    assert sender.host.commands[-1][:6] == ["tc", "-n", "N1", "qdisc", "replace", "dev"]
    assert sender.host.commands[-1][6] == "out0"


def test_a_mix_is_a_frame_for_each_size() -> None:
    sender = _Sender(SENT_BY_TRAFGEN)
    Trafgen().offer(way(sender), Traffic.of("imix"), 50_000, 1)
    assert sender.stdin and sender.stdin.count("{ eth(") == 12 and "sp=20000," in sender.stdin


@pytest.mark.parametrize("flows", [1, 2, 11, 12, 13, 30, 100, 10_000])
def test_the_flows_of_a_mix_are_those_of_its_rounds(flows: int) -> None:
    """As trafgen counts: from the first port by steps, and again from the first one after the last."""
    sender = _Sender(SENT_BY_TRAFGEN)
    Trafgen().offer(way(sender), Traffic.of("imix", flows), 50_000, 1)
    found = re.findall(r"udp\(sp=(?:dinc\((\d+), (\d+), (\d+)\)|(\d+)), ", str(sender.stdin))
    counters = [range(int(first or only), int(last or only) + 1, int(step or 1)) for first, last, step, only in found]
    assert len(counters) == 12 and all(int(first) < int(last) for first, last, *_ in found if first)
    rounds = -(-flows // 12)
    sent = [counter[at % len(counter)] for at in range(rounds) for counter in counters]
    assert set(sent) == set(range(20_000, 20_000 + flows)), "in one frame for each flow, rounded up to whole rounds"
    assert len(set(sent[:12])) == min(12, flows), "and each round has as many flows as it can"


@pytest.mark.parametrize(("size", "filled"), [("66", ""), ("70", ", fill(0x00, 4)")])
def test_a_frame_of_ipv6_has_its_header(size: str, filled: str) -> None:
    sender = _Sender(SENT_BY_TRAFGEN)
    Trafgen().offer(Way(cast(Any, sender), cast(Any, None), PATHS["6"].sink), Traffic.of(size, ip="6"), 50_000, 1)
    packet = "ipv6(sa=198.18.0.10, da=2001:2:0:1::10, hl=64), udp(sp=20000, dp=11111)"
    assert sender.stdin == f"{{ eth(da=02:00:00:00:00:01, sa=02:00:00:00:00:0a), {packet}{filled} }}\n"


@pytest.mark.parametrize("kind", [Sockperf, Trafgen])
@pytest.mark.parametrize("report", ["", "sockperf: ERROR", SENT_BY_SOCKPERF * 2, SENT_BY_TRAFGEN * 2])
def test_a_report_that_says_nothing_is_refused(kind: Any, report: str) -> None:
    with pytest.raises(InstrumentError, match="did not report what it sent"):
        kind().offer(way(_Sender(report)), Traffic.of("64"), 50_000, 1)


@pytest.mark.parametrize("kind", [Sockperf, Trafgen])
def test_a_generator_that_was_killed_is_one_clear_error(kind: Any) -> None:
    with pytest.raises(CommandFailed, match="exited with 137"):
        kind().offer(way(_Sender("", code=137)), Traffic.of("64"), 50_000, 1)


@pytest.mark.parametrize(
    ("report", "match"),
    [
        (SENT_BY_SOCKPERF.replace("100013", "0"), "cannot be 0"),
        (SENT_BY_SOCKPERF.replace("100013", "200000"), "200000 frames sent, but was asked for 100000"),
        (SENT_BY_SOCKPERF.replace("1.000 sec", "0.100 sec"), "sent for 0.100 s instead of 1 s"),
    ],
)
def test_impossible_numbers_are_refused(report: str, match: str) -> None:
    with pytest.raises(InstrumentError, match=match):
        Sockperf().read(report, 100_000, 1)


# Probes


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

    Its generator reports `sent` frames, and `back` in the other direction."""
    zero = {port: dict.fromkeys(each, 0) for port, each in counted.items()}
    now = iter([zero, counted, *(later or (counted,))])
    monkeypatch.setattr(probing_module, "InterfaceMeter", lambda *_: SimpleNamespace(now=lambda: next(now)))
    monkeypatch.setattr(settling.time, "sleep", lambda _: None)
    reported = {"source": Offered(sent, sent, 1.0), "sink": Offered(back, back, 1.0)}
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
    assert found.carried_bytes == 9_000 * 46 and found.mean_bytes == 60


def test_both_directions_share_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    probe = prober(monkeypatch, both_ways(5_000, 5_000), 5_000, BOTH, back=5_000).probe(10_000, 1)
    assert (probe.rate_fps, probe.sent, probe.received, probe.loss_ratio) == (10_000, 10_000, 10_000, 0)
    assert probe.reached


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
    monkeypatch.setattr(settling.time, "sleep", lambda _: pytest.fail("it waits"))
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

    monkeypatch.setattr(settling.time, "sleep", sleep)
    monkeypatch.setattr(settling.time, "monotonic", lambda: clock[0])
    frames = lambda counted: (counted["sink.in0"]["rx_packets"],)  # noqa: E731
    with pytest.raises(InstrumentError, match=r"frames moved for 7\.\d s in which none was offered: foreign"):
        settling.at_rest(counters(1000, 0), read, frames, lambda _: False, rate_fps)
    end = clock[0] + 3  # after two seconds, frames are lost; after three, all is quiet
    reading[0] = 0

    def read_until() -> Counted:
        reading[0] += clock[0] < end
        return counters(1000, reading[0])

    counted = settling.at_rest(counters(1000, 0), read_until, frames, lambda _: False, rate_fps)
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


# What is recorded


PROBES = (
    Probe(200_000, 1, 100_000, 100_000, 1.0, {}),
    Probe(90_000, 1, 90_000, 81_000, 1.0, {"in the function": 9_000}),
)


def test_an_interval_is_recorded_with_what_ended_the_search() -> None:
    outcome = Outcome()
    record(Searched((Found(Goal("pdr", 0.005), 80_000, 81_000, 79_900, 0.25),), PROBES, 98_000, True), outcome)
    assert outcome.measurements == {
        "pdr": 80_000, "pdr_upper": 81_000, "pdr_conditional": 79_900, "pdr_exceed": 25,
    }  # fmt: skip
    noted = Noted.of(outcome.notes)
    assert noted.stopped_by == {"pdr": "more than 0.5 % lost at 81,000 frames a second"}
    assert noted.remarks == (), "the generator's limit lies above the interval"
    series = {each.name: each.values for each in outcome.series}
    assert series == {
        "probe rate": (200_000, 90_000),
        "probe sent": (100_000, 90_000),
        "probe loss": (0, pytest.approx(10)),
    }
    json.dumps(outcome.notes)


def test_a_goal_without_loss_is_missed_where_frames_were_lost() -> None:
    assert Goal("ndr", 0.0).missed_at(81_000) == "frames were lost at 81,000 frames a second"
    assert Goal("pdr", 0.005).missed_at(81_000) == "more than 0.5 % lost at 81,000 frames a second"


@pytest.mark.parametrize(("late", "said"), [(2_000, True), (500, False)])
def test_a_load_that_queues_took_is_told_with_its_end(late: int, said: bool) -> None:
    probes = (Probe(80_000, 1, 80_000, 80_000, 1.0, {}, late), Probe(80_000, 0.2, 16_000, 16_000, 0.2, {}, 9_000))
    outcome = Outcome()
    record(Searched((Found(Goal("pdr", 0.005), 80_000, 81_000, 79_900, 0.25),), probes, 98_000, False), outcome)
    end = Noted.of(outcome.notes).stopped_by["pdr"]
    assert ("; at 80,000, queues still held 2.5 % of the frames when" in end) is said


@pytest.mark.parametrize("limited", [True, False])
def test_a_goal_that_is_met_everywhere_is_a_lower_bound(limited: bool) -> None:
    outcome = Outcome()
    record(Searched((Found(Goal("pdr", 0.005), 98_000, None, 98_000, 0.0),), PROBES, 98_000, limited), outcome)
    noted = Noted.of(outcome.notes)
    assert "pdr_upper" not in outcome.measurements
    assert all(noted.only_at_least(name) for name in ("pdr", "pdr_conditional", "pdr_upper"))
    assert {remark.kind for remark in noted.remarks} == ({AT_LEAST, GENERATOR_LIMITED} if limited else {AT_LEAST})
    assert ("the generator did not send more than" in noted.stopped_by["pdr"]) is limited


def test_an_exceed_ratio_that_a_search_does_not_know_is_not_recorded_as_zero() -> None:
    outcome = Outcome()
    record(Searched((Found(Goal("ndr", 0.0), 80_000, 81_000, 80_000, None),), PROBES, 98_000, False), outcome)
    assert outcome.measurements.keys() == {"ndr", "ndr_upper", "ndr_conditional"}


@pytest.mark.parametrize("text", [Path("examples/load.toml"), Path("docs/howto-packet-rates.md")], ids=str)
def test_a_study_that_names_ndr_names_its_exceed_ratio(text: Path) -> None:
    """RFC 9971: a host with other work loses frames now and then, so that a bare NDR says little."""
    found = re.findall(r"metrics = \[.*?\]", (ROOT / text).read_text(encoding="utf-8"), re.DOTALL)
    assert any('"ndr"' in metrics for metrics in found)
    assert all('"ndr_exceed"' in metrics for metrics in found if '"ndr"' in metrics)


def test_upper_ends_have_no_mean_where_a_trial_has_none() -> None:
    """It would be the mean of the trials with a smaller PDR, and so might be smaller than the mean PDR."""
    attempts = []
    for trial, upper_fps in enumerate((81_000.0, None)):
        outcome = Outcome()
        record(Searched((Found(Goal("pdr", 0.005), 80_000, upper_fps, 80_000, 0.0),), PROBES, 98_000, True), outcome)
        attempts.append(Attempt(trial, 1, 0, trial, "", 60.0, True, (), outcome.notes, outcome.measurements))
    marks = marks_by_metric(attempts, {"pdr", "pdr_upper"})
    assert [mark.kind for mark in marks["pdr_upper"]] == [AT_LEAST]
    assert lost_by_its_size("pdr_upper", attempts, marks["pdr_upper"])
    assert not lost_by_its_size("pdr", attempts, marks["pdr"])


def test_a_goal_that_no_load_meets_has_no_values_and_no_mean() -> None:
    """Whether a trial meets it depends on its loss, so the others would be a selection."""
    outcome = Outcome()
    found = (Found(Goal("pdr", 0.005), 80_000, 81_000, 79_900, 0.25),)
    record(Searched(found, PROBES, 98_000, False, (UnmetGoal(Goal("ndr", 0.0), 1_000),)), outcome)
    assert outcome.measurements.keys() == {"pdr", "pdr_upper", "pdr_conditional", "pdr_exceed"}
    (remark,) = Noted.of(outcome.notes).remarks
    assert remark.text.startswith("no rate meets the goal ndr: frames were lost at 1,000 frames a second")
    assert set(remark.metrics) == {"ndr", "ndr_upper", "ndr_conditional", "ndr_exceed"}
    attempt = Attempt(1, 1, 0, 1, "", 60.0, True, (), outcome.notes, outcome.measurements)
    assert lost_by_its_size("ndr", [attempt], marks_by_metric([attempt], {"ndr"})["ndr"])


def test_a_trial_whose_pdr_no_load_meets_is_valid_and_has_no_cost_and_no_latency() -> None:
    outcome, unmet = Outcome(), (UnmetGoal(Goal("pdr", 0.005), 1_000), UnmetGoal(Goal("ndr", 0.0), 1_000))
    found = Searched((), PROBES, 98_000, False, unmet)
    record(found, outcome)
    leave_out(config(at="50%"), found, outcome)
    assert outcome.valid and not outcome.measurements
    attempt = Attempt(1, 1, 0, 1, "", 60.0, True, (), outcome.notes, outcome.measurements)
    for name in ("pdr", "pdr_conditional", "ndr", "frames_per_cpu_s", "host_cpus", "latency_p99_at_50pct"):
        assert lost_by_its_size(name, [attempt], marks_by_metric([attempt], {name})[name]), name
    with pytest.raises(InstrumentError, match="no PDR"):
        LoadScenario.calibration_value(cast(Any, None), "profile/native", outcome)


def test_a_valid_calibration_run_without_its_result_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise InstrumentError("no PDR")

    scenario = SimpleNamespace(sessions=(), attempt=nullcontext, run=lambda *_: Outcome(), calibration_value=refuse)
    scenario.at = lambda _: scenario
    monkeypatch.setattr(Executor, "_wait", lambda *_: None)
    found = Executor(cast(Any, scenario), cast(Any, None)).calibrate("profile/native", {}, 3, 0)
    assert (found.value, found.failed_because) == (None, "no PDR")


def test_pdr_and_latency_at_half_of_it_lead_where_a_study_names_no_metrics() -> None:
    assert [*schema(LoadScenario).metrics_for({})][:4] == ["pdr", "latency_p99_at_50pct", "ndr", "ndr_exceed"]
    assert [*schema(LoadScenario).metrics_for({"at": "1kpps"})][:2] == ["pdr", "ndr"]


def test_goals_and_bounds_are_those_of_the_study() -> None:
    assert [(goal.name, goal.loss_ratio, goal.exceed_ratio) for goal in goals_of(config(exceed_percent=20))] == [
        ("pdr", 0.005, 0.2), ("ndr", 0.0, 0.2),
    ]  # fmt: skip
    assert goals_of(config(own_goal="2% exceed 10%"))[2] == Goal("own", 0.02, 0.1)
    assert bounds_of(config()).most_fps == 1_000_000
    assert (bounds_of(config(), 200_000).begin_fps, bounds_of(config(), 200_000).most_fps) == (200_000, 1_000_000)
    sockperf = bounds_of(config(instrument="sockperf", probe_s=1.5))
    assert (sockperf.first_s, sockperf.final_s, sockperf.sum_s) == (1, 2, 3)
    declared = {metric.name for metric in METRICS}
    assert {
        f"{goal}{end}" for goal in ("pdr", "ndr", "own") for end in ("", "_upper", "_conditional", "_exceed")
    } <= declared


def test_the_ceiling_is_plain_forwarding_and_measured_once_for_all_functions() -> None:
    (key,) = LoadScenario.calibrations(config(function="dpi", anomaly="cpu"))
    assert key.startswith("ceiling/native/veth-direct/none/trafgen/64/")
    assert [key] == list(LoadScenario.calibrations(config(function="firewall")))
    assert LoadScenario.calibrations(config()) == {}
    assert {each.partition("/")[0] for each in LoadScenario.calibrations(config(isolation="cgroups"))} == {
        "ceiling", "profile",
    }  # fmt: skip
    outcome = Outcome(notes={"most_fps": 250_000.0})
    assert LoadScenario.calibration_value(cast(Any, None), key, outcome) == 250_000


@pytest.mark.parametrize(("limit", "said"), [(212_992, True), (4_194_304, False)])
def test_a_buffer_that_holds_less_than_the_queue_is_a_condition(limit: int, said: bool) -> None:
    files = {"/proc/sys/net/core/wmem_max": f"{limit}\n", "/proc/sys/net/core/netdev_max_backlog": "1000\n"}
    host = cast(Any, SimpleNamespace(view=SimpleNamespace(read=lambda _: files)))
    found = short_buffer(host, "sockperf")
    assert ("425,984 bytes, less than the queue" in found.get("buffer of the generator's socket", "")) is said
    assert short_buffer(host, "trafgen") == {}


def test_packets_are_steered_to_the_other_cpus(tmp_path: Path) -> None:
    host = RecordingHost()
    bed = SimpleNamespace(host=host, usable_cpus=[0, 1, 40])
    instance = SimpleNamespace(takes_taps=False, shares_kernel=True, testbed=bed, netns="N2")
    chain = SimpleNamespace(instances={"function": instance}, source=instance, path=PATHS["4"])
    assert steer(cast(Any, chain), "apart") == {"CPUs of the function's kernel": "1, 40, by receive packet steering"}
    assert host.commands == [["nsenter", "--net=/run/netns/N2", "unshare", "--mount", "sh", "-e"]]
    files = " ".join(f"/sys/class/net/{port}/queues/rx-0/rps_cpus" for port in ("in0", "out0"))
    assert f"for file in {files}; do echo 00000100,00000002 > $file; done\n" in str(host.stdins[0])
    assert steer(cast(Any, chain), "sender") == {"CPUs of the function's kernel": "the one that sends"}
    instance.takes_taps = True
    assert steer(cast(Any, chain), "apart") == {"CPUs of the function's kernel": "its own"}
    assert len(host.commands) == 1
    assert _mask([0]) == "00000001" and _mask([31, 32]) == "00000001,80000000"
