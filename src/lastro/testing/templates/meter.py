"""Context switches of the whole host. Replace the readings, the metrics and this line."""

from __future__ import annotations

import time

from lastro.meters.base import Meter
from lastro.results.samples import Metric


class MyPart(Meter):
    name = "my-part"
    summary = "how often the host's processors changed from one task to another"
    metrics = (Metric("context_switches", "1/s", "lower", "changes from one task to another, on the whole host"),)
    whole_host = True

    def start(self) -> None:
        self._began_s, self._before = time.monotonic(), self._count()

    def stop(self) -> None:
        """Store the result of the interval since `start`, since `read` may be called later."""
        self._rate = (self._count() - self._before) / (time.monotonic() - self._began_s)

    def read(self) -> dict[str, float]:
        return {"context_switches": self._rate}

    def _count(self) -> int:
        lines = self.testbed.host.read_text("/proc/stat").splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("ctxt ")))
