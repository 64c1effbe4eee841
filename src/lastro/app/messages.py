"""What a use case prints while it works."""

from __future__ import annotations

import sys


def say(line: str) -> None:
    """Print a line on standard error, at once."""
    print(line, file=sys.stderr, flush=True)
