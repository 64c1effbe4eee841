"""Private daemons on which instances depend, and the detection that one has ended during a trial."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from lastro.errors import PlatformError, TrialError
from lastro.host.base import Process


class DaemonEnded(PlatformError):
    """A daemon ended while its instances ran. Some instances may have continued without it."""


@contextmanager
def must_keep_running(ended: Callable[[], str | None]) -> Iterator[None]:
    """Check that no daemon ends inside the block.

    `ended` returns the name of a daemon that has ended since the block began, even if replaced by another; or None.

    Raises: DaemonEnded at the end of the block. It replaces a TrialError of the block, which it may have caused."""
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


class DaemonProcess:
    """The process of a private daemon, which a subclass starts. `program` is its name in messages."""

    program: str
    _process: Process | None = None

    def alive(self) -> bool:
        return self._process is not None and self._process.alive()

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None

    def must_keep_running(self) -> AbstractContextManager[None]:
        """Check that the daemon runs from the beginning of the block to its end. Raises: DaemonEnded."""
        before = self._process
        return must_keep_running(lambda: None if before is self._process and self.alive() else self.program)
