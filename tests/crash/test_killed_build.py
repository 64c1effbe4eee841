"""Whoever dies while an image is built leaves no mount behind, and half an image that the next one removes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lastro.host.ledger import Ledger
from lastro.image import workshop

pytestmark = [pytest.mark.root, pytest.mark.measures]

_PATIENCE_S = 120
_BUILD = """
import sys
from pathlib import Path
from lastro.host.ledger import session
from lastro.image.rootfs import ImageRecipe, ensure
state = Path(sys.argv[1])
with session("a build that is killed", state=state) as held:
    ensure(ImageRecipe(packages=("gpgv",)), state / "rootfs", held.host)
"""


def mounts() -> list[str]:
    return Path("/proc/self/mountinfo").read_text().splitlines()


def test_killed_while_packages_are_configured(tmp_path: Path) -> None:
    before, at_tmp = mounts(), set(Path("/tmp").glob("mmdebstrap*"))
    process = subprocess.Popen([sys.executable, "-c", _BUILD, str(tmp_path)], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + _PATIENCE_S
    while not list(tmp_path.glob("rootfs/building-*/mmdebstrap.*/var/lib/dpkg/info/libc6*.postinst")):
        assert process.poll() is None and time.monotonic() < deadline, "it never came to the packages' own scripts"
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()

    [left] = (tmp_path / "rootfs").glob("building-*")
    assert workshop.abandoned(tmp_path / "rootfs") == [left]
    ledger = Ledger(tmp_path)
    ledger.clean()  # what it had started goes, and with that its mounts
    ledger.close()
    assert mounts() == before
    assert workshop.clean(tmp_path, dry_run=True) == [left] and left.is_dir()
    assert workshop.clean(tmp_path) == [left] and not left.exists()
    assert set(Path("/tmp").glob("mmdebstrap*")) == at_tmp
    assert Path("/dev/null").is_char_device() and Path("/sys/class/net/lo").exists()


def test_what_somebody_builds_is_nobody_elses_to_remove(tmp_path: Path) -> None:
    with workshop.workshop(tmp_path) as first:
        (first / "half").write_text("an image")
        with workshop.workshop(tmp_path) as second:
            assert second != first and (first / "half").is_file()
        assert not second.exists() and workshop.abandoned(tmp_path) == []
    stranger = tmp_path / "building-notes-of-mine-2026"
    stranger.mkdir()
    dead = tmp_path / f"building-{2**22 + 1}-1-abcdefgh"
    dead.mkdir()
    with workshop.workshop(tmp_path):
        assert not dead.exists() and stranger.exists()
