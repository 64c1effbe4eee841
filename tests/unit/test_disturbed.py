"""Which tests that failed beside others `make test` tries again, alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ..conftest import DISTURBED

ROOT = Path(__file__).parents[2]

CONFTEST = "from tests.conftest import pytest_runtest_logreport, pytest_sessionfinish"

REAL = """
import pytest

@pytest.fixture
def leaving():
    yield
    assert not "left"

@pytest.mark.root
@pytest.mark.parametrize("number", range({failing}))
def test_real(number):
    assert not "disturbed"

def test_computes():
    assert {computes}

@pytest.mark.root
def test_leaves({fixture}):
    pass
"""


@pytest.mark.parametrize(
    ("failing", "computes", "fixture", "code"),
    [(3, True, "", DISTURBED), (4, True, "", 1), (1, False, "", 1), (1, True, "leaving", 1), (0, True, "", 0)],
)
def test_only_a_few_real_ones_are_tried_again(
    tmp_path: Path, failing: int, computes: bool, fixture: str, code: int
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(REAL.format(failing=failing, computes=computes, fixture=fixture))
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = root: real\n")
    argv = [sys.executable, "-m", "pytest", "-q", "--numprocesses", "1", "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)})
    assert done.returncode == code, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("first", "second", "passes"),
    [
        (0, "false", True),
        (1, "true", False),
        (2, "true", False),
        (DISTURBED, "true", True),
        (DISTURBED, "false", False),
    ],
)
def test_make_passes_only_if_what_is_tried_again_passes(first: int, second: str, passes: bool) -> None:
    rule = f"probe:\n\tsh -c 'exit {first}' || $(AGAIN)\n\techo after"
    argv = ["make", "--silent", "--directory", str(ROOT), "--eval", rule, "probe", f"PYTEST={second}"]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert ((done.returncode == 0), "after" in done.stdout) == (passes, passes), done
