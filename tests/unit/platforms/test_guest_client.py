"""The guest's agent and its client, for real but without a machine: the line between them is a socket pair or a pty."""

from __future__ import annotations

import hashlib
import lzma
import os
import pty
import select
import shutil
import socket
import struct
import subprocess
import threading
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import lastro.image.guest as guest
from lastro.host.local import LocalHost
from lastro.platforms import _guest_client
from lastro.platforms._gate import Gate, measure_argv
from lastro.platforms._machine import CLIENT, most_precise_sample
from lastro.validity import ClockSample, drift

from ...support.products import one_of

AGENT = Path(guest.__file__).with_name("guest_agent.pl")
SYNC = b"\xf5\x9a\x5c\x01"
MIB = 1 << 20

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(shutil.which("perl") is None, reason="the agent is a Perl script"),
]


class Line:
    """Stands for a monitor: a Unix socket that takes one client at a time, relayed to an agent's port."""

    def __init__(self, path: Path, far_end: int) -> None:
        self.far_end = far_end
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen(1)
        threading.Thread(target=self._serve, daemon=True).start()

    def noise(self, data: bytes) -> None:
        _write_all(self.far_end, data)

    def close(self) -> None:
        self._server.close()
        os.close(self.far_end)

    def _serve(self) -> None:
        with suppress(OSError, ValueError):
            while True:
                client, _ = self._server.accept()
                with client, suppress(ConnectionError):
                    self._relay(client)

    def _relay(self, client: socket.socket) -> None:
        client.setblocking(False)
        os.set_blocking(self.far_end, False)
        to_agent, to_client = b"", b""
        while True:
            readers = [fd for fd, waiting in ((client, to_agent), (self.far_end, to_client)) if not waiting]
            writers = [fd for fd, waiting in ((self.far_end, to_agent), (client, to_client)) if waiting]
            readable, writable, _ = select.select(readers, writers, [])
            if client in readable and not (to_agent := client.recv(65536)):
                return
            if self.far_end in readable:
                to_client = os.read(self.far_end, 65536)
            if self.far_end in writable:
                to_agent = to_agent[os.write(self.far_end, to_agent) :]
            if client in writable:
                to_client = to_client[client.send(to_client) :]


def _write_all(fd: int, data: bytes) -> None:
    while data:
        select.select([], [fd], [])
        data = data[os.write(fd, data) :]


class Channel:
    """An agent that serves some lines, and its client."""

    def __init__(self, directory: Path, ports: int, kind: str) -> None:
        self.directory = directory
        self.lines, near_ends = [], []
        for number in range(ports):
            far, near = _socket_pair() if kind == "socket" else _pty_pair()
            near_ends.append(near)
            self.lines.append(Line(directory / f"{number}.sock", far))
        argv = ["perl", str(AGENT), *(f"fd={fd}" for fd in near_ends)]
        self.agent = subprocess.Popen(argv, pass_fds=near_ends, start_new_session=True)
        for fd in near_ends:
            os.close(fd)

    def argv(self, *argv: str) -> list[str]:
        return ["python3", "-I", "-S", str(CLIENT), str(self.directory), *argv]

    def run(self, *argv: str, stdin: bytes = b"", timeout_s: float = 20.0) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(self.argv("--", *argv), input=stdin, capture_output=True, timeout=timeout_s, check=False)

    def spawn(self, *argv: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.argv("--", *argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.agent.pid, 9)
        self.agent.wait()
        for line in self.lines:
            line.close()


def _socket_pair() -> tuple[int, int]:
    far, near = socket.socketpair()
    return far.detach(), near.detach()


def _pty_pair() -> tuple[int, int]:
    far, near = pty.openpty()
    tty.setraw(far)
    return far, near


@pytest.fixture(params=one_of(["socket", "pty"]))
def channel(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Channel]:
    made = Channel(tmp_path, 1, request.param)
    yield made
    made.close()


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Channel]:
    made = Channel(tmp_path, 1, "socket")
    yield made
    made.close()


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Channel]:
    made = Channel(tmp_path, 3, "socket")
    yield made
    made.close()


def eventually(condition: Callable[[], bool], timeout_s: float = 5.0) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return condition()


def is_running(marker: str) -> bool:
    """Whether a command with this word in its arguments runs, other than as somebody's client."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = entry.read_bytes().split(b"\0")
            if marker.encode() in words and str(CLIENT).encode() not in words:
                return True
    return False


def test_exit_codes_and_both_streams(channel: Channel) -> None:
    done = channel.run("sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"out\n", b"err\n")
    assert channel.run("true").returncode == 0


def test_death_by_a_signal_is_128_plus_its_number(channel: Channel) -> None:
    assert channel.run("sh", "-c", "kill -KILL $$").returncode == 137


def test_arguments_arrive_as_they_are(one: Channel) -> None:
    done = one.run("printf", "<%s>", "", "a b", "*", "é\n", "--")
    assert done.stdout.decode() == "<><a b><*><é\n><-->"


def test_the_environment_is_fixed(one: Channel) -> None:
    done = one.run("sh", "-c", "pwd; env | grep -v -e ^PWD= -e ^OLDPWD= -e ^SHLVL= -e ^_= | sort")
    path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    assert done.stdout.decode().split("\n") == ["/", "LC_ALL=C.UTF-8", path, ""]


def test_a_missing_program_is_named(one: Channel) -> None:
    done = one.run("no-such-program", "x")
    assert done.returncode == 127 and b"no-such-program" in done.stderr
    assert one.run("/etc/passwd").returncode == 126


@pytest.mark.parametrize("filling", [os.urandom(MIB), SYNC * (MIB // 4), b"\xf5\x9a\x5c\x00" * (MIB // 4)])
def test_ten_megabytes_go_through_and_come_back(one: Channel, filling: bytes) -> None:
    data = filling * 10
    done = one.run("cat", stdin=data, timeout_s=60)
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(data).digest()


def test_binary_both_ways_over_a_tty(tmp_path: Path) -> None:
    channel = Channel(tmp_path, 1, "pty")
    data = bytes(range(256)) * 1000 + SYNC * 100
    assert channel.run("cat", stdin=data).stdout == data
    channel.close()


def test_input_that_nobody_reads_does_no_harm(one: Channel) -> None:
    assert one.run("true", stdin=bytes(MIB)).returncode == 0
    assert one.run("sh", "-c", "exec <&-; sleep 0.2; echo on", stdin=bytes(MIB)).stdout == b"on\n"


def test_input_reaches_a_command_that_prints_meanwhile(one: Channel) -> None:
    assert one.run("sh", "-c", "head -c 5; echo; wc -c", stdin=b"12345" + bytes(MIB)).stdout == b"12345\n1048576\n"


def test_a_slow_reader_holds_the_command_back(one: Channel) -> None:
    client = one.spawn("sh", "-c", "head -c 5000000 /dev/zero; echo done >&2")
    time.sleep(0.5)
    assert client.poll() is None
    out, err = client.communicate(timeout=20)
    assert (len(out), err) == (5_000_000, b"done\n")


def test_a_killed_client_ends_its_command(channel: Channel) -> None:
    client = channel.spawn("sh", "-c", "sleep 7001 & exec sleep 7002")
    assert eventually(lambda: is_running("7001") and is_running("7002"))
    client.kill()
    client.wait()
    if os.isatty(channel.lines[0].far_end):  # no word of it on such a line: the next client ends it
        assert channel.run("echo", "next").stdout == b"next\n"
    else:  # the relay tells by closing
        channel.lines[0].noise(SYNC + b"0" * 16 + b"P" + b"0" * 8)
    assert eventually(lambda: not is_running("7001") and not is_running("7002"))


def test_the_end_of_the_line_ends_the_command(tmp_path: Path) -> None:
    far, near = socket.socketpair()
    argv = ["perl", str(AGENT), f"fd={near.fileno()}"]
    agent = subprocess.Popen(argv, pass_fds=[near.fileno()], start_new_session=True)
    near.close()
    body = b"sleep\x007003"
    far.sendall(SYNC + b"0123456789abcdef" + b"S" + b"%08x" % len(body) + body)
    assert eventually(lambda: is_running("7003"))
    far.close()
    assert eventually(lambda: not is_running("7003"))
    os.killpg(agent.pid, 9)  # and its handler
    agent.wait()


def test_sigterm_is_the_commands_own(one: Channel) -> None:
    client = one.spawn("sh", "-c", "trap 'echo bye; exit 9' TERM; echo up; while :; do sleep 0.05; done")
    assert client.stdout is not None and client.stdout.readline() == b"up\n"
    client.terminate()
    assert client.communicate(timeout=10)[0] == b"bye\n" and client.returncode == 9


def test_a_command_that_ignores_sigterm_is_killed(one: Channel) -> None:
    client = one.spawn("sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done")
    assert client.stdout is not None and client.stdout.readline() == b"up\n"
    client.terminate()
    client.communicate(timeout=10)
    assert client.returncode == 143
    assert one.run("echo", "again").stdout == b"again\n"


def test_a_command_is_measured_in_a_conversation(channel: Channel, tmp_path: Path) -> None:
    """Each word reaches the guest as it is sent; what the command prints stays inside until it is given."""
    argv = ["sh", "-c", "echo told; echo aside >&2; exit 3"]
    gate = Gate(LocalHost().spawn(channel.argv("--", *measure_argv(f"{tmp_path}/one", argv)), fed=True), argv)
    with gate.running():
        gate.time_messages()
        gate.run(20)
        assert (tmp_path / "one.out").read_text() == "told\n"
        gate.release_output()
    found = gate.result
    assert (found.done.returncode, found.done.text, found.done.error_text) == (3, "told\n", "aside\n")
    assert 0 < found.message_s < 10


def test_a_daemon_left_behind_does_not_hold_the_answer(one: Channel) -> None:
    started_s = time.monotonic()
    done = one.run("sh", "-c", "(sleep 1; echo late; echo late >&2; exec sleep 1.7004) & echo now")
    assert done.stdout == b"now\n" and time.monotonic() - started_s < 1.0
    time.sleep(1.2)
    assert is_running("1.7004"), "its late words must not end it"


@pytest.mark.parametrize(
    "noise",
    [
        b"[    1.234] kernel: hello\r\n",
        os.urandom(5000),
        SYNC,
        SYNC + b"0123456789abcdefS00001000" + b"half of a frame",
        SYNC + b"0123456789abcdefSffffffff",
        SYNC[:2],
    ],
)
def test_noise_on_the_line(one: Channel, noise: bytes) -> None:
    one.lines[0].noise(noise)
    assert one.run("echo", "clear").stdout == b"clear\n"


def test_answers_to_a_former_client_are_not_ours(one: Channel) -> None:
    client = one.spawn("yes")
    assert client.stdout is not None and client.stdout.read(1000)
    client.kill()
    client.wait()
    for _ in range(5):
        assert one.run("echo", "mine").stdout == b"mine\n"


def test_many_commands_after_one_another(one: Channel) -> None:
    for number in range(40):
        assert one.run("sh", "-c", f"exit {number}").returncode == number


def test_several_ports_at_the_same_time(three: Channel) -> None:
    started_s = time.monotonic()
    clients = [three.spawn("sh", "-c", f"sleep 0.5; echo {number}") for number in range(4)]
    assert [client.communicate(timeout=20)[0] for client in clients] == [b"0\n", b"1\n", b"2\n", b"3\n"]
    assert time.monotonic() - started_s > 0.9, "the fourth had to wait for a port"


def test_waiting_for_an_agent(one: Channel, tmp_path: Path) -> None:
    assert subprocess.run(one.argv("--wait-ready", "5"), check=False).returncode == 0
    dumb = tmp_path / "dumb"
    dumb.mkdir()
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(dumb / "0.sock"))
    server.listen(1)
    argv = ["python3", "-I", "-S", str(CLIENT), str(dumb)]
    assert subprocess.run([*argv, "--wait-ready", "0.2"], capture_output=True, check=False).returncode == 124
    server.close()
    gone = subprocess.run([*argv, "--", "true"], capture_output=True, check=False)
    assert gone.returncode == 125 and b"the guest is gone" in gone.stderr


def test_a_port_that_may_get_nothing_before_it_is_open_is_heard_first(tmp_path: Path) -> None:
    """VirtualBox's UARTs: what comes before the guest's kernel has opened one is never read, nor is what follows."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "0.sock"))
    server.listen(1)
    argv = ["python3", "-I", "-S", str(CLIENT), str(tmp_path)]
    with subprocess.Popen([*argv, "--hear-ready", "60"]) as client:
        line, _ = server.accept()
        line.settimeout(1)
        with pytest.raises(TimeoutError):
            line.recv(1)
        line.sendall(_guest_client.HELLO + b"\n")
        asked = line.recv(64)
        line.sendall(asked[:20] + b"A00000000")
        assert client.wait(20) == 0
    with subprocess.Popen([*argv, "--hear-ready", "20.5"]) as client:
        line, _ = server.accept()
        line.settimeout(10)
        assert len(line.recv(64)) == len(asked) == 29, "near the end, it asks in spite of the silence"
        client.kill()
    server.close()


def test_a_guest_that_boots_again_is_gone(tmp_path: Path) -> None:
    """A command of which the new agent knows nothing would wait for ever."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "0.sock"))
    server.listen(1)
    argv = ["python3", "-I", "-S", str(CLIENT), str(tmp_path), "--", "true"]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as client:
        line, _ = server.accept()
        line.sendall(_guest_client.HELLO + b"\n")  # an earlier one, that nobody has heard
        line.sendall(line.recv(64)[:20] + b"A00000000")
        assert line.recv(64)[20:21] == b"Z", "the command was accepted, and its input has ended"
        line.sendall(_guest_client.HELLO + b"\n")
        assert client.wait(20) == 125 and client.stderr and b"it has booted again" in client.stderr.read()
    server.close()


def test_the_agent_says_when_it_has_opened_a_uart(tmp_path: Path) -> None:
    far, near = _pty_pair()
    (port := tmp_path / "ttyS0").symlink_to(os.ttyname(near))
    with subprocess.Popen(["perl", str(AGENT), str(port)], start_new_session=True) as agent:
        try:
            assert select.select([far], [], [], 10)[0] and os.read(far, 64) == _guest_client.HELLO + b"\n"
        finally:
            os.killpg(agent.pid, 9)
    os.close(far)
    os.close(near)


def test_clocks(one: Channel) -> None:
    def read() -> ClockSample:
        return most_precise_sample(
            subprocess.run(one.argv("--clocks", "5"), capture_output=True, text=True, check=True).stdout
        )

    before = read()
    time.sleep(0.3)
    after = read()
    # Here the guest's clock is the host's.
    assert abs(before.guest_s - before.host_s) <= before.uncertainty_s
    assert abs(before.guest_real_s - time.time()) < 30
    rate = drift(before, after)
    assert abs(rate.ratio - 1.0) <= rate.uncertainty < 0.1
    assert not rate.significant


def test_a_late_or_second_answer_is_not_taken_for_that_to_the_next_request(tmp_path: Path) -> None:
    """A slow line brings an answer in pieces, or so late that it is asked for twice: the clock in it is an old one."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "0.sock"))
    server.listen(1)
    argv = ["python3", "-I", "-S", str(CLIENT), str(tmp_path), "--clocks", "3"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as client:
        line, _ = server.accept()
        for number in (1, 2, 3):
            request = line.recv(64)
            assert len(request) == 29, "a piece of an answer is no reason to ask again"
            answer = request[:20] + b"C00000003%d 0" % number
            if number == 2:
                time.sleep(2.5)  # it gives this one up
            line.sendall(answer[:25])
            time.sleep(0.2)
            line.sendall(answer[25:] + answer)
        assert client.wait(20) == 0 and client.stdout
        readings = client.stdout.read().splitlines()
    server.close()
    assert [reading.split()[2] for reading in readings] == [b"1", b"3"]


def test_the_agent_is_silent_while_nothing_is_asked(one: Channel) -> None:
    assert one.run("true").returncode == 0
    ticks = _cpu_ticks(one.agent.pid)
    assert select.select([one.lines[0].far_end], [], [], 0.5)[0] == []
    assert _cpu_ticks(one.agent.pid) == ticks


def _cpu_ticks(agent: int) -> int:
    """Processor time of an agent and its handlers."""
    total = 0
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = entry.read_text().rpartition(")")[2].split()
            if int(fields[2]) == agent:
                total += int(fields[11]) + int(fields[12])
    return total


@pytest.mark.parametrize(
    ("guest_s", "ratio", "uncertainty"), [(110.0, 1.0, 0.0002), (111.0, 1.1, 0.0002), (109.0, 0.9, 0.0002)]
)
def test_drift(guest_s: float, ratio: float, uncertainty: float) -> None:
    rate = drift(ClockSample(5.0, 100.0, 0.0, 0.001), ClockSample(15.0, guest_s, 10.0, 0.001))
    assert rate.ratio == pytest.approx(ratio) and rate.uncertainty == pytest.approx(uncertainty)
    assert rate.significant == (ratio != 1.0)


def test_drift_without_time_tells_nothing() -> None:
    sample = ClockSample(5.0, 100.0, 0.0, 0.001)
    assert not drift(sample, sample).significant


def test_the_narrowest_bracket_is_the_reading() -> None:
    sample = most_precise_sample("0 4000000000 7000000000 1\n10000000000 10500000000 12000000000 2000000000\n")
    assert sample == ClockSample(10.25, 12.0, 2.0, 0.25)
    with pytest.raises(ValueError, match="empty"):
        most_precise_sample("")


@pytest.mark.skipif(shutil.which("cpio") is None, reason="needs cpio to compare with")
def test_the_archive_is_one_that_cpio_reads(tmp_path: Path) -> None:
    archive = guest.newc({"a/b": (0o755, b"x" * 5), "c": (0o644, b"")}, {"a/l": "b"}, ("proc",))
    subprocess.run(["cpio", "--extract", "--quiet"], input=archive, cwd=tmp_path, check=True)
    assert (tmp_path / "a/b").read_bytes() == b"x" * 5 and os.access(tmp_path / "a/b", os.X_OK)
    assert os.readlink(tmp_path / "a/l") == "b" and (tmp_path / "proc").is_dir() and (tmp_path / "c").is_file()  # noqa: PTH115


def test_a_packed_kernel_is_unpacked() -> None:
    elf = b"\x7fELF" + bytes(1000)
    payload = lzma.compress(elf) + struct.pack("<I", len(elf))
    image = bytearray(1024)
    image[0x1F1], image[0x202:0x206] = 1, b"HdrS"
    struct.pack_into("<II", image, 0x248, 64, len(payload))
    assert guest.elf_in(bytes(image) + bytes(64) + payload) == elf
    assert guest.elf_in(bytes(image) + bytes(64) + b"?" * len(payload)) is None
    assert guest.elf_in(bytes(2000)) is None


def test_the_command_line_names_host_and_ports() -> None:
    assert guest.command_line("dut", 4, "quiet").split()[:2] == ["lastro.hostname=dut", "lastro.ports=4"]
    assert guest.command_line("dut", ["ttyS1", "hvc0"], "quiet").split()[1] == "lastro.ports=ttyS1,hvc0"
    assert guest.command_line("dut", 4, "quiet").endswith(" quiet")


class Vsock:
    """Stands for Firecracker's socket: asked for a port, it becomes the line to the agent. At first, it closes."""

    def __init__(self, path: Path, line: Path, refusals: int) -> None:
        self.asked: list[bytes] = []
        self._line, self._refusals = line, refusals
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen(8)
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                with client, client.makefile("rb", buffering=0) as words:
                    self.asked.append(words.readline())
                    self._refusals -= 1
                    if self._refusals < 0:
                        client.sendall(b"OK 1073741824\n")
                        self._join(client)

    def _join(self, client: socket.socket) -> None:
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(self._line))
            ways = {client: line, line: client}
            while True:
                for end in select.select(list(ways), [], [])[0]:
                    data = end.recv(65536)
                    if not data:
                        return
                    ways[end].sendall(data)


def test_a_link_leads_to_a_port_of_a_vsock(tmp_path: Path) -> None:
    for name in ("lines", "ports"):
        (tmp_path / name).mkdir()
    made = Channel(tmp_path / "lines", 1, "socket")
    vsock = Vsock(tmp_path / "vsock", tmp_path / "lines" / "0.sock", refusals=3)
    (tmp_path / "ports" / "5000.sock").symlink_to("../vsock")
    made.directory = tmp_path / "ports"
    try:
        subprocess.run(made.argv("--wait-ready", "20"), check=True, timeout=30)
        assert len(vsock.asked) == 4
        for number in range(3):
            done = made.run("sh", "-c", f"cat; exit {number}", stdin=b"given")
            assert (done.returncode, done.stdout) == (number, b"given")
        assert set(vsock.asked) == {b"CONNECT 5000\n"}
    finally:
        made.close()
        vsock.close()


def test_a_vsock_at_which_nobody_listens_is_a_guest_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "ports").mkdir()
    vsock = Vsock(tmp_path / "vsock", tmp_path / "none", refusals=1 << 30)
    (tmp_path / "ports" / "5000.sock").symlink_to("../vsock")
    argv = ["python3", "-I", "-S", str(CLIENT), str(tmp_path / "ports"), "--wait-ready", "0.3"]
    done = subprocess.run(argv, capture_output=True, timeout=30, check=False)
    vsock.close()
    assert done.returncode == 125
    assert b"does not listen" in done.stderr


def test_a_monitor_that_has_only_just_made_its_socket_is_asked_again(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as monitor:
        monitor.bind(str(tmp_path / "0.sock"))
        with pytest.raises(ConnectionRefusedError):  # it never listens
            _guest_client.connect(str(tmp_path / "0.sock"), 20)
        listens = threading.Timer(0.1, monitor.listen)
        listens.start()
        _guest_client.connect(str(tmp_path / "0.sock"), 20).close()
        listens.join()
