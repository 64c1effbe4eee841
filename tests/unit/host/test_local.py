"""The umask of the user who starts Lastro reaches nothing that Lastro makes on a host."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import lastro
from lastro.host.local import LocalHost
from lastro.image.workshop import workshop

pytestmark = pytest.mark.processes


@pytest.fixture(autouse=True)
def narrow() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


def test_commands_and_files_have_the_usual_modes(tmp_path: Path) -> None:
    host = LocalHost()
    assert host.run(["sh", "-c", "umask"]).text.strip() == "0022"
    process = host.spawn(["sh", "-c", "umask"])
    assert process.wait_line("0", 5).strip() == "0022"
    process.stop()
    host.write_text(str(tmp_path / "one/two/file"), "text")
    modes = [(tmp_path / each).stat().st_mode & 0o777 for each in ("one", "one/two", "one/two/file")]
    assert modes == [0o755, 0o755, 0o644]
    (tmp_path / "one/two/file").chmod(0o600)
    host.write_text(str(tmp_path / "one/two/file"), "other")
    assert (tmp_path / "one/two/file").stat().st_mode & 0o777 == 0o600


def test_a_root_filesystem_is_built_with_the_usual_modes(tmp_path: Path) -> None:
    with workshop(tmp_path / "store") as work:
        (work / "rootfs").mkdir()
        assert (work / "rootfs").stat().st_mode & 0o777 == 0o755
    assert os.umask(0o077) == 0o077, "files of a campaign have the modes that its user wants"


def test_only_one_place_starts_programs_of_a_trial() -> None:
    """A second one would need the umask, too."""
    source = Path(lastro.__file__).parent
    starts = re.compile(r"subprocess\.(?:run|Popen|check_\w+)\(")
    folders = [source / name for name in ("platforms", "instruments", "functions", "anomalies", "scenarios", "image")]
    assert [file for folder in folders for file in folder.rglob("*.py") if starts.search(file.read_text())] == []
