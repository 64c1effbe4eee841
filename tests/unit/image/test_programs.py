"""Our own programs in C: compiled once, and what is said where they cannot be."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lastro.errors import Unavailable
from lastro.host.local import LocalHost
from lastro.image import programs
from lastro.image.programs import BPF, build_program

pytestmark = pytest.mark.processes


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler here")
def test_a_program_is_compiled_once_and_a_missing_library_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "STATE_DIR", tmp_path)
    host = LocalHost()
    program = build_program(host, "stream", "a remedy", libraries=("m",))
    assert host.run([program, "--version"]).text.startswith("lastro-stream 1, compiled by GCC ")
    n_commands = len(host.transcript.records)
    assert build_program(host, "stream", "a remedy", libraries=("m",)) == program
    assert [record["argv"][:2] for record in host.transcript.records[n_commands:]] == [["gcc", "-dumpfullversion"]]
    with pytest.raises(Unavailable, match="lastro-stream cannot be compiled here") as caught:
        build_program(host, "stream", "a remedy", libraries=("no-such-library",))
    assert caught.value.hint == "a remedy"


@pytest.mark.skipif(shutil.which("clang") is None, reason="no compiler for BPF here")
def test_a_program_does_not_name_the_directory_of_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "STATE_DIR", tmp_path)
    object_file = Path(build_program(LocalHost(), "xdp-forward", "a remedy", compiler=BPF)).read_bytes()
    assert b"xdp_inside" in object_file and str(Path(programs.__file__).parent).encode() not in object_file


def test_without_a_compiler_the_language_and_the_remedy_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    host = LocalHost()
    monkeypatch.setattr(host, "which", lambda program: None)
    with pytest.raises(Unavailable, match="host, which has no compiler for BPF") as caught:
        build_program(host, "xdp-forward", "a remedy", compiler=BPF)
    assert caught.value.hint == "a remedy"
