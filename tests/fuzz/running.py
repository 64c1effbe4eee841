"""Give inputs to a target in a process of its own, within limits, and keep those that it fails on."""

from __future__ import annotations

import contextlib
import hashlib
import os
import resource
import signal
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from .mutation import mutated
from .targets import Target

MEMORY_BYTES = 256 << 20  # beyond what the process has when it begins
TIME_S = 5.0  # of the processor, for one input
_STUCK_S = 60  # for an input that waits
_MOST = 10  # different failures
_FAILED = 1


@dataclass
class Fuzzed:
    """What came of it: {where it failed: file with the input}, and the traces."""

    n_inputs: int = 0
    failures: dict[str, Path] = field(default_factory=dict)
    traces: list[str] = field(default_factory=list)


def fuzz(
    target: Target, seeds: Sequence[bytes], seconds: float, seed: int, keep: Path, time_s: float = TIME_S
) -> Fuzzed:
    """Run a target on mutations of its seeds for some seconds. Inputs that it fails on are kept in a directory."""
    found, until_s, chance = Fuzzed(), time.monotonic() + seconds, Random(seed)
    with tempfile.TemporaryDirectory(prefix="lastro-fuzz-") as folder:
        place = Path(folder)
        while time.monotonic() < until_s and len(found.failures) < _MOST:
            code = _given(target, _inputs(target, seeds, until_s, Random(chance.random())), place, time_s)
            found.n_inputs += int((place / "n").read_text() or 0)
            if code == 0:
                break
            _note(found, place, code, keep)
    return found


def once(target: Target, data: bytes, place: Path) -> Fuzzed:
    """Give a target one input, within the same limits."""
    found = Fuzzed(1)
    if code := _given(target, iter([data]), place, TIME_S):
        _note(found, place, code, place / "kept")
    return found


def _given(target: Target, inputs: Iterator[bytes], place: Path, time_s: float) -> int:
    pid = os.fork()
    if pid == 0:
        _child(target, inputs, place, time_s)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _note(found: Fuzzed, place: Path, code: int, keep: Path) -> None:
    trace = (place / "trace").read_text() if code == _FAILED else f"killed by {signal.Signals(-code).name}"
    where = _where(trace)
    if where in found.failures:
        return
    data = (place / "input").read_bytes()
    keep.mkdir(parents=True, exist_ok=True)
    file = keep / hashlib.sha256(data).hexdigest()[:12]
    file.write_bytes(data)
    found.failures[where] = file
    found.traces.append(trace)


def _where(trace: str) -> str:
    """The last line of code, and the kind of error: what is the same for inputs that fail for one reason."""
    lines = trace.splitlines()
    places = [line.strip() for line in lines if line.startswith("  File ")]
    return f"{places[-1] if places else ''} {lines[-1].partition(':')[0]}"


def _child(target: Target, inputs: Iterator[bytes], place: Path, time_s: float) -> None:
    """Try inputs until there is none, or one fails; never return. Limits that are exceeded end the process."""
    code = 0
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, used + MEMORY_BYTES))
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    place.joinpath("n").write_text("0")
    input_, count = open(place / "input", "wb", 0), os.open(place / "n", os.O_WRONLY)  # noqa: SIM115
    tempfile.tempdir = str(place)
    try:
        for n, data in enumerate(inputs, 1):
            input_.seek(0)
            input_.truncate()
            input_.write(data)
            os.pwrite(count, str(n).encode(), 0)
            signal.setitimer(signal.ITIMER_PROF, time_s)
            signal.setitimer(signal.ITIMER_REAL, _STUCK_S)
            target.check(data)
            signal.setitimer(signal.ITIMER_PROF, 0)
    except BaseException:
        signal.setitimer(signal.ITIMER_PROF, 0)
        code = _FAILED
        with contextlib.suppress(MemoryError):
            place.joinpath("trace").write_text(traceback.format_exc(), encoding="utf-8", errors="replace")
    finally:
        os._exit(code)


def _inputs(target: Target, seeds: Sequence[bytes], until_s: float, chance: Random) -> Iterator[bytes]:
    while time.monotonic() < until_s:
        data = chance.choice(seeds)
        if target.twist and chance.random() < 0.7:
            yield target.twist(data, chance)
        else:
            yield mutated(data, chance.choice(seeds), chance)
