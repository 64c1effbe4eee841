"""The kernel's packet generator: what is written to it, what it reports, and the module that comes and goes with it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lastro.errors import CommandFailed, InstrumentError, Unavailable
from lastro.functions.base import PATHS
from lastro.host.base import Completed
from lastro.instruments.load_generator import Direction, Traffic
from lastro.instruments.pktgen import Pktgen
from lastro.testbed import Testbed

from ...support.hops import answered_as_source
from ...support.recording import FakeInstance, RecordingHost, answer, recording_testbed

BOOT = "0b6f5a2e-7c1d-4d5b-9a3e-1f2d3c4b5a69"
DEVICE = """Params: count {count}  min_pkt_size: 60  max_pkt_size: 60
     frags: 0  delay: 20000  clone_skb: 0  ifname: out0@0
     flows: 0 flowlen: 0
Current:
     pkts-sofar: {sofar}  errors: {errors}
     started: 5000000us  stopped: {stopped}us idle: {idle}us
     seq_num: 50001  cur_dst_mac_offset: 0  cur_src_mac_offset: 0
     cur_saddr: 198.18.0.10  cur_daddr: 198.18.1.10
     cur_udp_dst: 11111  cur_udp_src: 20000
     cur_queue_map: 0
     flows: 0
Result: OK: 999990(c99990+d900000) usec, {sofar} (60byte,0frags)
  50000pps 24Mb/sec (24000240bps) errors: {errors}
"""


def report(sofar: int = 50_000, errors: int = 0, took_us: int = 999_990, idle_us: int = 900_000) -> str:
    stopped = 5_000_000 + took_us
    return DEVICE.format(count=50_000, sofar=sofar, errors=errors, stopped=stopped, idle=idle_us)


class _Kernel:
    """The files of a kernel to which `modprobe` gives pktgen, unless it is `without`."""

    def __init__(self, host: RecordingHost, without: bool) -> None:
        self._host, self._without = host, without

    def exists(self, path: str) -> bool:
        assert path == "/proc/net/pktgen"
        loaded = sum(argv[0] == "modprobe" for argv in self._host.commands)
        return loaded % 2 == 1 and not self._without

    def read(self, paths: Sequence[str]) -> dict[str, str]:
        values = {"/proc/sys/kernel/random/boot_id": BOOT}
        if self.exists("/proc/net/pktgen"):
            values["/sys/module/pktgen/refcnt"] = "0"
        return {path: f"{values[path]}\n" for path in paths if path in values}


class _Source(FakeInstance):
    testbed: Testbed

    def __init__(self, place: Path, text: str = "", *, code: int = 0, without: bool = False) -> None:
        self.host = RecordingHost(self._replies)
        vars(self.host)["view"] = _Kernel(self.host, without)
        bed = recording_testbed(self.host, place)
        self._without = without
        self._text, self._code = text or f"{report()}ran 998000000 ns\n", code
        super().__init__(answered_as_source, testbed=bed, spec=SimpleNamespace(name="source"))

    def _replies(self, argv: Sequence[str]) -> Completed | None:
        if argv[0] == "modprobe":
            error = "modprobe: FATAL: Module pktgen not found in directory /lib/modules/6.18\n"
            return answer(error=error, code=1) if self._without else answer()
        return answer(self._text, code=self._code) if "pktgen" in argv else None

    @property
    def scripts(self) -> list[str]:
        return [str(given) for given in self.host.stdins if given]


@pytest.fixture(autouse=True)
def some_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lastro.testbed.Testbed.usable_cpus", [2, 3])


def way(source: _Source, target: str = "198.18.1.10") -> Direction:
    return Direction(cast(Any, source), cast(Any, FakeInstance()), target)


def test_frames_are_sent_by_the_thread_of_the_first_cpu_at_their_times(tmp_path: Path) -> None:
    source, generator = _Source(tmp_path), Pktgen()
    direction = way(source)
    with generator.receiving(direction):
        (owned,) = source.testbed.session.owned_objects()
        assert (owned.kind, owned.name) == ("module", f"pktgen@{BOOT}")
        for _ in range(2):
            found = generator.offer(direction, Traffic.of("64", 100), 50_000, 1)
    assert (found.intended, found.sent, found.lasted_s, found.kernel_s) == (50_000, 50_000, 1.0, 0.998)
    assert found.waited_s == pytest.approx(0.998 - 0.09999)
    add, first, second, remove = source.scripts
    assert add == "cd /proc/net/pktgen\necho 'add_device out0@0' >kpktgend_2\n" and first == second
    assert remove == "cd /proc/net/pktgen\necho rem_device_all >kpktgend_2\n"
    settings = [line.removeprefix("echo '").removesuffix("' >out0@0") for line in first.splitlines()[1:]]
    assert settings == [
        "count 50000", "delay 20000", "pkt_size 60", "clone_skb 0", "src_mac 02:00:00:00:00:0a",
        "dst_mac 02:00:00:00:00:01", "src_min 198.18.0.10", "dst 198.18.1.10", "udp_src_min 20000",
        "udp_src_max 20100", "udp_dst_min 11111", "udp_dst_max 11111", "flag UDPCSUM", "flag NO_TIMESTAMP",
    ]  # fmt: skip
    run, *more = [argv for argv in source.host.commands if any("timeout" in word for word in argv)]
    assert run[run.index("pktgen") :] == ["pktgen", "kpktgend_2", "1.400", "28", "out0@0"] and more == [run]
    assert "cgroup.procs" in run[2] and run[4:6] == ["nsenter", "--net=/run/netns/N1"], "in the source's cgroup"
    assert [argv for argv in source.host.commands if argv[0] in ("modprobe", "rmmod")] == [
        ["modprobe", "pktgen"], ["rmmod", "pktgen"],
    ]  # fmt: skip
    assert not source.testbed.session.owned_objects() and not source.measured


def test_the_user_s_own_module_stays(tmp_path: Path) -> None:
    source = _Source(tmp_path)
    source.host.run(["modprobe", "pktgen"])
    with Pktgen().receiving(way(source)):
        assert not source.testbed.session.owned_objects()
    assert sum(argv[0] == "modprobe" for argv in source.host.commands) == 1


def test_a_kernel_without_pktgen_is_unavailable_with_a_remedy(tmp_path: Path) -> None:
    source = _Source(tmp_path, without=True)
    reason = "the kernel has no pktgen: modprobe: FATAL: Module pktgen not found"
    with pytest.raises(Unavailable, match=reason) as caught, Pktgen().receiving(way(source)):
        raise AssertionError
    assert re.match("use a kernel with the module pktgen, .* guest", str(caught.value.hint))
    assert not source.testbed.session.owned_objects()


def test_a_mix_is_a_device_for_each_size_with_its_part_of_the_rate(tmp_path: Path) -> None:
    source = _Source(tmp_path, f"{report(29_167)}{report(16_667)}{report(4_167)}ran 998000000 ns\n")
    found = Pktgen().offer(way(source), Traffic.of("imix", 12), 50_000, 1)
    assert found.sent == 50_001
    settings = "".join(source.scripts[1:])
    for number, (size, count, delay) in enumerate([(60, 29167, 34286), (566, 16667, 60000), (1514, 4167, 240000)]):
        for setting in (f"count {count}", f"delay {delay}", f"pkt_size {size}", "udp_src_max 20012"):
            assert f"echo '{setting}' >out0@{number}\n" in settings


def test_frames_of_ipv6_have_its_addresses(tmp_path: Path) -> None:
    source = _Source(tmp_path)
    Pktgen().offer(way(source, PATHS["6"].sink), Traffic.of("82", ip="6"), 50_000, 1)
    assert "echo 'dst6 2001:2:0:1::10' >out0@0\n" in source.scripts[1] and "'pkt_size 78'" in source.scripts[1]


def test_frames_that_the_device_refused_were_sent() -> None:
    """A newer kernel sends others in their place, until its time is over."""
    found = Pktgen().read(f"{report(40_000, 29_000, 1_380_000, 0)}ran 1370000000 ns\n", 1, 50_000, 1)
    assert (found.sent, found.lasted_s, found.waited_s) == (69_000, 1.38, 0.0)
    assert found.rate_fps == pytest.approx(50_000)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "did not report what it sent"),
        (report() * 2 + "ran 5 ns\n", "did not report what it sent"),
        (report().replace("Result: OK: 999990(", "Result: Starting ("), "did not report what it sent"),
        (report(), "CPU time of pktgen's thread is not known"),
        (report(0) + "ran 5 ns\n", "cannot be 0"),
        (report(took_us=200_000) + "ran 5 ns\n", "sent for 0.200 s instead of 1 s"),
        (report(60_000) + "ran 5 ns\n", "60000 frames sent, but was asked for 50000"),
    ],
)
def test_impossible_reports_are_refused(text: str, match: str) -> None:
    with pytest.raises(InstrumentError, match=match):
        Pktgen().read(text, 1, 50_000, 1)


def test_a_writer_that_was_killed_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="exited with 137"):
        Pktgen().offer(way(_Source(tmp_path, code=137)), Traffic.of("64"), 50_000, 1)
