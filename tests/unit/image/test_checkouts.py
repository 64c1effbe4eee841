"""Functions that are built from a repository: real repositories of Git, and nothing changed in them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lastro.errors import ImageError, InputError
from lastro.host.local import LocalHost
from lastro.image import checkouts
from lastro.image.checkouts import GitSource

pytestmark = pytest.mark.processes

HOST = LocalHost()


def git(place: Path, *words: str) -> str:
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "init.defaultBranch=main"]
    return subprocess.run(["git", *who, "-C", str(place), *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def own(tmp_path: Path) -> GitSource:
    """A repository with two commits, of which the first has a tag, and a change that is not committed."""
    place = tmp_path / "code"
    place.mkdir()
    git(place, "init", "--quiet")
    for number, tag in ((1, "v1"), (2, "")):
        (place / "version").write_text(f"{number}\n")
        git(place, "add", "version")
        git(place, "commit", "--quiet", "--message", f"version {number}")
        if tag:
            git(place, "tag", tag)
    (place / "version").write_text("3\n")
    build = ("sh", "-c", "mkdir out && cp version out/ && echo built >&2")
    return GitSource("function 'mine'", str(place), build)


def test_each_revision_is_built_once_and_the_repository_stays_as_it_is(own: GitSource, tmp_path: Path) -> None:
    place, store = Path(own.repository), tmp_path / "checkouts"
    before = (git(place, "status", "--porcelain"), sorted(place.rglob("*")))
    old, new = (checkouts.checkout_of(own, revision, store, HOST) for revision in ("v1", "HEAD"))
    assert not old.exists
    built = [checkouts.ensure(each, HOST) for each in (old, new)]
    assert [(each / "out/version").read_text() for each in built] == ["1\n", "2\n"]
    assert [each.commit for each in (old, new)] == [git(place, "rev-parse", name).strip() for name in ("v1", "HEAD")]
    assert (git(place, "status", "--porcelain"), sorted(place.rglob("*"))) == before
    assert checkouts.checkout_of(own, "v1", store, HOST).exists and len(list(store.iterdir())) == 2
    (built[0] / "out/version").write_text("kept\n")
    assert (checkouts.ensure(old, HOST) / "out/version").read_text() == "kept\n", "it is not built again"


def test_what_is_wrong_is_one_clear_error(own: GitSource, tmp_path: Path) -> None:
    store, bare = tmp_path / "checkouts", tmp_path / "bare"
    bare.mkdir()
    with pytest.raises(InputError, match="has no revision 'v9'"):
        checkouts.checkout_of(own, "v9", store, HOST)
    for place, said in (("nowhere", "is not a directory"), ("bare", "is not a Git repository")):
        with pytest.raises(InputError, match=said):
            checkouts.checkout_of(GitSource("it", str(tmp_path / place)), "HEAD", store, HOST)


def test_a_build_that_fails_is_told_with_its_last_lines_and_leaves_nothing(own: GitSource, tmp_path: Path) -> None:
    failing = GitSource("it", own.repository, ("sh", "-c", "echo no rule; echo stop >&2; exit 2"))
    found = checkouts.checkout_of(failing, "v1", tmp_path / "checkouts", HOST)
    with pytest.raises(ImageError, match="ended with exit code 2: no rule / stop"):
        checkouts.ensure(found, HOST)
    assert not list((tmp_path / "checkouts").iterdir())
