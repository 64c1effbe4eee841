"""Directories reserved for Lastro: no other user of a host can list them, write to them, or run programs in them.

A root filesystem has world-writable directories and setuid programs, which other users of the host must not reach. An
instance in a user namespace must reach paths below the state and run directories. So the group FIRST_ID, to which no
user of the host belongs, may pass through these two directories."""

from __future__ import annotations

from pathlib import Path

from lastro.errors import HostError, HostUnfit
from lastro.host.base import Host

# A user namespace maps its ids 0 to N_IDS - 1 to host ids from FIRST_ID on, a range that no distribution assigns.
FIRST_ID, N_IDS = 0x7000_0000, 65_536

_CLOSE = """group=$1 state=$2 run=$3
refuse() { echo "$*"; exit 3; }
close() { # DIRECTORY MODE GROUP
    mkdir -p -m 700 -- "$1"
    owner=$(stat -L -c %u -- "$1") mode=$(stat -L -c %a -- "$1")
    [ "$owner" = 0 ] || refuse "$1 belongs to user $owner"
    [ $((0$mode & 2)) = 0 ] || refuse "all users can write to $1, so its contents cannot be trusted"
    "$4" "$1" || refuse "$1 contains files that Lastro did not create"
    [ "$(stat -L -c %g:%a -- "$1")" = "$3:$2" ] || { chgrp -- "$3" "$1"; chmod -- "$2" "$1"; }
}
is_state() {
    [ -z "$(ls -A -- "$1")" ] || [ -f "$1/ledger.db" ] || [ -f "$1/lock" ] || [ -d "$1/rootfs/recipes" ] ||
        [ -d "$1/checkouts" ]
}
is_run() { ! ls -A -- "$1" | grep -qvxE '[0-9a-f]{6}'; }
close "$state" 710 "$group" is_state
close "$state/rootfs" 700 0 true
close "$state/scratch" 700 0 true
close "$run" 710 "$group" is_run"""
_REFUSED = 3
_CLOSE_SOCKETS = 'find "$1" -xdev -maxdepth 4 -type s -exec chmod 600 {} +'


def close_sockets(host: Host, directory: Path) -> None:
    """Allow only root to connect to sockets below a directory, even if a daemon gave a socket to another group."""
    with host.recorded():
        host.run(["sh", "-ec", _CLOSE_SOCKETS, "close", str(directory)])


def close_to_others(host: Host, state: Path, run: Path) -> None:
    """Create the state and run directories of a host if they are missing, and let only root read them.

    Raises: HostUnfit when another user owns or may have changed one, or it has foreign files; HostError when one cannot
    be created."""
    with host.recorded():  # part of the host, not of a trial
        argv = ["sh", "-ec", _CLOSE, "close", str(FIRST_ID), str(state), str(run)]
        done = host.run(argv, check=False)
    if done.returncode != 0:
        raise (HostUnfit if done.returncode == _REFUSED else HostError)(
            f"{host.name}: {(done.text.strip() or done.error_text.strip())}",
            "choose directories for Lastro alone: LASTRO_STATE, LASTRO_RUN, or `state`, `run` in the testbed file",
        )
