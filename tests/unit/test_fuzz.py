"""Each reader of what others wrote, fuzzed for a moment; in `make test-all`, for two minutes. And the fuzzer itself."""

from __future__ import annotations

import os
import random
import re
import time
from pathlib import Path

import pytest

from lastro import instruments

from ..fuzz.running import fuzz
from ..fuzz.targets import CORPUS, TARGETS, Target

pytestmark = pytest.mark.processes

LENGTHS = pytest.mark.parametrize("seconds", [1.5, pytest.param(120, marks=pytest.mark.slow)])


@LENGTHS
@pytest.mark.parametrize("name", TARGETS)
def test_a_reader_reads_or_refuses(tmp_path: Path, name: str, seconds: float) -> None:
    seed = int(os.environ.get("LASTRO_FUZZ_SEED") or random.SystemRandom().randrange(10**6))
    print(f"LASTRO_FUZZ_SEED={seed}")
    target = TARGETS[name]
    found = fuzz(target, target.seeds(name), seconds, seed, tmp_path / name)
    print(f"{found.n_inputs} inputs")
    assert not found.failures, "\n".join([*found.traces, *map(str, found.failures.values())])
    assert found.n_inputs


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_pass(name: str) -> None:
    """Those of the corpus failed once."""
    for seed in TARGETS[name].seeds(name):
        TARGETS[name].check(seed)


def test_the_corpus_is_of_the_targets() -> None:
    assert {folder.name for folder in CORPUS.iterdir()} <= set(TARGETS)


# What the fuzzer finds


def _fails(data: bytes) -> None:
    if b"x" in data:
        raise ZeroDivisionError


def _loops(data: bytes) -> None:
    while True:
        pass


def _grows(data: bytes) -> None:
    bytearray(1 << 30)


def found_in(check: object, tmp_path: Path) -> list[str]:
    target = Target(check, lambda: [b"axb"])  # type: ignore[arg-type]
    found = fuzz(target, [b"axb"], 1.0, 7, tmp_path, time_s=0.1)
    assert len(found.failures) == len(found.traces) == 1 and found.n_inputs
    (file,) = found.failures.values()
    assert file.parent == tmp_path and file.exists()
    return found.traces[0].splitlines()


def test_an_exception_is_a_failure_and_its_input_is_kept(tmp_path: Path) -> None:
    assert found_in(_fails, tmp_path)[-1] == "ZeroDivisionError"
    (kept,) = tmp_path.iterdir()
    assert b"x" in kept.read_bytes()


def test_an_endless_loop_is_a_failure(tmp_path: Path) -> None:
    began_s = time.monotonic()
    assert found_in(_loops, tmp_path) == ["killed by SIGPROF"]
    assert time.monotonic() - began_s < 30


def test_too_much_memory_is_a_failure(tmp_path: Path) -> None:
    assert found_in(_grows, tmp_path)[-1].startswith("MemoryError")


def test_no_pattern_of_a_tools_lines_passes_over_lines() -> None:
    """A pattern that begins with all white space would read a million blank lines once for each of them."""
    folder = Path(instruments.__file__).parent
    assert [path.name for path in sorted(folder.glob("*.py")) if re.search(r"\^\\s[*+]", path.read_text())] == []
