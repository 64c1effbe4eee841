"""The wheel is complete: installed outside the checkout, it runs a study, and has every file that Lastro reads."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import PARTS, study_text

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 120
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built without isolation, by the hatchling of the development environment: no index is asked."""
    place = tmp_path_factory.mktemp("wheel")
    argv = ["pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation"]
    subprocess.run([sys.executable, "-m", *argv, "--wheel-dir", place, ROOT], check=True, timeout=TIMEOUT_S)
    (found,) = place.glob("lastro-*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs programs of an environment that has the wheel, and the dependencies from this environment.

    Its .pth names a directory alone: files of that directory that lead to the checkout have no effect."""
    home = tmp_path_factory.mktemp("installed")
    environment = home / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True, timeout=TIMEOUT_S)
    pip = [sys.executable, "-m", "pip", "--python", environment / "bin/python", "--disable-pip-version-check"]
    argv = [*pip, "install", "--quiet", "--no-compile", "--no-index", "--no-deps", wheel]
    subprocess.run(argv, check=True, timeout=TIMEOUT_S)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    variables = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LASTRO_PARTS")}

    def run(program: str, *words: object, **more: str) -> subprocess.CompletedProcess[str]:
        argv = [str(environment / "bin" / program), *map(str, words)]
        env = {**variables, **more}
        return subprocess.run(argv, capture_output=True, text=True, cwd=home, env=env, timeout=TIMEOUT_S, check=False)

    return run


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    source = ROOT / "src"
    files = [file for file in (source / "lastro").rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {str(file.relative_to(source)) for file in files} - names == set()
    data: tuple[str, ...] = (
        "py.typed",
        "study/template.toml",
        "image/programs/stream.c",
        "image/programs/xdp-forward.c",
        "papers/kagami2017/study.toml",
    )
    data += ("setup/gvisor/go.sum", "setup/vegeta/go.mod", "setup/jmeter/pom.xml", "setup/jmeter/SHA256SUMS")
    assert {f"lastro/{name}" for name in data} - names == set()
    assert any(name.startswith("lastro/render/templates/") for name in names)
    assert not any(name.startswith(("tests/", "tools/")) for name in names)
    quiet = [info for info in zipfile.ZipFile(wheel).infolist() if "/setup/quiet/" in info.filename]
    assert len(quiet) == 2 and all(info.external_attr >> 16 & 0o111 == 0o111 for info in quiet), "programs for root"


def test_what_is_imported_is_the_wheel(installed: Run) -> None:
    done = installed("python", "-c", "import lastro, lastro.setup.scripts as s; print(lastro.__file__); print(s.HERE)")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) == 2, done.stderr
    assert all("site-packages" in line and str(ROOT) not in line for line in lines)


def test_a_study_runs_from_the_wheel(installed: Run, tmp_path: Path) -> None:
    study, campaign = tmp_path / "study.toml", tmp_path / "campaign"
    study.write_text(study_text(), encoding="utf-8")
    done = installed("lastro", "run", study, "-o", campaign, LASTRO_PARTS=str(PARTS))
    assert done.returncode == 0, done.stderr
    assert "<html" in (campaign / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("schema",), '"$schema"'),
        (("setup", "--all", "--dry-run"), "#!/bin/sh"),
        (("parts", "instrument"), "vegeta"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_commands_find_their_data_in_the_wheel(installed: Run, words: tuple[str, ...], expected: str) -> None:
    done = installed("lastro", *words)
    assert done.returncode == 0 and expected in done.stdout, done.stderr
