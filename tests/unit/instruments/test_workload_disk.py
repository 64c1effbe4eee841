"""What Bonnie++, fio and dbench say, on real output, and when they contradict themselves; and what caches do to it."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import pytest

from lastro.errors import CommandFailed, InstrumentError
from lastro.host.base import Completed
from lastro.host.cgroups import Resources
from lastro.instruments.bonnie import Bonnie
from lastro.instruments.dbench import Dbench
from lastro.instruments.disk_workload import cache_facts, cache_warning, through_arc, with_caches
from lastro.instruments.fio import Fio
from lastro.platforms.base import InstanceSpec
from lastro.results.samples import Reading

from ...support.recording import FakeInstance, answer
from ...support.workload_samples import text_of

GIB = 1 << 30
DIRECT: dict[str, Any] = {"files": 0, "size": "256M", "seeks": 60_000, "processes": 2}


def test_bonnie_tells_rates_and_what_was_too_short_for_one() -> None:
    found = Bonnie(**DIRECT).read(text_of("bonnie-direct.csv"))
    cells = text_of("bonnie-direct.csv").split(",")
    assert found.measurements["bonnie_write"] == int(cells[11]) / 1024
    assert found.measurements["bonnie_rewrite"] == int(cells[13]) / 1024
    assert found.measurements["bonnie_seeks"] == float(cells[19])
    assert set(found.measurements) == {"bonnie_write", "bonnie_rewrite", "bonnie_seeks"}, "no time without all phases"
    assert [list(each.metrics) for each in found.remarks] == [["bonnie_read"]]
    cells[17] = "500000"
    phases_s = 262144 / int(cells[11]) + 262144 / int(cells[13]) + 262144 / 500_000 + 60_000 / int(cells[19])
    whole = Bonnie(**DIRECT).read(",".join(cells))
    assert whole.measurements["time_tool"] == pytest.approx(phases_s, rel=1e-4)


def test_bonnie_without_a_large_file_tells_of_small_ones() -> None:
    found = Bonnie(files=25, size="0").read(text_of("bonnie-files.csv"))
    assert set(found.measurements) == {"bonnie_create", "bonnie_delete"}
    assert [list(each.metrics) for each in found.remarks] == [["bonnie_stat"]]


def test_bonnie_without_any_rate_is_doubted() -> None:
    text = re.sub(r"191711,30", "+++++,+++", text_of("bonnie-cached.csv"))
    found = Bonnie(files=0, size="256M").read(text)
    assert found.measurements == {}
    assert found.invalid_because[0].endswith("choose a larger `size`")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"files": 1}, "Bonnie++ reports 0 thousand files instead of 1"),
        ({"seeks": 1}, "Bonnie++ reports 60000 seeks instead of 1"),
        ({"processes": 4}, "Bonnie++ reports 2 processes instead of 4"),
        ({"size": "1G"}, "Bonnie++ reports a file of 256M instead of 1G"),
    ],
)
def test_bonnie_with_another_task_than_was_set_is_doubted(changed: dict[str, Any], reason: str) -> None:
    assert Bonnie(**{**DIRECT, **changed}).read(text_of("bonnie-direct.csv")).invalid_because == (reason,)


def test_a_format_of_bonnie_that_is_not_known_is_refused() -> None:
    with pytest.raises(InstrumentError, match=r"in format '1\.97'"):
        Bonnie(**DIRECT).read(text_of("bonnie-direct.csv").replace("1.98,", "1.97,", 1))


def test_fio_tells_bytes_over_time_of_three_phases() -> None:
    jobs = {job["jobname"]: job for job in json.loads(text_of("fio-buffered.json"))["jobs"]}
    found = Fio(size="48M", time_s=1).read(text_of("fio-buffered.json"))
    write, random = jobs["write"]["write"], jobs["random-read"]["read"]
    assert found.measurements["fio_write"] == pytest.approx(48 / (write["runtime"] / 1e3), rel=0.01)
    assert found.measurements["fio_random_reads"] == pytest.approx(
        random["total_ios"] / (random["runtime"] / 1e3), rel=0.01
    )
    assert found.measurements["fio_random_read_p99"] == random["clat_ns"]["percentile"]["99.000000"] / 1e6
    assert found.invalid_because == ()


def test_fio_with_fewer_bytes_or_less_time_than_was_asked_for_is_doubted() -> None:
    reasons = Fio(size="64M", time_s=2).read(text_of("fio-direct.json")).invalid_because
    assert reasons[0] == "fio moved 33554432 bytes of 67108864 in its phase 'write'"
    assert reasons[-1] == "fio read at random for 1.001 s instead of 2 s"


def test_fio_that_names_its_phases_oddly_is_refused() -> None:
    report = json.loads(text_of("fio-direct.json"))
    report["jobs"][0]["jobname"] = 3
    with pytest.raises(InstrumentError, match="fio reports 3, "):
        Fio().read(json.dumps(report, indent=1))


def test_fio_that_contradicts_itself_is_doubted() -> None:
    report = json.loads(text_of("fio-direct.json"))
    report["jobs"][0]["write"]["bw_bytes"] *= 2
    (reason,) = Fio(size="32M", time_s=1, threads=1).read(json.dumps(report, indent=1)).invalid_because
    assert reason.startswith("fio reports ") and "bytes/s for 3.35544e+07 bytes in" in reason


def test_a_phase_of_fio_that_failed_or_is_missing_is_no_measurement() -> None:
    report = json.loads(text_of("fio-direct.json"))
    report["jobs"][1]["error"] = 28
    with pytest.raises(InstrumentError, match=r"fio failed in read \(28\)"):
        Fio().read(json.dumps(report, indent=1))
    del report["jobs"][1]
    with pytest.raises(InstrumentError, match="fio reports write, random-read, not"):
        Fio().read(json.dumps(report, indent=1))


@pytest.mark.parametrize("value", [None, "1", True, -1, 0, 1e400, 10**400, [], {}])
def test_a_number_of_fio_that_is_none_is_refused(value: object) -> None:
    report = json.loads(text_of("fio-direct.json"))
    report["jobs"][2]["read"]["iops"] = value
    with pytest.raises(InstrumentError):
        Fio(size="32M", time_s=1).read(json.dumps(report, indent=1))


def test_fios_remarks_before_its_report_are_no_harm() -> None:
    tool, text = Fio(size="32M", time_s=1, threads=1), text_of("fio-direct.json")
    assert tool.read("note: both iodepth >= 1 and a synchronous engine\n" + text) == tool.read(text)


def test_dbench_tells_its_throughput_and_its_longest_operation() -> None:
    text = text_of("dbench.txt")
    found = Dbench(clients=2, time_s=3).read(text)
    last = text.splitlines()[-1].split()
    assert found.measurements == {
        "dbench_throughput": float(last[1]), "dbench_latency_max": float(last[-2].partition("=")[2])
    }  # fmt: skip


def test_a_client_of_dbench_that_was_killed_is_found() -> None:
    """dbench ends well, and its result names all the clients."""
    text = text_of("dbench.txt").replace("   0  cleanup", "   1  cleanup")
    assert Dbench(clients=2, time_s=3).read(text).invalid_because == ("1 of dbench's clients did not finish",)


def test_dbench_with_other_clients_a_shorter_time_or_failures_is_doubted() -> None:
    text = text_of("dbench.txt").replace("releasing clients", "releasing clients\n[92] read failed on handle 1 (x)")
    reasons = Dbench(clients=3, time_s=30).read(text).invalid_because
    assert reasons == (
        "dbench ran 2 clients in 2 processes instead of 3",
        "dbench measured for 2 s instead of 30 s",
        "a client of dbench had 1 failures: [92] read failed on handle 1 (x)",
    )


def test_clients_of_dbench_that_did_not_start_are_no_measurement() -> None:
    text = text_of("dbench.txt").replace("Throughput 58.682", "Throughput 0")
    with pytest.raises(InstrumentError, match="throughput cannot be 0"):
        Dbench(clients=2, time_s=3).read(text)


def instance_whose_tool(ended: Completed) -> FakeInstance:
    spec = InstanceSpec("one", "instance", resources=Resources(memory_bytes=64 << 20))
    return FakeInstance(lambda argv: ended if argv[0] == "dbench" else None, took_s=3.6, spec=spec)


def test_a_write_of_dbench_that_was_cut_short_is_a_full_disk() -> None:
    words = "[25] wrote 20480 bytes, expected to write 65536 bytes on handle 9938\nChild failed with status 1\n"
    with pytest.raises(InstrumentError, match="dbench filled the instance's disk"):
        Dbench().run(instance_whose_tool(answer(words, code=1)), 9)  # type: ignore[arg-type]
    with pytest.raises(CommandFailed, match="error opening"):
        Dbench().run(instance_whose_tool(answer(error="error opening 'x'", code=1)), 9)  # type: ignore[arg-type]


def test_a_run_leaves_nothing_and_tells_of_the_cache() -> None:
    instance = instance_whose_tool(answer(text_of("dbench.txt")))
    found = Dbench(clients=2, time_s=3).run(instance, 9)  # type: ignore[arg-type]
    assert instance.commands[-1] == ["rm", "-rf", "/var/tmp/lastro-dbench"]
    assert found.really == cache_facts(44_000_000, 64 << 20, False, True)
    assert [remark.text for remark in found.remarks] == [cache_warning(44_000_000, 64 << 20, False)]
    assert set(found.measurements) == {"dbench_throughput", "dbench_latency_max", "time_host"}
    assert [argv[0] for argv in instance.measured] == ["dbench"], "its preparation is not measured"


def test_commands_say_what_was_chosen() -> None:
    bonnie = Bonnie(files=50, size="1G", direct="yes", synced="yes").argv()
    assert bonnie[-5:] == ["1024:8192:8192:4", "-n", "50", "-D", "-b"]
    assert Dbench(clients=256, synced="yes").argv()[-4:] == ["-t", "60", "-s", "256"]
    assert "--direct=1" in Fio(direct="yes").argv() and "--direct=0" in Fio().argv()
    assert all("/var/tmp/lastro-" in " ".join(kind().argv()) for kind in (Bonnie, Dbench, Fio))


def test_a_cache_that_may_hide_the_disk_is_told() -> None:
    def warning(file_gib: int, memory_gib: int | None, direct: bool = False) -> str:
        return cache_warning(file_gib * GIB, memory_gib and memory_gib * GIB, direct)

    def notes(file_gib: int, memory_gib: int | None, direct: bool = False, shares: bool = True) -> Any:
        return cache_facts(file_gib * GIB, memory_gib and memory_gib * GIB, direct, shares)

    assert warning(1, 1) == "the page cache may hide the disk: 1.0 GiB of files, and 1.0 GiB of memory"
    assert "all of the host's memory" in warning(1, None) and notes(1, None)["page cache"] == "in use"
    assert not warning(2, 1) and notes(2, 1)["page cache"] == "in use, less than 1.0 GiB"
    assert not warning(1, 1, direct=True) and "O_DIRECT" in notes(1, 1, direct=True)["page cache"]
    assert notes(1, 1, direct=True, shares=False)["page cache"] == "bypassed inside (O_DIRECT)"
    assert "host's cache" in notes(1, 1, shares=False) and "host's cache" not in notes(1, 1)


@pytest.mark.parametrize(
    ("mode", "words", "hides"),
    [
        ("none", "bypassed (cache=none)", False),
        ("writeback", "in use (cache=writeback)", True),
        ("writethrough", "in use for reading (cache=writethrough)", True),
        ("unsafe", "in use, and flushes are ignored (cache=unsafe)", True),
        ("", "assumed to be in use", True),
    ],
)
def test_a_machines_cache_mode_is_told_and_warned_of(mode: str, words: str, hides: bool) -> None:
    """Direct inside says nothing of the host's own cache."""
    machine: Any = SimpleNamespace(
        shares_kernel=False, host_cache=mode, spec=SimpleNamespace(resources=Resources(memory_bytes=GIB))
    )
    direct, both = (with_caches(Reading({"x": 1.0}), GIB, direct, machine) for direct in (True, False))
    assert direct.really["host's cache"] == words and bool(direct.remarks) is hides
    assert both.remarks[0].text.startswith("the page cache may hide the disk") and both.remarks[0].metrics == ("x",)
    assert ("machine's disk" in both.remarks[0].text) is hides


# ZFS, whose cache is neither the instance's nor bound by its memory

LXD = {"file system": "zfs", "device": "default/c1", "host's file system": "ext4"}
BELOW = {"file system": "overlay", "host's file system": "zfs"}


@pytest.mark.parametrize("under", [LXD, BELOW])
@pytest.mark.parametrize("file_gib", [1, 4])
@pytest.mark.parametrize("direct", [False, True])
def test_zfs_has_a_cache_that_no_file_is_too_large_for(under: dict[str, str], file_gib: int, direct: bool) -> None:
    container: Any = SimpleNamespace(
        shares_kernel=True, host_cache="", spec=SimpleNamespace(resources=Resources(memory_bytes=GIB))
    )
    read = with_caches(Reading({"rate": 1.0, "ratio": 3.0}), file_gib * GIB, direct, container, unaffected=("ratio",))
    found = through_arc(read, under, ("ratio",))
    (remark,) = found.remarks
    assert remark.kind == "through a cache" and remark.metrics == ("rate",)
    assert "ZFS's own cache" in remark.text
    assert ("page cache may hide" in remark.text) is bool(read.remarks), "what was known before is still said"
    assert found.really["page cache"].startswith("ZFS's own (ARC)")
    assert through_arc(read, {"file system": "ext4", "host's file system": "xfs"}) == read


def test_a_machines_disk_in_a_file_on_zfs_is_cached_by_its_host() -> None:
    machine: Any = SimpleNamespace(
        shares_kernel=False, host_cache="none", spec=SimpleNamespace(resources=Resources(memory_bytes=GIB))
    )
    read = with_caches(Reading({"rate": 1.0}), 4 * GIB, True, machine)
    assert read.remarks == (), "as far as the machine knows"
    found = through_arc(read, {"file system": "ext4", "host's file system": "zfs"})
    assert found.really["page cache"] == "bypassed inside (O_DIRECT)"
    assert found.really["host's cache"].startswith("ZFS's own (ARC)")
    assert [remark.metrics for remark in found.remarks] == [("rate",)]


def test_what_is_no_disks_number_stands_on_zfs_without_a_mark() -> None:
    assert through_arc(Reading({"cpu_events": 1.0}), LXD) == Reading({"cpu_events": 1.0})
