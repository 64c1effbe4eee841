"""tools/install-locked, for real, on a project whose packages lie in a folder: no index is asked."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "install-locked"
# It hands out the wheel of the project that lies beside pyproject.toml.
BACKEND = """
import shutil
def build_wheel(directory, config_settings=None, metadata_directory=None):
    return shutil.copy("project-1-py3-none-any.whl", directory).rpartition("/")[2]
"""


def wheel(folder: Path, name: str, code: str = "", program: str = "") -> Path:
    """A package of one module, at version 1, and the script `program` as bin/uv if there is one."""
    path = folder / f"{name}-1-py3-none-any.whl"
    info = f"{name}-1.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{name}.py", code)
        if program:
            script = zipfile.ZipInfo(f"{name}-1.data/scripts/uv")
            script.external_attr = 0o100755 << 16
            file.writestr(script, program)
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return path


def lock(repository: Path, kind: str, file: Path) -> None:
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    name = file.name.partition("-")[0]
    (repository / "requirements" / f"{kind}.txt").write_text(f"{name}==1 \\\n    --hash=sha256:{digest}\n")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A project with one dependency and a backend of its own, and an environment to install it into."""
    place, index = tmp_path / "project", tmp_path / "index"
    for directory in (place / "tools", place / "requirements", index):
        directory.mkdir(parents=True)
    shutil.copy(SCRIPT, place / "tools")
    wheel(place, "project", "import dependency\n")
    backend = '[build-system]\nrequires = ["backend==1"]\nbuild-backend = "backend"\n'
    (place / "pyproject.toml").write_text(backend)
    lock(place, "build", wheel(index, "backend", BACKEND))
    lock(place, "run", wheel(index, "dependency"))
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True, timeout=60)
    pip = environment / "bin" / "pip"
    pip.write_text(f'#!/bin/sh\nexec {sys.executable} -m pip --python {environment}/bin/python "$@"\n')
    pip.chmod(0o755)
    return place


def install(repository: Path) -> subprocess.CompletedProcess[str]:
    index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(repository.parent / "index"), "PIP_NO_CACHE_DIR": "1"}
    argv = [str(repository / "tools" / "install-locked"), str(repository.parent / "environment"), "run"]
    return subprocess.run(argv, env={**os.environ, **index}, capture_output=True, text=True, timeout=120)


def imported(repository: Path) -> list[str]:
    """The packages that the environment has afterwards."""
    python = repository.parent / "environment" / "bin" / "python"
    found = "[name for name in ('dependency', 'project', 'backend') if importlib.util.find_spec(name)]"
    argv = [python, "-c", f"import importlib.util; print(*{found})"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()


def test_it_installs_what_is_locked_and_leaves_no_build_tool(repository: Path) -> None:
    done = install(repository)
    assert done.returncode == 0, done
    assert imported(repository) == ["dependency", "project"]


@pytest.mark.parametrize("changed", ["dependency", "backend"])
def test_a_file_that_is_another_one_than_was_locked_ends_it(repository: Path, changed: str) -> None:
    wheel(repository.parent / "index", changed, "print('evil')\n")
    done = install(repository)
    assert done.returncode != 0 and "DO NOT MATCH THE HASHES" in done.stderr
    assert "project" not in imported(repository) and "evil" not in done.stdout


@pytest.mark.parametrize(("its_end", "installed"), [(0, ["project"]), (1, ["dependency", "project"])])
def test_uv_installs_from_the_usual_index_and_pip_where_it_fails(
    repository: Path, its_end: int, installed: list[str]
) -> None:
    """`uv` is a stand-in that notes its words and installs nothing; pip says that it has its usual index."""
    words = repository.parent / "words"
    stand_in = f'#!/bin/sh\necho "$*" >{words}\nexit {its_end}\n'
    lock(repository, "build", wheel(repository.parent / "index", "backend", BACKEND, stand_in))
    pip = repository.parent / "environment" / "bin" / "pip"
    pip.write_text(pip.read_text().replace("exec", '[ "$1" != config ] || exit 0\nexec'))
    done = install(repository)
    assert done.returncode == 0, done
    assert "--require-hashes --only-binary :all: --requirement" in words.read_text()
    assert imported(repository) == installed
