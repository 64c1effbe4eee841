"""Messages of a use case while it works."""

from __future__ import annotations

import sys


def say(line: str) -> None:
    """Print a line on standard error, and flush it."""
    print(line, file=sys.stderr, flush=True)
