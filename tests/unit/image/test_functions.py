"""The files of a function that a study brings, as a part of the root filesystem; nothing of them is executed."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from lastro.errors import ImageError, InputError, LastroError
from lastro.host.base import Completed
from lastro.host.local import LocalHost
from lastro.image import functions
from lastro.image.functions import function_descriptions, function_in
from lastro.image.rootfs import Image
from lastro.study.own_function import OwnFunction

from ...support.recording import RecordingHost, answer

OUT = "../../../../../../../../etc/passwd"
ELF = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00"


@pytest.fixture
def base(tmp_path: Path) -> Image:
    """A root filesystem with one directory."""
    tree = tmp_path / "store" / "new" / "rootfs"
    (tree / "etc").mkdir(parents=True)
    subprocess.run(["tar", "-C", str(tree), "-cf", str(tree.with_suffix(".tar")), "./"], check=True)
    digest = hashlib.sha256(tree.with_suffix(".tar").read_bytes()).hexdigest()
    return Image(digest, tree.parent.rename(tmp_path / "store" / digest[:12]))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A function: /bin is a link, and the program in it is, too."""
    tree = tmp_path / "files"
    (tree / "usr" / "bin").mkdir(parents=True)
    (tree / "opt").mkdir()
    (tree / "bin").symlink_to("usr/bin")
    (tree / "opt" / "tool").write_text("#!/bin/sh\n")
    (tree / "opt" / "tool").chmod(0o755)
    (tree / "usr" / "bin" / "run").symlink_to("/opt/tool")
    (tree / "passwd").symlink_to(OUT)
    (tree / "run").symlink_to("/etc")
    return tree


def mine(tree: Path, *command: str, **more: object) -> OwnFunction:
    return OwnFunction("mine", str(tree), command=command or ("run",), **more)  # type: ignore[arg-type]


def added(base: Image, *own: OwnFunction) -> Image:
    return functions.with_functions(base, own, base.directory.parent, LocalHost())


def test_without_functions_the_image_is_the_same(base: Image) -> None:
    assert added(base) is base and function_descriptions(base) == {}


def test_the_files_are_part_of_the_image_and_stay_in_their_place(base: Image, files: Path) -> None:
    made = added(base, mine(files, ready=("/bin/run", "-t"), environment={"A": "b"}))
    place = made.tree / "functions" / "mine"
    assert (place / "opt" / "tool").read_text() == "#!/bin/sh\n"
    assert [str((place / each).readlink()) for each in ("bin", "passwd")] == ["usr/bin", OUT]
    assert {each: list((place / each).iterdir()) for each in functions.MOUNT_POINTS} == {
        each: [] for each in functions.MOUNT_POINTS
    }
    assert not (place / "run").is_symlink() and (place / "tmp").stat().st_mode & 0o7777 == 0o1777
    found = function_in(made, "mine")
    assert found and (found.command, found.ready, found.directory) == (("run",), ("/bin/run", "-t"), "/")
    assert found.environment["A"] == "b" and "/bin" in found.environment["PATH"].split(":")
    assert function_descriptions(made)["mine"]["sha256"] == found.sha256 and function_in(made, "other") is None
    assert not list(base.directory.parent.glob("building-*"))


def test_the_same_files_are_the_same_image_and_a_change_makes_another(base: Image, files: Path, tmp_path: Path) -> None:
    first = added(base, mine(files))
    copied = tmp_path / "elsewhere"
    subprocess.run(["cp", "-r", "--no-dereference", str(files), str(copied)], check=True)
    assert added(base, mine(copied)).digest == first.digest
    other_command = added(base, mine(files, "run", "--fast"))
    assert other_command.digest != first.digest
    assert function_descriptions(other_command)["mine"]["sha256"] == function_descriptions(first)["mine"]["sha256"]
    (copied / "opt" / "tool").write_text("#!/bin/sh\nexit\n")
    assert (
        function_descriptions(added(base, mine(copied)))["mine"]["sha256"]
        != function_descriptions(first)["mine"]["sha256"]
    )


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("walk",), "its files have no executable program 'walk', which is its command"),
        (("/passwd",), "no executable program '/passwd'"),  # a link out of the files
        (("/bin/../../opt",), "no executable program"),
        (("/plain",), "no executable program '/plain'"),
    ],
)
def test_a_command_that_is_not_among_the_files_is_refused(
    base: Image, files: Path, command: tuple[str, ...], message: str
) -> None:
    (files / "plain").write_text("x")
    with pytest.raises(InputError, match=message):
        added(base, mine(files, *command))
    assert sorted(each.name for each in base.directory.parent.iterdir()) == [base.name]


def test_a_check_that_is_not_among_the_files_is_refused(base: Image, files: Path) -> None:
    with pytest.raises(InputError, match="'look', which is its ready"):
        added(base, mine(files, ready=("look",)))


def test_a_program_for_another_processor_is_refused(base: Image, files: Path) -> None:
    (files / "opt" / "tool").write_bytes(ELF + b"\xf3\x00")  # RISC-V
    with pytest.raises(ImageError, match="run is not for this machine"):
        added(base, mine(files))


def test_links_in_a_circle_lead_nowhere(base: Image, files: Path) -> None:
    (files / "opt" / "a").symlink_to("b")
    (files / "opt" / "b").symlink_to("a")
    with pytest.raises(InputError, match="no executable program '/opt/a'"):
        added(base, mine(files, "/opt/a"))


def test_a_directory_that_is_none_or_too_much_is_refused(base: Image, files: Path) -> None:
    with pytest.raises(InputError, match="is not a directory"):
        added(base, mine(files / "none"))
    with pytest.raises(InputError, match="contains Lastro's own files"):
        added(base, mine(base.directory.parents[1]))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_refused(base: Image, files: Path) -> None:
    os.mknod(files / "opt" / "disk", 0o60600, os.makedev(8, 0))
    with pytest.raises(ImageError, match="'/opt/disk' is a device"):
        added(base, mine(files))


def test_an_image_that_podman_refuses_is_one_error_with_its_reason(base: Image) -> None:
    def fails(argv: Sequence[str]) -> Completed | None:
        refused = "Trying to pull\nError: initializing source oci:/x: no such file or directory"
        return answer(code=125, error=refused) if argv[0] == "unshare" else None

    own, store = OwnFunction("mine", image="oci:/x"), base.directory.parent
    with pytest.raises(
        ImageError, match="image oci:/x cannot be pulled: initializing source oci:/x: no such"
    ) as caught:
        functions.with_functions(base, [own], store, RecordingHost(fails, programs=("podman",)))
    assert caught.value.hint == "try it: podman pull oci:/x"
    without: LastroError
    with pytest.raises(
        ImageError, match="podman, which unpacks the image of function 'mine', is not installed"
    ) as missing:
        functions.with_functions(base, [own], store, RecordingHost())
    without = missing.value
    assert without.hint == "apt-get install podman"
