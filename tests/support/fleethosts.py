"""Hosts for fleets: machines to reach by SSH that share a kernel, and nothing else that Lastro uses.

Each has its own network, mounts, processes, control groups, /run and state of Lastro, made by tests/own-machine. So
sessions on them run at the same time, one can lose power while the others go on, and each can be asked what is left.
They share processors, memory and the images of this machine."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lastro.host.connections import SshTarget
from lastro.host.files import OWNER_VARIABLE
from lastro.host.ledger import STATE_DIR

from .sshmachine import PORT, SSHD, Machine, children, make_keys, run, unwire, wire

_OWN_MACHINE = str(Path(__file__).parents[1] / "own-machine")
# A line on standard input starts an sshd; the end of it switches the host off.
_POWERED = 'hostname "$1"; mkdir /run/sshd; echo up; while read -r _; do "$2" -f "$3" -E "$4"; done'
_LEFT = (
    "run/lastro/*",
    "run/netns/*",
    "var/lib/lastro/scratch/*",
    "sys/fs/cgroup/lastro/*",
    "sys/fs/cgroup/*/lastro/*",
)


@dataclass(slots=True)
class FleetHost(Machine):
    """A host with a real sshd. Its state is in `home` and survives a loss of power; /run does not."""

    power: subprocess.Popen[bytes] | None = None
    pid: int = 0  # of its first process, as this machine numbers it
    mounts: frozenset[str] = field(default_factory=frozenset)

    @property
    def target(self) -> SshTarget:
        return SshTarget(
            self.address, "root", PORT, str(self.home / "key"), str(self.home / "known_hosts"),
        )  # fmt: skip

    @property
    def root(self) -> Path:
        """Its file system, as this machine sees it."""
        return Path(f"/proc/{self.pid}/root")

    @property
    def listener(self) -> int | None:
        if self.power is None:
            return None
        return next((pid for pid in children(self.pid) if _name(pid) == "sshd"), None)

    def switch_on(self) -> None:
        """Start the host, without an sshd."""
        argv = [_OWN_MACHINE, "--host", f"lastro-{self.name}", str(self.home / "disk"), "sh", "-euc", _POWERED, "host"]
        argv += [self.name, SSHD, str(self.configure()), str(self.home / "log")]
        with open(self.home / "log", "ab") as log:
            self.power = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
        assert self.power.stdout is not None
        assert self.power.stdout.readline() == b"up\n", (self.home / "log").read_text()
        (self.pid,) = children(children(self.power.pid)[0])
        self.mounts = self._mounts()
        run("ip", "netns", "attach", self.netns, str(self.pid))
        wire(self)

    def start(self, more: str = "") -> None:
        """Start sshd, and the host if it is off; wait until sshd listens."""
        if self.power is None:
            self.switch_on()
        self.configure(more)
        assert self.power is not None and self.power.stdin is not None
        self.power.stdin.write(b"sshd\n")
        self.power.stdin.flush()
        self.wait_listening()

    def kill_sshd(self) -> None:
        """Kill the sshd that listens: there are no new connections, and those that are open stay."""
        assert self.listener is not None
        os.kill(self.listener, signal.SIGKILL)

    def lose_power(self) -> None:
        """Kill all processes at the same time. Nobody is told: the network goes first."""
        if self.power is None:
            return
        unwire(self)
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._wait_off()

    def stop(self) -> None:
        """Switch the host off."""
        if self.power is not None:
            assert self.power.stdin is not None
            self.power.stdin.close()
            self._wait_off()
            unwire(self)

    def _wait_off(self) -> None:
        assert self.power is not None and self.power.stdin is not None and self.power.stdout is not None
        self.power.wait(30)
        self.power.stdout.close()
        with suppress(BrokenPipeError):
            self.power.stdin.close()
        self.power = None

    def run(self, *argv: str) -> str:
        """Run a command on the host, without SSH."""
        return run("nsenter", f"--target={self.pid}", "--all", *argv)

    def unplug(self) -> None:
        """Take the network from the host; connections stay as they are, and neither side is told."""
        run("ip", "link", "set", f"t-{self.name}", "down")

    def plug(self) -> None:
        run("ip", "link", "set", f"t-{self.name}", "up")

    def left(self) -> list[str]:
        """What Lastro has left on this host, and in its ledger for it."""
        found = [str(path.relative_to(self.root)) for pattern in _LEFT for path in self.root.glob(pattern)]
        found += sorted(self._mounts() - self.mounts)
        mark = f"{OWNER_VARIABLE}=".encode()
        for process in self.root.glob("proc/[0-9]*"):
            with suppress(OSError):
                if mark in (process / "environ").read_bytes():
                    found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        for ledger in (STATE_DIR / "hosts").glob(f"*{self.address}*/ledger.db"):
            with closing(sqlite3.connect(ledger)) as database:
                found += [f"{kind} {name}" for kind, name in database.execute("SELECT kind, name FROM object")]
        return found

    def _mounts(self) -> frozenset[str]:
        """Its places of mounts. Its directory over itself is what the first `ip netns add` mounts, and leaves."""
        lines = (self.root / "proc/1/mountinfo").read_text().splitlines()
        return frozenset(line.split()[4] for line in lines) - {"/run/netns"}


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


@contextmanager
def fleet_hosts(home: Path, *names: str) -> Iterator[list[FleetHost]]:
    """Hosts that are up, each linked to this machine; afterwards nothing of them is left."""
    made = [FleetHost(name, home / name, number) for number, name in enumerate(names)]
    with ThreadPoolExecutor(len(made)) as at_once:
        try:
            list(at_once.map(_up, made))
            yield made
        finally:
            list(at_once.map(FleetHost.stop, made))


def _up(host: FleetHost) -> None:
    make_keys(host)
    host.start()


def fleet_text(hosts: Sequence[FleetHost]) -> str:
    """A fleet file with a testbed of one host for each."""
    return "\n".join(f"[testbeds.{host.name}]\n{host.table()}" for host in hosts)


def again_text(host: FleetHost, place: Path) -> str:
    """A testbed `again` of a fleet file: the same host by another form of its address."""
    first, second, third, last = host.address.split(".")
    other = f"{first}.{second}.{int(third) * 256 + int(last)}"
    known = (host.home / "known_hosts").read_text()
    (file := place / "known_hosts").write_text(known + known.replace(host.address, other))
    table = host.table().replace(f'"{host.address}"', f'"{other}"').replace(str(host.target.known_hosts), str(file))
    return f"\n[testbeds.again]\n{table}"


@pytest.fixture(scope="module")
def four_hosts(untouched_host: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[FleetHost]]:
    with fleet_hosts(tmp_path_factory.mktemp("fleet"), "ada", "bea", "cid", "dot") as made:
        yield made
