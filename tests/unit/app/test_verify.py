"""A small bundle with every bit flipped, and cut at every length: none of these verifies."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastro.app import verify as verification
from lastro.app.verify import verify
from lastro.builders.crate import METADATA
from lastro.errors import InputError
from lastro.results.bundle_archive import MANIFEST, write_zip

FILES = {METADATA: b'{"@graph": []}\n', "campaign/campaign.db": b"rows"}


@pytest.fixture(autouse=True)
def _of_a_campaign_without_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "documents", lambda folder, say: iter(()))
    monkeypatch.setattr(verification, "versions", lambda: {"Lastro": "1"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The bundle as a directory."""
    for name, text in FILES.items():
        (tmp_path / "b" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "b" / name).write_bytes(text)
    lines = [f"{hashlib.sha256(text).hexdigest()}  {name}\n" for name, text in FILES.items()]
    (tmp_path / "b" / MANIFEST).write_text("".join(lines))
    return tmp_path / "b"


@pytest.fixture
def sealed(folder: Path, tmp_path: Path) -> Path:
    write_zip(folder, [*FILES, MANIFEST], tmp_path / "b.zip")
    return tmp_path / "b.zip"


def verified(place: Path) -> bool:
    try:
        found = verify(place)
    except InputError:
        return False
    return not (found.damaged or found.different)


def altered(whole: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the bytes with each bit flipped, with the end cut off at each length, with zeros there, and with more."""
    for at in range(len(whole)):
        for bit in range(8):
            data = bytearray(whole)
            data[at] ^= 1 << bit
            yield f"bit {bit} of byte {at}", bytes(data)
        yield f"cut at {at}", whole[:at]
    for n in range(1, 100):
        yield f"{n} zeros at the end", whole[:-n] + bytes(n)
    yield "one more byte", whole + b"\n"


def test_no_altered_zip_verifies(sealed: Path, tmp_path: Path) -> None:
    whole, copy = sealed.read_bytes(), tmp_path / "copy.zip"
    assert verified(sealed) and len(whole) < 1000
    for how, data in altered(whole):
        copy.write_bytes(data)
        assert not verified(copy), how


def test_a_zip_of_another_program_verifies_but_not_with_more_after_its_end(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(other, "w") as file:
        for name in (*FILES, MANIFEST):
            file.write(folder / name, name)
    assert verified(other)
    other.write_bytes(other.read_bytes() + b"\n")
    assert [(each.file, each.reason) for each in verify(other).damaged] == [
        ("the zip itself", "bytes are missing, changed or added at its end")
    ]


def test_no_altered_list_of_hashes_verifies(folder: Path) -> None:
    """In a directory, nothing but its own lines protects the list."""
    whole = (folder / MANIFEST).read_bytes()
    assert verified(folder)
    for how, data in altered(whole):
        (folder / MANIFEST).write_bytes(data)
        assert not verified(folder), how


def test_a_list_with_another_character_for_a_newline_is_named(folder: Path) -> None:
    whole = (folder / MANIFEST).read_bytes()
    for other in b"\v\f\r\x1c\x1d\x1e":
        (folder / MANIFEST).write_bytes(whole[:-1] + bytes([other]))
        assert {each.file for each in verify(folder).damaged} >= {MANIFEST}, other
        (folder / MANIFEST).write_bytes(whole.replace(b"\n", bytes([other]), 1))
        assert {each.file for each in verify(folder).damaged} >= {MANIFEST}, other
