"""Run `lastro WORDS` until a function of it has executed a number of lines, and be killed there, as by `kill -9`.

    python killed_at.py MODULE:FUNCTION LINES WORDS...

Lines count in the function and in what it calls of Lastro's own code, over all its calls. A kill after a random time
seldom hits a transaction, which takes a millisecond of a trial that takes half a second."""

from __future__ import annotations

import os
import signal
import sys
from functools import wraps
from importlib import import_module
from typing import Any


def kill_in(place: str, lines: int) -> None:
    """Have this process killed when the function has executed so many lines."""
    module, _, path = place.partition(":")
    *above, name = path.split(".")
    owner = import_module(module)
    for each in above:
        owner = getattr(owner, each)
    function, left = getattr(owner, name), lines

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal left
        if not frame.f_globals.get("__name__", "").startswith("lastro"):
            return None
        if event == "line":
            left -= 1
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    @wraps(function)
    def traced(*args: Any, **options: Any) -> Any:
        sys.settrace(trace)
        try:
            return function(*args, **options)
        finally:
            sys.settrace(None)

    setattr(owner, name, traced)


if __name__ == "__main__":
    from lastro.cli import main

    kill_in(sys.argv[1], int(sys.argv[2]))
    sys.argv = ["lastro", *sys.argv[3:]]
    raise SystemExit(main())
