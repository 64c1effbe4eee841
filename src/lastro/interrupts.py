"""Handle Ctrl-C, SIGTERM and SIGHUP, which end a command: no signal is lost or interrupts the clean-up of the host."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN_S = 0.002
_HANDLERS = ("deferred", "again", "first")

TYPE_CHECKING = False  # importing it from typing would take a third of the time of --help
if TYPE_CHECKING:
    from typing import Any

    Handler = Callable[[int, FrameType | None], Any]


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as cleanly as Ctrl-C does."""


class HungUp(KeyboardInterrupt):
    """SIGHUP: the terminal is gone, as after a lost SSH session. It ends a command as cleanly as Ctrl-C does."""


EXIT_CODES: dict[type[KeyboardInterrupt], int] = {KeyboardInterrupt: 130, Terminated: 143, HungUp: 129}


def exit_code(interrupt: BaseException) -> int:
    """Return the exit code of a command that an interrupt ended."""
    return next((code for kind, code in EXIT_CODES.items() if type(interrupt) is kind), 130)


def raise_interrupts() -> None:
    """Install handlers that raise `Terminated` at SIGTERM and `HungUp` at SIGHUP; an ignored SIGHUP (nohup) stays so.

    Also install a hook for interrupts whose exception Python discards, as it does in finalizers and in callbacks of
    weak references, one of which runs in each import: the hook raises them again a moment later."""
    signal.signal(signal.SIGTERM, _terminated)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _hung_up)
    sys.unraisablehook = _unraisable


def _terminated(_number: int, _frame: FrameType | None) -> None:
    raise Terminated


def _hung_up(_number: int, _frame: FrameType | None) -> None:
    _print("\n")
    raise HungUp


def _print(text: str) -> None:
    """Print to standard error, without `print`, since the signal may have interrupted `print`.

    If the terminal is gone, further output is discarded: a command that fails to print would not clean up."""
    try:
        os.write(2, text.encode())
    except OSError:
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for stream in (1, 2):
            os.dup2(nothing, stream)


def _unraisable(ignored: sys.UnraisableHookArgs) -> None:
    kind = ignored.exc_type  # not the exception, which would keep its frames
    if not issubclass(kind, KeyboardInterrupt):
        sys.__unraisablehook__(ignored)
        return

    def first(_number: int, _frame: FrameType | None) -> None:
        raise kind

    _call_soon(_deferred(first))


@contextmanager
def one_interrupt() -> Iterator[Callable[[], None]]:
    """Raise KeyboardInterrupt in the block at the first signal, and ignore all later signals.

    Yields a function to call when only clean-up remains: from then on, even a first signal is ignored."""
    import ctypes  # here: only commands that hold the host need it

    # The parent may ignore them for its children, as a shell does for background jobs.
    handlers = {number: handler for number in _SIGNALS if (handler := signal.getsignal(number)) != signal.SIG_IGN}

    def first(number: int, frame: FrameType | None) -> None:
        ignore()
        _print("\ncleaning up …\n")
        handler = handlers[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)
        raise KeyboardInterrupt

    def ignore() -> None:
        # From now on the kernel ignores the signal, also in clean-up commands, which inherit that. For Python it keeps
        # a handler until exit: Python complains if another thread notices a signal while `signal.signal` sets it to be
        # ignored. Blocking it does not help: another thread then takes it. But when Python exits, it restores the
        # default action of signals with a handler, which ends the process: hence `atexit`.
        for number in handlers:
            signal.signal(number, _nothing)
            ctypes.CDLL(None).signal(int(number), ctypes.c_void_p(signal.SIG_IGN))
            atexit.register(signal.signal, number, signal.SIG_IGN)

    for number in handlers:
        signal.signal(number, _deferred(first))
    try:
        yield ignore
    except KeyboardInterrupt:
        raise  # and keep on ignoring: the process is about to end
    except BaseException:
        _restore(handlers)
        raise
    else:
        _restore(handlers)


def _call_soon(handler: Handler) -> None:
    """Call `handler` as a signal handler after a moment, by a timer."""
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)


def _deferred(handler: Handler) -> Handler:
    """Return a signal handler that calls `handler` once no `with` block is being entered and no process started."""

    def deferred(number: int, frame: FrameType | None) -> None:
        if _is_entering_a_block(frame) or _is_starting_a_process(frame):

            def again(_number: int, later: FrameType | None) -> None:
                deferred(number, later)

            _call_soon(again)
            return
        handler(number, frame)

    return deferred


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Do nothing. This is the handler of all signals after the first one."""


def _restore(handlers: dict[signal.Signals, signal._HANDLER]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _is_entering_a_block(frame: FrameType | None) -> bool:
    """Return whether the signal interrupted contextlib, which may be entering a `with` block.

    An exception between the `yield` of a context manager and the start of its block would skip the clean-up. On a busy
    host, the timer may fire before the previous handler has returned. So what the first handler interrupted counts."""
    interrupted = frame
    while frame is not None:
        if frame.f_globals.get("__name__") == __name__ and frame.f_code.co_name in _HANDLERS:
            interrupted = frame.f_back
        frame = frame.f_back
    return interrupted is not None and interrupted.f_globals.get("__name__") == contextlib.__name__


def _is_starting_a_process(frame: FrameType | None) -> bool:
    """Return whether the signal interrupted `subprocess`, whose new child would then not be known to the clean-up."""
    while frame is not None:
        if frame.f_globals.get("__name__") == "subprocess":
            return True
        frame = frame.f_back
    return False
