"""The throughput of memory copies by dd. Replace the command, what is read from its output, and this line."""

from __future__ import annotations

import re
from typing import Self

from lastro.errors import InstrumentError
from lastro.instruments.base import TIME_TOOL, Workload, positive
from lastro.results.samples import Metric, Reading
from lastro.study.model import Setting

_REPORT = re.compile(r"(\d{1,15}) bytes \(.*\) copied, (\d{1,9}(?:\.\d{1,9})?) s, .*\n", re.ASCII)

BLOCKS = Setting("blocks", 10_000, "blocks of 1 MiB to copy", 1, 10**6, by_profile=True)


class MyPart(Workload):
    name = "my-part"
    summary = "copies of zeros from the kernel to a program and back, by dd"
    version_argv = ("dd", "--version")
    options = (BLOCKS,)
    metrics = (TIME_TOOL, Metric("dd_rate", "MB/s", "higher", "bytes copied per second (dd)"))

    def argv(self) -> list[str]:
        return ["sh", "-c", f"dd if=/dev/zero of=/dev/null bs=1M count={BLOCKS.of(self.chosen)} 2>&1"]

    def read(self, text: str) -> Reading:
        """Parse the output of the command. For any text that cannot be its output, raise only InstrumentError."""
        matches = _REPORT.findall(text)
        if len(matches) != 1:
            raise InstrumentError(f"dd printed {len(matches)} reports: {text[-80:]!r}")
        n_bytes, copied_s = int(matches[0][0]), positive("dd's time", float(matches[0][1]))
        reasons = () if n_bytes == BLOCKS.of(self.chosen) << 20 else (f"dd copied {n_bytes} bytes",)
        return Reading({"time_tool": copied_s, "dd_rate": n_bytes / copied_s / 1e6}, invalid_because=reasons)

    def expected_s(self, cpus: float, slowdown: float) -> float:
        """Return the expected duration in seconds, for plans; `cpus` is the number of ordinary CPUs it can use."""
        return BLOCKS.of(self.chosen) / 1e4 * slowdown

    def brief(self) -> Self:
        """Return a short version of the workload, which only shows that it works."""
        return type(self)(**{**self.chosen, "blocks": min(1000, BLOCKS.of(self.chosen))})
