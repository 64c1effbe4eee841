"""A trial's reason when a daemon on which its instances depend has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lastro.errors import PlatformError, TrialError


class DaemonEnded(PlatformError):
    """A daemon that ended while instances ran, of which some may have gone on without it."""


@contextmanager
def lasting(ended: Callable[[], str | None]) -> Iterator[None]:
    """Check that no daemon ends inside the block; `ended` returns the name of one that has, even if it was replaced.

    Raises: DaemonEnded, rather than the error that followed from it inside the block."""
    try:
        yield
    except DaemonEnded:  # another instance has found out
        raise
    except TrialError:
        _raise_for(ended())
        raise
    _raise_for(ended())


def _raise_for(daemon: str | None) -> None:
    if daemon is not None:
        raise DaemonEnded(f"{daemon} ended while its containers ran")
