"""`tools/release`: what it writes into a tree, and what it refuses. That it makes the files is a slow test."""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import json
import subprocess
import tarfile
import tomllib
import zipfile
from datetime import date
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
FILES = ("src/lastro/__init__.py", "CITATION.cff", "CHANGELOG.md")


@pytest.fixture(scope="module")
def release() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("release", str(ROOT / "tools" / "release"))
    spec = importlib.util.spec_from_loader("release", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    return tmp_path


def test_a_version_is_written_where_it_is_read(release: ModuleType, tree: Path) -> None:
    release.write_version(tree, "0.2.0rc1", date(2027, 3, 1))
    package, citation, changelog = ((tree / name).read_text(encoding="utf-8") for name in FILES)
    assert '__version__ = "0.2.0rc1"\n' in package
    assert "\nversion: 0.2.0rc1\ndate-released: 2027-03-01\n" in citation
    assert "\n## Unreleased\n\n## 0.2.0rc1 (2027-03-01)\n\nEverything so far." in changelog
    with pytest.raises(ValueError, match=r"CHANGELOG\.md: nothing is unreleased"):
        release.write_version(tree, "0.2.0", date(2027, 3, 2))
    release_dates = (tree / "CITATION.cff").read_text(encoding="utf-8").count("date-released")
    assert release_dates == 1


@pytest.mark.parametrize("version", ["1", "v0.1.0", "0.1", "0.1.0-rc1", "../0.1.0"])
def test_what_is_no_version_is_refused(release: ModuleType, version: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert release.main([version]) == 2
    assert f"'{version}' is no version such as 0.1.0" in capsys.readouterr().err


@pytest.mark.slow
def test_all_files_of_a_release_are_made_and_nothing_else_changes(tmp_path: Path) -> None:
    clone, git = tmp_path / "clone", ("git", "-C", str(tmp_path / "clone"))
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    for key in ("user.name", "user.email"):
        subprocess.run([*git, "config", key, "lastro@localhost"], check=True)
    before = subprocess.run([*git, "log", "--all", "--format=%H"], check=True, capture_output=True).stdout
    subprocess.run([clone / "tools" / "release", "9.9.9"], check=True)
    made = clone / "dist" / "9.9.9"
    with zipfile.ZipFile(made / "lastro-9.9.9-py3-none-any.whl") as wheel:
        assert b'__version__ = "9.9.9"' in wheel.read("lastro/__init__.py")
    with tarfile.open(made / "lastro-9.9.9.tar.gz") as sdist:
        assert "lastro-9.9.9/CHANGELOG.md" in sdist.getnames()
    components = json.loads((made / "lastro-9.9.9.cdx.json").read_text())
    assert components["metadata"]["component"]["version"] == "9.9.9"
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {"numpy", "scipy", "jinja2"} <= {each["name"] for each in components["components"]} and needed
    for line in (made / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((made / name).read_bytes()).hexdigest() == digest
    assert subprocess.run([*git, "log", "--all", "--format=%H"], check=True, capture_output=True).stdout == before
    assert subprocess.run([*git, "status", "--porcelain"], check=True, capture_output=True).stdout in (
        b"",
        b"?? dist/\n",
    )
