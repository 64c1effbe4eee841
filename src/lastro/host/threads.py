"""Several calls at the same time, in as many threads as this process may have."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from threading import Lock, Thread
from typing import TypeVar

T = TypeVar("T")


def all_of(calls: Sequence[Callable[[], T]], at_once: int) -> list[Future[T]]:
    """Every call brought to its end, `at_once` together; fewer where no more threads can be had, one by one at worst.

    An interruption comes through when those that had begun have ended, and no other begins."""
    futures: list[Future[T]] = [Future() for _ in calls]
    left = deque(zip(futures, calls, strict=True))
    begun: list[Future[T]] = []
    turn = Lock()

    def work() -> None:
        while True:
            with turn:
                if not left:
                    return
                future, call = left.popleft()
                begun.append(future)
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)

    try:
        if not _started(work, min(at_once, len(calls))):
            for future, call in left:
                _settle(future, call)
        wait(futures)
    finally:  # not by joining: an interruption of `Thread.start` leaves a thread of which nobody knows
        with turn:
            left.clear()
        wait(begun)
    return futures


def _started(work: Callable[[], None], most: int) -> int:
    """How many threads could be had."""
    for count in range(most):
        try:
            Thread(target=work).start()
        except RuntimeError:
            return count
    return most


def _settle(future: Future[T], call: Callable[[], T]) -> None:
    try:
        future.set_result(call())
    except Exception as error:
        future.set_exception(error)
