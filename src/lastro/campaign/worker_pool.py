"""Pools of testbeds for a fleet: calls go to a testbed by name, and all answers come back in one queue."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from lastro.campaign.executor import Call
from lastro.campaign.testbed_worker import END_S, TestbedOrder, TestbedWorker, WorkerEvent, WorkerFailure
from lastro.errors import LastroError

Answers = queue.SimpleQueue[tuple[str, object]]  # the testbed, and what it sent: an event, a failure, or an answer


class WorkerPool(Protocol):
    """Testbeds that execute one call at a time each. After a WorkerFailure, a testbed must be opened again."""

    answers: Answers
    grows: bool  # testbeds may join later

    def names(self) -> Sequence[str]:
        """List the testbeds that can be opened now."""
        ...

    def open(self, testbed: str) -> None: ...
    def ask(self, testbed: str, call: Call) -> None: ...

    def release(self, testbed: str) -> None:
        """Start to clean up and release a testbed, without waiting. The testbed must get no calls afterwards."""
        ...

    def close(self) -> None:
        """Clean up and release every testbed. Running calls are interrupted."""
        ...


class LocalWorkerPool:
    """Testbeds with one worker process each on this machine. One thread per testbed waits for its answers."""

    grows = False

    def __init__(self, orders: Mapping[str, TestbedOrder], clean: Callable[[], object] = lambda: None) -> None:
        """Initialize with `orders`, {testbed: its order}. `clean` removes what killed workers left on this machine."""
        self.answers: Answers = queue.SimpleQueue()
        self._orders, self._clean, self._guard = orders, clean, threading.Lock()
        self._workers: dict[str, TestbedWorker] = {}
        self._calls: dict[str, queue.SimpleQueue[Call | None]] = {}
        self._threads: list[threading.Thread] = []

    def names(self) -> Sequence[str]:
        return list(self._orders)

    def open(self, testbed: str) -> None:
        self._workers[testbed] = worker = TestbedWorker(self._orders[testbed])
        self._calls[testbed] = calls = queue.SimpleQueue[Call | None]()
        new_thread = threading.Thread(target=self._serve, args=(testbed, worker, calls), daemon=True)
        self._threads = [thread for thread in self._threads if thread.is_alive()] + [new_thread]
        new_thread.start()

    def ask(self, testbed: str, call: Call) -> None:
        self._calls[testbed].put(call)

    def release(self, testbed: str) -> None:
        self._workers[testbed].release()
        self._calls[testbed].put(None)

    def close(self) -> None:
        for testbed in self._workers:
            self.release(testbed)
        deadline_s = time.monotonic() + END_S
        for thread in self._threads:
            thread.join(max(0.0, deadline_s - time.monotonic()))
        for worker in self._workers.values():
            worker.close(max(0.0, deadline_s - time.monotonic()))
        self._clean_up()

    def _clean_up(self) -> None:
        with self._guard, suppress(LastroError, OSError):  # the next session tries again, and reports errors
            self._clean()

    def _serve(self, testbed: str, worker: TestbedWorker, calls: queue.SimpleQueue[Call | None]) -> None:
        """Open the testbed of `worker`, then pass `calls` to the worker and queue its answers.

        Return when the worker fails, or at a call that is None."""

        def report(event: WorkerEvent) -> None:
            self.answers.put((testbed, event))

        answer: object = worker.open(report)
        while not isinstance(answer, WorkerFailure):
            self.answers.put((testbed, answer))
            call = calls.get()
            if call is None:
                return
            answer = worker.ask(call, report)
        try:
            worker.close()
            self._clean_up()
        finally:  # or the campaign would wait for the answer for ever
            self.answers.put((testbed, answer))
