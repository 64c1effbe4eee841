"""Mount namespaces that last: kept by a file, or by a process where the kernel refuses the file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lastro.host.ledger import Ledger, Session, session
from lastro.host.undo import HOLDER_MARK, HOLDER_VARIABLE
from lastro.platforms.container import lasting_namespace_lines

pytestmark = pytest.mark.root

REFUSING = """#!/bin/sh
case $1 in --mount=*) echo "unshare: mount failed: Invalid argument" >&2; exit 1 ;; esac
exec /usr/bin/unshare "$@"
"""


def script(home: Path, *before: str) -> str:
    """Return a script that mounts a file system in a lasting namespace."""
    inside = f"kept {home} private mount -t tmpfs kept {home}/root"
    return "\n".join([*before, f"mkdir -p {home}/root", *lasting_namespace_lines(home), inside, ""])


def refused(tmp_path: Path) -> str:
    """Return a command after which the kernel seems to refuse a file of a mount namespace."""
    (tmp_path / "unshare").write_text(REFUSING)
    (tmp_path / "unshare").chmod(0o755)
    return f"PATH={tmp_path}:$PATH"


def holders(home: Path) -> list[int]:
    mark = f"{HOLDER_VARIABLE}={home}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in entry.read_bytes().split(b"\0"):
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


def mounted(held: Session, home: Path) -> bool:
    lines = held.host.run(["nsenter", f"--mount={home}/mnt", "cat", "/proc/self/mountinfo"]).text.splitlines()
    return any(f" {home}/root " in line for line in lines)


@pytest.mark.parametrize("by", ["file", "process"])
def test_a_namespace_lasts_as_long_as_its_home(tmp_path: Path, by: str) -> None:
    with session("test of kept mounts", state=tmp_path / "state") as held:
        home = held.run_dir / "one"
        with held.owned("directory", str(home)):
            held.host.run(["sh", "-e"], stdin=script(home, *([refused(tmp_path)] if by == "process" else [])))
            assert mounted(held, home)
            assert len(holders(home)) == (by == "process") == (home / HOLDER_MARK).exists()
        assert not home.exists() and not holders(home)


def test_a_process_that_keeps_a_namespace_is_found_after_a_crash(tmp_path: Path) -> None:
    with session("test of kept mounts", state=tmp_path / "state") as held:
        home = held.run_dir / "one"
        held.host.run(["sh", "-e"], stdin=script(home, refused(tmp_path)))
        assert set(holders(home)) <= held.pids()
    assert not holders(home)
    ledger = Ledger(tmp_path / "state")
    assert ledger.dead_sessions() == []
    ledger.close()


def test_no_namespace_is_lost_inside_another_mount_namespace(tmp_path: Path) -> None:
    """Of 40 files, Linux 6.18 refused 7. Each round is in an outer namespace of its own, as in a container."""
    rounds = 200
    for at in range(rounds):
        home = tmp_path / str(at)
        text = script(home) + f"[ ! -e {home}/{HOLDER_MARK} ] || kill $!\n"
        done = subprocess.run(["unshare", "-m", "sh", "-e"], input=text.encode(), capture_output=True, timeout=30)
        assert done.returncode == 0, (at, done.stderr)
    assert not any(holders(tmp_path / str(at)) for at in range(rounds))
