"""Exit codes and messages for unexpected exceptions, by cause: the host, a part by another author, or a Lastro bug."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterable
from contextlib import suppress

from lastro.interrupts import EXIT_CODES, exit_code
from lastro.plain import plain

_NO_MEMORY = ("failed to map segment", "Cannot allocate memory", "can't start new thread")
_HOST_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.EAGAIN}


def failure(error: Exception) -> tuple[int, str, str | None]:
    """Return (exit code, message, hint) for an unexpected error; the traceback of a bug is written to a file."""
    causes: list[BaseException] = [error]
    while cause := causes[-1].__cause__ or causes[-1].__context__:
        causes.append(cause)
    # If a thread cannot be started or a module cannot be loaded, only the text of the error shows that memory ran out.
    if any(isinstance(e, MemoryError) or any(word in _text(e) for word in _NO_MEMORY) for e in causes):
        return 1, "out of memory", None
    if ended_by := _hidden_interrupt(causes):
        return ended_by, "interrupted", None
    for cause in causes:  # any call may fail since the host has run out of something, even in a library
        if isinstance(cause, OSError) and cause.errno in _HOST_ERRORS:
            hint = "finished trials are safe: see what the host lacks, and run the command again"
            return 3, f"{cause.filename or 'this host'}: {cause.strerror}", hint
    registry = sys.modules.get("lastro.registry")
    what = f"{type(error).__name__}: {plain(_text(error))}"
    if registry and (place := next(filter(None, map(registry.culprit, causes)), "")):
        return 1, f"a part has failed, in {place}: {what}", f"correct it; {_write_traceback(error)}"
    if registry and (elsewhere := ", ".join(registry.imported_from_outside())):  # what they return may be nonsense
        hint = f"try it without {elsewhere}; if it fails again, please report it; {_write_traceback(error)}"
        return 1, f"this is a bug in Lastro, or in a part from elsewhere: {what}", hint
    return 1, f"this is a bug in Lastro: {what}", f"please report it; {_write_traceback(error)}"


def _text(error: BaseException) -> str:
    with suppress(Exception):  # the error of a part may fail to say what it is
        return str(error)
    return ""


def _hidden_interrupt(causes: Iterable[BaseException]) -> int:
    """Return the exit code for an interrupt that was converted to another error; 0 if none of `causes` hides one.

    A library in another language may keep only the name of the interrupt, in the text of its error. While Python
    creates a class, it raises another error with the interrupt as its cause. An error with an interrupt as its context
    does not count: it is a defect of the clean-up."""
    for cause in causes:
        if isinstance(cause.__cause__, KeyboardInterrupt):
            return exit_code(cause.__cause__)
        for kind, code in EXIT_CODES.items():
            if f"{kind.__name__}:" in _text(cause):
                return code
    return 0


def _write_traceback(error: BaseException) -> str:
    """Write the traceback of an error to a new file; return a clause that says where it is, or why it is missing."""
    import tempfile
    import traceback

    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="lastro-defect-", suffix=".txt", delete=False, encoding="utf-8", errors="replace"
        ) as file:
            traceback.print_exception(error, file=file)
    except OSError as full:
        return f"the traceback cannot be written: {full.strerror}"
    return f"the traceback is in {file.name}"
