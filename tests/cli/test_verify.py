"""`lastro verify`: damage that is named, what the database contradicts, and input that is not a bundle."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lastro.app import documents, verify
from lastro.builders.crate import METADATA
from lastro.cli import main
from lastro.results.bundle_archive import MANIFEST

from .bundled import small
from .conftest import is_error, lastro


@pytest.fixture
def made_once(zipped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the database yields, made once for all bundles of the same campaign."""
    if not _made:
        with zipfile.ZipFile(zipped) as file:
            place = zipped.parent / "whole"
            file.extractall(place)
        _made.extend(documents.documents(place, documents.Language("en")))
    monkeypatch.setattr(verify, "documents", lambda folder, say: iter(_made))


_made: list[documents.Document] = []


def test_a_bundle_verifies_as_zip_as_directory_and_zipped_by_others(
    zipped: Path, unpacked: Path, tmp_path: Path, made_once: None, capsys: pytest.CaptureFixture[str]
) -> None:
    again = shutil.make_archive(str(tmp_path / "again"), "zip", unpacked)
    for place in (zipped, unpacked, again):
        assert main(["verify", str(place)]) == 0
        out = capsys.readouterr().out
        assert out.endswith("verified\n") and out.count("all equal") == 2 and "Other versions" not in out
    subprocess.run(["sha256sum", "--quiet", "--strict", "--check", MANIFEST], cwd=unpacked, check=True, timeout=20)


# Damage


def changed(file: Path, at: int = 20) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)


KINDS = ("campaign/campaign.db", "campaign/study.toml", "report/report.html", "report/figures/course.svg",
         "report/tables/trials.csv", "record/provenance.json", "ro-crate-metadata.json", "README.md")  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_a_flipped_byte_is_named(
    name: str, unpacked: Path, made_once: None, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = hashlib.sha256((unpacked / name).read_bytes()).hexdigest()
    changed(unpacked / name)
    actual = hashlib.sha256((unpacked / name).read_bytes()).hexdigest()
    assert main(["verify", str(unpacked), "--json"]) == 9
    found = json.loads(capsys.readouterr().out)
    assert found["damaged"] == [{"file": name, "reason": f"SHA-256 is {actual}, expected {expected}"}]
    assert found["was_rebuilt"] == (not name.startswith("campaign/"))
    wrong = [each["file"] for each in found["different"]]
    assert wrong == ([name] if name.startswith(("report", "record")) else [])


def test_no_byte_of_a_zip_can_change_unnoticed(zipped: Path, tmp_path: Path, made_once: None) -> None:
    whole, copy = zipped.read_bytes(), tmp_path / "copy.zip"
    places = {*range(0, len(whole), len(whole) // 60), *range(len(whole) - 140, len(whole), 3)}
    for at in sorted(places):
        data = bytearray(whole)
        data[at] ^= 0xFF
        copy.write_bytes(data)
        assert main(["verify", str(copy)]) in (2, 9), at


def test_a_zip_names_the_file_that_is_damaged_inside(
    zipped: Path, tmp_path: Path, made_once: None, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copy(zipped, tmp_path))
    changed(copy, zipfile.ZipFile(copy).getinfo("report/report.html").header_offset + 300)
    assert main(["verify", str(copy)]) == 9
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("  report/report.html: ") and "expected SHA-256" in line for line in lines), lines
    assert any(line.startswith("  the zip itself: ") for line in lines)
    assert lines[-1] == "not verified: damaged"


def forge(bundle: Path, name: str, old: str, new: str) -> None:
    """Change the first place in a file that has a text, and its hash."""
    file, manifest = bundle / name, bundle / MANIFEST
    before = hashlib.sha256(file.read_bytes()).hexdigest()
    file.write_text(file.read_text().replace(old, new, 1))
    manifest.write_text(manifest.read_text().replace(before, hashlib.sha256(file.read_bytes()).hexdigest()))


def test_files_that_are_missing_added_or_forged(
    unpacked: Path, made_once: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """A forger who changes a number, or a point of a figure, and its hashes is contradicted by the database."""
    (unpacked / "report" / "report.tex").unlink()
    (unpacked / "report" / "more.txt").write_text("x")
    forge(unpacked, "report/report.md", "3 randomised blocks", "9 randomised blocks")
    forge(unpacked, "report/report.html", '<path d="M ', '<path d="M 1')
    assert main(["verify", str(unpacked)]) == 9
    out = capsys.readouterr().out
    assert "  report/report.tex: is missing, but SHA256SUMS lists it" in out
    assert "  report/more.txt: is not listed in SHA256SUMS" in out
    assert re.search(r"report/report.html: line \d+ is .*<path d=\"M 1", out)
    assert "9 randomised blocks" in out and "but the database yields" in out and "3 randomised blocks" in out


def test_a_forged_file_that_is_too_large_to_compare_by_lines_is_found(
    unpacked: Path, made_once: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    most = max((unpacked / name).stat().st_size for name in (METADATA, MANIFEST))
    monkeypatch.setattr(verify, "_MOST_TEXT_BYTES", most)
    forge(unpacked, "report/report.html", '<path d="M ', "\n" * (most + 1) + '<path d="M ')
    assert main(["verify", str(unpacked)]) == 9
    out = capsys.readouterr().out
    assert re.search(r"  report/report.html: has \d+ bytes, but the database yields \d+\n", out)
    assert out.endswith("not verified: the database yields other files\n")


def test_a_wrong_hash_in_the_list_is_not_blamed_on_the_file(
    unpacked: Path, made_once: None, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (unpacked / MANIFEST).read_text()
    line = next(line for line in text.splitlines() if line.endswith("report/report.tex"))
    (unpacked / MANIFEST).write_text(text.replace(line, "0" * 64 + line[64:]) + "what is this\n")
    assert main(["verify", str(unpacked)]) == 9
    out = capsys.readouterr().out
    assert f"SHA256SUMS: lists SHA-256 {'0' * 64} for report/report.tex, but the file and" in out
    assert "is not a SHA-256 and a name: 'what is this'" in out


def test_a_wrong_hash_of_what_the_database_yields_is_not_blamed_on_the_file(
    unpacked: Path, made_once: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """The description of the bundle has no hash of a transcript, but the database has the transcript."""
    name = "record/transcripts/trial-1-attempt-1.json"
    actual = hashlib.sha256((unpacked / name).read_bytes()).hexdigest()
    wrong = actual[:-1] + ("1" if actual[-1] == "0" else "0")
    manifest = unpacked / MANIFEST
    manifest.write_text(manifest.read_text().replace(f"{actual}  {name}", f"{wrong}  {name}"))
    assert main(["verify", str(unpacked), "--json"]) == 9
    found = json.loads(capsys.readouterr().out)
    reason = f"lists SHA-256 {wrong} for {name}, but the file has {actual}, and the database yields it"
    assert found["damaged"] == [{"file": MANIFEST, "reason": reason}] and found["different"] == []


@pytest.mark.parametrize(("data", "reason"), [(b"\xff", "is not UTF-8"), (b"", "does not end with a newline")])
def test_a_list_of_hashes_that_cannot_be_read_is_the_only_finding(
    data: bytes, reason: str, unpacked: Path, made_once: None, capsys: pytest.CaptureFixture[str]
) -> None:
    (unpacked / MANIFEST).write_bytes(data)
    assert main(["verify", str(unpacked)]) == 9
    assert capsys.readouterr().out.splitlines() == [
        "0 files compared with their SHA-256: 1 damaged",
        f"  SHA256SUMS: {reason}",
        "Nothing was made again from the database, since the campaign or the list of hashes is damaged.",
        "not verified: damaged",
    ]


def test_another_version_that_yields_another_file_is_said(
    bundled_campaign: Path,
    tmp_path: Path,
    undrawn: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("lastro.figures.pictures", lambda *of: [])  # what is told is of a table
    with monkeypatch.context() as old:
        for module in ("lastro.app.bundle", "lastro.render.html", "lastro.render.latex"):
            old.setattr(f"{module}.__version__", "0.0.9")
        assert main(["bundle", str(bundled_campaign), "-o", str(tmp_path / "old")]) == 0
    capsys.readouterr()
    assert main(["verify", str(tmp_path / "old")]) == 0
    out = capsys.readouterr().out
    assert "  Lastro 0.0.9, here " in out and out.endswith("verified\n")
    monkeypatch.setattr("lastro.app.documents._DIGITS", 3)
    assert main(["verify", str(tmp_path / "old")]) == 8
    out = capsys.readouterr().out
    assert "  report/tables/results.json: line " in out and "1 different" in out
    assert out.splitlines()[-1].startswith("undecided: the hashes are right")


# What is not a bundle


def _zip_with(*names: str, **options: Any) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        with zipfile.ZipFile(folder / "bad.zip", "w", zipfile.ZIP_DEFLATED) as file:
            for name in names:
                info = zipfile.ZipInfo(name)
                info.external_attr = options.get("mode", 0o644) << 16
                file.writestr(info, options.get("text", "x"), zipfile.ZIP_DEFLATED)
        return folder / "bad.zip"

    return make


def _text(folder: Path) -> Path:
    (folder / "text.zip").write_text("not a zip")
    return folder / "text.zip"


def _fifo(folder: Path) -> Path:
    os.mkfifo(folder / "fifo")
    return folder / "fifo"


def _link(folder: Path) -> Path:
    (folder / "crate").mkdir()
    (folder / "crate" / "passwd").symlink_to("/etc/passwd")
    return folder / "crate"


CLIMBING = ("../evil", "/etc/evil", "a/../../evil", "a\\..\\evil", "./a", "a//b")
BAD: dict[str, tuple[Callable[[Path], Path], str]] = {
    "missing": (lambda folder: folder / "no.zip", "cannot be read: No such file"),
    "text": (_text, "is not a bundle: it is not a zip"),
    "fifo": (_fifo, "is neither a file nor a directory"),
    "another-zip": (_zip_with("a.txt"), "is not a Lastro bundle: it has no ro-crate-metadata.json"),
    "another-crate": (_zip_with("ro-crate-metadata.json"), "it has no SHA256SUMS"),
    "no-campaign": (_zip_with("ro-crate-metadata.json", MANIFEST), "it has no campaign"),
    "a-campaign": (lambda folder: small(folder / "c"), "it has no ro-crate-metadata.json"),
    "link-in-zip": (_zip_with("a", mode=stat.S_IFLNK | 0o777), "'a' is a link"),
    "link": (_link, "'passwd' is a link or a special file"),
    "twice": (_zip_with("a", "a"), "'a' is in the zip twice"),
    **{
        f"climbs-{number}": (_zip_with(name), "is not the name of a file inside")
        for number, name in enumerate(CLIMBING)
    },
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("kind", BAD)
def test_what_is_not_a_bundle_is_one_error(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make, words = BAD[kind]
    place = make(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert main(["verify", str(place)]) == 2
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == "" and len(lines) == 2 and lines[0].startswith(f"lastro: {place}") and words in lines[0], err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.99])
def test_a_zip_that_is_cut_off_is_one_error(zipped: Path, share: float, tmp_path: Path) -> None:
    copy = tmp_path / "cut.zip"
    copy.write_bytes(zipped.read_bytes()[: int(share * zipped.stat().st_size)])
    is_error(lastro("verify", copy), 2, "cut.zip is a zip that is cut off or damaged" if share else "it is not a zip")


def test_a_zip_without_its_last_bytes_is_damaged(
    zipped: Path, tmp_path: Path, made_once: None, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cut.zip").write_bytes(zipped.read_bytes()[:-10])
    assert main(["verify", str(tmp_path / "cut.zip")]) == 9
    assert "  the zip itself: the SHA-256 at its end is cut off" in capsys.readouterr().out


def test_a_zip_that_claims_too_much_is_refused(tmp_path: Path) -> None:
    file = _zip_with("a", text="x" * 100)(tmp_path)
    data = bytearray(file.read_bytes())
    at = data.rindex(b"PK\x01\x02") + 24  # the uncompressed size in the central directory: APPNOTE 4.3.12
    data[at : at + 4] = (2**31).to_bytes(4, "little")
    file.write_bytes(data)
    is_error(lastro("verify", file), 2, "claims to unpack to more data")
