"""Run the remaining studies of a suite, one after the other: shared by `run` and `resume`."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from lastro import papers, registry
from lastro.campaign import suite as suites
from lastro.campaign.duration import forecast, missing, missing_trials, pace_of
from lastro.campaign.progress import Place, SuitePosition
from lastro.campaign.suite import Front, Suite
from lastro.cli import _suite_status
from lastro.cli import resume as resume_command
from lastro.cli import run as run_command
from lastro.cli._common import MANY_INVALID_TRIALS, most_invalid, require_root
from lastro.cli._study import GivenSuite, load_front, load_testbed
from lastro.cli.resume import How
from lastro.errors import HostBusy, HostError, LastroError, TrialError
from lastro.report.language import ENGLISH
from lastro.report.opening import incomplete, invalid_fraction
from lastro.results.store import State, Store
from lastro.scenarios.base import Scenario
from lastro.study.model import Study

CANNOT = 3  # the exit code when a study could not run here, or could not finish


def run(args: argparse.Namespace, given: GivenSuite) -> int:
    """Create a suite in its directory, and run it to its end."""
    if any(registry.get("scenario", study.scenario).needs_root for study in given.studies):
        require_root("run")
    most = most_invalid(args)
    directory = args.output or run_command.place_for(given.folder.name)
    for place in (directory, *(directory / file.stem for file in given.folder.files)):
        run_command.check_place(place)  # a campaign already there would be mistaken for one of the suite
    suite = suites.create(directory, given.folder, given.source, given.studies, papers.claims)
    _Run(directory, suite, How(wait=args.wait, testbed=args.testbed)).fronts(suite.fronts)
    return _conclude(directory, report=not args.no_report, most_invalid=most)


def resume(args: argparse.Namespace) -> int:
    """Run what is left of a suite. If nothing is left, try again what was unavailable."""
    suite = suites.read(args.dir)
    most = most_invalid(args)
    how = How(wait=args.wait, changed_host=args.changed_host, invalid=args.invalid, testbed=args.testbed)
    runner = _Run(args.dir, suite, how)
    left = [front for front in suite.fronts if runner.is_unfinished(front)]
    for front in left:
        if not suites.begun(args.dir, front):
            runner.study(front)  # as in a new suite: an invalid study ends it before anything runs
    runner.fronts(left or suite.fronts)
    if not runner.ran:
        print(f"{args.dir}: nothing is left to run")
    return _conclude(args.dir, report=not args.no_report, most_invalid=most)


@dataclass
class _Run:
    """One session of a suite."""

    directory: Path
    suite: Suite
    how: How
    ran: bool = False

    def fronts(self, fronts: Sequence[Front]) -> None:
        """Run each of these studies, as far as it can run here.

        Raises: what ends the whole suite: an interruption, a host that is busy, a database that cannot be written."""
        for index, front in enumerate(fronts):
            position = self.suite.fronts.index(front) + 1
            _say(f"front {position} of {len(self.suite.fronts)}: {front.name} ({front.title or front.study})")
            try:
                self._front(front, partial(self._among, front, fronts[index + 1 :]))
            except KeyboardInterrupt as interrupt:
                interrupt.args = (f"in front {front.name}; continue with `lastro resume {self.directory}`",)
                raise
            except HostBusy:
                raise
            except (HostError, TrialError) as error:  # a TrialError outside a trial; the other studies may run
                self._stopped(front, error)
            except LastroError as error:
                error.hint = f"{error.hint or 'fix that'}; then continue with `lastro resume {self.directory}`"
                raise
            else:
                suites.note_stop(self.directory, front.name, None)
            self.how = replace(self.how, wait=True)  # the host is ours: wait if a command takes it between two studies

    def _stopped(self, front: Front, error: LastroError) -> None:
        suites.note_stop(self.directory, front.name, error.message, error.hint)
        midway = suites.can_run(self.directory, front)
        _say(f"front {front.name} {'was ended by an error' if midway else 'cannot run here'}: {error.message}")
        if error.hint:
            _say(f"  remedy: {error.hint}")

    def _front(self, front: Front, place: Place) -> None:
        directory = self.directory / front.name
        if suites.begun(self.directory, front):
            self.ran |= resume_command.go_on(directory, self.how, place)
        else:
            file = load_testbed(self.how.testbed)
            run_command.begin(directory, self.study(front), wait=self.how.wait, place=place, file=file)
            self.ran = True

    def is_unfinished(self, front: Front) -> bool:
        if not suites.begun(self.directory, front):
            return True
        if front.stopped is None and not suites.can_run(self.directory, front):
            return True  # killed before the index said why it cannot run
        with Store.open(self.directory / front.name, readonly=True) as store:
            return resume_command.is_unfinished(store) or (self.how.invalid and bool(store.counts()["invalid"]))

    def study(self, front: Front) -> Study:
        return load_front(suites.study_file(self.directory, front), self.suite.profile)

    def _among(self, front: Front, later: Sequence[Front]) -> SuitePosition:
        """Return what the progress of one study shows about the others.

        Treatments on platforms that any study, this one included, found missing are not counted. Studies to come are
        assumed to be as slow as those so far."""
        trials, done, begun_s, later_s, gone = 0, 0, 0.0, 0.0, set[str]()
        took_s = wanted_s = 0.0
        for other in (each for each in self.suite.fronts if suites.begun(self.directory, each)):
            with Store.open(self.directory / other.name, readonly=True) as store:
                gone |= missing(store)
                pace, counts = pace_of(store, _scenario(store.study)), store.counts()
            took_s, wanted_s = took_s + pace.seen_s[0], wanted_s + pace.seen_s[1]
            if other != front:
                begun_s += pace.remaining_s if other in later else 0.0
                trials += sum(counts.values()) - counts["unavailable"]
                done += counts["valid"] + counts["invalid"]
        for study in (self.study(other) for other in later if not suites.begun(self.directory, other)):
            rows = missing_trials(study, gone)
            trials += len(rows) * study.design.replicates
            later_s += forecast(study, _scenario(study), rows).total_s
        return SuitePosition(front.name, trials, done, begun_s + later_s * (took_s / wanted_s if wanted_s else 1.0))


def _scenario(study: Study) -> type[Scenario]:
    return registry.get("scenario", study.scenario)  # type: ignore[no-any-return]


def _conclude(directory: Path, *, report: bool, most_invalid: float | None) -> int:
    """Print how every study ended and where its results are, write the report, and return the exit code.

    It is not 0 when a study could not run, could not finish, or has more invalid trials than `most_invalid`. It prints
    no tables: those of all studies would be too much to read."""
    print(_suite_status.summary(directory))
    shown = shlex.quote(str(directory))
    print(f"tables: lastro results {shown}\nverdicts on the claims: lastro claims {shown}", flush=True)
    if report:
        run_command.write_report(directory)
    stopped = [front for front in suites.read(directory).fronts if front.stopped]
    for words, midway in (("did not run here", False), ("ended by an error", True)):
        if names := [front.name for front in stopped if suites.can_run(directory, front) is midway]:
            _say(f"{words}: {', '.join(names)}")
    fronts = [front for front in suites.read(directory).fronts if suites.begun(directory, front)]
    counts = {front.name: _counts(directory / front.name) for front in fronts}
    for name, of_front in counts.items():
        if warning := incomplete(of_front, ENGLISH):
            _say(f"front {name}: {warning}")
    if stopped:
        return CANNOT
    fractions = map(invalid_fraction, counts.values())
    return MANY_INVALID_TRIALS if most_invalid is not None and max(fractions, default=0.0) > most_invalid else 0


def _counts(directory: Path) -> dict[State, int]:
    with Store.open(directory, readonly=True) as store:
        return store.counts()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
