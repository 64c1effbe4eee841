"""Digits of pi on several threads, with computation and output timed separately, as y-cruncher does.

The program is ours: the Chudnovsky brothers' series by binary splitting over GMP. The sum runs on all threads. The last
division and the conversion to decimal run on one, so threads speed it up less than y-cruncher. The digits are checked
twice: at powers of ten against values from another algorithm, and at the end against the binary number, since the
conversion to decimal may fail."""

from __future__ import annotations

import math
from typing import Self

from lastro.host.base import Host
from lastro.image.programs import build_program
from lastro.instruments import _report_lines
from lastro.instruments.base import TIME_TOOL, WORK_DIR, Workload, bounded, positive
from lastro.requirements import Requirements
from lastro.results.samples import Metric, Reading
from lastro.study.model import Setting

PROGRAM = "lastro-pi"
# The first N digits of pi as one number, modulo 2^61 - 1; up to 10^6 confirmed by Machin's formula
# (tests/known/test_pi.py).
KNOWN = {
    10: 3141592653,
    100: 1921460303958977572,
    1000: 790743638507482984,
    10_000: 2248172433740921318,
    100_000: 1092564522937948082,
    1_000_000: 270993293841962608,
    10_000_000: 1912102082256852393,
}
_SPEED = 9e8  # of an ordinary core: N digits take N * log2(N)^2 / _SPEED seconds
_DIGITS = Setting("digits", 1_000_000, "decimal digits, including the leading 3", 10, 10_000_000_000, by_profile=True)
_THREADS = Setting("threads", 1, "threads of the sum; 0: one on each CPU of the instance", 0, 4096)


class Pi(Workload):
    name = "pi"
    summary = "digits of pi on several threads, our own program with GMP; output is timed separately"
    version_argv = (PROGRAM, "--version")
    requirements = Requirements(packages=("gcc", "libc6-dev", "libgmp-dev"))
    options = (_DIGITS, _THREADS)
    metrics = (
        TIME_TOOL,
        Metric("pi_computation", "s", "lower", "time to compute all digits of pi, in decimal (lastro-pi)"),
        Metric("pi_output", "s", "lower", "time to write the digits to a file, until it is on disk (lastro-pi)"),
    )

    @classmethod
    def programs(cls, host: Host) -> tuple[str, ...]:
        return (build_program(host, "pi", cls.requirements.install, libraries=("gmp",)),)

    def argv(self) -> list[str]:
        task = (_DIGITS.of(self.chosen), _THREADS.of(self.chosen))
        return [PROGRAM, *map(str, task), f"{WORK_DIR}/lastro-pi.txt"]

    def read(self, text: str) -> Reading:
        lines = _report_lines.parse_report(text, PROGRAM)
        reasons = []
        for option in (_DIGITS, _THREADS):
            asked, reported = option.of(self.chosen), _report_lines.number(lines, option.name)
            if reported != asked:
                reasons.append(f"{PROGRAM} had {reported:g} {option.name} instead of {asked}")
        computed_s = positive("the time of the computation", _report_lines.number(lines, "computation"))
        output_s = _report_lines.number(lines, "output")
        values = {TIME_TOOL.name: computed_s + output_s, "pi_computation": computed_s, "pi_output": output_s}
        reasons += _wrong_digits(lines, _DIGITS.of(self.chosen))
        return bounded(self.metrics, Reading(values, invalid_because=tuple(reasons)))

    def expected_s(self, cpus: float, slowdown: float) -> float:
        digits = _DIGITS.of(self.chosen)
        one_thread_s = digits * math.log2(digits) ** 2 / _SPEED
        sum_s = 0.75 * one_thread_s / min(cpus, _THREADS.of(self.chosen) or cpus)  # the rest runs on one thread
        return slowdown * (0.25 * one_thread_s + sum_s)

    def brief(self) -> Self:
        return type(self)(**{**self.chosen, "digits": min(100_000, _DIGITS.of(self.chosen))})


def _wrong_digits(lines: dict[str, list[list[str]]], digits: int) -> list[str]:
    """Return reasons for invalidity if the reported residues show that some digits are wrong."""
    residues = dict[int, int]()
    for words in lines.get("residue", []):
        n, residue = _report_lines.whole_numbers("residue", words, 2)
        residues[n] = residue
    wrong = [n for n, residue in KNOWN.items() if n <= digits and residues.get(n) != residue]
    reasons = [f"the first {wrong[0]} digits are not those of pi"] if wrong else []
    binary_lines = lines.get("binary", [])
    (binary,) = _report_lines.whole_numbers("binary", binary_lines[0] if binary_lines else [], 1)
    if residues.get(digits) != binary:
        reasons.append("the digits differ from the computed number: its conversion to decimal failed")
    return reasons
