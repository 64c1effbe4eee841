"""The end of a command that ran trials: the report, the results or their location, and the exit code."""

from __future__ import annotations

import shlex
from pathlib import Path

from lastro.app import messages
from lastro.app.contents import report_of
from lastro.app.status import status_of_suite
from lastro.builders.status import suite_conclusion, suite_warnings
from lastro.campaign import suite as suites
from lastro.cli._common import MANY_INVALID_TRIALS, collector_paused
from lastro.cli._terminal import print_blocks
from lastro.cli.report import ReportOptions, write
from lastro.cli.results import table_blocks
from lastro.words.language import Language
from lastro.words.opening import invalid_fraction

_CANNOT = 3  # the exit code when a study of a suite could not run here, or could not finish


def conclude(directory: Path, say: Language, *, report: bool, most_invalid: float | None) -> int:
    """Write the report if wanted, print the results, and return the exit code of the command.

    `most_invalid` is the fraction of invalid trials above which the command fails; in a suite, a single study with a
    greater fraction suffices. None means no limit."""
    is_suite, options = suites.is_suite(directory), ReportOptions(lang=say.code)
    if is_suite:  # how every study ended, and which command prints its results
        status = status_of_suite(directory, suites.read(directory))
        print_blocks(suite_conclusion(status, shlex.quote(str(directory)), say), say)
    if report:
        write([directory], options)
    if is_suite:
        for warning in suite_warnings(status, say):
            messages.say(warning)
        if any(member["stopped"] for member in status["studies"]):
            return _CANNOT
        invalid = max(invalid_fraction(member["counts"]) for member in status["studies"])
    else:
        with collector_paused():
            results = report_of(directory)
            print_blocks(table_blocks(results, say), say)
        invalid = invalid_fraction(results.progress.counts)
    return MANY_INVALID_TRIALS if most_invalid is not None and invalid > most_invalid else 0
