"""What other people's hosts, disks, proxies and spreadsheets need: hints that fit, and forms that they can read."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from lastro.errors import CommandFailed, ImageError, WriteFailed
from lastro.host.cgroups import CgroupsV2, Resources
from lastro.host.local import LocalHost
from lastro.image.workshop import building, mmdebstrap
from lastro.plain import SUBSTITUTES, SUBSTITUTING
from lastro.results.export import CsvStyle, to_csv
from lastro.results.read import load_campaign
from lastro.results.store import Store
from lastro.words.numbers import VERDICT_MARKS
from lastro.words.remarks import _SIGNS

from ...support.campaigns import make_campaign, make_study

NAME = "/lastro/0a1b2c/one"


@pytest.mark.parametrize("name", ["no_proxy", "NO_PROXY", "https_proxy"])
def test_packages_are_fetched_as_the_users_proxies_say(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in ("http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(each, raising=False)
        monkeypatch.delenv(each.upper(), raising=False)
    monkeypatch.setenv(name, "mirror.internal")
    argv = mmdebstrap(Path("/work"), [], "bookworm", Path("/work/tree"))
    assert f"{name.lower()}=mirror.internal" in argv


@pytest.mark.parametrize(
    ("code", "stderr", "hint"),
    [
        (1, "tar: ./usr: Cannot write: No space left on device", "free some space on the disk of /store"),
        (1, "E: Failed to fetch", "is the Debian mirror reachable"),
        (127, "tree: 1: mount: not found", "install the program that it names"),
    ],
)
def test_a_full_disk_or_a_missing_program_is_not_the_fault_of_the_mirror(code: int, stderr: str, hint: str) -> None:
    with pytest.raises(ImageError) as caught, building("the root filesystem", Path("/store"), ""):
        raise CommandFailed(["mmdebstrap"], code, stderr)
    assert str(caught.value.hint).startswith(hint)


def test_an_overlay_that_cannot_lie_on_an_overlay_has_a_hint() -> None:
    words = (
        "mount: /run/x/root: wrong fs type, bad option, bad superblock on overlay, missing codepage or helper program"
    )
    assert "LASTRO_STATE" in str(CommandFailed(["sh", "-e"], 32, words).hint)
    assert CommandFailed(["sh", "-e"], 32, "mount: /x: permission denied").hint is None


class RefusingHost(LocalHost):
    """A host whose kernel refuses a controller, and all that are written with it."""

    def __init__(self, refused: str, number: int) -> None:
        super().__init__()
        self.refused, self.number = refused, number
        self.wrote: list[tuple[str, str]] = []

    def write_text(self, path: str, text: str) -> None:
        if self.refused in text.split() or self.refused == Path(path).name:
            raise WriteFailed(path, text, os.strerror(self.number))
        self.wrote.append((Path(path).name, text))


@pytest.mark.parametrize(
    ("number", "hint"), [(16, "a group with processes"), (22, "does not accept this value"), (30, "mounted read-only")]
)
def test_a_controller_that_the_kernel_refuses_is_named_with_a_hint(tmp_path: Path, number: int, hint: str) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    host = RefusingHost("+memory", number)
    with pytest.raises(WriteFailed, match=r"could not write '\+memory' to .*/cgroup\.subtree_control") as caught:
        CgroupsV2(tmp_path).make(host, NAME)
    assert hint in str(caught.value.hint)
    assert host.wrote == [("cgroup.subtree_control", f"+{each}") for each in ("cpuset", "cpu", "io")]
    limited = RefusingHost("cpu.max", number)
    with pytest.raises(WriteFailed, match=r"cpu\.max") as caught:
        CgroupsV2(tmp_path).make(limited, NAME, Resources(cpus=0.5))
    assert hint in str(caught.value.hint)


def test_a_terminal_that_lacks_the_marks_shows_others_that_differ() -> None:
    def shown(text: str) -> str:
        return text.encode("ascii", SUBSTITUTING).decode()

    assert shown("▲ ▼ ≈ ⊕") == "+ - ~ *" and shown("×0.93 ± 0.1 ☃") == "x0.93 +- 0.1 ?"
    for marks in (VERDICT_MARKS.values(), _SIGNS.values()):
        found = [shown(mark) for mark in marks]
        assert len(set(found)) == len(found) and "?" not in found, "a legend explains each"
    assert all(text.isascii() for text in SUBSTITUTES.values())
    assert "±▲".encode("latin-1", SUBSTITUTING) == b"\xb1+", "what the encoding has is kept"


def test_a_spreadsheet_with_a_decimal_comma_reads_the_values(tmp_path: Path) -> None:
    make_campaign(tmp_path / "c", make_study(replicates=1), value=lambda levels, block, metric: 1.25)
    with Store.open(tmp_path / "c", readonly=True) as store:
        data = load_campaign(store)
    text = to_csv(data, style=CsvStyle(";", ",", bom=True))
    assert text.startswith("\ufefftreatment;")
    (heads, *rows) = csv.reader(text.removeprefix("\ufeff").splitlines(), delimiter=";")
    assert {row[heads.index("value")] for row in rows} == {"1,25"}
    assert {len(row) for row in rows} == {len(heads)}
    assert to_csv(data).startswith("treatment,") and ",1.25," in to_csv(data)
