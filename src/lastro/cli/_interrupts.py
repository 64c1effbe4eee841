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

from lastro.cli import raise_lost_interrupt

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_AGAIN_S = 0.002
_HANDLERS = ("first", "again")


@contextmanager
def one_interrupt() -> Iterator[Callable[[], None]]:
    """Raise KeyboardInterrupt at the first signal, and ignore all later ones.

    Yields a function to call when only the clean-up is left: from then on the first signal is ignored too."""
    # The parent may have had them ignored, as a shell does for background jobs.
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
        # From now on the kernel ignores the signal, also in clean-up commands, which inherit that. For Python it keeps
        # a handler until exit: Python complains if another thread notices a signal while `signal.signal` sets it to be
        # ignored. Blocking it does not help: another thread then takes it. But when Python exits, it restores the
        # default action of signals with a handler, which is to die: hence `atexit`.
        for number in handlers:
            signal.signal(number, _nothing)
            ctypes.CDLL(None).signal(int(number), ctypes.c_void_p(signal.SIG_IGN))
            atexit.register(signal.signal, number, signal.SIG_IGN)

    for number in handlers:
        signal.signal(number, first)
    try:
        raise_lost_interrupt()
        yield ignore
    except KeyboardInterrupt:
        raise  # and keep on ignoring: the process is about to end
    except BaseException:
        _restore(handlers)
        raise
    else:
        _restore(handlers)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the handler of further signals."""


def _restore(handlers: dict[signal.Signals, signal._HANDLER]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _is_entering_a_block(frame: FrameType | None) -> bool:
    """Whether contextlib was interrupted: between a generator's `yield` and its `with`, nothing would clean up.

    On a busy host, the timer may fire while the previous handler still returns. The code that counts is the code that
    the first handler interrupted."""
    interrupted = frame
    while frame is not None:
        if frame.f_globals.get("__name__") == __name__ and frame.f_code.co_name in _HANDLERS:
            interrupted = frame.f_back
        frame = frame.f_back
    return interrupted is not None and interrupted.f_globals.get("__name__") == contextlib.__name__


def _is_starting_a_process(frame: FrameType | None) -> bool:
    """Whether subprocess was interrupted: a child that Python does not know yet would run on during the clean-up."""
    while frame is not None:
        if frame.f_globals.get("__name__") == "subprocess":
            return True
        frame = frame.f_back
    return False
