"""Replay the commands of a real run with other output, to test how a part handles a tool that failed."""

from __future__ import annotations

import random
import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from lastro.host.base import Completed, Host, Process
from lastro.platforms.base import Instance, MeasuredCommand

_ODD = ("-1", "0", "nan", "inf", "1e999", "9" * 400, "", "0x10", "1,5", "\x00", "٣")
FOREIGN = ("", "<html><body>502</body></html>", "[]", '{"end": {', "\x00\xff", "Segmentation fault\n")


class Tape:
    """A record of the output of all commands on a host, for replaying.

    `printed_by` is a word in the command that prints the tool's result; or else the longest output is the result."""

    def __init__(self, host: Host, printed_by: str = "") -> None:
        self._host, self._printed_by = host, printed_by
        self._done: list[Completed] = []
        self._spawned: list[Process] = []
        self._measuring = False

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record the commands that run inside the block; an earlier record is discarded."""
        self._done, self._spawned = [], []
        run, spawn, measure = self._host.run, self._host.spawn, Instance.measure

        def recorded(argv: Sequence[str], **how: Any) -> Completed:
            self._done.append(run(argv, **how))
            return self._done[-1]

        def spawned(argv: Sequence[str], **how: Any) -> Process:
            process = spawn(argv, **how)
            if not self._measuring:  # `measure` is played as a whole
                self._spawned.append(process)
            return process

        def measured(instance: Instance, argv: Sequence[str], **how: Any) -> MeasuredCommand:
            self._measuring = True
            try:
                found = measure(instance, argv, **how)
            finally:
                self._measuring = False
            self._done.append(found.done)
            return found

        with self._replaced(recorded, spawned, measured):
            yield

    @property
    def result(self) -> str:
        return self._result.text

    @property
    def _result(self) -> Completed:
        candidates = [done for done in self._done if not self._printed_by or self._printed_by in done.argv]
        return max(candidates, key=lambda done: len(done.stdout))

    @contextmanager
    def playing(self, result: str) -> Iterator[None]:
        """Replay the record inside the block, with `result` in place of the output of the tool's command."""
        replacement = replace(self._result, stdout=result.encode(errors="replace"))
        outputs = deque(replacement if done is self._result else done for done in self._done)
        to_start = iter([_RecordedProcess(process.stop()) for process in self._spawned])

        def run(argv: Sequence[str], **_: Any) -> Completed:
            return outputs.popleft()

        def measure(instance: Instance, argv: Sequence[str], **_: Any) -> MeasuredCommand:
            return MeasuredCommand(outputs.popleft())

        with self._replaced(run, lambda argv, **_: next(to_start), measure):
            yield

    @contextmanager
    def _replaced(self, run: Any, spawn: Any, measure: Any) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(self._host, "run", run)
            patched.setattr(self._host, "spawn", spawn)
            patched.setattr(Instance, "measure", measure)
            yield


class _RecordedProcess(Process):
    """A stand-in for a background process: it has the recorded output, and is alive until a line is sent to it."""

    def __init__(self, done: Completed) -> None:
        self.argv, self._done = done.argv, done
        self.ended = False

    def wait_line(self, needle: str, timeout_s: float) -> str:
        return next(line for line in self.lines(0) if needle in line)

    def lines(self, start: int) -> list[str]:
        return self._done.text.splitlines(keepends=True)[start:]

    def send(self, line: str) -> None:
        self.ended = True

    def alive(self) -> bool:
        return not self.ended

    def ended_within(self, timeout_s: float) -> bool:
        return self.ended

    def stop(self) -> Completed:
        return self._done


def damaged_versions(text: str, n: int = 400) -> Iterator[str]:
    """Yield `n` damaged versions of a tool's output, the same in each call.

    In each of them, the end is missing, a line is missing or doubled, the lines are shuffled, or a number is odd."""
    chance = random.Random(1)
    numbers = [match.span() for match in re.finditer(r"\d+(\.\d+)?", text)]
    for _ in range(n):
        lines = text.splitlines(keepends=True)
        match chance.randrange(5):
            case 0:
                yield text[: chance.randrange(len(text))]
                continue
            case 1:
                del lines[chance.randrange(len(lines))]
            case 2:
                lines.insert(chance.randrange(len(lines)), chance.choice(lines))
            case 3:
                chance.shuffle(lines)
            case _:
                begin, end = chance.choice(numbers)
                lines = [text[:begin], chance.choice(_ODD), text[end:]]
        yield "".join(lines)
