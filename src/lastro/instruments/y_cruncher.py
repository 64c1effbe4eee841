"""Digits of pi by Alexander Yee's y-cruncher, if the user has it: it is free of charge, but not a Debian package.

Only the program and its directory `Binaries` are copied into the image. The program chooses one of several binaries by
the model of the processor, so a virtual machine with another model may run another binary. The transcript of the trial
shows which one ran.

Not yet tested with the real program: the parser follows output that others published of versions 0.7 and 0.8."""

from __future__ import annotations

import math
import re
from pathlib import Path

from lastro.errors import InstrumentError, Unavailable
from lastro.host.base import Host
from lastro.instruments import _user_programs
from lastro.instruments.base import TIME_TOOL, WORK_DIR, Workload, bounded, positive
from lastro.requirements import Requirements
from lastro.results.samples import Metric, Reading
from lastro.study.model import Setting

PROGRAM = "y-cruncher"
_HINT = "unpack it from numberworld.org/y-cruncher, and link its program into /usr/local/bin"
_BINARIES = "Binaries"
_INSIDE = "/usr/local/bin/lastro-y-cruncher"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_SECONDS = r":\s+(\d{1,9}(?:\.\d{1,9})?) seconds\b"
_SPEED = 1.6e9  # of an ordinary core: N digits take N * log2(N)^2 / _SPEED seconds
_DIGITS = Setting("digits", 25_000_000, "decimal digits", 1_000_000, 10_000_000_000, by_profile=True)
_THREADS = Setting("threads", 1, "number of concurrent threads; 0: one on each CPU of the instance", 0, 4096)


class YCruncher(Workload):
    name = "y-cruncher"
    summary = "digits of pi by y-cruncher, if the user has it; computation is timed separately"
    requirements = Requirements(program=PROGRAM, remedy=_HINT)
    version_argv = ("env", "-C", _INSIDE, f"./{PROGRAM}", "version")
    options = (_DIGITS, _THREADS)
    short = {"digits": 1_000_000}
    metrics = (TIME_TOOL, Metric("y_cruncher_computation", "s", "lower", "total computation time (y-cruncher)"))

    @classmethod
    def programs(cls, host: Host) -> tuple[str, ...]:
        return (_user_programs.gather_files(host, cls.name, _sources(host)),)

    @classmethod
    def require(cls, host: Host) -> None:
        _sources(host)

    def argv(self) -> list[str]:
        """Return the command. It runs in the program's own directory, and writes neither digits nor a record."""
        task = ["bench", str(_DIGITS.of(self.chosen)), f"-TD:{_THREADS.of(self.chosen)}", "-od:0", "-o", WORK_DIR]
        return ["env", "-C", _INSIDE, f"./{PROGRAM}", "skip-warnings", *task]

    def read(self, text: str) -> Reading:
        plain = _COLOURS.sub("", text)
        computed_s, total_s = _seconds(plain, "Total Computation Time"), _seconds(plain, "Start-to-End Wall Time")
        reasons: tuple[str, ...] = ()
        if computed_s > 1.01 * total_s + 0.01:
            reasons = (f"y-cruncher computed for {computed_s:g} s, more than the total of {total_s:g} s",)
        values = {TIME_TOOL.name: total_s, "y_cruncher_computation": computed_s}
        return bounded(self.metrics, Reading(values, invalid_because=(*reasons, *self._mismatch_reasons(plain))))

    def _mismatch_reasons(self, text: str) -> tuple[str, ...]:
        """Return reasons for invalidity: other digits or threads than asked for, or no successful check of the digits.

        A version that does not report the threads gives no reason."""
        reasons = []
        digits = re.search(r"Decimal Digits:\s+(\d[\d,]{0,30})", text, re.ASCII)
        if not digits or digits[1].replace(",", "") != str(_DIGITS.of(self.chosen)):
            computed = f"{digits[1]} digits" if digits else "an unknown number of digits"
            reasons.append(f"y-cruncher computed {computed} instead of {_DIGITS.of(self.chosen)}")
        threads = re.search(r"Threading Mode:.*->\s+(\d{1,6})\s*/", text, re.ASCII)
        if threads and int(threads[1]) != _THREADS.of(self.chosen):
            reasons.append(f"y-cruncher worked with {threads[1]} threads instead of {_THREADS.of(self.chosen)}")
        checked = re.search(r"Spot Check:\s+(\S.{0,80})", text)
        if not checked:
            reasons.append("y-cruncher did not report a check of its digits")
        elif not checked[1].startswith("Good"):
            reasons.append(f"y-cruncher's check of its digits failed: {checked[1].strip()}")
        return tuple(reasons)

    def expected_s(self, cpus: float, slowdown: float) -> float:
        digits = _DIGITS.of(self.chosen)
        return slowdown * digits * math.log2(digits) ** 2 / _SPEED / min(cpus, _THREADS.of(self.chosen) or cpus)


def _sources(host: Host) -> dict[str, Path]:
    """Return y-cruncher's program and its directory `Binaries`, by name. Raises: Unavailable if one is missing."""
    program = Path(host.require(PROGRAM, _HINT)).resolve()
    if not (program.parent / _BINARIES).is_dir():
        raise Unavailable(f"{program} has no directory '{_BINARIES}' next to it", _HINT)
    return {PROGRAM: program, _BINARIES: program.parent / _BINARIES}


def _seconds(text: str, name: str) -> float:
    matches = re.findall(name + _SECONDS, text, re.ASCII)
    if len(matches) != 1:
        raise InstrumentError(f"y-cruncher printed its '{name}' {len(matches)} times: …{text[-80:]!r}")
    return positive(f"y-cruncher's '{name}'", float(matches[0]))
