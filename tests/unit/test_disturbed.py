"""Which tests that failed beside others `make test` tries again, alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ..conftest import DISTURBED, may_be_disturbed
from ..support.scheduling import DEAREST

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]

CONFTEST = "from tests.conftest import pytest_runtest_logreport, pytest_sessionfinish"
LOST = """
import pytest

@pytest.mark.processes
def test_lost():
    assert not "disturbed"
"""


def failed(mark: str, when: str = "call", number: int = 0) -> pytest.TestReport:
    name = f"test_it.py::test_{number}"
    return pytest.TestReport(name, ("test_it.py", 0, ""), {mark: 1}, "failed", None, when)  # type: ignore[arg-type]


def several(count: int, when: str = "call") -> list[pytest.TestReport]:
    return [failed("root", when, number) for number in range(count)]


@pytest.mark.parametrize(
    ("reports", "tried_again"),
    [
        ([failed("root")], True),
        ([failed("processes", "setup")], True),
        (several(5), True),
        (several(6), False),
        ([*several(4), *several(9, "setup")], True),  # one fixture of a module failed, for all of its tests
        ([failed("root"), failed("known")], False),
        ([failed("root", "teardown")], False),
    ],
)
def test_only_a_few_that_wait_are_tried_again(reports: list[pytest.TestReport], tried_again: bool) -> None:
    assert may_be_disturbed(reports) == tried_again


@pytest.mark.parametrize(("workers", "code"), [("1", DISTURBED), ("0", 1)])
def test_only_what_ran_beside_others_is_tried_again(tmp_path: Path, workers: str, code: int) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(LOST)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = processes: waits\n")
    argv = [sys.executable, "-m", "pytest", "-q", "--numprocesses", workers, "--rootdir", str(tmp_path), str(tmp_path)]
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


def test_the_dearest_scopes_exist() -> None:
    for scope in DEAREST:
        file, _, name = scope.partition("::")
        assert not name or f"class {name}" in (ROOT / file).read_text(encoding="utf-8"), scope
        assert (ROOT / file).is_file(), scope
