"""What a suite keeps is whole, whatever cuts its writing short: a full disk, a kill, the power."""

from __future__ import annotations

import errno
import os
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lastro.campaign import suite
from lastro.campaign.suite import Folder
from lastro.errors import StoreError
from lastro.results.connection import BoundedConnection
from lastro.results.store import Store
from lastro.study.design import treatments, trials

from ...support.campaigns import make_study

STUDY = make_study({"level": ("a", "b")}, replicates=2)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The kernel writes so many bytes of a file, and refuses the rest, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


CLAIMS = """[[claim]]
id = 'faster'
says = 'a is faster'
direction = 'higher'
compare = { metric = 'speed', of = { level = 'a' }, to = { level = 'b' } }
"""


def folder_at(path: Path) -> Folder:
    (path / "claims").mkdir(parents=True)
    (path / "claims" / "cpu.toml").write_text(CLAIMS)
    return Folder(path, "", "", (path / "cpu.toml", path / "disk.toml"))


def test_a_campaign_that_cannot_begin_leaves_the_study_that_a_suite_has_put_there(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(STUDY.source)
    assert len(STUDY.source) > 10
    rows = treatments(STUDY)
    with files_of_at_most(10), pytest.raises(StoreError, match=r"study\.toml cannot be written"):
        Store.create(tmp_path, STUDY, rows, trials(STUDY, len(rows)), {})
    assert file.read_text() == STUDY.source
    assert [each.name for each in tmp_path.iterdir()] == ["study.toml"]


def test_the_index_is_written_when_all_that_it_counts_on_would_outlive_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is on the disk before it has its name, and the names of all others before that of the index."""
    done: list[str] = []
    place, fsync, replace = tmp_path / "out", os.fsync, os.replace

    def synced(descriptor: int) -> None:
        found = Path(f"/proc/self/fd/{descriptor}").readlink()
        done.append(f"sync {found.relative_to(place)}")
        fsync(descriptor)

    def named(new: str, name: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        assert src_dir_fd == dst_dir_fd
        folder = Path(f"/proc/self/fd/{dst_dir_fd}").readlink().relative_to(place)
        assert done[-1] == f"sync {folder / new}"
        done.append(f"name {folder / name}")
        replace(new, name, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", named)
    suite.create(place, folder_at(tmp_path / "mine"), "mine", [STUDY, STUDY], lambda name: None)
    for name in ("cpu/study.toml", "cpu/claims.toml", "disk/study.toml", "suite.json"):
        assert done[done.index(f"name {name}") + 1] == f"sync {Path(name).parent}"
    assert done.index("sync .") < done.index("name suite.json")
    assert done[-1] == "sync ."


@pytest.mark.parametrize("nth", range(9))
def test_a_disk_that_fails_at_any_sync_is_one_clear_error(
    nth: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = iter(range(100))

    def fails(_: int) -> None:
        if next(calls) == nth:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(StoreError, match="cannot be written: Input/output error"):
        suite.create(tmp_path / "out", folder_at(tmp_path / "mine"), "mine", [STUDY, STUDY], lambda name: None)
    assert not list(tmp_path.rglob("*.new"))


def test_an_interrupt_as_soon_as_a_transaction_has_begun_takes_nothing_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def execute(self: BoundedConnection, sql: str, *args: Any) -> sqlite3.Cursor:
        found = sqlite3.Connection.execute(self, sql, *args)
        if sql.startswith("BEGIN"):
            raise KeyboardInterrupt
        return found

    rows = treatments(STUDY)
    with Store.create(tmp_path / "campaign", STUDY, rows, trials(STUDY, len(rows)), {}) as store:
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(BoundedConnection, "execute", execute)
            store.log("2026-01-01T00:00:00Z", "started", "")
        store.log("2026-01-01T00:00:01Z", "interrupted", "")
    with Store.open(tmp_path / "campaign", readonly=True) as store:
        assert [kind for _, kind, _ in store.events()] == ["interrupted"]
