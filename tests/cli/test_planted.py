"""Links, FIFOs and devices that somebody put beside a campaign: not followed, not waited for, not in a bundle."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .conftest import Finished, is_error, lastro
from .suites import CLAIMS, LEVELS, write_folder

SECRET = "TOP SECRET of the reader"
BESIDE = ("campaign.db-journal", "campaign.db-wal", "campaign.db-shm")
# Every path that `bundle` reads, in a suite whose study `late` has not begun.
READ = (
    "suite.json", "cpu", "late", "late/study.toml", "late/claims.toml", "cpu/claims.toml", "cpu/campaign.db",
    *(f"cpu/{name}" for name in BESIDE),
)  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A suite with a study that has not begun, from before there were digests of studies."""
    home = tmp_path_factory.mktemp("planted")
    levels = {"level": ["a", "b"]}
    folder = write_folder(home / "s", {"cpu": (levels, {"replicates": 3}), "late": (levels, {})})
    assert lastro("run", folder, "-o", home / "suite", "--no-report", "--replicates", 3).code == 0
    for file in (home / "suite" / "late").glob("campaign.db*"):
        file.unlink()
    (home / "suite" / "late" / "claims.toml").write_text(CLAIMS)
    index = home / "suite" / "suite.json"
    lines = index.read_text().splitlines()
    index.write_text("\n".join('"digest": ""' if '"digest"' in line else line for line in lines))
    return home / "suite"


@pytest.fixture
def suite(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "suite")


def linked(place: Path) -> None:
    """Move the file or directory out of the suite, and put a link in its place."""
    outside = next(above for above in place.parents if above.name == "suite").with_name("outside")
    if place.exists():
        place.rename(outside)
    else:
        outside.write_text(CLAIMS if place.suffix == ".toml" else "")
    place.symlink_to(outside)


def test_a_suite_without_anything_planted_is_bundled(suite: Path, tmp_path: Path) -> None:
    made = lastro("bundle", suite, "-o", tmp_path / "bundle", drawn=False)
    assert made.code == 0, made
    found = {path.relative_to(tmp_path / "bundle").as_posix() for path in (tmp_path / "bundle").rglob("*")}
    read = {f"campaign/{name}" for name in READ if name.rpartition("/")[2] not in BESIDE}
    assert read <= found, read - found


def _bytes(folder: Path) -> Iterator[bytes]:
    yield from (file.read_bytes() for file in folder.rglob("*") if file.is_file())


@pytest.mark.parametrize("name", READ)
def test_no_link_is_followed_into_a_bundle(suite: Path, tmp_path: Path, name: str) -> None:
    linked(suite / name)
    found = lastro("bundle", suite, "-o", tmp_path / "bundle", drawn=False)
    assert found.code in (2, 5), found
    assert "symbolic link" in found.err and len(found.err.splitlines()) <= 2, found.err
    assert not (tmp_path / "bundle").exists()
    assert not list(tmp_path.glob(".lastro*"))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("late/study.toml", SECRET, "is not TOML"),
        ("late/study.toml", 'password = "x"\n', "password: unknown"),
        ("late/claims.toml", SECRET, "is not TOML"),
        ("late/claims.toml", 'password = "x"\n', "password: unknown"),
        ("cpu/claims.toml", 'password = "x"\n', "password: unknown"),
    ],
)
def test_a_copied_file_is_what_it_claims_to_be(suite: Path, tmp_path: Path, name: str, text: str, message: str) -> None:
    (suite / name).write_text(text)
    found = lastro("bundle", suite, "-o", tmp_path / "bundle", drawn=False)
    assert found.code == 2 and message in found.err, found
    assert not (tmp_path / "bundle").exists()


def test_the_study_that_has_not_begun_is_the_one_of_the_index(suite: Path, tmp_path: Path) -> None:
    text = (suite / "late" / "study.toml").read_text()
    (suite / "late" / "study.toml").write_text(text.replace('name = "', 'name = "other-'))
    is_error(lastro("bundle", suite, "-o", tmp_path / "b"), 2, "but this is the file of the study")


# Folders of studies, which may come from anybody


def test_a_suite_has_the_tables_that_its_claims_read(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "s", {"cpu": (LEVELS, {})}, claims="tables_from = 'tables.toml'\n" + CLAIMS)
    (folder / "claims" / "tables.toml").write_text(CLAIMS)
    assert lastro("run", folder, "-o", tmp_path / "suite", "--no-report").code == 0
    assert (tmp_path / "suite" / "cpu" / "tables.toml").read_text() == CLAIMS


@pytest.mark.parametrize("name", ["cpu.toml", "tables.toml"])
@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (linked, "it is a symbolic link"),
        (lambda place: place.write_text(SECRET), "is not TOML"),
        (lambda place: place.write_text('password = "x"\n'), "password: unknown"),
        (lambda place: (place.unlink(), os.mkfifo(place)), "it is a FIFO"),
    ],
)
def test_no_other_file_gets_into_a_suite(
    tmp_path: Path, name: str, plant: Callable[[Path], object], message: str
) -> None:
    folder = write_folder(tmp_path / "suite", {"cpu": (LEVELS, {})}, claims="tables_from = 'tables.toml'\n" + CLAIMS)
    (folder / "claims" / "tables.toml").write_text(CLAIMS)
    plant(folder / "claims" / name)
    is_error(lastro("run", folder, "-o", tmp_path / "new"), 2, name, message)
    assert not (tmp_path / "new").exists()


# Readers of one campaign


def fifo(place: Path) -> None:
    os.mkfifo(place)


def device(place: Path) -> None:
    place.symlink_to("/dev/zero")


@pytest.mark.parametrize("plant", [fifo, device, linked])
@pytest.mark.parametrize("name", [*BESIDE, "claims.toml"])
def test_what_is_planted_beside_a_database_is_one_error(suite: Path, name: str, plant: Callable[[Path], None]) -> None:
    place = suite / "cpu" / name
    place.unlink(missing_ok=True)
    plant(place)
    for reader in ("claims", "report"):
        found: Finished = lastro(reader, suite / "cpu", *(("-o", "-") if reader == "report" else ()))
        assert found.code in (2, 5) and len(found.err.splitlines()) == 2, found
        assert f"cpu/{name} cannot be" in found.err, found.err


def test_the_tables_that_claims_read_are_copied_and_no_link_to_them_is_followed(suite: Path, tmp_path: Path) -> None:
    for name in ("claims.toml", "tables.toml"):
        (suite / "late" / name).write_text(("tables_from = 'tables.toml'\n" if name == "claims.toml" else "") + CLAIMS)
    assert lastro("bundle", suite, "-o", tmp_path / "bundle", drawn=False).code == 0
    assert (tmp_path / "bundle" / "campaign" / "late" / "tables.toml").read_text() == CLAIMS
    linked(suite / "late" / "tables.toml")
    is_error(lastro("bundle", suite, "-o", tmp_path / "other"), 2, "tables.toml: cannot be read: it is a symbolic link")
