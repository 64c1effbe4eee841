"""Whole listings of what a host has, so that a test can say: afterwards everything is as it was.

Nothing is looked for by a name of Lastro's alone: what Lastro, runc or Docker might leave anywhere is in the lists."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lastro.host.files import OWNER_VARIABLE
from lastro.host.ledger import RUN_DIR, STATE_DIR, Ledger

Listing = dict[str, frozenset[str]]

_CGROUPS = Path("/sys/fs/cgroup")
_DAEMONS = (
    "dockerd", "containerd", "containerd-shim", "runc", "docker-proxy", "crun", "conmon", "lxc-start", "systemd-nspawn",
)  # fmt: skip
_SYSCTLS = ("net/ipv4/ip_forward", "net/ipv4/conf/all/rp_filter", "net/ipv6/conf/all/forwarding")
_DIRECTORIES = (
    "/run/netns", "/run/runc", "/run/docker", "/run/containerd", "/var/lib/docker", str(RUN_DIR),
    "/run/crun", "/run/libpod", "/run/containers", "/var/lib/containers", "/var/cache/containers", "/var/lib/cni",
    "/etc/cni/net.d", "/dev/shm", "/run/lxc", "/var/lib/lxc", "/var/cache/lxc", "/run/systemd/nspawn",
)  # fmt: skip
_OF_THE_FIRST = frozenset({"/run/docker/plugins"})  # the first Docker daemon of a machine makes it and leaves it, empty


def listing(state: Path = STATE_DIR) -> Listing:
    """What this host has now, by chapter. Needs root."""
    return {
        "network namespaces": _lines("ip", "netns", "list"),
        "links": _lines("ip", "-o", "link"),
        "addresses": _addresses(),
        "routes": _lines("ip", "route", "show", "table", "all") | _lines("ip", "-6", "route", "show", "table", "all"),
        "rules": _lines("ip", "rule") | _lines("ip", "-6", "rule"),
        "sysctls": _sysctls(),
        # Its directory over itself is what the first `ip netns add` of a machine mounts, and leaves.
        "mounts": frozenset(
            line for line in Path("/proc/self/mountinfo").read_text().splitlines() if line.split()[4] != "/run/netns"
        ),
        "cgroups": _cgroups(),
        "processes": _processes(),
        "nftables": _numbered(_lines_in_order("nft", "-s", "list", "ruleset")),
        "iptables": _iptables(),
        "directories": _directories(*_DIRECTORIES, str(state / "scratch")),
    }


def differences(before: Listing, after: Listing) -> list[str]:
    """One line for everything that is in one listing only; none when the host is as it was."""
    found = []
    for chapter in sorted(before.keys() | after.keys()):
        old, new = before.get(chapter, frozenset()), after.get(chapter, frozenset())
        found += [f"{chapter}: + {line}" for line in sorted(new - old)]
        found += [f"{chapter}: - {line}" for line in sorted(old - new)]
    return found


def settled_differences(before: Listing, patience_s: float = 5.0, state: Path = STATE_DIR) -> list[str]:
    """As `differences` with what is there now; the kernel gets a moment to tear down namespaces and processes."""
    deadline = time.monotonic() + patience_s
    while (found := differences(before, listing(state))) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


@contextmanager
def idle_host(state: Path = STATE_DIR) -> Iterator[None]:
    """No Lastro session runs inside the block: a listing made here holds nothing of anybody's trial."""
    state.mkdir(parents=True, exist_ok=True)
    with open(state / "lock", "a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def clean_host() -> Iterator[None]:
    """An idle host, without what a crash of another process has left. What this process leaves is not dead."""
    with idle_host():
        ledger = Ledger()
        ledger.clean()
        ledger.close()
        yield


def owned_processes(token: str = "") -> set[int]:
    """Live processes that carry a session's mark in their environment: of one session, or of any.

    A mark without a token is of a command that belongs to no session, such as one that asks a tool for its version."""
    mark = f"{OWNER_VARIABLE}={token}".encode()
    return {
        pid
        for pid in _pids()
        for word in _read(f"/proc/{pid}/environ").split(b"\0")
        if (word == mark if token else word.startswith(mark) and word != mark)
    }


def live(pids: set[int]) -> set[int]:
    """Those that still run: the dead whom nobody has buried yet do not count."""
    return pids & set(_pids())


def _lines_in_order(*argv: str) -> list[str]:
    if shutil.which(argv[0]) is None:
        return []
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


def _lines(*argv: str) -> frozenset[str]:
    return frozenset(_lines_in_order(*argv))


def _numbered(lines: list[str]) -> frozenset[str]:
    """Order and repetition matter in a ruleset."""
    return frozenset(f"{number}: {line}" for number, line in enumerate(lines))


def _addresses() -> frozenset[str]:
    """Without lifetimes, which run down."""
    lines = _lines("ip", "-o", "address")
    return frozenset(re.sub(r"(valid_lft|preferred_lft) \S+", r"\1", line) for line in lines)


def _iptables() -> frozenset[str]:
    """Rules and policies without packet counts and dates."""
    lines = [*_lines_in_order("iptables-save"), *_lines_in_order("ip6tables-save")]
    return _numbered([re.sub(r"\[\d+:\d+\]", "", line) for line in lines if not line.startswith("#")])


def _sysctls() -> frozenset[str]:
    files = [Path("/proc/sys", name) for name in _SYSCTLS] + sorted(Path("/proc/sys/net/bridge").glob("*"))
    return frozenset(f"{file}={file.read_text().strip()}" for file in files if file.is_file())


def _cgroups() -> frozenset[str]:
    """Every group, but for what lies below the units of a service manager, which come and go by themselves.

    Such units are the ones of systemd, and the group in which whoever started this test has put it."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    others = {line.rpartition(":")[2].strip("/").split("/")[0] for line in lines} - {""}
    found = set()
    for place, directories, _ in os.walk(_CGROUPS):
        found.add(place)
        if Path(place).name in others or Path(place).suffix in (".slice", ".scope", ".service"):
            directories.clear()
    return frozenset(found)


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and not _is_zombie(entry.name)]


def _is_zombie(pid: str) -> bool:
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[:1] in ([], [b"Z"])


def _read(path: str) -> bytes:
    with suppress(OSError):
        return Path(path).read_bytes()
    return b""


def _processes() -> frozenset[str]:
    """Lastro's own, and every container daemon, whoever's it is."""
    daemons = {pid for pid in _pids() if _read(f"/proc/{pid}/comm").decode().strip() in _DAEMONS}
    return frozenset(
        f"{pid} {_read(f'/proc/{pid}/cmdline').replace(bytes(1), b' ').decode(errors='replace').strip()}"
        for pid in owned_processes() | daemons
    )


def _directories(*paths: str) -> frozenset[str]:
    """What lies in them. An empty directory is as good as none."""
    found = {str(entry) for path in paths if Path(path).is_dir() for entry in Path(path).iterdir()}
    return frozenset(found - _OF_THE_FIRST)
