"""Parts at a revision of their repository: what cannot be compared is one error."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastro import registry
from lastro.app import own_parts
from lastro.app.provenance import changed_facts
from lastro.errors import InputError
from lastro.scenarios.base import schemas
from lastro.study.load import parse

pytestmark = pytest.mark.processes

PART = """
from lastro.anomalies.base import Anomaly
{imports}

class Noise(Anomaly):
    name = "noise"
    summary = "{summary}"

    def argv(self, demand):
        return ["true"]
"""
PLATFORM = """
from lastro.platforms.runc import Runc

class Mine(Runc):
    name = "mine"
    summary = "as runc"
"""
STUDY = """
[study]
name = "x"
scenario = "chain"
[factors]
anomaly = ["none", "{anomaly}"]
[settings]
platform = "runc"
attachment = "veth-direct"
function = "none"
"""


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of parts in a repository without a commit."""
    folder = tmp_path / "code" / "parts"
    (folder / "anomalies").mkdir(parents=True)
    git(folder.parent, "init", "--quiet")
    monkeypatch.setenv("LASTRO_PARTS", str(folder))
    monkeypatch.setattr(own_parts, "STATE_DIR", tmp_path / "state")
    forget()
    yield folder
    forget()


def forget() -> None:
    registry.scan.cache_clear()
    own_parts.parts_at.cache_clear()
    for module in [
        name for name in sys.modules if name.startswith(("lastro_parts_", "helper_of_parts", "space_of_parts"))
    ]:
        del sys.modules[module]


def git(place: Path, *words: str) -> None:
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", *who, "-C", str(place), *words], check=True, capture_output=True)


def commit(folder: Path, tag: str, imports: str = "") -> None:
    (folder / "anomalies" / "noise.py").write_text(PART.format(summary=tag, imports=imports))
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", tag)
    git(folder, "tag", tag)


def add_helpers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a module and a namespace package that parts can import."""
    (folder / "space_of_parts").mkdir()
    for file in ("helper_of_parts.py", "space_of_parts/helper.py"):
        (folder / file).write_text("LOUD = 1\n\ndef louder():\n    return 2\n")
    monkeypatch.syspath_prepend(str(folder))


def test_each_revision_is_checked_out_once_and_has_its_own_code(parts: Path) -> None:
    for tag in ("v1", "v2"):
        commit(parts, tag)
    found = {tag: own_parts.parts_at(tag) for tag in ("v1", "v2")}
    assert {tag: each.parts["anomaly"]["noise"].summary for tag, each in found.items()} == {"v1": "v1", "v2": "v2"}
    assert [list(each.commits) for each in found.values()] == [["parts/"]] * 2
    assert own_parts.parts_at("v1") is found["v1"] and own_parts.parts_at("").parts == {}


@pytest.mark.parametrize(
    ("imports", "module", "file"),
    [
        ("from helper_of_parts import louder", "helper_of_parts", "helper_of_parts.py"),
        ("from helper_of_parts import LOUD", "helper_of_parts", "helper_of_parts.py"),
        ("from helper_of_parts import *", "helper_of_parts", "helper_of_parts.py"),
        ("def later():\n    import helper_of_parts as helper", "helper_of_parts", "helper_of_parts.py"),
        ("import space_of_parts.helper", "space_of_parts.helper", "space_of_parts/helper.py"),
        ("from space_of_parts import helper", "space_of_parts.helper", "space_of_parts/helper.py"),
        ("import space_of_parts", "space_of_parts", "space_of_parts"),
    ],
)
def test_code_that_all_revisions_would_share_is_refused(
    parts: Path, monkeypatch: pytest.MonkeyPatch, imports: str, module: str, file: str
) -> None:
    add_helpers(parts.parent, monkeypatch)
    commit(parts, "v1", imports)
    with pytest.raises(InputError, match=rf"noise\.py imports {module} from .*/code/{file}, which"):
        own_parts.parts_at("v1")


def test_folders_of_the_same_name_in_two_repositories_keep_their_commits(
    parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other" / "parts"
    (other / "anomalies").mkdir(parents=True)
    git(other.parent, "init", "--quiet")
    (other / "anomalies" / "hum.py").write_text(PART.format(summary="hum", imports="").replace('"noise"', '"hum"'))
    git(other, "add", ".")
    git(other, "commit", "--quiet", "--message", "hum")
    git(other, "tag", "v1")
    commit(parts, "v1")
    monkeypatch.setenv("LASTRO_PARTS", f"{parts}:{other}")
    found = own_parts.parts_at("v1")
    assert {"noise", "hum"} <= found.parts["anomaly"].keys()
    assert list(found.commits) == [str(parts), str(other)] and len(set(found.commits.values())) == 2


@pytest.mark.parametrize("below", ["lib/python3/site-packages", "env/lib"])
def test_what_is_installed_in_the_repository_is_not_code_of_it(
    parts: Path, monkeypatch: pytest.MonkeyPatch, below: str
) -> None:
    monkeypatch.setattr(sys, "prefix", str(parts.parent / "env"))
    (parts.parent / below).mkdir(parents=True)
    add_helpers(parts.parent / below, monkeypatch)
    commit(parts, "v1", "from helper_of_parts import louder\nimport space_of_parts.helper")
    assert own_parts.parts_at("v1").parts["anomaly"]["noise"].cls


def test_what_is_not_in_the_revision_or_in_no_repository_is_one_error(
    parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (parts.parent / "README").write_text("no parts yet\n")
    git(parts.parent, "add", "README")
    git(parts.parent, "commit", "--quiet", "--message", "first")
    git(parts.parent, "tag", "v0")
    with pytest.raises(InputError, match="are not in revision 'v0'"):
        own_parts.parts_at("v0")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("LASTRO_PARTS", str(tmp_path / "elsewhere"))
    with pytest.raises(InputError, match=r"^the parts: \S+/elsewhere is not a Git repository") as wrong:
        own_parts.parts_at("v1")
    assert wrong.value.hint == "commit the parts to a Git repository first: git init, git add, git commit"
    monkeypatch.setenv("LASTRO_PARTS", "")
    with pytest.raises(InputError, match="no parts of your own"):
        own_parts.parts_at("v1")


def test_a_study_must_use_a_part_that_can_differ(parts: Path) -> None:
    commit(parts, "v1")
    own_parts.require_used(parse(STUDY.format(anomaly="noise"), "x.toml", schemas()))
    with pytest.raises(InputError, match="uses no part") as wrong:
        own_parts.require_used(parse(STUDY.format(anomaly="cpu"), "x.toml", schemas()))
    assert wrong.value.hint == "the folders contain: noise"


def test_a_platform_of_a_hop_is_a_part_that_can_differ(parts: Path) -> None:
    (parts / "platforms").mkdir()
    (parts / "platforms" / "mine.py").write_text(PLATFORM)
    text = STUDY.format(anomaly="cpu").replace('function = "none"', 'function = "dpi@mine"')
    own_parts.require_used(parse(text, "x.toml", schemas()))
    (parts / "platforms" / "mine.py").unlink()
    forget()
    with pytest.raises(InputError) as wrong:
        own_parts.require_used(parse(STUDY.format(anomaly="cpu"), "x.toml", schemas()))
    assert wrong.value.hint == "the folders contain no parts"


def test_another_commit_of_the_same_revision_is_another_condition() -> None:
    before, now = ({"parts": {"HEAD": {"parts/": digit * 40}}} for digit in "ab")
    assert changed_facts(before, now) == {"parts.HEAD.parts/": ("a" * 40, "b" * 40)}
