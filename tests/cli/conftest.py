"""The command line as a user has it: a real process, with the test-only parts of tests/parts."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import pytest

from .forking import READ_LATE, Drawn, Forked, Forks

PARTS = Path(__file__).parents[1] / "parts"
TEMPORARY = TemporaryDirectory(prefix="tests-of-lastro-")  # removed when Python ends
ENVIRONMENT = {
    **os.environ, "LASTRO_PARTS": str(PARTS), "COLUMNS": "100", "LC_ALL": "C.UTF-8", "TMPDIR": TEMPORARY.name
}  # fmt: skip
TIMEOUT_S = 120
PYTHON = ("-m", "lastro")  # starts a command as a shell does
Process: TypeAlias = subprocess.Popen[str] | Forked


@dataclass(frozen=True)
class Finished:
    """A command that ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


def command(*words: object, program: Sequence[str] = PYTHON) -> list[str]:
    return [sys.executable, *program, *map(str, words)]


@cache
def _forks() -> Forks:
    return Forks(ENVIRONMENT)


def lastro(
    *words: object, cwd: Path | None = None, env: Mapping[str, str] | None = None, drawn: Drawn = True
) -> Finished:
    """Run a command to its end, from Python's own start where its environment matters then.

    Not `drawn` is for tests of the words of a page: it has no figures."""
    if (env or {}).keys() <= READ_LATE:
        code, out, err = _forks().run([*map(str, words)], cwd, TIMEOUT_S, env or {}, drawn=drawn)
    else:
        done = subprocess.run(
            command(*words), capture_output=True, text=True, timeout=TIMEOUT_S, cwd=cwd, env={**ENVIRONMENT, **env}
        )
        code, out, err = done.returncode, done.stdout, done.stderr
    assert "Traceback" not in err, err
    return Finished(code, out, err)


def start(
    *words: object,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    program: Sequence[str] | None = None,
    drawn: Drawn = True,
) -> Process:
    """A command that goes on while the test looks at it; `program` runs it from Python's own start, as `-m lastro`.

    So does an environment that matters then."""
    process: Process
    if program is None and (env or {}).keys() <= READ_LATE:
        process = _forks().start([*map(str, words)], cwd, env or {}, drawn=drawn)
    else:
        process = subprocess.Popen(
            command(*words, program=program or PYTHON), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=cwd, env={**ENVIRONMENT, **(env or {})}, preexec_fn=_deaf_to_nothing,
        )  # fmt: skip
    _started.append(process)
    return process


def _deaf_to_nothing() -> None:
    """Tests that run in the background of a shell inherit SIGINT as ignored, and with nohup SIGHUP."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


_started: list[Process] = []


@pytest.fixture(autouse=True)
def no_stragglers() -> Iterator[None]:
    """A test that fails leaves no command running, and no test leaves the traceback of a defect."""
    yield
    while _started:
        process = _started.pop()
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate(timeout=30)
    defects = {file: file.read_text() for file in Path(TEMPORARY.name).glob("lastro-defect-*")}
    for file in defects:
        file.unlink()
    assert defects == {}


def finish(process: Process, timeout_s: float = TIMEOUT_S) -> Finished:
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert "Traceback" not in err, err
    return Finished(process.returncode, out, err)


def until(condition: Callable[[], Any], what: str, timeout_s: float = 60.0) -> Any:
    """Wait for a condition, and return what it returned."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {timeout_s:g} s in vain for {what}"
        time.sleep(0.005)
    return found


def is_error(finished: Finished, code: int, *words: str) -> str:
    """One error on stderr, with its hint; nothing on stdout. The error's line."""
    assert finished.code == code, finished
    lines = finished.err.splitlines()
    errors = [line for line in lines if line.startswith("lastro: ")]
    assert len(errors) == 1 and "defect" not in errors[0], finished.err
    assert lines[0] == errors[0], finished.err
    assert all(line.startswith("        ") for line in lines[1:]), finished.err
    for word in words:
        assert word in finished.err, (word, finished.err)
    return errors[0]


Row = tuple[int, int, int, str, int]


def rows(directory: Path) -> list[Row]:
    """(number, block, treatment, state, attempts) of every trial, read without Lastro, even while it runs."""
    connection = sqlite3.connect(directory / "campaign.db", timeout=10)
    try:
        return connection.execute(
            "SELECT number, block, treatment, state, (SELECT count(*) FROM attempt WHERE trial = number)"
            " FROM trial ORDER BY number"
        ).fetchall()
    finally:
        connection.close()


def schedule(directory: Path) -> list[tuple[int, int, int]]:
    return [row[:3] for row in rows(directory)]


def n_done(directory: Path) -> int:
    """Trials with a final state; 0 as long as there is no campaign."""
    if not (directory / "campaign.db").exists():
        return 0
    return sum(row[3] in ("valid", "invalid") for row in rows(directory))


def study_text(
    factors: Mapping[str, list[Any]] | None = None,
    *,
    scenario: str = "synthetic",
    replicates: int = 2,
    seed: int = 7,
    baseline: Mapping[str, Any] | None = None,
    **settings: Any,
) -> str:
    """A study file. JSON's strings, numbers and lists are TOML's too."""
    chosen = {"level": ["a", "b"]} if factors is None else factors
    lines = ["[study]", 'name = "synthetic"', f'scenario = "{scenario}"', "[factors]"]
    lines += [f"{name} = {json.dumps(levels)}" for name, levels in chosen.items()]
    lines += ["[settings]", *(f"{name} = {json.dumps(value)}" for name, value in settings.items())]
    lines += ["[design]", f"replicates = {replicates}", f"seed = {seed}", "[design.baseline]"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in (baseline or {}).items()]
    return "\n".join(lines) + "\n"


@dataclass
class Bench:
    """A place for one campaign."""

    home: Path

    @property
    def directory(self) -> Path:
        return self.home / "campaign"

    def write(self, factors: Mapping[str, list[Any]] | None = None, **options: Any) -> Path:
        file = self.home / "study.toml"
        file.write_text(study_text(factors, **options), encoding="utf-8")
        return file

    def run(self, factors: Mapping[str, list[Any]] | None = None, **options: Any) -> Finished:
        return lastro("run", self.write(factors, **options), "-o", self.directory, "--no-report")

    def begin(self, factors: Mapping[str, list[Any]] | None = None, **options: Any) -> Process:
        return start("run", self.write(factors, **options), "-o", self.directory, "--no-report")

    def wait_until_done(self, at_least: int) -> None:
        until(lambda: n_done(self.directory) >= at_least, f"{at_least} trials")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def interrupt(process: Process, number: signal.Signals = signal.SIGINT) -> None:
    process.send_signal(number)


@pytest.fixture(scope="session")
def bundled_campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from .bundled import small

    return small(tmp_path_factory.mktemp("campaigns") / "c1")


@pytest.fixture(scope="session")
def zipped(bundled_campaign: Path) -> Path:
    """The bundle of that campaign, beside it."""
    from .bundled import OPTIONS

    assert lastro("bundle", bundled_campaign, *OPTIONS).code == 0
    return bundled_campaign.with_name("c1.crate.zip")


@pytest.fixture
def unpacked(zipped: Path, tmp_path: Path) -> Path:
    with zipfile.ZipFile(zipped) as file:
        file.extractall(tmp_path / "bundle")
    return tmp_path / "bundle"
