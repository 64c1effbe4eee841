"""Wait for a server that has just been started in an instance."""

from __future__ import annotations

import time
from collections.abc import Sequence

from lastro.errors import InstrumentError
from lastro.host.base import Process
from lastro.platforms.base import Instance

_LAST_WORDS = 300  # characters


def wait_for_answer(instance: Instance, process: Process, ask: Sequence[str], what: str, limit_s: float) -> None:
    """Repeat the command `ask` in the instance until it succeeds; errors call the server `what`.

    `process` is the server. Raises: InstrumentError if the server has exited, with its last output, or if `ask` has not
    succeeded within `limit_s` seconds."""
    deadline_s = time.monotonic() + limit_s
    while instance.run(ask, check=False).returncode != 0:
        if not process.alive():
            done = process.stop()
            words = (done.error_text or done.text).strip()[-_LAST_WORDS:]
            raise InstrumentError(f"{what} exited with code {done.returncode} before it answered: {words}")
        if time.monotonic() > deadline_s:
            raise InstrumentError(f"{what} did not answer within {limit_s:g} s")
        time.sleep(0.05)
