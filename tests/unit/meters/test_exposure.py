"""Which system calls the exposure meter tries, and how it reads what the script inside has said."""

from __future__ import annotations

from pathlib import Path

import pytest

from lastro.errors import InstrumentError, PlatformError
from lastro.host import capabilities
from lastro.host.base import Completed
from lastro.meters import _syscalls
from lastro.meters.exposure import ExposureMeter
from lastro.platforms.base import InstanceSpec
from lastro.platforms.runc import Runc

from ...support.recording import RecordingHost, answer, recording_testbed

MACHINES = ["x86_64", "aarch64"]
# Of these, one with wrong arguments ends, blocks, signals or starts something, or is about the whole host.
HARMFUL = {
    "clone", "clone3", "exit", "exit_group", "fork", "kexec_file_load", "kexec_load", "pause", "reboot",
    "restart_syscall", "rt_sigreturn", "sync", "vfork", "vhangup",
}  # fmt: skip


@pytest.mark.parametrize("machine", MACHINES)
def test_no_call_that_could_do_harm_is_tried(machine: str) -> None:
    tried = {line.split()[1]: line.split()[2:] for line in _syscalls.harmless_calls(machine)}
    assert not HARMFUL & set(tried)
    assert HARMFUL & set(_syscalls.table(machine).values()) <= set(_syscalls.NOT_TRIED)
    for name in ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"):
        target, *_ = tried[name]
        assert target == "S", f"{name} may reach nobody but the caller"
        assert "0" in tried[name], "and with no signal"
    for name in ("msgget", "semget", "shmget"):
        assert tried[name][0] == "K" and set(tried[name][1:]) == {"0"}, f"{name} may make nothing"
    others = [arguments for name, arguments in tried.items() if name not in _syscalls.ARGUMENTS]
    assert all(arguments == ["-1"] * 6 for arguments in others)


@pytest.mark.parametrize(
    ("machine", "known"),
    [
        ("x86_64", {0: "read", 59: "execve", 157: "prctl", 231: "exit_group", 269: "faccessat", 334: "rseq"}),
        ("aarch64", {29: "ioctl", 48: "faccessat", 94: "exit_group", 167: "prctl", 221: "execve", 293: "rseq"}),
    ],
)
def test_numbers_are_those_of_the_kernel(machine: str, known: dict[int, str]) -> None:
    table = _syscalls.table(machine)
    assert {number: table[number] for number in known} == known
    assert (table[424], table[444], table[469]) == ("pidfd_send_signal", "landlock_create_ruleset", "file_setattr")
    assert 335 not in table, "uretprobe ends its caller"
    assert len(set(table.values())) == len(table)


def test_a_number_that_is_in_no_table_is_not_tried() -> None:
    assert _syscalls.table("riscv64") == {}
    for machine in MACHINES:
        assert max(int(line.split()[0]) for line in _syscalls.harmless_calls(machine)) == 469


def test_capabilities_go_by_their_bits() -> None:
    assert capabilities.names(capabilities.mask(["CAP_NET_ADMIN", "CAP_CHOWN"])) == ["CAP_CHOWN", "CAP_NET_ADMIN"]
    assert capabilities.names(0x1FF_FFFF_FFFF) == list(capabilities.NAMES)
    assert capabilities.names(1 << 60) == ["CAP_60"]


SAID = """\
status\tCapEff\t0000000000001000
status\tCapBnd\t0000000000001001
status\tNoNewPrivs\t1
status\tSeccomp\t2
uid_map\t0 0 4294967295
kernel\t6.1.0
hostname\tfunction
label\t
processes\t2
namespace\tpid\tpid:[2]
namespace\ttime\ttime:[3]
writable\t/proc/one
device\tc1:3\t/dev/null\trw
call\tread\t9
call\tmount\t1
call\tuselib\t38
call\tbpf\tsignal 31
call\tpoll\tsignal 14
"""


def metered(tmp_path: Path, said: Completed, machine: str = "x86_64") -> ExposureMeter:
    def answers(argv: object) -> Completed | None:
        words = " ".join(argv)  # type: ignore[call-overload]
        if words.endswith("perl -"):
            return said
        if "uname -m" in words:
            return answer(machine + "\n/usr/bin/perl\n") if said.returncode != 127 else said
        return answer("pid pid:[1]\ntime time:[3]\n") if "readlink" in words else None

    host = RecordingHost(answers)
    host.files |= {"/proc/sys/kernel/osrelease": "6.1.0\n", "/proc/sys/kernel/hostname": "here\n"}
    testbed = recording_testbed(host, tmp_path)
    with Runc().start(testbed, InstanceSpec("one", "function")) as instance:
        meter = ExposureMeter(testbed, {"function": instance})
        meter.start()
        meter.stop()
    return meter


def test_what_the_script_has_said_is_counted(tmp_path: Path) -> None:
    meter = metered(tmp_path, answer(SAID + "done\n"))
    assert meter.read() == {
        "exposure_host_kernel": 1, "exposure_syscalls": 2, "exposure_capabilities": 2, "exposure_writable_proc_sys": 1,
        "exposure_devices": 1, "exposure_shared_namespaces": 1,
    }  # fmt: skip
    assert meter.read().keys() == {metric.name for metric in ExposureMeter.metrics}
    notes = meter.notes()["exposure"]
    assert notes["capabilities"] == {"effective": ["CAP_NET_ADMIN"], "bounding": ["CAP_CHOWN", "CAP_NET_ADMIN"]}
    assert (notes["seccomp"], notes["no_new_privs"], notes["namespaces shared"]) == ("filter", True, ["time"])
    assert notes["kernel"] == {"release": "6.1.0", "host's": True}
    assert notes["host name"] == {"name": "function", "host's": False}
    calls = notes["system calls"]
    assert (calls["tried"], calls["EPERM"], calls["ENOSYS"], calls["SIGSYS"]) == (5, ["mount"], ["uselib"], ["bpf"])
    assert calls["not tried"]["reboot"] == "is about another kernel"


def test_capabilities_in_a_user_namespace_of_its_own_reach_nothing_of_the_host(tmp_path: Path) -> None:
    meter = metered(tmp_path, answer(SAID.replace("0 0 4294967295", "0 1879048192 65536") + "done\n"))
    assert meter.read()["exposure_capabilities"] == 0
    assert meter.notes()["exposure"]["capabilities"]["effective"] == ["CAP_NET_ADMIN"]


def test_a_script_that_cannot_run_or_end_is_told(tmp_path: Path) -> None:
    with pytest.raises(PlatformError, match="found no perl in instance one: exec: perl: not found"):
        metered(tmp_path / "a", answer(code=127, error="exec: perl: not found\n"))
    with pytest.raises(InstrumentError, match="did not finish: fork: no"):
        metered(tmp_path / "b", answer(SAID, code=2, error="fork: no\n"))
    with pytest.raises(InstrumentError, match="no table of the system calls of riscv64"):
        metered(tmp_path / "c", answer(SAID), machine="riscv64")
