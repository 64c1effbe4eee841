"""The testbeds of a fleet for a campaign: calls go to a testbed by name, and answers come back in one queue."""

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
        """Have a testbed cleaned up and released, without waiting for it. It gets no more calls."""
        ...

    def close(self) -> None:
        """Have every testbed cleaned up and released. A call that runs is interrupted."""
        ...


class LocalWorkerPool:
    """Testbeds with a worker each on this machine. A thread for each waits for its answers."""

    grows = False

    def __init__(self, orders: Mapping[str, TestbedOrder], clean: Callable[[], object] = lambda: None) -> None:
        """Take an order for each testbed. `clean` removes what killed workers left on this machine."""
        self.answers: Answers = queue.SimpleQueue()
        self._orders, self._clean, self._turn = orders, clean, threading.Lock()
        self._workers: dict[str, TestbedWorker] = {}
        self._calls: dict[str, queue.SimpleQueue[Call | None]] = {}
        self._threads: list[threading.Thread] = []

    def names(self) -> Sequence[str]:
        return list(self._orders)

    def open(self, testbed: str) -> None:
        self._workers[testbed] = worker = TestbedWorker(self._orders[testbed])
        self._calls[testbed] = calls = queue.SimpleQueue[Call | None]()
        thread = threading.Thread(target=self._tend, args=(testbed, worker, calls), daemon=True)
        self._threads = [each for each in self._threads if each.is_alive()] + [thread]
        thread.start()

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
        self._cleaned()

    def _cleaned(self) -> None:
        with self._turn, suppress(LastroError, OSError):  # the next session tries again, and reports it
            self._clean()

    def _tend(self, testbed: str, worker: TestbedWorker, calls: queue.SimpleQueue[Call | None]) -> None:
        def tell(seen: WorkerEvent) -> None:
            self.answers.put((testbed, seen))

        answer: object = worker.open(tell)
        while not isinstance(answer, WorkerFailure):
            self.answers.put((testbed, answer))
            if (call := calls.get()) is None:
                return
            answer = worker.ask(call, tell)
        try:
            worker.close()
            self._cleaned()
        finally:  # or the campaign would wait for it for ever
            self.answers.put((testbed, answer))
