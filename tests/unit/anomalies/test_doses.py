"""The doses of anomalies and their limits as they are judged, and remedies that name the guest, without an instance."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro import registry
from lastro.anomalies.base import Anomaly, Demand, Dose, KernelUse, Neighbour
from lastro.anomalies.conntrack import ruleset
from lastro.errors import CommandFailed, PlatformError, Unavailable
from lastro.functions.base import PATHS
from lastro.host.cgroups import CgroupsV1, CgroupsV2, Resources, Usage
from lastro.host.local import LocalHost
from lastro.instruments.load_generator import Traffic
from lastro.instruments.trafgen import Trafgen
from lastro.isolation.base import NEIGHBOUR
from lastro.isolation.seccomp import DENIED, filter_profile
from lastro.platforms.base import InstanceSpec
from lastro.results.samples import Outcome
from lastro.scenarios.base import make_part
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.shared import on_chain
from lastro.scenarios.shared.disturbance import bounded
from lastro.scenarios.shared.instance_spec import instance_spec

from ...support.recording import RecordingHost, answer, recording_testbed

MIB = 1 << 20


@pytest.mark.parametrize(
    ("level", "did", "limits", "missed"),
    [
        ("cpu:dose=50", {"cpus": 1.05}, Resources(), None),
        (
            "cpu:dose=50",
            {"cpus": 0.8},
            Resources(),
            "the neighbour did 0.80 CPUs, less than 1.00 CPUs by more than 10 %",
        ),
        ("cpu:dose=50", {"cpus": 1.2}, Resources(), "more than 1.00 CPUs"),
        ("cpu:dose=50", {"cpus": 0.3}, Resources(cpus=0.3), None),  # its limit allows no more
        ("cpu", {"cpus": 0.6}, Resources(), None),
        ("membw:dose=25", {"moved_bytes": 1 << 29}, Resources(), None),
        ("membw:dose=25", {"moved_bytes": 1 << 30}, Resources(), "more than 512.0 MiB/s"),
        ("membw:dose=25", {"moved_bytes": 1 << 29}, Resources(cpus=1.5), None),  # exactly what was asked
        ("membw:dose=25", {"moved_bytes": 1 << 30, "cpus": 1.5}, Resources(cpus=1.5), "more than 512.0 MiB/s"),
        ("membw:dose=75", {"moved_bytes": 1 << 30}, Resources(cpus=1.5), "did 1.0 GiB/s, less than 1.5 GiB/s"),
        ("membw:dose=75", {"moved_bytes": 1 << 30, "cpus": 1.4}, Resources(cpus=1.5), None),  # its limit allows no more
        ("membw:dose=75", {"moved_bytes": 1 << 30, "cpus": 2.0}, Resources(), "did 1.0 GiB/s, less than 1.5 GiB/s"),
        ("membw:dose=75", {"moved_bytes": 0, "cpus": 1.5}, Resources(cpus=1.5), "did 0 B/s, less than 1.5 GiB/s"),
        ("diskbw:dose=25", {"written_bytes": 8 * MIB}, Resources(), None),
        ("diskbw", {"written_bytes": 28 * MIB}, Resources(), "did 28.0 MiB/s, less than 32.0 MiB/s"),
        ("diskbw", {"written_bytes": 8 * MIB}, Resources(write_bps=8 * MIB), None),  # its limit allows no more
        ("frames:dose=50", {"used": 24_000}, Resources(), None),
        ("frames:dose=50", {"used": 28_000}, Resources(), "did 28,000 frames/s, more than 25,000 frames/s"),
        ("frames:dose=50", {"used": 24_000}, Resources(link_bps=20_000_000), None),  # its limit allows more
        ("frames", {"used": 9_000, "moved_bytes": 540_000}, Resources(link_bps=5_000_000), None),
        ("frames", {"used": 2_000, "moved_bytes": 120_000}, Resources(link_bps=5_000_000), "less than half"),
    ],
)
def test_a_dose_in_percent_is_reached_within_a_tenth(
    level: str, did: dict[str, float], limits: Resources, missed: str | None
) -> None:
    dose = Dose(**{"elapsed_s": 1.0, "cpus": 0.5, "memory_peak_bytes": 0, "written_bytes": 0, "alive": True, **did})
    demand = Demand(tool="stress-ng", workers=2, memory_bytes=32 * MIB, timeout_s=20.0, usable_cpus=2)
    said = make_part(Anomaly, level).unmet(dose, demand, limits)
    assert (said is None) if missed is None else (said is not None and missed in said), said


def test_a_dose_of_none_is_no_neighbour_and_a_part_of_it_is_made_by_stress_ng() -> None:
    demand = demand_of("stress")
    for name in ("cpu", "membw", "diskbw", "frames"):
        assert make_part(Anomaly, f"{name}:dose=0").argv(demand) == []
    assert make_part(Anomaly, "cpu:dose=30").argv(demand)[:5] == ["stress-ng", "--cpu", "2", "--cpu-load", "30"]
    assert make_part(Anomaly, "cpu").argv(demand)[0] == "stress"
    assert make_part(Anomaly, "membw:dose=50").argv(demand)[5] == str((1 << 30) // 2)


def demand_of(tool: str) -> Demand:
    return Demand(tool=tool, workers=2, memory_bytes=32 * MIB, timeout_s=20.0)


def anomaly(name: str) -> Anomaly:
    made: Anomaly = registry.get("anomaly", name)()
    return made


def test_the_filter_denies_by_name_and_allows_the_rest() -> None:
    profile = filter_profile()
    assert profile["defaultAction"] == "SCMP_ACT_ALLOW"
    assert profile["syscalls"] == [{"names": list(DENIED), "action": "SCMP_ACT_ERRNO", "errnoRet": 1}]
    assert {"mount", "bpf", "ptrace", "setns", "unshare", "kexec_load"} <= set(DENIED)
    assert list(DENIED) == sorted(set(DENIED))
    assert not {"socket", "sendto", "clone", "execve", "openat"} & set(DENIED)


def test_no_anomaly_has_nothing_to_run() -> None:
    assert anomaly("none").argv(demand_of("stress-ng")) == []


@pytest.mark.parametrize(
    ("name", "tool", "argv"),
    [
        ("cpu", "stress-ng", "stress-ng --cpu 2 --cpu-method sqrt --timeout 20"),
        ("cpu", "stress", "stress --cpu 2 --timeout 20"),
        ("memory", "stress-ng", "stress-ng --vm 2 --vm-bytes 65536K --timeout 20"),
        ("memory", "stress", "stress --vm 2 --vm-bytes 32768K --vm-stride 4096 --timeout 20"),
        ("disk", "stress-ng", "stress-ng --hdd 2 --hdd-bytes 128M --temp-path /var/tmp --timeout 20"),
        ("disk", "stress", "stress --hdd 2 --hdd-bytes 128M --timeout 20"),
        ("io", "stress-ng", "stress-ng --io 2 --timeout 20"),
        ("io", "stress", "stress --io 2 --timeout 20"),
        ("fork", "stress-ng", "stress-ng --zombie 2 --zombie-max 500 --timeout 20"),
        ("fork", "stress", "stress-ng --zombie 2 --zombie-max 500 --timeout 20"),  # stress has no such load
        ("network", "stress", "perl flood.pl 198.19.255.1 2 1 0 20"),
        ("conntrack", "stress", "perl flood.pl 198.19.254.2 2 16000 1000 20"),
        ("files", "stress", "perl hold.pl files 2 8000 20"),
        ("sockets", "stress", "perl hold.pl sockets 2 8000 20"),
        ("membw", "stress", "perl move.pl copy 2 16777216 1073741824 20 /run/moved"),
        ("cache", "stress", "perl move.pl compare 2 16777216 0 20 /run/moved"),
        ("diskbw", "stress", "perl move.pl write 2 67108864 16777216 20 /run/moved"),
        ("frames", "stress", "perl flood.pl 198.19.255.1 2 1 25000 20"),
    ],
)
def test_each_tool_is_told_the_same_in_its_own_options(name: str, tool: str, argv: str) -> None:
    assert anomaly(name).argv(demand_of(tool)) == argv.split()


DONE = Dose(
    elapsed_s=10.0, cpus=1.9, memory_peak_bytes=64 * MIB, written_bytes=900 * MIB, alive=True, held=1001, used=9000
)


@pytest.mark.parametrize(
    ("name", "changes", "limits", "words"),
    [
        ("cpu", {}, {}, None),
        ("cpu", {"cpus": 0.01}, {}, "used 0.01 CPUs"),
        ("cpu", {"cpus": 0.03}, {"cpus": 0.1}, None),
        ("cpu", {"cpus": 0.02}, {"cpus": 0.1}, "less than 0.03"),
        ("memory", {}, {}, None),
        ("memory", {"memory_peak_bytes": 20 * MIB}, {}, "held 20.0 MiB, less than half of 64.0 MiB"),
        ("memory", {"memory_peak_bytes": 20 * MIB}, {"memory_bytes": 32 * MIB}, None),
        ("disk", {}, {}, None),
        ("disk", {"written_bytes": 5 * MIB}, {}, "wrote 5.0 MiB, less than 10.0 MiB"),
        ("disk", {"written_bytes": 0, "written_in_all_bytes": 90 * MIB}, {"write_bps": 4 * MIB}, None),  # in its limit
        (
            "disk",
            {"written_bytes": 0, "written_in_all_bytes": MIB},
            {"write_bps": 4 * MIB},
            "wrote 1.0 MiB, less than 4",
        ),
        ("io", {"cpus": 0.001}, {}, None),
        ("io", {"cpus": 0.0}, {}, "hardly called sync()"),
        ("fork", {}, {}, None),
        ("fork", {"held": 400}, {}, "held 400 processes, less than half of 1000"),
        ("fork", {"held": 130}, {"pids": 256}, None),
        ("fork", {"held": 120}, {"pids": 256}, "less than half of 256"),
        ("fork", {"used": 499}, {}, "499 processes were created, fewer than 500"),
        ("network", {"used": 20_000, "moved_bytes": 1_200_000}, {}, None),
        ("network", {"used": 19_999}, {}, "sent 19999 frames, fewer than 20000"),
        ("network", {"moved_bytes": 2_500_000}, {"link_bps": 2_000_000}, None),
        ("network", {"moved_bytes": 1_000_000}, {"link_bps": 2_000_000}, "sent 0.80 Mbit/s, less than half of 2.00"),
        ("network", {"moved_bytes": 3_200_000}, {"link_bps": 2_000_000}, "sent 2.56 Mbit/s, more than its limit of 2"),
        ("files", {"held": 16_000}, {}, None),
        ("files", {"held": 7000}, {}, "held 7000 files, less than half of 16000"),
        ("sockets", {"held": 480}, {"open_files": 256}, None),
        ("sockets", {"held": 200}, {"open_files": 256}, "held 200 sockets, less than half of 512"),
        ("files", {"held": 700}, {"open_files": 256}, "more than its limit of 512 allows: the limit is not in force"),
        ("files", {"held": 16_000}, {"open_files": 100_000}, None),
        ("conntrack", {"held": 16_000}, {}, None),
        ("conntrack", {"held": 7000}, {}, "held 7000 connections, less than half of 16000"),
        ("conntrack", {"held": 256}, {"connections": 256}, None),
        ("conntrack", {"held": 400}, {"connections": 256}, "more than its limit of 256 allows"),
        ("membw", {"moved_bytes": 11 << 30}, {}, None),
        ("membw", {"moved_bytes": 9 << 30}, {}, "moved 921.6 MiB of memory per second, less than 1.0 GiB"),
        ("membw", {"moved_bytes": 9 << 30, "cpus": 0.06}, {"cpus": 0.1}, None),  # held back by its limit
        ("membw", {"moved_bytes": 9 << 30, "cpus": 0.04}, {"cpus": 0.1}, "less than 1.0 GiB"),
        ("membw", {"moved_bytes": 0, "cpus": 0.1}, {"cpus": 0.1}, "moved 0 B of memory per second"),
        ("cache", {"moved_bytes": 3300 * MIB}, {}, None),
        ("cache", {"moved_bytes": 3100 * MIB}, {}, "read 310.0 MiB of memory per second, less than 320.0 MiB"),
        ("cpu", {"alive": False}, {}, "ended before the measurement did"),
        ("disk", {"alive": False}, {}, "ended before the measurement did"),
    ],
)
def test_a_missed_dose_is_told(name: str, changes: dict[str, Any], limits: dict[str, Any], words: str | None) -> None:
    dose = Dose(**{field: getattr(DONE, field) for field in Dose.__slots__} | changes)
    reason = anomaly(name).unmet(dose, demand_of("stress-ng"), Resources(**limits))
    assert (reason is None) if words is None else (words in str(reason))


@pytest.mark.parametrize(
    ("limit", "workers", "running", "group", "bound"),
    [
        (None, 2, 768, "max", 2000),
        (256, 2, 768, "max", 256),  # the isolation's limit
        (256, 200, 768, "max", 416),  # a lower one would end the load, not limit it
        (None, 3000, 768, "max", 6016),
        (None, 4096, 768, "max", 8000),  # a quarter of 32,000
        (None, 2, 29_168, "max", 900),
        (None, 2, 768, "408", 100),  # Lastro itself runs in a group with a limit, as in a container
        (None, 2, 40_000, "max", 0),
    ],
)
def test_no_neighbour_may_take_the_processes_of_the_host(
    tmp_path: Path, limit: int | None, workers: int, running: int, group: str, bound: int
) -> None:
    texts = {
        "/proc/loadavg": f"0.1 0.2 0.3 2/{running} 9999\n",
        "/proc/sys/kernel/pid_max": "32768\n",
        "/proc/sys/kernel/threads-max": "192730\n",
        f"{tmp_path}/lastro/pids.max": f"{group}\n",
        f"{tmp_path}/lastro/pids.current": "8\n",
    }
    view = SimpleNamespace(read=lambda files: {file: texts[file] for file in files if file in texts})
    testbed: Any = SimpleNamespace(
        host=SimpleNamespace(view=view), cgroups=CgroupsV2(tmp_path), session=SimpleNamespace(cgroup="/lastro/1a2b3c")
    )
    spec = InstanceSpec("near", NEIGHBOUR, resources=Resources(cpus=0.5, pids=limit))
    demand = Demand("stress-ng", workers, 32 * MIB, 20.0)
    assert bounded(spec, testbed, demand).resources == Resources(cpus=0.5, pids=bound)


@pytest.mark.parametrize(
    ("limit", "found"), [(None, "max"), (2000, "max"), (2000, "4000"), (2000, None)], ids=lambda value: str(value)
)
def test_forks_are_refused_without_a_limit_of_the_kernel(tmp_path: Path, limit: int | None, found: str | None) -> None:
    if found:
        (tmp_path / "near").mkdir()
        (tmp_path / "near/pids.max").write_text(f"{found}\n")
    instance: Any = SimpleNamespace(
        cgroup="/near",
        shares_kernel=True,
        spec=InstanceSpec("near", NEIGHBOUR, resources=Resources(pids=limit)),
        testbed=SimpleNamespace(cgroups=CgroupsV2(tmp_path), host=LocalHost()),
    )
    said = pytest.raises(PlatformError, match=f"pids.max is {found or 'not readable'}.* run out of processes")
    with said, anomaly("fork").at_work(instance, demand_of("stress-ng")):
        pytest.fail("it began")


@pytest.mark.parametrize(("limit", "left", "starts"), [(80_000, 64_000, True), (79_999, 63_999, False)])
@pytest.mark.parametrize("name", ["files", "sockets"])
def test_no_neighbour_may_take_the_open_files_of_the_host(name: str, limit: int, left: int, starts: bool) -> None:
    run = RecordingRun()
    host = SimpleNamespace(read_text=lambda path: {"/proc/sys/fs/file-nr": f"16000\t0\t{limit}\n"}[path])
    instance: Any = SimpleNamespace(shares_kernel=True, run=run, testbed=SimpleNamespace(host=host))
    said = pytest.raises(PlatformError, match=f"can open {left} more files.* a quarter")
    with nullcontext() if starts else said, anomaly(name).prepared(instance):
        assert "RLIMIT_NOFILE" in str(run.stdin)
    assert bool(run.stdin) is starts


class RecordingRun:
    """The `run` of an instance that only records."""

    stdin: str | None = None

    def __call__(self, argv: list[str], stdin: str | None = None) -> SimpleNamespace:
        self.stdin = stdin
        return SimpleNamespace(text="16005\n")


def test_only_a_platform_that_takes_links_late_has_a_link_of_its_own_for_a_neighbour() -> None:
    for machine in ({"takes_taps": True}, {"takes_taps": False, "starts_on_links": True}):
        instance: Any = SimpleNamespace(**machine, testbed=SimpleNamespace(host=None))
        for name in ("network", "conntrack"):
            with pytest.raises(Unavailable, match="takes all links when"), anomaly(name).prepared(instance):
                pytest.fail("it began")


def test_a_flood_of_the_chains_link_goes_to_the_function_over_a_port_that_the_neighbour_has_there(
    tmp_path: Path,
) -> None:
    flood = make_part(Anomaly, "network:link=chain")
    assert flood.on_chain and not anomaly("network").on_chain and not anomaly("conntrack").on_chain
    host = RecordingHost()
    testbed = recording_testbed(host, tmp_path)
    neighbour: Any = SimpleNamespace(
        testbed=testbed, spec=InstanceSpec("near", NEIGHBOUR, Resources(link_bps=2_000_000)), netns="one",
        run=lambda argv, stdin: None,
    )  # fmt: skip
    with pytest.raises(Unavailable, match="no link of a chain here"), flood.prepared(neighbour):
        pass
    over = flood.over("load0", "198.18.0.1")
    assert over.on_chain and over.argv(demand_of("stress"))[:3] == ["perl", "flood.pl", "198.18.0.1"]
    with over.prepared(neighbour):
        assert host.commands[-1][:9] == ["tc", "-n", "one", "qdisc", "add", "dev", "load0", "root", "tbf"]
        assert "2000000bit" in host.commands[-1] and not [argv for argv in host.commands if "veth" in argv]


def test_connections_above_the_limit_are_refused_and_counted() -> None:
    assert 'iifname "peer0" ct state new ct count over 256 counter name refused drop' in ruleset(256)
    assert "ct state new accept" in ruleset(None) and "drop" not in ruleset(None).partition("leaving")[0]


def test_only_connections_are_sent_through_a_function_that_tracks_them() -> None:
    function: Any = SimpleNamespace(netns="function")
    through = anomaly("conntrack").through(function)
    assert through is not None
    assert through.argv(demand_of("stress-ng"))[:3] == ["perl", "flood.pl", "198.19.255.1"]
    assert not any(anomaly(name).through(function) for name in ("network", "cpu", "sockets", "none"))
    tracking = [name for name in ("none", "firewall", "dpi", "nat") if registry.get("function", name).tracks]
    assert tracking == ["nat"], "each of the others works packet by packet, without a state of its own"
    assert all(" ct " not in registry.get("function", name)().rules(PATHS["4"]) for name in ("none", "firewall", "dpi"))


def test_a_guest_counts_the_processes_of_its_own_table() -> None:
    words = "0.00 0.01 0.05 2/1038 4242\ncpu  1 2 3\nctxt 77\nprocesses 51234\n"
    guest: Any = SimpleNamespace(shares_kernel=False, run=lambda argv: SimpleNamespace(text=words))
    assert anomaly("fork").taken(guest) == KernelUse(held=1038, used=51_234)
    assert anomaly("cpu").taken(guest) == KernelUse()


def test_a_guest_counts_its_own_files_and_sockets() -> None:
    guest: Any = SimpleNamespace(shares_kernel=False, run=RecordingRun())
    assert anomaly("files").taken(guest) == KernelUse(held=16_005)
    guest.run = lambda argv: SimpleNamespace(text="sockets: used 16017\nTCP: inuse 1 orphan 0\n")
    assert anomaly("sockets").taken(guest) == KernelUse(held=16_017)


def test_a_dose_lasts_from_reading_to_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as long as the measurement between them: to read a virtual machine takes time, in which it goes on."""
    clock = iter((100.0, 104.0))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    used = iter((Usage(cpu_s=1.0), Usage(cpu_s=3.0)))
    instance: Any = SimpleNamespace(usage=lambda: next(used), written_bytes=lambda: 0)
    process: Any = SimpleNamespace(alive=lambda: True)
    load = Neighbour(instance, demand_of("stress"), process, lambda: KernelUse())
    dose = load.dose_since(load.reading())
    assert (dose.elapsed_s, dose.cpus) == (4.0, 0.5)


def test_every_role_of_a_chain_has_the_same_filter_of_sources(tmp_path: Path) -> None:
    """A namespace inherits the host's, a virtual machine does not: the kernel would look up each packet in some."""
    testbed = recording_testbed(RecordingHost(), tmp_path)
    specs = [instance_spec(testbed, role) for role in ("source", "function", "sink", NEIGHBOUR)]
    found = [{key: value for key, value in spec.sysctls.items() if "rp_filter" in key} for spec in specs]
    assert found == [{"net.ipv4.conf.all.rp_filter": "0", "net.ipv4.conf.default.rp_filter": "0"}] * 4


def test_what_is_not_yet_on_the_disk_is_written_there(tmp_path: Path) -> None:
    testbed = recording_testbed(host := RecordingHost(), tmp_path)
    testbed.flush()
    assert host.commands == [["sync", "--file-system", str(testbed.scratch_dir)]]


def test_the_controllers_of_version_1_have_a_tree_each_or_share_one(tmp_path: Path) -> None:
    for tree in ("cpu,cpuacct", "cpuset", "memory"):
        (tmp_path / tree).mkdir()
    assert CgroupsV1(tmp_path).missing_controllers() == ["blkio", "pids"]


def refusing(program: str) -> RecordingHost:
    """A host whose kernel refuses what one program asks for."""
    return RecordingHost(lambda argv: answer(code=2, error="Operation not supported") if program in argv else None)


@pytest.mark.parametrize(
    ("name", "program", "lacks"),
    [
        ("none", "nft", "nftables"),
        ("firewall", "nft", "nftables"),
        ("nat", "nft", "NAT"),
        ("dpi", "iptables-nft-restore", "string match"),
    ],
)
@pytest.mark.parametrize("shared", [True, False])
def test_where_a_kernel_lacks_what_a_function_needs_the_remedy_names_the_guest(
    name: str, program: str, lacks: str, shared: bool
) -> None:
    """Not where the instance has a kernel of its own, which no guest replaces."""
    instance: Any = SimpleNamespace(has_nftables=True, shares_kernel=shared, run=refusing(program).run)
    with pytest.raises(CommandFailed) as caught, registry.get("function", name)().installed(instance, PATHS["4"]):
        pass
    assert (caught.value.hint is None) is not shared
    assert not shared or (lacks in str(caught.value.hint) and "--testbed guest" in str(caught.value.hint))


@pytest.mark.parametrize("shared", [True, False])
def test_without_a_token_bucket_the_generator_names_the_guest(shared: bool) -> None:
    testbed = SimpleNamespace(host=refusing("tc"))
    run = testbed.host.run
    sender: Any = SimpleNamespace(testbed=testbed, netns="one", shares_kernel=shared, takes_taps=not shared, run=run)
    with pytest.raises(CommandFailed) as caught:
        Trafgen()._set_bucket(sender, "pace0", Traffic.of("128"), 1000.0)
    assert ("sch_tbf" in str(caught.value.hint)) is ("--testbed guest" in str(caught.value.hint)) is shared


@pytest.mark.parametrize(
    ("name", "program", "lacks"), [("network", "tc", "sch_tbf"), ("conntrack", "nft", "connection tracking")]
)
def test_where_a_kernel_lacks_what_a_neighbour_needs_the_remedy_names_the_guest(
    name: str, program: str, lacks: str, tmp_path: Path
) -> None:
    testbed = recording_testbed(refusing(program), tmp_path)
    neighbour: Any = SimpleNamespace(
        testbed=testbed, spec=InstanceSpec("near", NEIGHBOUR), netns="one", takes_taps=False, starts_on_links=False,
        plug=lambda ports, taps: None,
    )  # fmt: skip
    with pytest.raises(CommandFailed) as caught, anomaly(name).prepared(neighbour):
        pass
    assert lacks in str(caught.value.hint) and "--testbed guest" in str(caught.value.hint)


def test_the_isolation_of_a_neighbour_is_checked_before_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """At its memory limit, the kernel would kill the command that checks, and such trials alone would be invalid."""
    done: list[str] = []

    def started(testbed: Any, spec: InstanceSpec) -> Any:
        return nullcontext(SimpleNamespace(spec=spec))

    def at_work(instance: Any, demand: Demand) -> Any:
        done.append("works")
        return nullcontext(SimpleNamespace(instance=instance))

    def checked(isolations: Any, instances: dict[str, Any]) -> list[str]:
        done.append(f"checked {', '.join(instances)}")
        return ["not in force"]

    part = SimpleNamespace(at_work=at_work, on_chain=False)
    monkeypatch.setattr(on_chain, "demanded", lambda *arguments: (part, demand_of("stress")))
    monkeypatch.setattr(on_chain, "instance_spec", lambda testbed, role: InstanceSpec(name=role, role=role))
    monkeypatch.setattr(on_chain, "bounded", lambda spec, testbed, demand: spec)
    monkeypatch.setattr(on_chain, "not_in_force", checked)
    scenario: Any = object.__new__(ChainScenario)
    scenario._testbed = SimpleNamespace()
    chain: Any = SimpleNamespace(function=SimpleNamespace(tracks=False))
    outcome, config = Outcome(), {"implementation": "kernel", "isolation": "cgroups"}
    monkeypatch.setattr(ChainScenario, "duration_s", classmethod(lambda cls, config: 1.0))
    with scenario._disturbance(config, SimpleNamespace(start=started), lambda spec, _: spec, chain, outcome) as found:
        assert found.neighbour.instance.spec.name == NEIGHBOUR
    assert done == [f"checked {NEIGHBOUR}", "works"] and outcome.invalid_because == ["not in force"]
