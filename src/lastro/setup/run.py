"""Run the steps in two lanes at the same time: apt and the steps that wait for it, and the Go builds."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lastro.setup.machine import Machine
from lastro.setup.scripts import DEBIAN, SetupStep
from lastro.units import human_duration

_GRACE_S = 10.0  # between SIGTERM and SIGKILL


@dataclass(frozen=True, slots=True)
class EndedStep:
    """A step that has ended."""

    step: SetupStep
    duration_s: float
    last_line: str = ""  # of its output, if it failed
    log: str = ""  # the path of its whole output, if it failed

    @property
    def failed(self) -> bool:
        return bool(self.log)


class _Lanes:
    """Lanes that run steps one after the other. The output of each step goes to a file below `logs`."""

    def __init__(self, machine: Machine, logs: Path, say: Callable[[str], None]) -> None:
        self._logs, self._say = logs, say
        self._environment = {**os.environ, "PATH": machine.path}
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock, self._stopping = threading.Lock(), False

    def lane(self, steps: Sequence[SetupStep]) -> list[EndedStep]:
        return [ended for step in steps if (ended := self._run(step)) is not None]

    def _run(self, step: SetupStep) -> EndedStep | None:
        log = self._logs / f"{step.name.replace(' ', '-').lower()}.log"
        began_s = time.monotonic()
        with log.open("wb") as output:
            with self._lock:
                if self._stopping:
                    return None
                process = subprocess.Popen(
                    ["sh", "-euc", step.script], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                    env=self._environment, start_new_session=True,
                )  # fmt: skip
                self._running.add(process)
            self._say(f"{step.name}: started")
            code = process.wait()
        with self._lock:
            self._running.discard(process)
        duration_s = time.monotonic() - began_s
        if code == 0:
            self._say(f"{step.name}: done in {human_duration(duration_s)}")
            return EndedStep(step, duration_s)
        last = last_line(log)
        if not self._stopping:
            self._say(f"{step.name}: failed after {human_duration(duration_s)}: {last}\n  the whole log: {log}")
        return EndedStep(step, duration_s, last, str(log))

    def stop(self) -> None:
        """End all running steps with their children, by SIGTERM and then SIGKILL, and start no further ones."""
        with self._lock:
            self._stopping = True
            running = list(self._running)
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in running:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
            for process in running:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_GRACE_S)


def execute(steps: Sequence[SetupStep], machine: Machine, say: Callable[[str], None]) -> list[EndedStep]:
    """Run all steps, even if one fails, and return those that were run.

    `say` is called with lines of progress for the user. The logs remain only if a step failed."""
    logs = Path(tempfile.mkdtemp(prefix="lastro-setup-"))
    lanes = _Lanes(machine, logs, say)
    with_apt = [step for step in steps if step.name == DEBIAN or step.after_packages]
    without_apt = [step for step in steps if step not in with_apt]
    ended: list[EndedStep] = []
    try:
        with ThreadPoolExecutor(2) as pool:
            futures = [pool.submit(lanes.lane, lane) for lane in (with_apt, without_apt)]
            try:
                ended = [step for future in futures for step in future.result()]
            except BaseException:
                lanes.stop()
                raise
    finally:
        if not any(step.failed for step in ended):
            shutil.rmtree(logs, ignore_errors=True)
    return ended


def last_line(log: Path) -> str:
    """Return the last line of a log that is not blank, shortened to 300 characters."""
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")[:300]
