"""Machines to reach by SSH: each a network namespace with a real sshd of its own, with its own keys and port.

They share this machine's kernel and files, so each gets directories of its own for what Lastro keeps on it. Its logins
have a home of their own, too: what the user's start-up files run is nothing to break off in the middle."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from lastro.host.connections import SshTarget

PORT = 2222
SSHD = "/usr/sbin/sshd"
_CONFIG = """Port {port}
ListenAddress {address}
HostKey {home}/host_key
AuthorizedKeysFile {home}/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
SetEnv HOME={home}
{more}
"""


def run(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=30).stdout


@dataclass(slots=True)
class Machine:
    """`near` is this side's address on the link to it."""

    name: str
    home: Path
    number: int
    sshd: subprocess.Popen[bytes] | None = None

    @property
    def netns(self) -> str:
        return f"test-{self.name}"

    @property
    def address(self) -> str:
        return f"198.18.{220 + self.number}.2"

    @property
    def target(self) -> SshTarget:
        return SshTarget(
            self.address, "root", PORT, str(self.home / "key"), str(self.home / "known_hosts"),
            str(self.home / "state"), f"/run/lastro-test-{self.name}",
        )  # fmt: skip

    def table(self) -> str:
        """The machine in a testbed's file."""
        lines = {"address": self.address, "user": "root", "identity": self.target.identity}
        lines |= {"known_hosts": self.target.known_hosts, "state": self.target.state, "run": self.target.run}
        return f"port = {PORT}\n" + "".join(f'{key} = "{value}"\n' for key, value in lines.items())

    def configure(self, more: str = "") -> Path:
        """Write the configuration of sshd, and return its file."""
        config = self.home / "sshd_config"
        config.write_text(_CONFIG.format(port=PORT, address=self.address, home=self.home, more=more))
        return config

    def start(self, more: str = "") -> None:
        """Start sshd, and wait until it listens."""
        config = self.configure(more)
        argv = ["nsenter", f"--net=/run/netns/{self.netns}", SSHD, "-D", "-e", "-f", str(config)]
        with open(self.home / "log", "ab") as log:
            self.sshd = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self.wait_listening()

    def wait_listening(self) -> None:
        for _ in range(200):
            if f":{PORT}" in run("ip", "netns", "exec", self.netns, "ss", "-Hltn"):
                return
            time.sleep(0.02)
        raise AssertionError((self.home / "log").read_text())

    @property
    def listener(self) -> int | None:
        """The process of sshd that listens, or None."""
        return self.sshd.pid if self.sshd else None

    def connections(self) -> list[int]:
        """Processes of sshd that serve a connection, found as children of ours."""
        return children(self.listener) if self.listener else []

    def cut(self) -> None:
        """Break every connection, and let sshd listen on."""
        for pid in self.connections():
            for child in (*children(pid), pid):
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)

    @contextmanager
    def unaware(self) -> Iterator[None]:
        """What serves a connection now stands still: as with a cable out, neither side hears that the other is gone."""
        still = self.connections()
        try:
            for pid in still:
                os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in still:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def stop(self) -> None:
        if self.sshd is not None:
            self.cut()
            self.sshd.terminate()
            self.sshd.wait(10)
            self.sshd = None


def children(pid: int) -> list[int]:
    done = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in done.stdout.split()]


@contextmanager
def machines(home: Path, *names: str) -> Iterator[list[Machine]]:
    """Machines that are up, each linked to this one; afterwards nothing of them is left."""
    with _privilege_separation():
        made = []
        try:
            for number, name in enumerate(names):
                machine = Machine(name, home / name, number)
                made.append(machine)
                make_keys(machine)
                run("ip", "netns", "add", machine.netns)
                wire(machine)
                machine.start()
            yield made
        finally:
            for machine in made:
                machine.stop()
                unwire(machine)
                for place in (machine.target.run, f"{machine.target.run}-host"):
                    shutil.rmtree(place, ignore_errors=True)


def make_keys(machine: Machine) -> None:
    machine.home.mkdir(parents=True)
    for key in ("key", "host_key"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(machine.home / key))
    shutil.copy(machine.home / "key.pub", machine.home / "authorized_keys")
    kind, key = (machine.home / "host_key.pub").read_text().split()[:2]
    (machine.home / "known_hosts").write_text(f"[{machine.address}]:{PORT} {kind} {key}\n")


def wire(machine: Machine) -> None:
    """Link a machine to this one."""
    near, netns = f"198.18.{220 + machine.number}.1/24", machine.netns
    run("ip", "-n", netns, "link", "set", "lo", "up")
    run("ip", "link", "add", f"t-{machine.name}", "type", "veth", "peer", "name", "management", "netns", netns)
    run("ip", "address", "add", near, "dev", f"t-{machine.name}")
    run("ip", "link", "set", f"t-{machine.name}", "up")
    run("ip", "-n", netns, "address", "add", f"{machine.address}/24", "dev", "management")
    run("ip", "-n", netns, "link", "set", "management", "up")


def unwire(machine: Machine) -> None:
    subprocess.run(["ip", "link", "del", f"t-{machine.name}"], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "del", machine.netns], capture_output=True, check=False)


@contextmanager
def _privilege_separation() -> Iterator[None]:
    """sshd wants its empty directory."""
    place = Path("/run/sshd")
    if place.exists():
        yield
        return
    place.mkdir(mode=0o755)
    try:
        yield
    finally:
        place.rmdir()


def cable(a: Machine, link: str, b: Machine, other: str) -> None:
    """A link between two machines, as a wire between network cards."""
    run("ip", "link", "add", link, "netns", a.netns, "type", "veth", "peer", "name", other, "netns", b.netns)
