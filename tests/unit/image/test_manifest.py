"""A root filesystem that has changed since it was built is refused."""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from lastro.errors import ImageError
from lastro.host.local import LocalHost
from lastro.image import manifest
from lastro.image.rootfs import Image


@pytest.fixture
def image(tmp_path: Path) -> Image:
    """Files, a directory, a setuid program with a second name, links, an odd name; unpacked as Lastro does."""
    source = tmp_path / "source"
    (source / "usr/bin").mkdir(parents=True)
    (source / "tmp").mkdir()
    (source / "tmp").chmod(0o1777)
    (source / "usr/bin/su").write_text("program")
    (source / "usr/bin/su").chmod(0o4755)
    (source / "usr/bin/second").hardlink_to(source / "usr/bin/su")
    (source / "bin").symlink_to("usr/bin")
    (source / ".hidden\todd\nname\udc80").write_text("x")
    for path in (source, *source.rglob("*")):
        os.utime(path, (1.0, 1_700_000_000.5), follow_symlinks=False)
    directory = tmp_path / "image"
    directory.mkdir()
    with tarfile.open(directory / "rootfs.tar", "w", format=tarfile.PAX_FORMAT) as tar:
        tar.add(source, ".")
    made = Image(hashlib.sha256((directory / "rootfs.tar").read_bytes()).hexdigest(), directory)
    made.tree.mkdir()
    argv = ["tar", "--extract", "--preserve-permissions", f"--file={made.tar}", f"--directory={made.tree}"]
    LocalHost().run(argv)
    return made


def check(image: Image) -> None:
    manifest.check(image, image.tree, LocalHost())


def test_a_tree_as_it_was_unpacked_passes_and_the_tar_is_read_once(
    image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(image)
    monkeypatch.setattr(manifest, "_entries_of_tar", lambda tar: pytest.fail("the tar is read again"))
    check(image)
    manifest.verify(image, LocalHost())


def kept_time(file: Path, change: Callable[[], object]) -> None:
    """As a change by somebody who hides it."""
    found = file.stat()
    change()
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "planted": (lambda tree: (tree / "tmp/x").touch(), "'/tmp' is .*'/tmp/x' was added"),
    "removed": (lambda tree: (tree / "bin").unlink(), "'/bin' is missing"),
    "mode": (lambda tree: (tree / "usr/bin/su").chmod(0o755), "'/usr/bin/su' is 'f 755 .* and was 'f 4755"),
    "time": (lambda tree: os.utime(tree / "usr/bin/su", (1, 1)), "/usr/bin/su"),
    "target": (lambda tree: ((tree / "bin").unlink(), (tree / "bin").symlink_to("/evil")), "l 777 .* /evil"),
    "size": (lambda tree: kept_time(tree / "usr/bin/su", lambda: (tree / "usr/bin/su").write_text("p")), "/second"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_refused_with_what_has_changed(image: Image, what: str) -> None:
    change, told = CHANGES[what]
    change(image.tree)
    with pytest.raises(ImageError, match=told) as caught:
        check(image)
    assert caught.value.hint and str(image.tree) in caught.value.hint


def test_contents_are_compared_on_demand(image: Image) -> None:
    file = image.tree / "usr/bin/su"
    mode = file.stat().st_mode
    kept_time(file, lambda: file.write_text("PROGRAM"))
    file.chmod(mode)
    check(image)
    with pytest.raises(ImageError, match="second: Contents differ"):
        manifest.verify(image, LocalHost())


def test_a_tar_that_has_changed_is_no_measure(image: Image) -> None:
    check(image)
    with image.tar.open("ab") as file:
        file.write(b"more")
    with pytest.raises(ImageError, match=f"was built with {image.digest}"):
        check(image)
