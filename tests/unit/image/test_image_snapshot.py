"""The root filesystem of one moment of Debian's archive: how it is asked for, and what says so afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro.app.provenance import identity
from lastro.errors import CommandFailed, ImageError, InputError
from lastro.host.base import Completed
from lastro.host.local import LocalHost
from lastro.image import guest
from lastro.image.rootfs import Image, ImageRecipe, ensure
from lastro.image.workshop import building, checked_snapshot, mmdebstrap, snapshot_in

from ...support.recording import RecordingHost, answer

pytestmark = pytest.mark.processes

MOMENT = "20261101T000000Z"
SOURCES = [
    f"deb https://snapshot.debian.org/archive/debian/{MOMENT}/ bookworm main",
    f"deb https://snapshot.debian.org/archive/debian/{MOMENT}/ bookworm-updates main",
    f"deb https://snapshot.debian.org/archive/debian-security/{MOMENT}/ bookworm-security main",
]


def image(directory: Path, *sources: str) -> Image:
    apt = directory / "rootfs/etc/apt"
    apt.mkdir(parents=True)
    (apt / "sources.list").write_text("".join(f"{line}\n" for line in sources))
    return Image("7c" * 32, directory)


@pytest.mark.parametrize("text", ["2026-11-01", "20261101T000000", "20261301T000000Z", f" {MOMENT}", "../../evil"])
def test_what_is_not_a_moment_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="not a date and time"):
        checked_snapshot(text)
    monkeypatch.setenv("LASTRO_SNAPSHOT", text)
    with pytest.raises(InputError, match="not a date and time"):
        ImageRecipe.of_this_host(RecordingHost())


def test_a_snapshot_takes_the_place_of_every_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LASTRO_MIRROR", "http://mirror.test/debian")
    today = mmdebstrap(Path("/w"), ["--x"], "bookworm", Path("/run/lastro/t.tar"))
    assert today[-4:] == ["--x", "bookworm", "/run/lastro/t.tar", "http://mirror.test/debian"]
    argv = mmdebstrap(Path("/w"), ["--x"], "bookworm", Path("/run/lastro/t.tar"), snapshot=MOMENT)
    assert argv[-5:] == ["bookworm", "/run/lastro/t.tar", *SOURCES]
    assert '--aptopt=Acquire::Check-Valid-Until "false"' in argv and not any("mirror.test" in word for word in argv)


def test_recipes_of_two_moments_are_two_and_that_of_today_keeps_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images that were built before there were snapshots are found by that key."""
    monkeypatch.delenv("LASTRO_SNAPSHOT", raising=False)
    today = ImageRecipe.of_this_host(RecordingHost())
    assert today.key == "28cf3da0efa1ce09"
    monkeypatch.setenv("LASTRO_SNAPSHOT", MOMENT)
    then = ImageRecipe.of_this_host(RecordingHost())
    assert then.snapshot == MOMENT and then.key != today.key
    assert ImageRecipe.of_this_host(RecordingHost(), snapshot="").key == today.key
    assert ImageRecipe.of_this_host(RecordingHost(), snapshot="20261102T000000Z").key not in (today.key, then.key)


def test_the_image_says_of_which_moment_it_is_and_the_provenance_too(tmp_path: Path) -> None:
    then = image(tmp_path / "then", *SOURCES)
    today = image(tmp_path / "today", "deb http://deb.debian.org/debian bookworm main")
    assert (then.snapshot, today.snapshot, snapshot_in(tmp_path)) == (MOMENT, "", "")
    for built, more in ((then, {"debian_snapshot": MOMENT}), (today, {})):
        bed: Any = SimpleNamespace(host=LocalHost(), image=built, original=built, guest=None)
        scenario: Any = SimpleNamespace(needs_root=True, testbed=bed, guests={}, roots={})
        assert identity(scenario)["root_filesystem"] == {"sha256": "7c" * 32, **more}


def test_the_kernel_of_guests_is_of_the_same_moment(tmp_path: Path) -> None:
    def fails(argv: Sequence[str]) -> Completed | None:
        return answer(code=1, error="E: not found") if "mmdebstrap" in argv else None

    host = RecordingHost(fails, programs=["mmdebstrap"])
    with pytest.raises(ImageError) as caught:
        guest.ensure(image(tmp_path / "then", *SOURCES), tmp_path / "guest", host)
    assert host.command("linux-image")[-3:] == SOURCES and f"debian/{MOMENT}/ reachable" in str(caught.value.hint)


def test_a_snapshot_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    def fails(argv: Sequence[str]) -> Completed | None:
        raise CommandFailed(argv, 1, "E: not found")

    with pytest.raises(ImageError) as caught:
        ensure(ImageRecipe(snapshot=MOMENT), tmp_path, RecordingHost(fails, programs=["mmdebstrap"]))
    assert f"archive/debian/{MOMENT}/ reachable" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("E: Unable to locate package jqq", "does Debian have a package of this name"),
        ("E: The repository 'http://m/debian trixy Release' does not have a Release file.", "have a release of this"),
        ("E: Failed to fetch http://m/InRelease  Temporary failure resolving 'm'", "is the Debian mirror reachable?"),
    ],
)
def test_what_apt_could_not_find_or_fetch_is_the_reason(tmp_path: Path, line: str, said: str) -> None:
    words = f"I: running apt-get update...\n{line}\nI: removing tempdir /x...\nE: mmdebstrap failed to run\n"
    with pytest.raises(ImageError) as wrong, building("the root filesystem", tmp_path, ""):
        raise CommandFailed(["mmdebstrap"], 25, words)
    assert line.removeprefix("E: ").rstrip(".") in wrong.value.message and said in str(wrong.value.hint)
