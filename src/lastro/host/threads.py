"""Several calls at once, in as many threads as this process may have."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def all_of(calls: Sequence[Callable[[], T]], at_once: int) -> list[Future[T]]:
    """Every call brought to its end, `at_once` together; fewer where no more threads can be had, one by one at worst.

    An interruption comes through when those that had begun have ended, and no other begins."""
    futures: list[Future[T]] = [Future() for _ in calls]
    left = deque(zip(futures, calls, strict=True))

    def work() -> None:
        while left:
            try:
                future, call = left.popleft()
            except IndexError:  # another thread was faster
                return
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)
                if not isinstance(error, Exception):
                    raise

    threads: list[Thread] = []
    try:
        while len(threads) < min(at_once, len(calls)):
            thread = Thread(target=work)
            try:
                thread.start()
            except RuntimeError:
                break
            threads.append(thread)
        if not threads:
            work()
        for thread in threads:
            thread.join()
    finally:
        left.clear()
        for thread in threads:
            thread.join()
    return futures
