"""Connections to a remote host by the OpenSSH client: persistent masters, and errors from their messages.

sshd allows ten sessions per connection (MaxSessions), so each master is used for a few commands at the same time, and
more masters are opened as needed. Source: ssh(1), ssh_config(5), sshd_config(5)."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from lastro.errors import HostError, HostUnfit

_CONNECT_S = 10
_PATIENCE = 3  # factor on the time limit of ssh, for everything that it does before it is connected
_AT_ONCE = 8  # commands at the same time over one master
LOST = 255  # the exit code of ssh for its own errors; a command may have the same exit code


@dataclass(frozen=True, slots=True)
class SshTarget:
    """The address of a remote host, the options of ssh, and the directory of Lastro on that host.

    If a value is None, the user's ssh_config(5) determines it. `connect_s` is the time limit for opening a connection.
    While a connection is open, ssh probes it twice per `connect_s`; after three probes without an answer, it is lost.
    Host keys are always checked: a key that is not in the known hosts is refused, and this cannot be switched off."""

    address: str
    user: str | None = None
    port: int | None = None
    identity: str | None = None
    known_hosts: str | None = None
    state: str = "/var/lib/lastro"
    run: str = "/run/lastro"
    connect_s: int = _CONNECT_S
    called: str = ""  # a name for messages, for a host whose address means nothing to a user, such as a guest

    @property
    def name(self) -> str:
        """The address, with the user and the port if they are given; it identifies the host."""
        if self.called:
            return self.called
        return f"{self.user}@{self.address_and_port}" if self.user else self.address_and_port

    @property
    def address_and_port(self) -> str:
        return self.address if self.port is None else f"{self.address}:{self.port}"

    def argv(self) -> list[str]:
        """Return the options and the destination for ssh."""
        options = ["-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes"]
        if self.port is not None:
            options += ["-p", str(self.port)]
        if self.identity:
            options += ["-i", self.identity, "-o", "IdentitiesOnly=yes"]
        if self.known_hosts:
            options += ["-o", f"UserKnownHostsFile={self.known_hosts}", "-o", "GlobalKnownHostsFile=/dev/null"]
        if self.user:
            options += ["-l", self.user]
        return [*options, "--", self.address]


class Connections:
    """The master connections to one host, opened as needed; their control sockets are in `directory`."""

    def __init__(self, target: SshTarget, directory: Path, environment: dict[str, str]) -> None:
        self.target = target
        self._directory, self._environment = directory, {**os.environ, **environment}
        self._in_use: dict[Path, int] = {}
        self._guard = threading.Lock()
        self._n_opened = 0

    def open(self) -> None:
        """Open a master connection if none is open. Raises: HostError with the cause and a remedy."""
        with self._guard:
            if not self._in_use:
                self._open_master()

    @contextmanager
    def channel(self) -> Iterator[list[str]]:
        """Yield the start of an argv of ssh, to which the caller appends one word: the command for the remote host."""
        socket, argv = self.acquire()
        try:
            yield argv
        finally:
            self.release(socket)

    def acquire(self) -> tuple[Path, list[str]]:
        """Return the socket of a master, and the start of an argv that `channel` yields.

        The caller occupies one session of this master until it calls `release` with the socket."""
        with self._guard:
            with_room = (socket for socket, n_commands in self._in_use.items() if n_commands < _AT_ONCE)
            socket = next(with_room, None) or self._open_master()
            self._in_use[socket] += 1
        # Without its master, ssh would open a new connection and hide the loss: the proxy command prevents that.
        options = ["-o", "ControlMaster=no", "-o", "ProxyCommand=false"]
        return socket, ["ssh", "-S", str(socket), *options, *self.target.argv()]

    def release(self, socket: Path) -> None:
        with self._guard:
            if socket in self._in_use:
                self._in_use[socket] -= 1

    def close(self) -> None:
        """End every master connection, without waiting for an answer from the remote host."""
        with self._guard:
            for socket in self._in_use:
                argv = ["ssh", "-S", str(socket), "-O", "exit", *self.target.argv()]
                with suppress(subprocess.TimeoutExpired):
                    subprocess.run(argv, env=self._environment, capture_output=True, timeout=_CONNECT_S, check=False)
                socket.unlink(missing_ok=True)
            self._in_use.clear()

    def _open_master(self) -> Path:
        """Open a master connection and return its socket. Raises: HostError with the cause and a remedy."""
        self._n_opened += 1
        socket = self._directory / f"{self._n_opened}"
        alive_s = max(1, self.target.connect_s // 2)  # while connecting, too, an answer may take three probes
        argv = [
            "ssh", "-M", "-S", str(socket), "-f", "-N", "-o", "ControlPersist=no", "-o", "ForwardX11=no",
            "-o", "ForwardAgent=no", "-o", "PermitLocalCommand=no",
            "-o", f"ConnectTimeout={self.target.connect_s}", "-o", f"ServerAliveInterval={alive_s}",
            "-o", "ServerAliveCountMax=3",
            *self.target.argv(),
        ]  # fmt: skip
        patience_s = _PATIENCE * self.target.connect_s
        with open(os.memfd_create("ssh"), "w+b") as words:  # not a pipe: the master keeps it open
            try:
                self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                code = subprocess.run(
                    argv, env=self._environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=words,
                    timeout=patience_s, check=False, start_new_session=True,
                ).returncode  # fmt: skip
            except FileNotFoundError as error:
                raise HostUnfit("this host has no program 'ssh'", "apt-get install openssh-client") from error
            except subprocess.TimeoutExpired:
                code, message = LOST, f"no answer within {patience_s} s"
            else:
                words.seek(0)
                message = words.read().decode(errors="replace")
        if code != 0:
            raise failure(self.target, message)
        self._in_use[socket] = 0
        return socket


def failure(target: SshTarget, message: str) -> HostError:
    """Return the error for a failed connection, with a cause and a remedy that are derived from ssh's `message`."""
    lines = [line.strip() for line in message.splitlines() if line.strip() and not line.startswith("@")]
    last = lines[-1] if lines else "ssh gave no reason"
    place = f"{target.user}@{target.address}" if target.user else target.address
    port = f"-p {target.port} " if target.port else ""
    command = f"ssh {port}{place}"
    if "HOST IDENTIFICATION HAS CHANGED" in message:
        return HostUnfit(
            f"the host key of {target.name} has changed: it is another machine, or the connection is intercepted",
            "find out which; if the machine was reinstalled, remove its old key with `ssh-keygen -R`",
        )
    if "Host key verification failed" in message or "host key is known" in message:
        return HostUnfit(
            f"the host key of {target.name} is not known, and Lastro connects only to hosts with a known key",
            f"log in once manually, compare its fingerprint with the host's own, and accept it: {command}",
        )
    if "Permission denied" in message or "Too many authentication failures" in message:
        return HostUnfit(
            f"{target.name} refuses the key: {last}",
            "set the right `identity` in the testbed file, or add its public key to authorized_keys on that host"
            " (a key with a passphrase must be in an ssh-agent)",
        )
    if any(word in message for word in ("bad permissions", "UNPROTECTED PRIVATE KEY")):
        return HostUnfit(f"ssh refuses the identity file for {target.name}: {last}", "chmod 600 the identity file")
    return HostError(
        f"{target.name} cannot be reached: {last}",
        f"is it up, and does sshd listen on this address and port? Try it manually: {command}",
    )
