"""A disk that fills up, at any moment: one error, nothing lost, and with space again the campaign goes on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import Bench, lastro, rows

pytestmark = pytest.mark.root


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "lastro-test", disk], check=True, timeout=20)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True, timeout=20)


def test_a_full_disk_in_mid_campaign(bench: Bench, small_disk: Path) -> None:
    """One error, nothing lost; with space again it goes on to the same end."""
    study = bench.write({"level": ["a", "b"]}, replicates=20, samples=4_000)  # a trial takes some 30 kB
    full = lastro("run", study, "-o", small_disk / "campaign", "--no-report")
    error = full.err.splitlines()[-2:]
    assert full.code == 5 and error[0].startswith("lastro: ") and full.err.count("lastro: ") == 1, full
    assert "free some space" in error[1] and "lastro resume" in error[1]
    before = rows(small_disk / "campaign")
    n_before = sum(row[3] == "valid" for row in before)
    assert 3 < n_before < 40
    assert lastro("status", small_disk / "campaign").code == 0
    assert lastro("results", small_disk / "campaign").code == 0
    again = lastro("resume", small_disk / "campaign", "--no-report")
    assert again.code == 5 and again.err.count("lastro: ") == 1, again

    subprocess.run(["mount", "-o", "remount,size=32m", small_disk], check=True, timeout=20)
    assert lastro("resume", small_disk / "campaign", "--no-report").code == 0
    after = rows(small_disk / "campaign")
    assert after[:n_before] == before[:n_before]
    assert all(row[3:] == ("valid", 1) for row in after) and len(after) == 40
    assert lastro("show", small_disk / "campaign", n_before, "--json").json["attempts"][0]["valid"]


@pytest.mark.parametrize("free_kib", [0, 4, 16, 40, 60, 100])
def test_a_disk_that_is_full_from_the_start(bench: Bench, small_disk: Path, free_kib: int) -> None:
    """However little is left, it is one error, and a whole campaign or none."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(2**20 - 2**10 * (free_kib + 8)))
    with open(ballast, "ab", buffering=0) as file:  # what the file system itself took is not known before
        while True:
            free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
            if free <= free_kib * 1024:
                break
            file.write(bytes(min(free - free_kib * 1024, 4096)))
    study = bench.write({"level": ["a", "b"]}, replicates=2, samples=10_000)
    directory = small_disk / "campaign"
    full = lastro("run", study, "-o", directory, "--no-report")
    assert full.code == 5 and full.err.count("lastro: ") == 1, full
    ballast.unlink()
    if (directory / "campaign.db").exists():
        assert lastro("resume", directory, "--no-report").code == 0
    else:
        assert lastro("run", study, "-o", directory, "--no-report").code == 0
    assert [row[3:] for row in rows(directory)] == [("valid", 1)] * 4


def test_a_bundle_on_a_full_disk(bench: Bench, small_disk: Path) -> None:
    """One error, and nothing left: neither for the one who writes it, nor for the one who unpacks it to verify it."""
    assert bench.run({"level": ["a", "b"]}, samples=40_000).code == 0  # a database of more than a megabyte
    full = lastro("bundle", bench.directory, "-o", small_disk / "b.zip", drawn=False)
    assert full.code == 3 and full.out == "" and full.err.startswith("lastro: ") and len(full.err.splitlines()) == 2
    assert "cannot be written" in full.err and "check the disk space" in full.err
    assert list(small_disk.iterdir()) == []
    assert lastro("bundle", bench.directory, "-o", bench.home / "b.zip", drawn=False).code == 0
    full = lastro("verify", bench.home / "b.zip", env={"TMPDIR": str(small_disk)})
    assert full.code == 3 and full.out == "" and len(full.err.splitlines()) == 2
    assert f"cannot be unpacked below {small_disk}: No space left on device" in full.err and "TMPDIR" in full.err
    assert list(small_disk.iterdir()) == []
