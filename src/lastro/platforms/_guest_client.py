"""Run a command in a guest over one of its serial ports: the client of `lastro/image/guest_agent.pl`.

    python3 -I -S _guest_client.py SOCKETS -- ARGV...          run ARGV, with the client's streams and exit code
    python3 -I -S _guest_client.py SOCKETS --wait-ready S      wait up to S seconds until the agent answers
    python3 -I -S _guest_client.py SOCKETS --hear-ready S      like --wait-ready, but let the agent send first
    python3 -I -S _guest_client.py SOCKETS --clocks N          read the clocks N times, and print a line for each

SOCKETS is a directory of sockets `*.sock`, one for each port. The client uses a port that no other client is using. A
symbolic link `N.sock` there points to the single socket that Firecracker makes for a guest's vsock: the client requests
port N from it. SIGTERM and SIGINT are passed on to the command. When the client ends, its command is killed. A line of
`--clocks` has four times in ns: the host's clock before and after, the guest's clock, its wall clock. Exit codes: the
command's; 124 when the agent does not answer in time; 125 when the guest is gone.

At run time this is a script, not a part of the package. It is started for each command, so it imports only cheap
modules of the standard library: `socket` and `signal` would double its start-up time."""

from __future__ import annotations

import fcntl
import os
import select
import sys
import time
from _signal import set_wakeup_fd  # type: ignore[import-not-found]
from _signal import signal as on_signal
from _socket import AF_UNIX, MSG_DONTWAIT, SOCK_STREAM
from _socket import socket as Socket  # noqa: N812
from errno import ECONNREFUSED

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` is not cheap
    from collections.abc import Iterator

PREFIX = b"\xf5\x9a\x5c"
SYNC = PREFIX + b"\x01"
HELLO = PREFIX + b"\x02"  # from an agent that has just opened a UART
HEADER = 29
CHUNK = 32768
WINDOW = 262144  # bytes of input that may be in flight, not yet read by the command
ASK_AGAIN_S = 2.0  # after which a request is repeated, since the line may have lost it
HEAR_LESS_S = 20.0  # before the time limit, the client sends a request even if the agent has sent nothing
LAST_WORDS_S = 2.0  # how long to wait for the command to end after a signal
BUSY_S = 0.01
NEWBORN_S = 0.5  # how long a new monitor may refuse connections: it may lose its CPU between bind(2) and listen(2)
NO_ANSWER, GONE = 124, 125
SIGINT, SIGTERM = 2, 15


class GuestGone(Exception):
    pass


def frame(nonce: bytes, kind: bytes, body: bytes = b"") -> bytes:
    body = body.replace(PREFIX, PREFIX + b"\x00")
    return SYNC + nonce + kind + b"%08x" % len(body) + body


def connect(path: str, patience_s: float) -> Socket:
    """Return a connection to the agent through the socket at `path`.

    On a vsock, where `path` is a symbolic link, retry for up to `patience_s` while the guest boots and does not yet
    listen. On any other socket, retry for up to NEWBORN_S, since its monitor may be new.

    Raises: GuestGone if the agent does not listen on its vsock in time; OSError if the monitor has ended."""
    began_s = time.monotonic()
    deadline_s, listening_s = began_s + patience_s, began_s + NEWBORN_S
    port = path.rpartition("/")[2].partition(".")[0] if os.path.islink(path) else ""  # noqa: PTH114
    while True:
        line = Socket(AF_UNIX, SOCK_STREAM)
        try:
            line.connect(path)
            if not port:
                return line
            line.sendall(b"CONNECT %d\n" % int(port))
            answer = b""
            while (byte := line.recv(1)) not in (b"", b"\n"):  # nothing after the answer may be read here
                answer += byte
            if answer.startswith(b"OK "):
                return line
            reason = "its agent does not listen"
        except OSError as error:
            if not port and (error.errno != ECONNREFUSED or time.monotonic() > listening_s):
                raise
            reason = str(error)
        if time.monotonic() > deadline_s:
            raise GuestGone(reason)
        line.close()
        time.sleep(BUSY_S)


def free_port(directory: str, patience_s: float) -> tuple[Socket, int]:
    """Return a connection to a free port, and the file descriptor of the lock that reserves it for this process.

    Wait while all ports are in use. Raises: GuestGone if `directory` has no sockets; otherwise as `connect`."""
    while True:
        names = sorted(name for name in os.listdir(directory) if name.endswith(".sock"))  # noqa: PTH208
        if not names:
            raise GuestGone(f"{directory} has no sockets")
        for name in names:
            path = f"{directory}/{name}"
            lock = os.open(path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                continue
            return connect(path, patience_s), lock
        time.sleep(BUSY_S)


class Channel:
    """A connection to the agent for one client, which exchanges frames."""

    def __init__(self, directory: str, patience_s: float = ASK_AGAIN_S) -> None:
        self.line, self.lock = free_port(directory, patience_s)
        self.fd = self.line.fileno()
        self.nonce = os.urandom(8).hex().encode()
        self.unsent = bytearray()
        self.received = bytearray()
        self.answered = False

    def send(self, kind: bytes, body: bytes = b"") -> None:
        self.unsent += frame(self.nonce, kind, body)

    def flush(self) -> None:
        """Send as many of the unsent bytes as the connection accepts without blocking. Raises: GuestGone."""
        try:
            while self.unsent:
                del self.unsent[: self.line.send(self.unsent, MSG_DONTWAIT)]
        except BlockingIOError:
            pass
        except OSError as error:
            raise GuestGone(error) from error

    def receive(self) -> list[tuple[bytes, bytes]]:
        """Wait for data, and return the (kind, body) of each complete frame that is meant for this client, in order.

        Raises: GuestGone if the monitor closed the connection, or the guest has booted again."""
        data = self.line.recv(1 << 18)
        if not data:
            raise GuestGone("its monitor closed the connection")
        self.received += data
        if self.answered and HELLO in self.received:  # before the first answer, HELLO may be from the first boot
            raise GuestGone("it has booted again")
        frames = list(self._frames())
        self.answered = self.answered or bool(frames)
        return frames

    def _frames(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield (kind, body) of each complete frame with our nonce, and remove these frames from the received data."""
        data = self.received
        ours = SYNC + self.nonce
        at = 0
        while (at := data.find(ours, at)) >= 0 and len(data) >= at + HEADER:
            end = at + HEADER + int(data[at + 21 : at + HEADER], 16)
            if len(data) < end:
                break
            yield bytes(data[at + 20 : at + 21]), bytes(data[at + HEADER : end]).replace(PREFIX + b"\x00", PREFIX)
            at = end
        del data[: at if at >= 0 else max(0, len(data) - len(ours) + 1)]

    def exchange(self, kind: bytes, timeout_s: float) -> bytes | None:
        """Send a request and return the body of the answer; None if there was no answer in time.

        The request is repeated every ASK_AGAIN_S, since the serial line may lose it. So there may be a second answer.
        Each exchange has a new nonce, so that a second answer is not mistaken for the answer to the next request."""
        self.nonce = os.urandom(8).hex().encode()
        deadline_s, again_s = time.monotonic() + timeout_s, 0.0
        while (now_s := time.monotonic()) < deadline_s:
            if now_s >= again_s:
                self.send(kind)
                again_s = now_s + ASK_AGAIN_S
            self.flush()
            if select.select([self.fd], [], [], min(deadline_s, again_s) - now_s)[0]:
                for _, body in self.receive():
                    return body
        return None


class Command:
    """A command in the guest that uses the standard streams of this process."""

    def __init__(self, channel: Channel, argv: list[bytes]) -> None:
        self.channel, self.argv = channel, argv
        self.accepted = False
        self.stdin_open = True
        self.in_flight = 0
        self.exit_code: int | None = None
        self.signalled: int | None = None
        self.deadline_s: float | None = None
        self.bell, ringer = os.pipe()
        os.set_blocking(ringer, False)
        set_wakeup_fd(ringer)
        for number in (SIGINT, SIGTERM):
            on_signal(number, lambda *_: None)

    def run(self) -> int:
        """Run the command until it ends, and return its exit code. Raises: GuestGone."""
        self._request_start()
        while self.exit_code is None:
            self.channel.flush()
            readable, _, _ = select.select(*self._select_arguments())
            if self.deadline_s is not None and time.monotonic() > self.deadline_s:
                return 128 + (self.signalled or SIGTERM)
            if not readable and not self.accepted:
                self._request_start()
            if self.bell in readable:
                self.signalled = os.read(self.bell, 1)[0]
                self.channel.send(b"T", b"%d" % self.signalled)
                self.deadline_s = time.monotonic() + LAST_WORDS_S
            if self.channel.fd in readable:
                for kind, body in self.channel.receive():
                    self._handle_frame(kind, body)
            if 0 in readable and self.exit_code is None:
                self._read_stdin()
        return self.exit_code

    def _request_start(self) -> None:
        self.channel.send(b"S", b"\0".join(self.argv))

    def _select_arguments(self) -> tuple[list[int], list[int], list[int], float | None]:
        fds = [self.channel.fd, self.bell]
        if self.accepted and self.stdin_open and self.in_flight < WINDOW:
            fds.append(0)
        patience = None if self.accepted else ASK_AGAIN_S
        if self.deadline_s is not None:
            patience = max(0.0, self.deadline_s - time.monotonic())
        return fds, [self.channel.fd] if self.channel.unsent else [], [], patience

    def _handle_frame(self, kind: bytes, body: bytes) -> None:
        """Handle output (O, E), acceptance (A), consumed input (W) or the exit (X) of the command."""
        if kind == b"O":
            write_all(1, body)
        elif kind == b"E":
            write_all(2, body)
        elif kind == b"A":
            self.accepted = True
        elif kind == b"W":
            self.in_flight -= int(body)
        elif kind == b"X":
            self.exit_code = int(body)

    def _read_stdin(self) -> None:
        data = os.read(0, CHUNK)
        if data:
            self.in_flight += len(data)
            self.channel.send(b"I", data)
        else:
            self.stdin_open = False
            self.channel.send(b"Z")


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def wait_ready(channel: Channel, timeout_s: float, silence_s: float) -> int:
    """Wait until the agent answers a request; return the client's exit code: 0, or NO_ANSWER after `timeout_s`.

    The request is sent when the agent has sent something, and after `silence_s` in any case."""
    deadline_s = time.monotonic() + timeout_s
    if select.select([channel.fd], [], [], max(0.0, silence_s))[0]:
        channel.line.recv(CHUNK)
    if channel.exchange(b"P", deadline_s - time.monotonic()) is not None:
        return 0
    write_all(2, b"lastro: the guest's agent did not answer within %g s\n" % timeout_s)
    return NO_ANSWER


def print_clocks(channel: Channel, count: int) -> int:
    """Print a line for each of `count` readings of the clocks; return 0, or NO_ANSWER if there was no answer at all."""
    code = NO_ANSWER
    for _ in range(count):
        before = time.monotonic_ns()
        answer = channel.exchange(b"C", ASK_AGAIN_S)
        after = time.monotonic_ns()
        if answer is not None:
            write_all(1, b"%d %d %s\n" % (before, after, answer))
            code = 0
    return code


def main() -> int:
    directory, mode, *rest = sys.argv[1:]
    try:
        if mode in ("--wait-ready", "--hear-ready"):
            timeout_s = float(rest[0])
            silence_s = timeout_s - HEAR_LESS_S if mode == "--hear-ready" else 0.0
            return wait_ready(Channel(directory, timeout_s), timeout_s, silence_s)
        channel = Channel(directory)
        if mode == "--clocks":
            return print_clocks(channel, int(rest[0]))
        return Command(channel, [os.fsencode(word) for word in rest]).run()
    except BrokenPipeError:
        return 141
    except (GuestGone, OSError) as error:
        write_all(2, f"lastro: the guest is gone: {error}\n".encode())
        return GONE


if __name__ == "__main__":
    os._exit(main())
