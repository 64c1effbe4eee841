"""Ctrl-C and SIGTERM while the host is held: the first ends the work, and nothing cuts the clean-up short."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_AGAIN_S = 0.002
_HANDLERS = ("first", "again")


@contextmanager
def one_interrupt() -> Iterator[Callable[[], None]]:
    """The first signal raises KeyboardInterrupt, the later ones do nothing. What the block gets is to be called when
    only the clean-up is left: from then on not even the first one raises."""
    # Who started us may have them ignored already, as a shell does for what it runs in the background.
    handlers = {number: handler for number in _SIGNALS if (handler := signal.getsignal(number)) != signal.SIG_IGN}

    def first(number: int, frame: FrameType | None) -> None:
        if _is_entering_a_block(frame) or _is_starting_a_process(frame):

            def again(_number: int, later: FrameType | None) -> None:
                first(number, later)

            signal.signal(signal.SIGALRM, again)
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
            return
        ignore()
        os.write(2, "\ncleaning up …\n".encode())  # not print, which may be what was interrupted
        handler = handlers[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)
        raise KeyboardInterrupt

    def ignore() -> None:
        # The kernel ignores it from now on, and so do commands that clean up, which inherit that. To Python it has a
        # handler until the end: Python complains of a signal that another thread is just noticing when it comes to be
        # ignored by `signal.signal`, and blocking is of no use, since another thread takes it then. Yet what has a
        # handler when Python ends gets the kernel's own way back, and that is to die.
        for number in handlers:
            signal.signal(number, _nothing)
            ctypes.CDLL(None).signal(int(number), ctypes.c_void_p(signal.SIG_IGN))
            atexit.register(signal.signal, number, signal.SIG_IGN)

    for number in handlers:
        signal.signal(number, first)
    try:
        yield ignore
    except KeyboardInterrupt:
        raise  # and keep on ignoring: the process is about to end
    except BaseException:
        _restore(handlers)
        raise
    else:
        _restore(handlers)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """What a further signal does."""


def _restore(handlers: dict[signal.Signals, signal._HANDLER]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _is_entering_a_block(frame: FrameType | None) -> bool:
    """Between a generator's `yield` and its `with`, nobody would undo what the generator has made.

    On a busy host a second look comes while the first one still returns: the code that the first interrupted counts."""
    interrupted = frame
    while frame is not None:
        if frame.f_globals.get("__name__") == __name__ and frame.f_code.co_name in _HANDLERS:
            interrupted = frame.f_back
        frame = frame.f_back
    return interrupted is not None and interrupted.f_globals.get("__name__") == contextlib.__name__


def _is_starting_a_process(frame: FrameType | None) -> bool:
    """From fork until Python knows of it, a child would go on unseen, and make what is being undone."""
    while frame is not None:
        if frame.f_globals.get("__name__") == "subprocess":
            return True
        frame = frame.f_back
    return False
