"""Root in directories of other users, with real owners."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lastro.cli import main
from lastro.errors import StudyError
from lastro.host.testbed_file import load_named

from ..support.campaigns import make_campaign

pytestmark = pytest.mark.root
STRANGER = 64_321


@pytest.fixture(autouse=True)
def no_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)


def test_root_writes_no_report_into_the_campaign_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = make_campaign(tmp_path / "campaign", stop_after=2)
    os.chown(directory, STRANGER, STRANGER)
    report = directory / "report.md"
    words = ["report", str(directory), "--format", "md"]
    assert main(words) == 2 and not report.exists()
    assert f"{directory} belongs to user {STRANGER}" in capsys.readouterr().err
    assert main([*words, "-o", str(tmp_path / "mine.md")]) == 0, "reading is another matter"
    monkeypatch.setenv("SUDO_UID", str(STRANGER))
    assert main(words) == 0
    report.unlink()
    monkeypatch.delenv("SUDO_UID")
    assert main([*words, "--trust"]) == 0 and report.exists()


def test_root_follows_no_link_of_another_in_a_sticky_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory, sticky, mine = make_campaign(tmp_path / "campaign", stop_after=2), tmp_path / "tmp", tmp_path / "mine"
    sticky.mkdir()
    sticky.chmod(0o1777)
    mine.mkdir()
    (sticky / "out").symlink_to(mine)
    os.chown(sticky / "out", STRANGER, STRANGER, follow_symlinks=False)
    assert main(["results", str(directory), "--csv", str(sticky / "out" / "a.csv")]) == 2
    assert f"{sticky / 'out'} belongs to user {STRANGER}" in capsys.readouterr().err
    assert list(mine.iterdir()) == []
    assert main(["results", str(directory), "--csv", str(sticky / "a.csv")]) == 0


def test_root_does_not_read_the_testbed_of_another_because_a_campaign_names_it(tmp_path: Path) -> None:
    file = tmp_path / "testbed.toml"
    file.write_text('[dut]\ncpus = "0"\n')
    assert load_named(file).roles["dut"].cpus == "0"
    os.chown(file, STRANGER, STRANGER)
    with pytest.raises(StudyError, match=f"it belongs to user {STRANGER}"):
        load_named(file)
