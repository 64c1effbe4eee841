"""Digits of pi by Alexander Yee's y-cruncher, where the user has it: it is free of charge and in no Debian package.

Its whole directory goes into the image: the program chooses one of several binaries by the processor that it sees, so
that a virtual machine with another model may run another one. The chosen one is told in the trial's transcript.

Not run for real yet: what it prints is known from what others published of versions 0.7 and 0.8."""

from __future__ import annotations

import math
import os
import re
from typing import Self

from lastro.errors import InstrumentError, Unavailable
from lastro.host.base import Host
from lastro.image.rootfs import Needs
from lastro.instruments.base import TIME_TOOL, WORK_DIR, Workload, positive
from lastro.results.samples import Metric, Reading
from lastro.study.model import Setting

PROGRAM = "y-cruncher"
_HINT = "unpack it from numberworld.org/y-cruncher, and link its program into /usr/local/bin"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_SECONDS = r":\s+(\d{1,9}(?:\.\d{1,9})?) seconds\b"
_SPEED = 1.6e9  # an ordinary core's: N digits take N times the square of their binary logarithm / _SPEED seconds


class YCruncher(Workload):
    name = "y-cruncher"
    summary = "digits of pi by y-cruncher, the user's own; computation apart from the rest"
    version_argv = (PROGRAM, "version")
    options = (
        Setting("digits", 25_000_000, "decimal digits", 1_000_000, 10_000_000_000, effort=True),
        Setting("threads", 1, "threads that work at once", 1, 4096),
    )
    metrics = (
        TIME_TOOL,
        Metric("y_cruncher_computation", "s", "lower", "total computation time (y-cruncher)"),
    )

    @classmethod
    def needs(cls, host: Host) -> Needs:
        found = host.which(PROGRAM)
        return Needs(files=(os.path.dirname(os.path.realpath(found)),)) if found else Needs()  # noqa: PTH120

    @classmethod
    def require(cls, host: Host) -> None:
        if host.which(PROGRAM) is None:
            raise Unavailable(f"this host has no program '{PROGRAM}'", _HINT)

    def argv(self) -> list[str]:
        """From its own directory, which has the name that the user's has; without writing digits or a record."""
        find = f'd=$(dirname "$(find /usr/local/bin -name {PROGRAM} -type f | head -n 1)") && cd "$d"'
        task = f"skip-warnings bench {self.chosen['digits']} -TD:{self.chosen['threads']} -od:0 -o {WORK_DIR}"
        return ["sh", "-c", f"{find} && exec ./{PROGRAM} {task}"]

    def read(self, text: str) -> Reading:
        plain = _COLOURS.sub("", text)
        computed_s, total_s = (_seconds(plain, name) for name in ("Total Computation Time", "Start-to-End Wall Time"))
        reasons: tuple[str, ...] = ()
        if computed_s > 1.01 * total_s + 0.01:
            reasons = (f"y-cruncher computed for {computed_s:g} s of {total_s:g} s in all",)
        told = re.search(r"Decimal Digits:\s+(\d[\d,]{0,30})", plain, re.ASCII)
        if told and int(told[1].replace(",", "")) != self.number("digits"):
            reasons += (f"y-cruncher computed {told[1]} digits instead of {self.chosen['digits']}",)
        if checked := re.search(r"Spot Check:\s+(\S.{0,80})", plain):
            reasons += (
                () if checked[1].startswith("Good") else (f"y-cruncher checked its digits: {checked[1].strip()}",)
            )
        return Reading({TIME_TOOL.name: total_s, "y_cruncher_computation": computed_s}, invalid_because=reasons)

    def expected_s(self, cpus: float, slowdown: float) -> float:
        digits = self.number("digits")
        return slowdown * digits * math.log2(digits) ** 2 / _SPEED / min(cpus, self.number("threads"))

    def brief(self) -> Self:
        return type(self)(**{**self.chosen, "digits": 1_000_000})


def _seconds(text: str, name: str) -> float:
    found = re.findall(name + _SECONDS, text, re.ASCII)
    if len(found) != 1:
        raise InstrumentError(f"y-cruncher printed its '{name}' {len(found)} times: …{text[-80:]!r}")
    return positive(f"y-cruncher's '{name}'", float(found[0]))
