"""A worker: a process that holds one testbed for a campaign of a fleet, and executes calls for it.

It is a separate process because a session on a testbed belongs to one process: signals interrupt its main thread, and
the ledger considers the session dead when the process has ended. Calls and answers are pickled, over pipes that only
the two processes have open. The worker cleans up and ends when its input ends, so also when its parent is killed.

A working worker sends signs of life. A worker that is stopped, or takes longer for a step than its time limits allow,
is killed. If a worker is stopped when its parent ends, the kernel continues it, so that it ends, too."""

from __future__ import annotations

import math
import os
import pickle
import queue
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from io import BufferedReader, BufferedWriter
from typing import IO, TYPE_CHECKING, Any

from lastro import __version__, errors
from lastro.campaign.executor import AttemptCall, CalibrateCall, Call, Executor, ProbeCall, ReachCall
from lastro.errors import HostBusy, HostError, LastroError, StoreError, TrialError
from lastro.scenarios.base import installed_scenario
from lastro.units import human_duration

if TYPE_CHECKING:
    from lastro.host.testbed_file import TestbedFile
    from lastro.study.model import Study

_PR_SET_PDEATHSIG = 1  # prctl(2)
# A worker requests SIGCONT for the end of its parent: if it were stopped then, it would never clean up. It requests
# this before it imports anything else, since imports take a second, in which it may be stopped, too.
_START = (
    f"import ctypes; ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, {signal.SIGCONT:d}, 0, 0, 0);"
    " import runpy; runpy.run_module('lastro.app.testbed_worker', run_name='__main__')"
)
PROGRAM = ("-P", "-c", _START)  # -P: no module of the working directory, which may be another user's
_LENGTH_BYTES = 8
END_S = 90.0  # for a worker to clean up; it takes 30 s to give up a lost connection
BEAT_S = 5.0  # between two signs of life
SILENT_BEATS = 12  # signs of life that may be missing, since other work on this machine delays them
START_BEATS = 120  # the same before the first sign, since many workers start and import modules at the same time
STEP_S = 1800.0  # for a step of a call, beyond its own time limits
_PROBE_S = 7200.0  # the longest probe of an instrument takes an hour, after those of other parts


@dataclass(frozen=True, slots=True)
class TestbedOrder:
    """The testbed that a worker must hold."""

    study: Study
    purpose: str  # shown to other processes that wait for the host
    file: TestbedFile | None = None  # None: the worker's own host
    wait: bool = False  # whether to wait for a host that is in use
    beside: bool = False  # whether the parent process already holds the machine on which the worker runs
    version: str = __version__  # of the coordinator


@dataclass(frozen=True, slots=True)
class OpenedTestbed:
    """A testbed that is ready, with its provenance."""

    provenance: dict[str, Any]


@dataclass(frozen=True, slots=True)
class WorkerFailure:
    """The error of a call, or of opening a testbed, as plain data; `kind` is the name of its class.

    `machine` is the fingerprint of the machine that is in use, if the error is a HostBusy; else empty."""

    kind: str
    message: str
    hint: str | None = None
    machine: str = ""

    @classmethod
    def of(cls, error: BaseException) -> WorkerFailure:
        if isinstance(error, LastroError):
            machine = error.machine if isinstance(error, HostBusy) else ""
            return cls(type(error).__name__, error.message, error.hint, machine)
        kind = "OSError" if isinstance(error, OSError) else type(error).__name__  # it has many subclasses
        return cls(kind, f"{type(error).__name__}: {error}")

    def error(self) -> LastroError:
        """Return the error that the campaign must handle.

        It is a HostError or HostBusy if only this testbed cannot be used. An error of another class must end the
        campaign."""
        kind: type[LastroError] | None = getattr(errors, self.kind, None)
        if kind is None or not issubclass(kind, LastroError):
            of_host = self.kind in ("OSError", "WorkerEnded")
            return HostError(self.message) if of_host else LastroError(f"a defect on a testbed: {self.message}")
        if issubclass(kind, errors.StudyError):
            return errors.InputError(self.message, self.hint)
        if issubclass(kind, TrialError | StoreError):  # of a ledger; a worker does not write the campaign
            return HostError(self.message, self.hint)
        if issubclass(kind, HostBusy):
            return HostBusy(self.message, self.hint, self.machine)
        return kind(self.message, self.hint)


@dataclass(frozen=True, slots=True)
class WorkerEvent:
    """An event during a call: the name of a method of `executor.Watcher`, or `said`, and its arguments."""

    method: str
    values: tuple[Any, ...] = ()


Tell = Callable[[WorkerEvent], None]


class TestbedWorker:
    """The parent's side of a worker. `open` and `ask` wait for the answer of the worker."""

    def __init__(self, order: TestbedOrder) -> None:
        self._stderr = os.fdopen(os.memfd_create("worker"), "w+b")
        self._process = subprocess.Popen(
            [sys.executable, *PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr,
            start_new_session=True,  # Ctrl-C is for the parent, which ends the worker
        )  # fmt: skip
        assert self._process.stdin is not None and self._process.stdout is not None
        self._calls, self._answers = self._process.stdin, self._process.stdout
        self._order, self._scenario = order, installed_scenario(order.study)
        self._works, self._heard = False, False
        self._messages = self._steps = 0  # `ask` counts them, and `_watch` only compares
        self._most_steady = math.inf
        self._hung = ""
        threading.Thread(target=self._watch, daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def open(self, tell: Tell) -> OpenedTestbed | WorkerFailure:
        opened: OpenedTestbed | WorkerFailure = self.ask(self._order, tell)
        return opened

    def ask(self, message: Call | TestbedOrder, tell: Tell) -> Any:
        """Execute a call on the testbed and return its answer, or a WorkerFailure. `tell` receives events meanwhile."""
        self._messages, self._steps = self._messages + 1, self._steps + 1
        self._most_steady, self._works = self._limit_s(message) / BEAT_S, True
        try:
            send(self._calls, message)
            while (answer := receive(self._answers)) is None or isinstance(answer, WorkerEvent):
                self._messages, self._heard = self._messages + 1, True
                if answer is not None:
                    self._steps += 1
                    tell(answer)
            self._heard = True
        except (OSError, EOFError, ValueError):
            self.release()
            code, lines = self._wait(END_S), []
            with suppress(ValueError):  # closed in the meantime
                self._stderr.seek(0)
                lines = self._stderr.read().decode(errors="replace").strip().splitlines()
            reason = self._hung or f"ended with {code}" + (f": {lines[-1][:300]}" if lines else "")
            return WorkerFailure("WorkerEnded", f"the process that held the testbed {reason}")
        except Exception as error:  # a class that pickle cannot make again, such as one of a part
            return WorkerFailure.of(error)
        finally:
            self._works = False
        return answer

    def _limit_s(self, message: object) -> float:
        """Return how many seconds each step that `message` causes may take.

        Infinite for opening a testbed, which may wait for a host or boot guests."""
        with suppress(Exception):  # an error in a part; without a limit, only a worker without signs of life is killed
            match message:
                case ProbeCall():  # each probe is a step of its own
                    return STEP_S + _PROBE_S
                case ReachCall():
                    return STEP_S
                case AttemptCall(config=config) if self._scenario:
                    return STEP_S + self._scenario.longest_s(config)
                case CalibrateCall(config=config, attempts=attempts) if self._scenario:
                    return STEP_S + attempts * self._scenario.longest_s(config)
        return math.inf

    def _watch(self) -> None:
        """Kill the worker if it hangs. Beats are counted, not timed, since this process may be stopped, too."""
        silent = steady = messages = steps = 0  # silent, steady: beats since the last message, and since the last step
        while self._process.poll() is None:
            time.sleep(BEAT_S)
            if not self._works:
                continue
            silent = silent + 1 if messages == self._messages else 0
            steady = steady + 1 if steps == self._steps else 0
            messages, steps = self._messages, self._steps
            if silent > (SILENT_BEATS if self._heard else START_BEATS):
                self._hung = f"gave no sign of life for {silent * BEAT_S:g} s, and was killed"
            elif steady > self._most_steady:
                self._hung = f"was at the same step for {human_duration(steady * BEAT_S)}, and was killed"
            if self._hung:
                self._process.kill()

    def release(self) -> None:
        """Make the worker clean up and end, without waiting for it. It sends no more signs of life."""
        self._works = False
        with suppress(OSError, ValueError):
            self._calls.close()

    def close(self, patience_s: float = END_S) -> None:
        """Make the worker clean up and end, and kill it if it has not ended after `patience_s` seconds.

        The ledger lists what a killed worker leaves behind."""
        self.release()
        self._wait(patience_s)
        self._answers.close()
        self._stderr.close()

    def _wait(self, patience_s: float) -> int:
        """Wait for the process to end, kill it after `patience_s` seconds, and return its exit code."""
        try:
            return self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def send(pipe: IO[bytes], message: object) -> None:
    data = pickle.dumps(message)
    pipe.write(len(data).to_bytes(_LENGTH_BYTES, "big") + data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> Any:
    """Return the next message. Raises: EOFError at the end of the pipe."""
    return pickle.loads(_read(pipe, int.from_bytes(_read(pipe, _LENGTH_BYTES), "big")))


def _read(pipe: IO[bytes], n_bytes: int) -> bytes:
    data = pipe.read(n_bytes)
    if len(data) < n_bytes:
        raise EOFError
    return data


class WorkerParent:
    """The worker's side: receives the calls of its parent, and sends answers and events."""

    def __init__(self) -> None:
        """Use standard input and output for calls and answers, and hide both from programs that the worker runs."""
        self._in: BufferedReader = os.fdopen(os.dup(0), "rb")
        self._out: BufferedWriter = os.fdopen(os.dup(1), "wb")
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(2, 1)
        os.close(null)
        self._send_lock = threading.Lock()
        self._state_lock = threading.Lock()
        self._idle = False  # true while it waits for a call
        self._ended = False  # true once the parent has ended
        self._calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.order: TestbedOrder = receive(self._in)
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        """Receive calls until the parent ends, then interrupt a running call or opening, so that it cleans up.

        Send signs of life while the worker is not idle."""
        with suppress(EOFError, OSError):
            while True:
                while not select.select([self._in], [], [], BEAT_S)[0]:
                    if not self._idle:
                        self._answer(None)
                self._calls.put(receive(self._in))
        with self._state_lock:
            self._ended, idle = True, self._idle
        self._calls.put(None)
        if not idle:
            os.kill(os.getpid(), signal.SIGTERM)

    def serve(self, executor: Executor, opened: OpenedTestbed) -> None:
        """Execute calls and send their answers until the parent ends.

        Raises: any error of a call, which the caller reports to the parent by `failed`."""
        self._answer(opened)
        while (call := self._next()) is not None:
            self._answer(call.on(executor))

    def _next(self) -> Call | None:
        """Wait for the next call. Return None when the parent has ended, regardless of its earlier calls."""
        with self._state_lock:
            if self._ended:
                return None
            self._idle = True
        call: Call | None = self._calls.get()
        with self._state_lock:
            self._idle = False
            return None if self._ended else call

    def failed(self, error: BaseException) -> None:
        self._answer(WorkerFailure.of(error))

    def _answer(self, answer: object) -> None:
        with self._send_lock, suppress(OSError, ValueError):  # a parent that has ended is noticed by `_listen`
            send(self._out, answer)

    # What is reported: the executor's watcher, and the lines of standard error

    def probing(self, treatment: int) -> None:
        self._answer(WorkerEvent("probing", (treatment,)))

    def waiting(self, reasons: Any, left_s: float) -> None:
        self._answer(WorkerEvent("waiting", (tuple(reasons), left_s)))

    def measuring(self) -> None:
        self._answer(WorkerEvent("measuring"))

    def write(self, text: str) -> int:
        for line in filter(None, (line.strip() for line in text.splitlines())):
            self._answer(WorkerEvent("said", (line,)))
        return len(text)

    def flush(self) -> None:
        """Do nothing: each line is sent immediately."""
