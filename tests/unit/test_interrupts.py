"""Wherever Ctrl-C comes: what a block has made, it undoes before the interrupt goes on."""

from __future__ import annotations

import gc
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

import pytest

from lastro.interrupts import one_interrupt

pytestmark = pytest.mark.processes

_TIMES = 400
_LATEST_S = 0.0015
_CHANGED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)


def _as_interrupt(first: Callable[[int, FrameType | None], object]) -> Callable[[int, FrameType | None], object]:
    """A handler of an alarm that makes an interrupt of it, and is taken for one of Lastro's."""
    code = "def again(_number, frame): first(2, frame)"
    names: dict[str, Any] = {"__name__": one_interrupt.__module__, "first": first}
    exec(code, names)
    return names["again"]  # type: ignore[no-any-return]


def test_nothing_that_was_entered_is_left_to_the_garbage_collector() -> None:
    """Between a generator's `yield` and the block it is for, nobody would know of it."""
    chance = random.Random(7)
    made: set[object] = set()

    @contextmanager
    def owned() -> Iterator[None]:
        own = object()
        try:
            made.add(own)
            yield
        finally:
            made.discard(own)

    @contextmanager
    def of_several() -> Iterator[None]:
        with ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(owned())
            yield

    handlers = {number: signal.getsignal(number) for number in _CHANGED}
    callbacks, gc.callbacks[:] = [*gc.callbacks], []  # Python swallows an interrupt in one, and Hypothesis has one
    left = []
    try:
        for _ in range(_TIMES):
            signal.signal(signal.SIGINT, signal.default_int_handler)
            kept: BaseException | None = None  # its frames would keep what they hold
            try:
                with one_interrupt():
                    first = signal.getsignal(signal.SIGINT)
                    assert callable(first)
                    signal.signal(signal.SIGALRM, _as_interrupt(first))
                    signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-5, _LATEST_S))
                    for _ in range(1_000_000):
                        with of_several():
                            pass
            except KeyboardInterrupt as interrupt:
                kept = interrupt
            assert kept is not None
            left.append(len(made))
            made.clear()
    finally:
        gc.callbacks[:] = callbacks
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert left == [0] * _TIMES
