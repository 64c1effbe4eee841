"""Provenance: which machine a host is, and the versions of what measures on it."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro import registry
from lastro.app.provenance import machines, version_commands
from lastro.host import facts
from lastro.host.files import LocalFiles
from lastro.host.local import LocalHost

from ...support.campaigns import PROVENANCE
from ...support.recording import RecordingHost, answer

HOSTNAME, MACHINE_ID, BOOT_ID = "/proc/sys/kernel/hostname", "/etc/machine-id", "/proc/sys/kernel/random/boot_id"


def host_with(name: str, machine_id: str | None, boot_id: str = "b") -> RecordingHost:
    host, texts = RecordingHost(), {HOSTNAME: f"{name}\n", MACHINE_ID: machine_id, BOOT_ID: boot_id}

    def read(paths: Sequence[str]) -> dict[str, str]:
        return {path: text for path in paths if (text := texts.get(path)) is not None}

    host.view = SimpleNamespace(read=read)  # type: ignore[assignment]
    return host


def test_a_machine_is_known_by_its_id_and_its_name() -> None:
    ada = facts.fingerprint(host_with("ada", "feedface"))
    assert ada == facts.fingerprint(host_with("ada", "feedface\n", "the next boot"))
    assert "feedface" not in ada and len(ada) == 16
    clones = [host_with("bea", "feedface"), host_with("ada", "0ddba11")]
    assert len({ada, *map(facts.fingerprint, clones)}) == 3, "a copied disk, and a lab where all have one name"
    without_id = [host_with(name, text, boot) for name in "xy" for text in (None, "") for boot in "bc"]
    assert len(set(map(facts.fingerprint, without_id))) == 4


def test_the_facts_of_campaigns_in_tests_are_recorded_under_the_same_names_on_a_host() -> None:
    recorded = facts.collect(LocalHost(), {})
    for chapter in ("host", "kernel", "lastro"):
        assert PROVENANCE[chapter].keys() <= recorded[chapter].keys()


def test_a_testbed_has_the_machines_of_its_roles_and_a_guest_the_one_below() -> None:
    hosts = [host_with("dut", "1"), host_with("client", "2")]
    bed: Any = SimpleNamespace(guest=None, sessions=[SimpleNamespace(host=host) for host in hosts])
    assert machines(bed) == [*map(facts.fingerprint, hosts)]
    bed.guest = {"title": "a guest"}
    assert machines(bed) == [facts.fingerprint(LocalHost())]


class OneProcess:
    """The files of a process with these cgroups, and with this session of its own unless it is None."""

    def __init__(self, groups: str, session: str | None, weights: Sequence[str] = ()) -> None:
        self.texts = {"/proc/self/cgroup": groups}
        if session is not None:
            self.texts |= {"/proc/self/autogroup": session, "/proc/sys/kernel/sched_autogroup_enabled": "1\n"}
        self.weights = weights

    def read(self, paths: Sequence[str]) -> dict[str, str]:
        return {path: self.texts[path] for path in paths if path in self.texts}

    def exists(self, path: str) -> bool:
        return path in self.weights


ROOT_GROUP, SLICE = "0::/\n", "0::/user.slice/session-1.scope\n"


@pytest.mark.parametrize(
    ("process", "nice", "policy", "said"),
    [
        (OneProcess(ROOT_GROUP, None), 0, 0, ""),
        (OneProcess(ROOT_GROUP, None), -5, 0, ""),
        (OneProcess(ROOT_GROUP, None), 19, 0, "nice 19"),
        (OneProcess(ROOT_GROUP, None), 0, 3 | os.SCHED_RESET_ON_FORK, "SCHED_BATCH"),
        (OneProcess(ROOT_GROUP, "/autogroup-7 nice 0\n"), 19, 0, ""),
        (OneProcess(SLICE, "/autogroup-7 nice 11\n"), 0, 0, "nice 11 of its session"),
        (OneProcess(SLICE, "/autogroup-7 nice 11\n", ["/sys/fs/cgroup/user.slice/cpu.weight"]), 0, 0, ""),
        (OneProcess("4:cpu,cpuacct:/user\n0::/\n", "/autogroup-7 nice 11\n"), 0, 0, ""),
        (OneProcess("4:cpu,cpuacct:/\n3:pids:/user\n", "/autogroup-7 nice 11\n"), 0, 0, "nice 11 of its session"),
    ],
)
def test_a_low_priority_of_lastro_itself_is_known(
    monkeypatch: pytest.MonkeyPatch, process: OneProcess, nice: int, policy: int, said: str
) -> None:
    monkeypatch.setattr(facts, "LocalFiles", lambda: process)
    monkeypatch.setattr(os, "getpriority", lambda *_: nice)
    monkeypatch.setattr(os, "sched_getscheduler", lambda _: policy)
    assert facts.low_priority() == said


def test_the_programs_of_a_studys_platforms_are_asked_for_their_versions() -> None:
    levels = ({"platform": "docker:runtime=runsc,storage=vfs"}, {"platform": "podman", "platform.runtime": "kata"})
    found = version_commands([*levels, {"platform": "qemu-tcg", "attachment": "xen"}, {"level": "lxc"}])
    assert found.keys() - facts.TOOLS == {"runsc", "podman", "containerd-shim-kata-v2", "qemu-system-x86_64"}
    assert found["runsc"] == ("runsc", "--version") and facts.TOOLS.items() <= found.items()
    assert {"runsc", "xl", "lxd", "crun", *facts.TOOLS} <= version_commands().keys(), "for `lastro doctor --fleet`"


def test_each_platform_names_the_program_whose_version_it_prints() -> None:
    """The hash would be that of the shell."""
    found = {name: part.cls.version_argv for name, part in registry.parts("platform").items() if part.cls}
    assert facts.program(found["xen"]) == "xl" and facts.program(found["lxd"]) == "lxd"
    assert "sh" not in {facts.program(argv) for argv in found.values() if argv}


def test_a_program_that_is_not_installed_is_not_asked(tmp_path: Path) -> None:
    class Installed(RecordingHost):
        def which(self, program: str) -> str | None:
            return str(place) if (place := tmp_path / program).exists() else None

    host = Installed(lambda argv: answer("Xen 4.17.3\n") if argv[0] == "sh" else answer("crun 1.8\nmore\n"))
    (tmp_path / "crun").write_bytes(b"c")
    commands = {"xl": ("sh", "-c", "xl info", "xl"), "crun": ("crun", "--version")}
    crun = {"version": "crun 1.8", "path": str(tmp_path / "crun"), "sha256": hashlib.sha256(b"c").hexdigest()}
    assert facts.tools(host, commands) == {"crun": crun} and host.commands == [["crun", "--version"]]
    (tmp_path / "xl").write_bytes(b"x")
    found = facts.tools(host, commands)
    assert found["crun"] == crun and found["xl"]["version"] == "Xen 4.17.3"
    assert found["xl"]["sha256"] == hashlib.sha256(b"x").hexdigest()


CPUINFO = {
    "x86": "processor\t: 0\nmodel name\t: AMD EPYC\nmicrocode\t: 0x1\nflags\t: fpu hypervisor\n\nprocessor\t: 1\n",
    "arm": "processor\t: 0\nCPU implementer\t: 0x41\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\n",
    "power": "processor\t: 0\ncpu\t\t: POWER9, altivec supported\n",
    "none": "",
}


def files(**texts: str) -> RecordingHost:
    host = RecordingHost()
    paths = {"os": facts._OS, "cpus": facts._CPUS, "memory": facts._MEMORY, "arch": facts._ARCHITECTURE}
    return reading({paths[name]: text for name, text in texts.items()}, host)


def reading(known: dict[str, str], host: RecordingHost | None = None) -> RecordingHost:
    """A host with these files alone."""
    host = host or RecordingHost()
    host.view = SimpleNamespace(  # type: ignore[assignment]
        read=lambda wanted: {path: known[path] for path in wanted if path in known},
        names=lambda place: sorted(
            {path.removeprefix(f"{place}/").split("/")[0] for path in known if path.startswith(place)}
        ),
    )
    return host


CPUS = "/sys/devices/system/cpu"


def policies(*governors: tuple[str, str]) -> dict[str, str]:
    """Return the files of cpufreq for (affected CPUs, governor) of each policy, named by its first CPU."""
    places = {f"{CPUS}/cpufreq/policy{cpus.split()[0]}": (cpus, governor) for cpus, governor in governors}
    return {
        f"{place}/{name}": f"{text}\n"
        for place, texts in places.items()
        for name, text in zip(("affected_cpus", "scaling_governor"), texts, strict=True)
    }


@pytest.mark.parametrize(
    ("files_of_cpus", "governor", "boost", "smt"),
    [
        (policies(("0", "performance"), ("1", "performance")), "performance", "", ""),
        (
            policies(("0 1", "powersave"), ("10", "performance"), ("2", "performance"))
            | {f"{CPUS}/cpufreq/boost": "0\n", f"{CPUS}/smt/control": "on\n"},
            "powersave (CPUs 0 1), performance (CPUs 2 10)", "off", "on",
        ),
        ({f"{CPUS}/intel_pstate/no_turbo": "0\n", f"{CPUS}/smt/control": "off\n"}, "unknown (no cpufreq)", "on", "off"),
        (policies(("0", "")), "unknown (no cpufreq)", "", ""),
    ],
)  # fmt: skip
def test_what_decides_how_fast_any_cpu_runs_is_recorded(
    files_of_cpus: dict[str, str], governor: str, boost: str, smt: str
) -> None:
    found = facts.machine(reading(files_of_cpus))["host"]
    assert (found["governor"], found["boost"], found["smt"]) == (governor, boost, smt)


def test_the_model_of_a_cpu_is_that_of_the_host_and_never_of_the_controller() -> None:
    models = {
        name: facts.machine(files(cpus=text, arch="riscv64"))["host"]["cpu_model"] for name, text in CPUINFO.items()
    }
    assert models == {
        "x86": "AMD EPYC", "arm": "ARM implementer 0x41, part 0xd0c, variant 0x3",
        "power": "POWER9, altivec supported", "none": "riscv64",
    }  # fmt: skip
    assert facts.machine(files())["host"]["cpu_model"] == "unknown"


def test_a_fact_that_cannot_be_read_stops_nothing_and_is_named() -> None:
    found = facts.machine(files(os="ID=joes\nPRETTY_NAME=Joe's Linux 1\n", memory="MemTotal: many kB\n"))
    assert found["host"]["distribution"] == "" and found["host"]["memory_bytes"] == 0
    assert found["not_read"].keys() == {"distribution", "memory"}
    assert found["not_read"]["distribution"] == "/etc/os-release: No closing quotation"
    assert "not_read" not in facts.machine(files(os='PRETTY_NAME="Debian GNU/Linux 12"\n'))


def test_no_contents_of_a_file_of_facts_is_a_traceback() -> None:
    for text in ("=", ":", "'", '"', "\\", 'PRETTY_NAME="', "a: b c\n" * 3, "\n\n\n", "processor", "MemTotal: 1 2\0 3"):
        facts.machine(files(os=text, cpus=text, memory=text, arch=text))


@pytest.mark.parametrize(("number", "is_absent"), [(errno.ENOENT, True), (errno.EINVAL, True), (errno.EMFILE, False)])
def test_no_fact_is_absent_because_lastro_may_open_no_more_files(
    monkeypatch: pytest.MonkeyPatch, number: int, is_absent: bool
) -> None:
    """A memory of 0 GiB was recorded, and `resume` then refused to continue on a host that had changed."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, "refused")

    monkeypatch.setattr(Path, "read_text", refuse)
    monkeypatch.setattr(Path, "iterdir", refuse)
    files = LocalFiles()
    if is_absent:
        assert files.read(["/proc/meminfo"]) == {} and files.names("/sys") == []
        return
    for look in (lambda: files.read(["/proc/meminfo"]), lambda: files.names("/sys")):
        with pytest.raises(OSError, match="refused"):
            look()
