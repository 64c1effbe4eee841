"""The end of a command that ran trials: the report, the results or their location, and the exit code."""

from __future__ import annotations

import shlex
from pathlib import Path

from lastro.app.contents import report_of
from lastro.app.messages import say
from lastro.app.status import status_of_suite
from lastro.builders.status import suite_status_blocks
from lastro.campaign import suite as suites
from lastro.cli._common import MANY_INVALID_TRIALS, collector_paused
from lastro.cli._terminal import print_blocks
from lastro.cli.report import ReportOptions, write
from lastro.cli.results import table_blocks
from lastro.results.rows import State
from lastro.results.store import Store
from lastro.words.language import ENGLISH
from lastro.words.opening import incomplete, invalid_fraction

_CANNOT = 3  # the exit code when a study of a suite could not run here, or could not finish


def conclude(directory: Path, *, report: bool, most_invalid: float | None) -> int:
    """Write the report if wanted, print the results, and return the exit code of the command.

    `most_invalid` is the fraction of invalid trials above which the command fails; in a suite, a single study with a
    greater fraction suffices. None means no limit."""
    if suites.is_suite(directory):
        return _conclude_suite(directory, report, most_invalid)
    if report:
        write([directory], ReportOptions())
    with collector_paused():
        results = report_of(directory)
        print_blocks(table_blocks(results, ENGLISH), ENGLISH)
    return _exit_code(invalid_fraction(results.progress.counts), most_invalid)


def _conclude_suite(directory: Path, report: bool, most_invalid: float | None) -> int:
    """Print how every study ended and which command prints its results; return the exit code."""
    suite = suites.read(directory)
    print_blocks(suite_status_blocks(status_of_suite(directory, suite), ENGLISH), ENGLISH)
    shown = shlex.quote(str(directory))
    print(f"tables: lastro results {shown}\nverdicts on the claims: lastro claims {shown}", flush=True)
    if report:
        write([directory], ReportOptions())
    stopped = [member for member in suite.studies if member.stopped]
    for words, is_midway in (("did not run here", False), ("ended by an error", True)):
        if names := [member.name for member in stopped if suites.can_run(directory, member) is is_midway]:
            say(f"{words}: {', '.join(names)}")
    counts = {
        member.name: _counts(directory / member.name)
        for member in suite.studies
        if suites.has_campaign(directory, member)
    }
    for name, study_counts in counts.items():
        if warning := incomplete(study_counts, ENGLISH):
            say(f"study {name}: {warning}")
    if stopped:
        return _CANNOT
    return _exit_code(max(map(invalid_fraction, counts.values()), default=0.0), most_invalid)


def _exit_code(invalid: float, most_invalid: float | None) -> int:
    return MANY_INVALID_TRIALS if most_invalid is not None and invalid > most_invalid else 0


def _counts(directory: Path) -> dict[State, int]:
    with Store.open(directory, readonly=True) as store:
        return store.counts()
