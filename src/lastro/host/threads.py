"""Run several calls at the same time in threads, or in fewer threads if the process may not start more."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from threading import Lock, Thread
from typing import TypeVar

T = TypeVar("T")


def all_of(calls: Sequence[Callable[[], T]], at_once: int) -> list[Future[T]]:
    """Run every call, `at_once` at a time, or fewer if no more threads can be started, at worst one by one.

    An interruption is raised when the running calls have ended; no other call begins."""
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
    finally:  # not by joining: an interrupted `Thread.start` leaves a thread to which there is no reference
        with turn:
            left.clear()
        wait(begun)
    return futures


def _started(work: Callable[[], None], most: int) -> int:
    """Start up to `most` threads, and return how many could be started."""
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
