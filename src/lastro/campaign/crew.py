"""The testbeds of a fleet for a campaign: calls go to a testbed by name, and answers come back in one queue."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from lastro.campaign.executor import Call
from lastro.campaign.seat import END_S, Failed, Seat, SeatOrder, Seen
from lastro.errors import LastroError

Answers = queue.SimpleQueue[tuple[str, object]]  # the testbed, and Opened, Seen, Failed, or the answer to a call


class Crew(Protocol):
    """Testbeds that execute one call at a time each. After Failed, a testbed must be opened again."""

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


class SeatCrew:
    """Testbeds with a seat each on this machine. A thread for each waits for its answers."""

    grows = False

    def __init__(self, orders: Mapping[str, SeatOrder], clean: Callable[[], object] = lambda: None) -> None:
        """Take an order for each testbed. `clean` removes what killed seats left on this machine."""
        self.answers: Answers = queue.SimpleQueue()
        self._orders, self._clean, self._turn = orders, clean, threading.Lock()
        self._seats: dict[str, Seat] = {}
        self._calls: dict[str, queue.SimpleQueue[Call | None]] = {}
        self._threads: list[threading.Thread] = []

    def names(self) -> Sequence[str]:
        return list(self._orders)

    def open(self, testbed: str) -> None:
        self._seats[testbed] = seat = Seat(self._orders[testbed])
        self._calls[testbed] = calls = queue.SimpleQueue[Call | None]()
        thread = threading.Thread(target=self._tend, args=(testbed, seat, calls), daemon=True)
        self._threads = [each for each in self._threads if each.is_alive()] + [thread]
        thread.start()

    def ask(self, testbed: str, call: Call) -> None:
        self._calls[testbed].put(call)

    def release(self, testbed: str) -> None:
        self._seats[testbed].release()
        self._calls[testbed].put(None)

    def close(self) -> None:
        for testbed in self._seats:
            self.release(testbed)
        deadline_s = time.monotonic() + END_S
        for thread in self._threads:
            thread.join(max(0.0, deadline_s - time.monotonic()))
        for seat in self._seats.values():
            seat.close(max(0.0, deadline_s - time.monotonic()))
        self._cleaned()

    def _cleaned(self) -> None:
        with self._turn, suppress(LastroError, OSError):  # the next session tries again, and reports it
            self._clean()

    def _tend(self, testbed: str, seat: Seat, calls: queue.SimpleQueue[Call | None]) -> None:
        def tell(seen: Seen) -> None:
            self.answers.put((testbed, seen))

        answer: object = seat.open(tell)
        while not isinstance(answer, Failed):
            self.answers.put((testbed, answer))
            if (call := calls.get()) is None:
                return
            answer = seat.ask(call, tell)
        try:
            seat.close()
            self._cleaned()
        finally:  # or the campaign would wait for it for ever
            self.answers.put((testbed, answer))
