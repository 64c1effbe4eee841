"""Run several calls at the same time in threads, even if the process may not start as many threads as wanted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from threading import Lock, Thread
from typing import TypeVar

T = TypeVar("T")


def run_all(calls: Sequence[Callable[[], T]], at_once: int) -> list[Future[T]]:
    """Run all calls, at most `at_once` at the same time, and return their completed futures in the order of `calls`.

    If not enough threads can be started, fewer calls run at the same time, at worst one by one in this thread. After an
    interruption (Ctrl-C), no further call begins, and KeyboardInterrupt is raised once the running calls have ended."""
    futures: list[Future[T]] = [Future() for _ in calls]
    waiting = deque(zip(futures, calls, strict=True))
    begun: list[Future[T]] = []
    guard = Lock()

    def work() -> None:
        while True:
            with guard:
                if not waiting:
                    return
                future, call = waiting.popleft()
                begun.append(future)
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)

    try:
        if not _start_threads(work, min(at_once, len(calls))):
            for future, call in waiting:
                _complete(future, call)
        wait(futures)
    finally:  # `join` cannot do this: an interrupted `Thread.start` leaves a thread to which there is no reference
        with guard:
            waiting.clear()
        wait(begun)
    return futures


def _start_threads(work: Callable[[], None], most: int) -> int:
    """Start up to `most` threads that call `work`, and return how many could be started."""
    for count in range(most):
        try:
            Thread(target=work).start()
        except RuntimeError:
            return count
    return most


def _complete(future: Future[T], call: Callable[[], T]) -> None:
    """Run `call` in this thread and complete `future`; but an interruption (Ctrl-C) is raised, not stored in it."""
    try:
        future.set_result(call())
    except Exception as error:
        future.set_exception(error)
