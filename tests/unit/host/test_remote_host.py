"""What is said to a remote host and how it is held, with a shell of this machine in the place of ssh."""

from __future__ import annotations

import resource
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from lastro.errors import CommandFailed, ConnectionLost, HostBusy, HostError, HostUnfit, WriteFailed
from lastro.host import _remote_shell, facts, remote, ssh
from lastro.host._remote_files import RemoteFiles
from lastro.host._remote_shell import Query, Shell
from lastro.host.connections import SshTarget
from lastro.host.files import LocalFiles
from lastro.host.ledger import HOST_LOCK, Ledger, OwnedObject
from lastro.host.local import LocalHost
from lastro.host.lock import LockHolder
from lastro.host.ssh import SshHost
from lastro.platforms._gate import Gate, measure_argv
from lastro.validity import clock_reasons, drift

from ...cli.conftest import until

pytestmark = pytest.mark.processes

HERE = ("sh", "-c")


class Here:
    """Connections that lead to this machine: `shell` is what a login would start."""

    def __init__(self, shell: tuple[str, ...] = HERE) -> None:
        self.shell = shell

    def acquire(self) -> tuple[Path, list[str]]:
        return Path("none"), [*self.shell]

    def release(self, socket: Path) -> None:
        pass

    @contextmanager
    def channel(self) -> Iterator[list[str]]:
        yield [*self.shell]

    def open(self) -> None:
        pass

    close = open


@contextmanager
def host_of(place: Path, token: str, shell: tuple[str, ...] = HERE, state: str = "there") -> Iterator[SshHost]:
    host = SshHost(SshTarget("198.18.0.1", state=str(place / state), run=str(place / "run")), place / "s", token)
    host._connections = Here(shell)  # type: ignore[assignment]
    try:
        yield host
    finally:
        host.close()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(tmp_path / "ledger")
    yield made
    made.close()


# Who holds a host


def holder(host: SshHost, token: str) -> int:
    deadline_s = time.monotonic() + 5
    while len(pids := host.view.owned_pids(f"holder-{token}")) != 1:  # it has just told, and is about to be a sleep
        assert time.monotonic() < deadline_s, pids
    return pids.pop()


def refused(host: SshHost, ledger: Ledger, token: str, told: str) -> None:
    with pytest.raises(HostBusy, match=told) as caught, remote._hold(host, ledger, token, "another", wait=None):
        pass
    assert caught.value.machine == facts.fingerprint(LocalHost()), "which is where this ssh leads to"


def test_a_host_is_held_anew_when_sshd_has_not_seen_the_loss(tmp_path: Path, ledger: Ledger) -> None:
    with host_of(tmp_path, "5ca1a0") as host, remote._hold(host, ledger, "5ca1a0", "tests", wait=None):
        first = holder(host, "5ca1a0")
        host.on_reconnect()  # as `recover` does; the first one is still there, as its connection seems to be
        second = holder(host, "5ca1a0")
        assert first != second
        with closing(Ledger(tmp_path / "of another")) as elsewhere, host_of(tmp_path, "5ca1a1") as other:
            refused(other, elsewhere, "5ca1a1", "in use by tests")
        assert holder(host, "5ca1a0") == second
    assert not ledger.objects(remote._HOLDERS)


def test_a_holder_that_was_killed_has_ended(tmp_path: Path, ledger: Ledger) -> None:
    with host_of(tmp_path, "5ca1a0") as host, remote._hold(host, ledger, "5ca1a0", "tests", wait=None):
        assert [owned.name for owned in ledger.objects(remote._HOLDERS)] == ["holder-5ca1a0"]
        assert holder(host, "5ca1a0") in host.view.end_owned("holder-5ca1a0")
    assert not ledger.objects(remote._HOLDERS)


def test_two_state_directories_are_still_one_host(tmp_path: Path, ledger: Ledger) -> None:
    """And a Lastro that runs on that host holds the same lock."""
    assert Path(f"{SshTarget('').run}-host") == HOST_LOCK
    with closing(Ledger(tmp_path / "of another")) as elsewhere, host_of(tmp_path, "5ca1a0", state="elsewhere") as other:
        with host_of(tmp_path, "5ca1a1") as host, remote._hold(host, ledger, "5ca1a1", "tests", wait=None):
            refused(other, elsewhere, "5ca1a0", "in use by tests")
        with remote._hold(other, elsewhere, "5ca1a0", "another", wait=None):
            assert (tmp_path / "run-host" / "lock").read_text() == "another"
        for place in ("there", "elsewhere", "run-host"):
            assert (tmp_path / place / "lock").stat().st_mode & 0o777 == 0o600


def test_who_waits_is_told_at_once_for_whom(tmp_path: Path, ledger: Ledger) -> None:
    told, entered = list[str](), threading.Event()

    def tell(who: LockHolder | None, ahead: int) -> None:
        told.append(who.text if who else "nobody")

    with ExitStack() as held:
        elsewhere = held.enter_context(closing(Ledger(tmp_path / "of another")))
        one, other = (held.enter_context(host_of(tmp_path, token)) for token in ("5ca1a5", "5ca1a6"))
        first = held.enter_context(ExitStack())
        first.enter_context(remote._hold(one, ledger, "5ca1a5", "the first", None))

        def wait() -> None:
            with remote._hold(other, elsewhere, "5ca1a6", "the second", tell):
                entered.set()

        waiting = threading.Thread(target=wait)
        waiting.start()
        try:
            deadline_s = time.monotonic() + 5
            while told != ["the first"]:
                assert time.monotonic() < deadline_s, told
                time.sleep(0.02)
            assert not entered.wait(0.3)
            first.close()
            assert entered.wait(5)
        finally:
            first.close()
            waiting.join(10)


def test_what_a_dead_session_holds_is_freed_and_what_a_live_one_holds_is_not(tmp_path: Path, ledger: Ledger) -> None:
    with host_of(tmp_path, "5ca1a2") as host, remote._hold(host, ledger, "5ca1a2", "the first", wait=None):
        ledger.open_session("5ca1a2", "the first")
        with host_of(tmp_path, "5ca1a3") as other:
            refused(other, ledger, "5ca1a3", "in use by the first")
            assert holder(other, "5ca1a2")
            ledger.close_session("5ca1a2")  # as of a machine that lost its power, and sshd there knows nothing of it
            with remote._hold(other, ledger, "5ca1a3", "the second", wait=None):
                assert not host.view.owned_pids("holder-5ca1a2")
                assert (tmp_path / "there" / "lock").read_text() == "the second"


def test_a_busy_host_keeps_no_other_from_being_cleaned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c", "d"):
        with_one = Ledger(tmp_path / "hosts" / name)
        with_one.open_session("5ca1a4", "killed")
        with_one._db.execute("UPDATE session SET started = 1")
        with_one.add("5ca1a4", "netns", "lastro-5ca1a4-dut")
        with_one.close()
        (tmp_path / "hosts" / name / "reach.json").write_text(f'{{"address": "{name}"}}')
    errors = {"a": HostBusy("a is in use by another"), "b": ConnectionLost("b", "gone"), "c": HostError("c is away")}
    tried = []

    def cleaned(target: SshTarget, ledger: Ledger) -> list[OwnedObject]:
        tried.append(target.name)
        if target.name in errors:
            raise errors[target.name]
        return []

    monkeypatch.setattr(remote, "_clean_host", cleaned)
    with pytest.raises(HostError, match=r"a is in use by another \(objects left there: 1\).*b was lost.*c is away"):
        remote.clean(tmp_path)
    assert tried == ["a", "b", "c", "d"]
    del errors["b"], errors["c"]
    with pytest.raises(HostBusy):
        remote.clean(tmp_path)


# What is said


def test_a_login_may_greet(tmp_path: Path) -> None:
    greeting = ("sh", "-c", r'printf "welcome\nto this"; eval "$0"')
    with host_of(tmp_path, "5ca1a5", greeting) as host:
        process = host.spawn(["echo", "ready"])
        assert process.wait_line("", 10) == "ready\n"
        until = time.monotonic() + 10
        while process.alive() and time.monotonic() < until:  # or it would be stopped
            time.sleep(0.01)
        assert process.stop().returncode == 0
        assert host.run(["echo", "said"]).text == "said\n"


def test_a_login_that_says_nothing_more_is_a_loss(tmp_path: Path) -> None:
    closing_door = ("sh", "-c", "echo welcome; echo closed >&2; exit 255")
    with host_of(tmp_path, "5ca1a6", closing_door) as host, pytest.raises(ConnectionLost, match="closed"):
        host.spawn(["echo", "ready"])


def test_a_login_that_does_not_get_to_its_shell_is_a_loss_that_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_remote_shell, "_START_S", 0.1)
    with (
        host_of(tmp_path, "5ca1a7", ("sh", "-c", "sleep 5")) as host,
        pytest.raises(
            ConnectionLost, match=r"did not start within 0\.1 s; start-up files, such as ~/\.bashrc, delay it"
        ),
    ):
        host.run(["echo", "ready"])


def test_a_fed_command_reads_there_what_it_is_sent(tmp_path: Path) -> None:
    """By a pipe in memory that has no name as soon as the command has opened it."""
    with host_of(tmp_path, "5ca1b0") as host:
        process = host.spawn(["sh", "-c", "echo up; cat; echo end; echo aside >&2; exit 4"], fed=True, whole=True)
        assert process.wait_line("up", 10) == "up\n"
        assert isinstance(process, ssh.SshProcess)
        until(lambda: not Path(f"/dev/shm/lastro-{process._nonce}").exists(), "the pipe to lose its name", 10)
        for word in ("one", "two words"):
            process.send(word)
            assert process.wait_line(word, 10) == f"{word}\n"
        assert not process.ended_within(0.1)
        process.send("three")
        process.wait_line("three", 10)
        done = process.stop()
        assert done.stdin == b"one\ntwo words\nthree\n" and done.text.startswith("up\none\ntwo words\nthree\n")
        (record,) = host.transcript.records
        assert (record["kind"], record["stdin"]) == ("run", done.stdin.decode()) and record["ssh"]


def test_a_fed_command_that_ends_says_so(tmp_path: Path) -> None:
    with host_of(tmp_path, "5ca1b1") as host:
        process = host.spawn(["sh", "-c", "read -r word; echo got $word; echo aside >&2; exit 4"], fed=True)
        process.send("it")
        assert process.ended_within(10)
        done = process.stop()
        assert (done.returncode, done.text, done.error_text) == (4, "got it\n", "aside\n")
        gone = host.spawn(["sh", "-c", "echo broken >&2; exit 5"], fed=True)
        gone.send("it")
        with pytest.raises(CommandFailed, match="exited with 5: broken"):
            gone.wait_line("it", 10)


def test_a_command_is_measured_on_a_remote_host(tmp_path: Path) -> None:
    with host_of(tmp_path, "5ca1b2") as host:
        argv = ["sh", "-c", "echo told; echo aside >&2; sleep 0.2; exit 3"]
        gate = Gate(host.spawn(measure_argv(f"{tmp_path}/one", argv), fed=True), argv)
        with gate.running():
            assert 0 < gate.exchange() < 10
            gate.run(10)
            assert (tmp_path / "one.out").read_text() == "told\n"
            gate.release_output()
        done = gate.result.done
        assert (done.returncode, done.text, done.error_text) == (3, "told\n", "aside\n")
        assert 0.2 <= done.duration_s < 10


# A shell


@pytest.fixture
def shell() -> Iterator[Shell]:
    with closing(Shell(["sh"], lambda: None)) as opened:
        yield opened


def test_a_shell_runs_what_it_is_given_and_nothing_else(shell: Shell) -> None:
    odd = "a 'b' \"c\" $d \n%s\\"
    environment = {"HOME": "/nonexistent", "PATH": "/usr/bin:/bin", "ODD": odd}
    answer = shell.run(["sh", "-c", 'printf %s "$1" >&2; env -0; exit 7', "sh", odd], None, 10, environment)
    assert (answer.returncode, answer.stderr.decode()) == (7, odd)
    found = dict(line.split("=", 1) for line in answer.stdout.decode().split("\0") if line)
    assert {name: value for name, value in found.items() if name != "PWD"} == environment
    assert shell.run(["sh", "-c", "pwd; umask"], None, 10).stdout == b"/\n0022\n"
    for stdin in (b"", b"\0\xff\n" * 200_000):
        assert shell.run(["cat"], stdin, 30).stdout == stdin
        assert shell.run(["sh", "-c", "exit 3"], stdin, 10).returncode == 3  # without reading it
    assert shell.run(["cat"], None, 10).stdout == b""


def test_a_shell_says_how_a_command_ended(shell: Shell) -> None:
    there = {"PATH": "/usr/bin:/bin"}
    absent = shell.run(["nowhere-to-be-found"], None, 10, there)
    assert absent.returncode == 127 and absent.stderr.startswith(b"env: ") and b"nowhere-to-be-found" in absent.stderr
    assert shell.run(["/etc"], None, 10, there).returncode == 126
    assert shell.run(["sh", "-c", "kill -TERM $$"], None, 10).returncode == 128 + 15
    late = shell.run(["sh", "-c", "echo begun; sleep 30 & sleep 30"], None, 0.3)
    assert (late.returncode, late.stdout) == (137, b"begun\n") and late.duration_s >= 0.3
    begun = time.monotonic()
    assert shell.run(["sh", "-c", "sleep 3 & echo $!"], None, 10).returncode == 0  # what it leaves delays no answer
    assert time.monotonic() - begun < 2.5


BURN = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done"


def test_an_answer_says_when_the_work_was_and_what_cpu_time_it_took(shell: Shell) -> None:
    before = shell.run(["sh", "-c", ":"], None, 10)
    spent, began_s = shell.spent, time.monotonic()
    answer = shell.run(["sh", "-c", f"sleep 0.3; {BURN}"], None, 30)
    work_s = answer.work_ended_s - answer.work_began_s
    assert 0.28 < work_s <= answer.duration_s + 0.02 and 0 <= answer.exchange.one_way_s < 1
    assert before.work_ended_s <= answer.work_began_s
    assert began_s < answer.work_began_s < answer.work_ended_s < time.monotonic(), "on the monotonic clock"
    commands_s = shell.spent.commands_s - spent.commands_s
    assert 0.01 < commands_s < work_s and shell.spent.commands_user_s - spent.commands_user_s <= commands_s + 0.01
    assert 0 <= shell.spent.own_s - spent.own_s < commands_s


def test_what_a_daemon_writes_later_shifts_no_answer(shell: Shell) -> None:
    """Its output grows between the moment when it is measured and the one when it is sent, and after that."""
    daemon = "while sleep 0.001; do echo later; echo later >&2; done & echo $!"
    pid = shell.run(["sh", "-c", f"{daemon}; sleep 0.05"], None, 10).stdout.split()[0].decode()
    try:
        for n in range(10):
            answer = shell.run(["sh", "-c", f"echo {n}; echo error >&2"], None, 10)
            assert (answer.returncode, answer.stdout, answer.stderr) == (0, f"{n}\n".encode(), b"error\n")
    finally:
        shell.run(["sh", "-c", f"kill {pid}"], None, 10)


def asked(shell: Shell, query: str | Query, words: Sequence[str]) -> str:
    assert isinstance(query, Query)
    answer = shell.ask(query, words, None, 10)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.decode()


def test_files_are_the_same_in_both_languages(shell: Shell, tmp_path: Path) -> None:
    view, place = RemoteFiles(lambda query, words: asked(shell, query, words)), tmp_path / "files"
    paths = [str(place / name) for name in ("empty", "bytes", "folder", "absent")]
    for deep in ("folder/a/b", "folder/c", "full/d"):
        (place / deep).mkdir(parents=True)
    (place / "empty").touch()
    (place / "bytes").write_bytes(b"\n\xffa\n")
    (place / "full/file").touch()
    (place / "full/d/elsewhere").symlink_to(place / "folder")
    assert view.read([*paths, "/proc/self/mountinfo"]).keys() == {*paths[:2], "/proc/self/mountinfo"}
    assert view.read(paths) == {paths[0]: "", paths[1]: "\n\ufffda\n"}
    assert [view.exists(path) for path in paths] == [True, True, True, False]
    (place / "full/cgroup.procs").write_text("4\n7\n")
    assert view.pids_below([str(place), paths[3]]) == {4, 7}
    assert view.remove_empty([str(place / "full")]).keys() == {str(place / "full")} and (place / "folder/a/b").is_dir()
    assert view.remove_empty([str(place / "folder")], below=False) and (place / "folder/a/b").is_dir()
    assert view.remove_empty([paths[2], paths[3]]) == {} and not (place / "folder").exists()
    new = str(place / "made/here")
    assert shell.ask(ssh._WRITE, [new], b"text\n", 10).returncode == 0 and Path(new).read_bytes() == b"text\n"
    refused = shell.ask(ssh._WRITE, [str(place)], b"text", 10)
    assert refused.returncode != 0 and refused.stderr.strip().endswith(b": Is a directory")


def test_threads_of_a_session_are_those_that_this_machine_sees(shell: Shell, tmp_path: Path) -> None:
    """Those with its mark and those in its groups, but for those in groups that are apart."""
    with ExitStack() as ends:

        def sleeping(mark: str, group: str = "") -> int:
            variables = {"PATH": "/usr/bin:/bin", "LASTRO_OWNER": mark}
            process = ends.enter_context(subprocess.Popen(["sleep", "60"], env=variables))
            ends.callback(process.kill)
            if group:
                (tmp_path / group).mkdir(parents=True, exist_ok=True)
                with (tmp_path / group / "cgroup.procs").open("a") as file:
                    file.write(f"{process.pid}\n")
            return process.pid

        marked, grouped = sleeping("5ca1b3"), sleeping("", "session/deep")
        sleeping("5ca1b4")
        for group in ("session/instance", "session/instance/payload", "elsewhere"):
            sleeping("5ca1b3", group)
        groups = [str(tmp_path / "session"), str(tmp_path / "none")]
        apart = [str(tmp_path / "session/instance"), str(tmp_path / "elsewhere")]
        deadline_s = time.monotonic() + 5
        while not {marked, grouped} <= (here := LocalFiles().threads("5ca1b3", groups, apart)).keys():
            assert time.monotonic() < deadline_s, "a process has its mark when it has become sleep"
        time.sleep(0.2)
        here = LocalFiles().threads("5ca1b3", groups, apart)

        def ask(script: str | Query, words: Sequence[str]) -> str:
            return shell.run(["sh", "-c", str(script), "lastro", *words], None, 10).stdout.decode()

        there = RemoteFiles(ask).threads("5ca1b3", groups, apart)
        assert there == {thread: here[thread] for thread in (marked, grouped)}
        assert here.keys() - there.keys() == {int(each.name) for each in Path("/proc/self/task").iterdir()}
        assert all(ran_ns > 0 and waits > 0 for ran_ns, waits in there.values())


def test_files_are_read_at_a_moment_with_what_lastro_has_spent_there(tmp_path: Path) -> None:
    with host_of(tmp_path, "5ca1b8") as host:
        host.be_ready(3)
        assert len(host._shells._idle) == 3
        before, began_s = host.glance(["/proc/uptime", "/nowhere"]), time.monotonic()
        host.run(["sh", "-c", BURN])
        after = host.glance(["/proc/uptime", "/nowhere"])
        assert before.texts.keys() == after.texts.keys() == {"/proc/uptime"}
        assert before.at_s < began_s < after.at_s < time.monotonic()
        assert after.spent.commands_s > before.spent.commands_s + 0.01
        assert after.spent.own_s >= before.spent.own_s >= 0
        host.close()
        assert host.glance().spent.commands_s >= after.spent.commands_s, "what was closed has been spent"


def test_the_servers_of_a_connection_are_lastros_own(tmp_path: Path) -> None:
    """A shell below a process of the name of sshd, which takes CPU time, and that of its own alone."""
    (tmp_path / "sshd").symlink_to(str(shutil.which("sh")))
    login = (str(tmp_path / "sshd"), "-c", f'{BURN}; sh -c "$0"; :')
    with host_of(tmp_path, "5ca1b9", login) as host:
        host.run(["true"])
        assert len(host._shells.servers) == 1
        assert host.glance().spent.own_s > host._shells.spent.own_s + 0.01


# A shell of Perl, on hosts that lack something


def perl(setup: str) -> Shell:
    return Shell(["sh", "-c", f"{setup}; exec sh"], lambda: None)


def test_a_file_that_is_written_in_part_is_an_error(tmp_path: Path) -> None:
    with closing(perl("trap '' XFSZ; ulimit -f 1")) as shell:
        answer = shell.ask(ssh._WRITE, [str(tmp_path / "big")], b"x" * 5000, 10)
        assert answer.returncode == 1 and answer.stderr.endswith(b"big: File too large\n")


def test_a_foreign_locale_changes_neither_messages_nor_bytes() -> None:
    with closing(perl("export LC_ALL=xx_XX.UTF-8 PERL_UNICODE=SDA")) as shell:
        assert shell.run(["cat"], b"\xff\xc3\xa9\0", 10).stdout == b"\xff\xc3\xa9\0"
        assert b"PERL" not in shell.run(["sh", "-c", "unset PERL_UNICODE; env"], None, 10).stdout
        assert shell._err.content() == b""


@pytest.mark.parametrize("broken", [None, "#!/bin/sh\necho no libraries >&2; exit 127\n"])
def test_a_host_without_a_perl_that_works_is_one_error(
    broken: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for program in ("env", "sh"):
        (tmp_path / program).symlink_to(str(shutil.which(program)))
    if broken:
        (tmp_path / "perl").write_text(broken)
        (tmp_path / "perl").chmod(0o755)
    monkeypatch.setitem(ssh.ENVIRONMENT, "PATH", f"{tmp_path}:/nonexistent")
    with host_of(tmp_path, "5ca1a7") as host, pytest.raises(HostUnfit, match=r"198\.18\.0\.1 has no Perl") as raised:
        host.run(["true"])
    assert raised.value.hint == "install perl-base there"


@pytest.mark.parametrize(
    ("line", "other", "told", "remedy"),
    [
        ("'/dev/shm', '/tmp'", "'/nowhere'", "no file can be made in /dev/shm or /tmp", "mount -t tmpfs"),
        ("$Config{archname} =~", "'vax-netbsd' =~", "cannot read the clock", "x86-64"),
    ],
)
def test_a_host_that_cannot_run_the_shell_is_one_error(
    line: str, other: str, told: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one whose /dev/shm and /tmp are read-only, or full; or one with another processor."""
    text = _remote_shell._PERL.read_text()
    assert line in text
    (tmp_path / "shell.pl").write_text(text.replace(line, other))
    monkeypatch.setattr(_remote_shell, "_PERL", tmp_path / "shell.pl")
    with host_of(tmp_path, "5ca1a7") as host, pytest.raises(HostUnfit, match=told) as raised:
        host.run(["true"])
    assert raised.value.hint is not None and remedy in raised.value.hint


def test_the_shell_needs_no_module_but_those_of_perl_base() -> None:
    """Which Debian always has; Time::HiRes is not among them."""
    base = [path for path in subprocess.run(["dpkg", "-L", "perl-base"], capture_output=True, text=True, check=True)
            .stdout.split() if path.endswith((".pm", ".pl"))]  # fmt: skip
    loaded = "print STDERR join qq(\\n), values %INC; exit"
    text = _remote_shell._PERL.read_text().replace("while (defined(my $line", f"{loaded}; while (defined(my $line")
    found = subprocess.run(["perl", "-e", text, "ready"], capture_output=True, text=True, check=True)
    assert found.stderr and set(found.stderr.split()) <= {*base}


def test_a_host_without_free_files_or_processes_refuses_a_command_and_goes_on() -> None:
    with closing(perl(":")) as shell:
        for limit, code in ((7, 126), (100, 0)):  # a command needs eight
            resource.prlimit(shell._process.pid, resource.RLIMIT_NOFILE, (limit, 100))
            answer = shell.run(["cat"], b"text", 10)
            assert answer.returncode == code and (b"Too many open files" in answer.stderr) == (code == 126)


def test_a_command_that_cannot_be_killed_delays_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one in uninterruptible sleep, on a disk that is gone; here the shell has no SIGKILL."""
    text = _remote_shell._PERL.read_text().replace("$patience = 5", "$patience = 0.05")
    (tmp_path / "shell.pl").write_text(text.replace("kill 'KILL', -$pid", "kill 0"))
    monkeypatch.setattr(_remote_shell, "_PERL", tmp_path / "shell.pl")
    with closing(perl(":")) as shell:
        late = shell.run(["sleep", "1"], None, 0.05)
        assert late.returncode == 137 and late.duration_s < 0.9
        assert shell.run(["echo", "said"], None, 10).stdout == b"said\n"


# What is sent


def test_a_file_that_takes_too_long_is_a_loss_and_nothing_of_it_stays(tmp_path: Path) -> None:
    file, there = tmp_path / "file", tmp_path / "there" / "file"
    file.write_bytes(bytes(100_000))
    cut = ("sh", "-c", 'head -c 5000 | eval "$0"')  # the rest never comes, and that looks like an end
    with host_of(tmp_path, "5ca1a7", cut) as host:
        with pytest.raises(WriteFailed, match="the copy is incomplete"):
            host.send(file, str(there))
        assert list(there.parent.iterdir()) == []
    with host_of(tmp_path, "5ca1a8", ("sh", "-c", "exec sleep 5")) as host:
        began_s = time.monotonic()
        with pytest.raises(ConnectionLost, match=r"file was not copied within 0\.2 s"):
            host.send(file, str(there), timeout_s=0.2)
        assert time.monotonic() - began_s < 4
    with host_of(tmp_path, "5ca1a9") as host:
        host.send(file, str(there))
        assert [each.name for each in there.parent.iterdir()] == ["file"] and there.stat().st_size == 100_000


def test_groups_are_ended_there_as_wholes_and_by_what_they_list(shell: Shell, tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as inside, subprocess.Popen(["sleep", "60"]) as outside:
        (tmp_path / "whole").mkdir()
        (tmp_path / "whole/cgroup.kill").touch()
        (tmp_path / "old/below").mkdir(parents=True)
        (tmp_path / "old/below/cgroup.procs").write_text(f"0\n{inside.pid}\n")  # the first is in another PID namespace
        view = RemoteFiles(lambda query, words: asked(shell, query, words))
        view.end_below([str(tmp_path / name) for name in ("whole", "old", "gone")])
        assert inside.wait(10) == -9 and outside.poll() is None
        assert (tmp_path / "whole/cgroup.kill").read_text() == "1\n"
        outside.kill()


# Clocks


def test_the_clocks_of_a_host_are_read_and_are_not_a_step(tmp_path: Path) -> None:
    with host_of(tmp_path, "5ca1a8") as host, host.recorded() as transcript:
        before = host.clock()
        time.sleep(0.5)
        after = host.clock()
    assert not transcript.records
    assert clock_reasons(before.reading, after.reading) == []
    found = drift(before, after)  # both clocks are those of this kernel
    assert abs(found.ratio - 1) <= found.uncertainty + 0.001
    assert abs(after.guest_real_s - time.time()) < 60
