"""Nobody but root lists, plants or runs anything below the state and the run directory of a host."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastro import testbed as testbeds
from lastro.errors import HostError
from lastro.host.ledger import Session, session
from lastro.host.local import LocalHost
from lastro.host.state_dirs import close_to_others
from lastro.host.undo import mounts_below
from lastro.image.rootfs import Image

pytestmark = pytest.mark.root

TREE = "rootfs/0123456789ab/rootfs"
# As `nobody`: what can be listed, made or run below each place; None is empty-handed.
INTRUDER = """
import os, subprocess, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for place in sys.argv[1:]:
    tree = os.path.join(place, "rootfs/0123456789ab/rootfs")
    for what, act in {
        "list": lambda: os.listdir(place),
        "list the tree": lambda: os.listdir(tree),
        "plant": lambda: open(os.path.join(tree, "tmp/planted"), "w"),
        "run": lambda: subprocess.run([os.path.join(tree, "id")], check=True),
        "lock": lambda: open(os.path.join(place, "lock")),
        "scratch": lambda: open(os.path.join(place, "scratch/1777/planted"), "w"),
        "enter": lambda: os.chdir(place),
    }.items():
        try:
            act()
        except PermissionError:
            continue
        except FileNotFoundError:
            pass
        print(what, place)
"""


@pytest.fixture
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A state as older Lastros made it, open to all, on a path that everybody may follow."""
    place = tmp_path_factory.mktemp("open")
    above = [each for each in place.parents if not each.stat().st_mode & stat.S_IXOTH]
    modes = {each: stat.S_IMODE(each.stat().st_mode) for each in above}
    for each in above:
        each.chmod(0o755)
    state = place / "state"
    for directory in (f"{TREE}/tmp", "scratch/1777"):
        (state / directory).mkdir(parents=True)
        (state / directory).chmod(0o1777)
    (state / "ledger.db").touch(0o644)
    program = state / TREE / "id"
    program.write_bytes(Path("/usr/bin/id").read_bytes())
    program.chmod(0o4755)
    for each in (place, state, state / "rootfs", state / "scratch"):
        each.chmod(0o755)
    yield state
    for each, mode in modes.items():
        each.chmod(mode)


def intrusions(*places: Path) -> list[str]:
    argv = [sys.executable, "-I", "-c", INTRUDER, *map(str, places)]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=20).stdout.splitlines()


def test_an_open_state_is_closed_by_the_first_session(state: Path) -> None:
    assert {f"{what} {state}" for what in ("list", "list the tree", "plant", "run", "enter")} <= {*intrusions(state)}
    (state / TREE / "tmp/planted").unlink()
    (state / "scratch/1777/planted").unlink()
    with session("test", state=state) as held:
        assert intrusions(state, held.run_dir.parent) == []
        for file in ("lock", "ledger.db", "ledger.db-wal"):
            assert stat.S_IMODE((state / file).stat().st_mode) == 0o600
    assert intrusions(state) == []


def guarded(held: Session, tree: Path) -> set[str]:
    host = LocalHost()
    assert str(tree) in mounts_below(host, str(tree))
    return {*host.run(["findmnt", "--noheadings", "--output=OPTIONS", str(tree)]).text.strip().split(",")}


def test_the_tree_is_read_only_and_has_no_setuid_programs_while_it_is_used(state: Path) -> None:
    image, tree = Image("0123456789ab" + "0" * 52, state / "rootfs/0123456789ab"), state / TREE
    with session("test", state=state) as held:
        with testbeds.local_testbed(held, image) as bed:
            assert {"ro", "nosuid", "nodev"} <= guarded(held, tree)
            with pytest.raises(OSError, match="Read-only"):
                (tree / "planted").touch()
            with testbeds._mounted_read_only(held, image):  # for a second role: once is enough
                assert len(mounts_below(LocalHost(), str(tree))) == 1
            assert all(str(tree) not in step.get("argv", ()) for step in bed.preparation)
        assert mounts_below(LocalHost(), str(tree)) == []


@pytest.mark.parametrize("which", ["state", "run"])
@pytest.mark.parametrize("spoiled", ["owner", "mode", "content"])
def test_a_directory_that_is_not_ours_alone_is_refused_and_left_as_it_is(
    tmp_path: Path, which: str, spoiled: str
) -> None:
    places = {name: tmp_path / name for name in ("state", "run")}
    place = places[which]
    place.mkdir(mode=0o755)
    if spoiled == "owner":
        os.chown(place, 65534, 65534)
    elif spoiled == "mode":
        place.chmod(0o777)
    else:
        (place / "lock").mkdir()  # as in /run
        (place / "rootfs").mkdir()  # as in a container's directory
    before = place.stat()
    with pytest.raises(HostError, match=f"{place}( belongs to user 65534|, so its contents| contains files that)"):
        close_to_others(LocalHost(), places["state"], places["run"])
    after = place.stat()
    assert (before.st_mode, before.st_uid, before.st_gid) == (after.st_mode, after.st_uid, after.st_gid)
