"""Parts that `lastro new` writes work as they are: they are listed, and pass their contract on real instances."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..cli.conftest import lastro

pytestmark = [pytest.mark.root, pytest.mark.measures]


@pytest.mark.parametrize(
    ("kind", "folder", "name"),
    [
        ("anomaly", "anomalies", "branches"),
        ("function", "functions", "no-echo"),
        pytest.param("attachment", "attachments", "hub", marks=pytest.mark.slow),
        pytest.param("instrument", "instruments", "dd", marks=pytest.mark.slow),
        pytest.param("isolation", "isolation", "no-new-privileges", marks=pytest.mark.slow),
        pytest.param("meter", "meters", "switches", marks=pytest.mark.slow),
    ],
)
def test_a_new_part_passes_its_contract(tmp_path: Path, kind: str, folder: str, name: str) -> None:
    done = lastro("new", "--part", kind, name, cwd=tmp_path)
    module = name.replace("-", "_")
    assert done.code == 0
    assert f"wrote parts/{folder}/{module}.py and parts/tests/test_{module}.py" in done.out
    environment = {**os.environ, "LASTRO_PARTS": "parts", "PYTEST_ADDOPTS": "", "PYTEST_PLUGINS": ""}
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"parts/tests/test_{module}.py"]
    tested = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert " passed" in tested.stdout and "skipped" not in tested.stdout
    shown = subprocess.run(
        [sys.executable, "-m", "lastro", "parts", kind], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert shown.returncode == 0 and name in shown.stdout
