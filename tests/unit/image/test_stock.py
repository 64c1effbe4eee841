"""The root filesystems that are kept: what is listed, and what goes when an old one is removed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lastro.image import stock

OLD, NEW = "a" * 12, "b" * 12


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Two root filesystems, of which one was last used 40 days ago, with what was made from them, and a checkout."""
    for name, days in ((OLD, 40), (NEW, 1)):
        tree = tmp_path / "rootfs" / name / "rootfs"
        (tree / "etc").mkdir(parents=True)
        (tree / "etc/os-release").write_text('ID=debian\nPRETTY_NAME="Debian 13"\n')
        (tree.parent / "rootfs.tar").write_bytes(bytes(10_000))
        (tmp_path / "rootfs/recipes").mkdir(exist_ok=True)
        (tmp_path / "rootfs/recipes" / name[:8]).write_text(f"{name}{'0' * 52}\n")
        (tmp_path / f"docker-{name}").mkdir()
        (tmp_path / "guest").mkdir(exist_ok=True)
        (tmp_path / "guest" / f"disk-{name}-4g.img").write_bytes(b"x")
        used_s = time.time() - days * 86_400
        os.utime(tree.parent, (used_s, used_s))
    (tmp_path / "rootfs" / OLD / "rootfs/functions").mkdir()
    (tmp_path / "rootfs" / OLD / "rootfs/functions/mine.json").write_text("{}")
    (tmp_path / "checkouts" / ("c" * 16)).mkdir(parents=True)
    (tmp_path / "docker").mkdir()
    return tmp_path


def test_all_are_listed_the_last_used_first(state: Path) -> None:
    found = stock.stored_trees(state)
    assert [each.name for each in found] == ["c" * 16, NEW, OLD]
    assert [each.what for each in found] == ["checkout of a repository", "Debian 13", "Debian 13, with mine"]
    assert found[1].n_bytes > 10_000


def test_an_old_one_is_removed_with_what_was_made_from_it_and_nothing_else(state: Path) -> None:
    (old,) = stock.unused_trees(state, 30 * 86_400)
    stock.remove(old, state)
    left = {str(path.relative_to(state)) for path in state.rglob("*")}
    assert not any(OLD in path for path in left) and f"rootfs/recipes/{OLD[:8]}" not in left
    assert {"docker", f"docker-{NEW}", f"guest/disk-{NEW}-4g.img", f"rootfs/recipes/{NEW[:8]}"} <= left
    assert [each.name for each in stock.stored_trees(state)] == ["c" * 16, NEW]
