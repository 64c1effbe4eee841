"""A host reached by a real sshd: what runs there, what it leaves, and what is said when it cannot be had."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lastro.errors import (
    CommandFailed,
    CommandTimeout,
    ConnectionLost,
    HostError,
    NeedsRoot,
    Unavailable,
    WriteFailed,
)
from lastro.host import ssh as ssh_module
from lastro.host.connections import SshTarget
from lastro.host.ssh import SshHost

from ..support.sshmachine import Machine, machines

pytestmark = pytest.mark.root
TOKEN = "5ca1ab"


@pytest.fixture(scope="module")
def machine(untouched_host: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with machines(tmp_path_factory.mktemp("ssh"), "solo") as (made,):
        yield made


@pytest.fixture
def host(machine: Machine, tmp_path: Path) -> Iterator[SshHost]:
    made = SshHost(machine.target, tmp_path / "s", TOKEN)
    made.connect()
    yield made
    made.close()


def alive(needle: str) -> list[str]:
    """Processes of this machine with a word that only this test uses."""
    lines = subprocess.run(["ps", "-eo", "args="], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in lines if needle in line and not line.startswith("ps ")]


def gone(needle: str, patience_s: float = 5.0) -> bool:
    deadline = time.monotonic() + patience_s
    while alive(needle):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize(
    "word",
    ["plain", "two words", "", "*", "$HOME", "a'b", 'a"b', "back\\slash", "new\nline", "`id`", "é — ü", "-n", "!"],
)
def test_words_arrive_as_they_are(host: SshHost, word: str) -> None:
    assert host.run(["printf", "%s|", word, "end"]).text == f"{word}|end|"


def test_it_runs_in_the_machines_own_namespace_with_a_fixed_environment(host: SshHost, machine: Machine) -> None:
    links = host.run_json(["ip", "-j", "link", "show"])
    assert "management" in {link["ifname"] for link in links}
    environment = dict(line.split("=", 1) for line in host.run(["env"]).text.splitlines())
    assert environment["LASTRO_OWNER"] == TOKEN and environment["LC_ALL"] == "C.UTF-8"
    assert not {"SSH_CONNECTION", "USER", "LANG"} & set(environment)
    assert host.run(["pwd"]).text == "/\n"


@pytest.mark.parametrize("code", [0, 1, 7, 125, 126, 127, 255])
def test_exit_codes_are_the_commands_own_even_255(host: SshHost, code: int) -> None:
    assert host.run(["sh", "-c", f"echo out; echo err >&2; exit {code}"], check=False).returncode == code
    assert host.run(["true"]).returncode == 0


def test_outputs_and_input_are_bytes_and_apart(host: SshHost) -> None:
    data = bytes(range(256)) * 4096
    assert host.run(["cat"], stdin=data).stdout == data
    done = host.run(["sh", "-c", "printf out; printf 'err\\n\\n' >&2"])
    assert (done.stdout, done.stderr) == (b"out", b"err\n\n")
    assert host.run(["cat"]).stdout == b""  # without input it reads nothing, and does not wait


def test_failures_say_what_a_local_one_would(host: SshHost) -> None:
    with pytest.raises(CommandFailed, match=r"exited with 3: nothing here"):
        host.run(["sh", "-c", "echo nothing here >&2; exit 3"])
    with pytest.raises(Unavailable, match="no program 'lastro-nothing'"):
        host.run(["lastro-nothing"])
    with pytest.raises(Unavailable, match="no program 'lastro-nothing'"):
        host.spawn(["lastro-nothing"])
    assert host.run(["sh", "-c", "kill -9 $$"], check=False).returncode == 137


def test_a_command_that_takes_too_long_is_ended_there(host: SshHost) -> None:
    with pytest.raises(CommandTimeout):
        host.run(["sh", "-c", "sleep 4711.25 & sleep 4711.25"], timeout_s=0.5)
    assert gone("4711.25")


def test_a_daemon_that_is_left_keeps_nobody_waiting(host: SshHost) -> None:
    began_s = time.monotonic()
    assert host.run(["sh", "-c", "sleep 3.125 & echo started"]).text == "started\n"
    assert time.monotonic() - began_s < 2.5
    host.view.end_owned(TOKEN)
    assert gone("3.125")


def test_what_is_spawned_streams_has_a_pid_and_is_stopped_there(host: SshHost) -> None:
    process = host.spawn(["sh", "-c", "echo ready; echo note >&2; exec sleep 4712.25"])
    assert process.wait_line("ready", 5) == "ready\n" and process.alive()
    assert isinstance(process, ssh_module.SshProcess)
    deadline_s = time.monotonic() + 5  # it says that it is ready before it becomes sleep
    while not host.read_text(f"/proc/{process.pid}/cmdline").startswith("sleep"):
        assert time.monotonic() < deadline_s
    done = process.stop()
    assert done.returncode == 143 and done.text == "ready\n" and done.error_text == "note\n"
    assert gone("4712.25") and not process.alive()
    ended = host.spawn(["sh", "-c", "echo done; exit 255"])
    with pytest.raises(CommandFailed, match="exited with 255"):
        ended.wait_line("never", 5)


def test_many_at_once_have_more_sessions_than_one_connection_may_carry(host: SshHost) -> None:
    processes = [host.spawn(["sh", "-c", f"echo {number}; exec sleep 60"]) for number in range(18)]
    for number, process in enumerate(processes):
        process.wait_line(f"{number}", 5)
    assert host.run(["echo", "still"]).text == "still\n"
    assert {process.stop().returncode for process in processes} == {143}


def test_files_are_written_read_and_sent(host: SshHost, tmp_path: Path) -> None:
    there = tmp_path / "there"
    host.write_text(f"{there}/deep/it's", "a\nb")
    assert host.read_text(f"{there}/deep/it's") == "a\nb"
    with pytest.raises(FileNotFoundError):
        host.read_text(f"{there}/nothing")
    with pytest.raises(WriteFailed, match=r"File exists|Not a directory"):
        host.write_text(f"{there}/deep/it's/below", "c")
    (tmp_path / "big").write_bytes(bytes(5_000_000))
    host.send(tmp_path / "big", f"{there}/big")
    assert (there / "big").stat().st_size == 5_000_000
    assert host.view.names(f"{there}") == ["big", "deep"] and host.view.directories(str(there)) == ["deep"]
    assert host.which("sh") and host.which("lastro-nothing") is None


def test_its_clock_is_read_against_ours(host: SshHost) -> None:
    sample = host.clock()
    assert abs(sample.guest_s - sample.host_s) <= sample.uncertainty_s + 0.001  # both are this kernel's clock
    assert 0 < sample.uncertainty_s < 1


def test_steps_tell_on_which_host_they_were(host: SshHost, machine: Machine) -> None:
    with host.recorded() as transcript:
        host.run(["true"])
        host.write_text("/dev/null", "x")
        host.spawn(["sleep", "9"]).stop()
    assert [record["kind"] for record in transcript.records] == ["run", "write", "spawn", "stop"]
    assert all(record["ssh"][-1] == machine.address for record in transcript.records)


# What cannot be had


def attempt(target: SshTarget, place: Path) -> HostError:
    with pytest.raises(HostError) as caught:
        SshHost(target, place / "s", TOKEN).connect()
    return caught.value


def test_an_unreachable_host_is_told_as_one(machine: Machine, tmp_path: Path) -> None:
    error = attempt(replace(machine.target, port=2), tmp_path)
    assert "cannot be reached" in error.message and "refused" in error.message and "sshd" in str(error.hint)


def test_a_wrong_key_is_told_as_one(machine: Machine, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "other"], check=True)
    error = attempt(replace(machine.target, identity=str(tmp_path / "other")), tmp_path)
    assert "refuses the key" in error.message and "identity" in str(error.hint)


def test_an_unknown_or_changed_host_key_is_never_trusted(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    error = attempt(replace(machine.target, known_hosts=str(tmp_path / "empty")), tmp_path)
    assert "host key" in error.message and "not known" in error.message
    assert (tmp_path / "empty").read_text() == ""
    place, kind, _ = (machine.home / "known_hosts").read_text().split()
    (tmp_path / "changed").write_text(f"{place} {kind} {(machine.home / 'key.pub').read_text().split()[1]}\n")
    error = attempt(replace(machine.target, known_hosts=str(tmp_path / "changed")), tmp_path)
    assert "host key" in error.message and "has changed" in error.message


def test_a_user_who_is_not_root_needs_sudo(machine: Machine, tmp_path: Path) -> None:
    machine.stop()
    machine.start('ForceCommand setpriv --reuid=65534 --clear-groups sh -c "$SSH_ORIGINAL_COMMAND"')
    try:
        with pytest.raises(NeedsRoot, match="not root"):
            SshHost(machine.target, tmp_path / "s", TOKEN).connect()
    finally:
        machine.stop()
        machine.start()


def test_missing_tools_are_named(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_module, "TOOLS", ("ip", "lastro-nothing"))
    assert "lacks these programs: lastro-nothing" in attempt(machine.target, tmp_path).message


def test_a_lost_connection_is_told_ends_what_was_spawned_and_stays_until_recovered(
    host: SshHost, machine: Machine
) -> None:
    process = host.spawn(["sh", "-c", "echo ready; exec sleep 4713.25"])
    process.wait_line("ready", 5)
    daemon = host.spawn(["sleep", "60"])
    machine.cut()
    assert gone("4713.25")  # nobody here could end it
    with pytest.raises(ConnectionLost, match="was lost"):
        host.run(["true"])
    with pytest.raises(ConnectionLost):  # not anew behind the back of a trial
        host.run(["true"])
    assert process.stop().returncode == 255
    with pytest.raises(HostError, match="is back"):  # a daemon went with it
        host.recover()
    assert host.run(["echo", "again"]).text == "again\n"
    daemon.stop()
