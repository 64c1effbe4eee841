"""Traffic, and the generators of frames: their commands and their reports, without a host."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lastro.errors import CommandFailed, InputError, InstrumentError
from lastro.functions.base import PATHS
from lastro.host.base import Completed
from lastro.instruments.load_generator import Direction, SentLoad, Traffic
from lastro.instruments.pktgen import Pktgen
from lastro.instruments.sockperf import _TIMED, _WAITED, Sockperf
from lastro.instruments.trafgen import Trafgen

from ...support.hops import answered_as_source
from ...support.recording import FakeInstance, RecordingHost, answer

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


def test_a_frame_counts_its_check_sequence_and_its_payload_does_not() -> None:
    assert Traffic.of("64").payload_bytes == (18,)
    assert Traffic.of("1518").payload_bytes == (1472,)
    assert Traffic.of("64").counted_bytes == 60
    assert Traffic.of("86", ip="6").payload_bytes == (20,), "the header of IPv6 has 20 bytes more"
    imix = Traffic.of("imix", 100)
    assert [imix.sizes.count(size) for size in (64, 570, 1518)] == [7, 4, 1]
    assert imix.counted_bytes == pytest.approx((7 * 64 + 4 * 570 + 1518) / 12 - 4)


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
        (Pktgen, Traffic.of("imix", 10_000), ""),
        (Pktgen, Traffic.of("81", ip="6"), "pktgen needs frames of 82 B for UDP over IPv6, not 81 B"),
    ],
)
def test_a_generator_refuses_what_it_cannot_send(kind: Any, traffic: Traffic, refusal: str) -> None:
    assert kind.refusal(traffic) == refusal


class _Sender(FakeInstance):
    """An instance that answers as a source does; `report` is what its generator prints."""

    error = "waited 0.912\n"  # of sockperf's shell

    def __init__(self, report: str, code: int = 0) -> None:
        self.host = RecordingHost()
        super().__init__(self._replies, testbed=SimpleNamespace(usable_cpus=[2, 3], host=self.host))
        self._report, self._code = report, code

    @property
    def stdin(self) -> str:
        """The last standard input of a command."""
        return str(next(given for given in reversed(self.stdins) if given))

    def _replies(self, argv: Sequence[str]) -> Completed | None:
        if argv[0] == "ip":
            return answered_as_source(argv)
        if not {"sockperf", "trafgen"} & set(argv):
            return None
        return answer(self._report, code=self._code, error=self.error)


def way(sender: _Sender) -> Direction:
    return Direction(cast(Any, sender), cast(Any, None), "198.18.1.10")


def test_sockperf_sends_at_a_rate_for_whole_seconds_on_one_cpu() -> None:
    sender = _Sender(SENT_BY_SOCKPERF)
    found = Sockperf().offer(way(sender), Traffic.of("64"), 100_000.4, 0.2)
    assert found == SentLoad(100_000, 100_013, 1.0, waited_s=0.912)
    (argv,) = sender.measured
    assert sender.commands == [argv], "nothing else runs"
    words = "sockperf throughput --ip 198.18.1.10 --port 11111 --time 1 --mps 100000 --msg-size 18"
    words += " --buffer-size 4000000"
    assert argv[:2] == ["bash", "-c"] and argv[4:] == ["taskset", "--cpu-list", "2", *words.split()]


@pytest.mark.parametrize("error", ["", "waited -1.000\n", "waited 0.912\nwaited 0.912\n"])
def test_the_time_in_which_sockperf_waited_must_be_known(error: str) -> None:
    sender = _Sender(SENT_BY_SOCKPERF)
    sender.error = error
    with pytest.raises(InstrumentError, match="user time is not known"):
        Sockperf().offer(way(sender), Traffic.of("64"), 100_000, 1)


def test_a_shell_reports_the_user_time_of_what_it_runs_and_its_exit_code() -> None:
    """A sum that takes some tenths of a second of user time, without a call of the kernel, and ends with an error."""
    code = "import sys\nsum(range(5 * 10**7))\nprint(chr(33), file=sys.stderr)\nsys.exit(7)"
    argv = ["bash", "-c", _TIMED, "bash", sys.executable, "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    (waited,) = _WAITED.findall(done.stderr)
    assert done.returncode == 7 and done.stderr.startswith("!\n") and 0.1 < float(waited) < 9


def test_trafgen_is_paced_by_a_token_bucket_on_its_link() -> None:
    sender, generator = _Sender(SENT_BY_TRAFGEN), Trafgen()
    for _ in range(2):
        found = generator.offer(way(sender), Traffic.of("64", 100), 50_000, 1)
    assert found == SentLoad(50_000, 50_000, 1.0), "the last frames leave the queue after trafgen has ended"
    assert generator.condition() == {}
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
    runs = sender.measured
    assert runs == [argv for argv in sender.commands if "trafgen" in argv]
    assert all(argv[3:5] == ["pace0", "1.700"] for argv in runs) and len(runs) == 2
    assert sender.commands[-2] == ["sh", "-c", 'cat >"$1"', "sh", "/dev/shm/lastro-frames"], (
        "in memory, before it starts"
    )
    assert all(argv[argv.index("--conf") + 1] == "/dev/shm/lastro-frames" for argv in runs)
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
    generator = Trafgen()
    assert generator.condition() == {}
    generator.offer(way(sender), Traffic.of("64"), 50_000, 1)
    assert "a slow function may block the generator" in generator.condition()["frames of the generator"]
    assert ["ip", "-n", "N1", "link", "delete", "pace0"] in sender.host.commands
    assert sender.host.commands[-1][:6] == ["tc", "-n", "N1", "qdisc", "replace", "dev"]
    assert sender.host.commands[-1][6] == "out0"


def test_a_mix_is_a_frame_for_each_size() -> None:
    sender = _Sender(SENT_BY_TRAFGEN)
    Trafgen().offer(way(sender), Traffic.of("imix"), 50_000, 1)
    assert sender.stdin.count("{ eth(") == 12 and "sp=20000," in sender.stdin


@pytest.mark.parametrize("flows", [1, 2, 11, 12, 13, 30, 100, 10_000])
def test_the_flows_of_a_mix_are_those_of_its_rounds(flows: int) -> None:
    """As trafgen counts: from the first port by steps, and again from the first one after the last."""
    sender = _Sender(SENT_BY_TRAFGEN)
    Trafgen().offer(way(sender), Traffic.of("imix", flows), 50_000, 1)
    found = re.findall(r"udp\(sp=(?:dinc\((\d+), (\d+), (\d+)\)|(\d+)), ", sender.stdin)
    counters = [range(int(first or only), int(last or only) + 1, int(step or 1)) for first, last, step, only in found]
    assert len(counters) == 12 and all(int(first) < int(last) for first, last, *_ in found if first)
    rounds = -(-flows // 12)
    sent = [counter[at % len(counter)] for at in range(rounds) for counter in counters]
    assert set(sent) == set(range(20_000, 20_000 + flows)), "in one frame for each flow, rounded up to whole rounds"
    assert len(set(sent[:12])) == min(12, flows), "and each round has as many flows as it can"


@pytest.mark.parametrize(("size", "filled"), [("66", ""), ("70", ", fill(0x00, 4)")])
def test_a_frame_of_ipv6_has_its_header(size: str, filled: str) -> None:
    sender = _Sender(SENT_BY_TRAFGEN)
    Trafgen().offer(Direction(cast(Any, sender), cast(Any, None), PATHS["6"].sink), Traffic.of(size, ip="6"), 50_000, 1)
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


def test_a_slow_clock_of_sockperf_hides_no_frames_that_it_did_not_send() -> None:
    """In a second it sent 4 % too few, and by its own clock the second was as much shorter."""
    text = SENT_BY_SOCKPERF.replace("100013 messages sent in 1.000", "96000 messages sent in 0.960")
    assert Sockperf().read(text, 100_000, 1).rate_fps == pytest.approx(96_000)
    longer = SENT_BY_SOCKPERF.replace("100013 messages sent in 1.000", "102000 messages sent in 1.020")
    assert Sockperf().read(longer, 100_000, 1).rate_fps == pytest.approx(100_000)
