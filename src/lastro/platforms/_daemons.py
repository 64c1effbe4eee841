"""Detect that a daemon on which instances depend has ended during a trial."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lastro.errors import PlatformError, TrialError


class DaemonEnded(PlatformError):
    """A daemon ended while its instances ran. Some instances may have continued without it."""


@contextmanager
def must_keep_running(ended: Callable[[], str | None]) -> Iterator[None]:
    """Check that no daemon ends inside the block.

    `ended` returns the name of a daemon that has ended since the beginning of the block, even if another one has
    replaced it; None if none has ended.

    Raises: DaemonEnded at the end of the block. If the block raises a TrialError, DaemonEnded replaces it, since the
    daemon's end may be the cause."""
    try:
        yield
    except DaemonEnded:  # reported by another instance
        raise
    except TrialError:
        _raise_for(ended())
        raise
    _raise_for(ended())


def _raise_for(daemon: str | None) -> None:
    if daemon is not None:
        raise DaemonEnded(f"{daemon} ended while its containers ran")
