"""The rate at which John the Ripper tries passwords with bcrypt, whose data fits into the first-level cache."""

from __future__ import annotations

import re

from lastro.errors import InstrumentError
from lastro.instruments.base import Workload, bounded, positive
from lastro.results.samples import Metric, Reading
from lastro.study.model import Setting

_PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9}
_RAW = re.compile(
    r"^Raw:\t(\d{1,12}(?:\.\d{1,6})?)([KMG]?) c/s real, (\d{1,12}(?:\.\d{1,6})?)([KMG]?) c/s virtual$", re.M | re.A
)
_REPORTED_THREADS = re.compile(r"Will run (\d{1,5}) OpenMP threads", re.A)
_TIME_S = Setting("time_s", 10, "length of the measurement in whole seconds", 1, 86_400)
_THREADS = Setting("threads", 1, "number of concurrent threads; 0: one on each CPU of the instance", 0, 4096)
_FORMAT = Setting("format", "bcrypt", "hash format", choices=("bcrypt", "md5crypt"))


class John(Workload):
    name = "john"
    summary = "passwords tried per second by John the Ripper's own test, bcrypt by default"
    packages = ("john",)
    version_argv = ("sh", "-c", "john | head -n 1")
    options = (_TIME_S, _THREADS, _FORMAT)
    short = {"time_s": 1}
    metrics = (
        Metric("john_rate", "1/s", "higher", "passwords tried per second of time (john, c/s real)"),
        Metric("john_cpu_rate", "1/s", "higher", "passwords tried per second of CPU time (john, c/s virtual)"),
    )

    def argv(self) -> list[str]:
        """Return the command. Standard error is merged into its output, since john reports its threads there."""
        test = f"john --test={_TIME_S.of(self.chosen)} --format={_FORMAT.of(self.chosen)} 2>&1"
        return ["env", f"OMP_NUM_THREADS={_THREADS.of(self.chosen)}", "sh", "-c", test]

    def read(self, text: str) -> Reading:
        if "FAILED" in text:
            raise InstrumentError(f"john's own test failed: {text[-200:]!r}")
        raw = _RAW.findall(text)
        if "... DONE" not in text:
            raise InstrumentError(f"john did not finish its test: …{text[-80:]!r}")
        if len(raw) != 1:
            raise InstrumentError(f"john printed {len(raw)} rates: …{text[-80:]!r}")
        real, real_prefix, virtual, virtual_prefix = raw[0]
        rate = positive("john's rate", float(real) * _PREFIXES[real_prefix])
        cpu_rate = positive("john's rate by CPU time", float(virtual) * _PREFIXES[virtual_prefix])
        asked, reported = _THREADS.of(self.chosen), _REPORTED_THREADS.findall(text)
        threads = int(reported[0]) if reported else 1
        reasons = () if threads == asked else (f"john ran {threads} threads instead of {asked}",)
        values = {"john_rate": rate, "john_cpu_rate": cpu_rate}
        return bounded(self.metrics, Reading(values, invalid_because=reasons))

    def expected_s(self, cpus: float, slowdown: float) -> float:
        return _TIME_S.of(self.chosen) + 0.5 * slowdown
