"""Create or resume a suite, and run its remaining studies one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from lastro import papers
from lastro.app import campaigns
from lastro.app.campaign_dirs import check_place
from lastro.app.campaigns import ResumeOptions
from lastro.app.messages import say
from lastro.app.studies import GivenSuite, load_fleet, load_member, load_testbed, named_fleet, named_testbed
from lastro.campaign import suite as suites
from lastro.campaign.duration import emulated_guests, eta_estimator, forecast, missing, treatments_without
from lastro.campaign.progress import Place, SuitePosition
from lastro.campaign.sequential import is_finished
from lastro.campaign.suite import Suite, SuiteStudy
from lastro.errors import HostBusy, HostError, LastroError, TrialError
from lastro.results.store import Store
from lastro.scenarios.base import installed_scenario, scenario_of
from lastro.study.model import Study


def begin(directory: Path, given: GivenSuite, how: ResumeOptions) -> None:
    """Create a suite in a directory, and run it to its end. Raises: as `SuiteRun.run`."""
    for place in (directory, *(directory / file.stem for file in given.folder.files)):
        check_place(place)  # a campaign already there would be mistaken for one of the suite
    file, fleet = load_testbed(how.testbed), load_fleet(how.fleet)
    suite = suites.create(
        directory, given.folder, given.source, given.studies, papers.claims, given.selection,
        testbed=file.place if file else "", fleet=fleet.place if fleet else "",
    )  # fmt: skip
    SuiteRun(directory, suite, how).run(suite.studies)


def resume(directory: Path, how: ResumeOptions) -> bool:
    """Run the remaining studies of a suite, or retry unavailable trials if none remain; return whether anything ran.

    Raises: as `SuiteRun.run`."""
    suite = suites.read(directory)
    session = SuiteRun(directory, suite, how)
    left = [member for member in suite.studies if session.is_unfinished(member)]
    for member in left:
        if not suites.has_campaign(directory, member):
            session.study(member)  # as in a new suite: an invalid study ends it before anything runs
    session.run(left or suite.studies)
    return session.ran


@dataclass
class SuiteRun:
    """A run of `lastro` over the studies of a suite; `ran` is true once it has run anything."""

    directory: Path
    suite: Suite
    how: ResumeOptions
    ran: bool = False

    def run(self, members: Sequence[SuiteStudy]) -> None:
        """Run each of these studies as far as this host allows.

        Raises: errors that end the whole suite: an interruption, a busy host, a database that cannot be written."""
        for index, member in enumerate(members):
            position = self.suite.studies.index(member) + 1
            say(f"study {position} of {len(self.suite.studies)}: {member.name} ({member.title or member.study})")
            try:
                self._run(member, partial(self._position, member, members[index + 1 :]))
            except KeyboardInterrupt as interrupt:
                interrupt.args = (f"in study {member.name}; continue with `lastro resume {self.directory}`",)
                raise
            except HostBusy:
                raise
            except (HostError, TrialError) as error:  # a TrialError outside a trial; the other studies may run
                suites.note_stop(self.directory, member.name, error.message, error.hint)
                midway = suites.can_run(self.directory, member)
                say(f"study {member.name} {'was ended by an error' if midway else 'cannot run here'}: {error.message}")
                if error.hint:
                    say(f"  remedy: {error.hint}")
            except LastroError as error:
                error.hint = f"{error.hint or 'fix that'}; then continue with `lastro resume {self.directory}`"
                raise
            else:
                suites.note_stop(self.directory, member.name, None)
            self.how = replace(self.how, wait=True)  # the host is ours: wait if a command takes it between two studies

    def _run(self, member: SuiteStudy, place: Place) -> None:
        directory = self.directory / member.name
        if suites.has_campaign(self.directory, member):
            self.ran |= campaigns.resume(directory, self.how, place)
        else:
            how = self.how
            if how.testbed or how.fleet:
                file, fleet = load_testbed(how.testbed), load_fleet(how.fleet)
            else:
                file, fleet = named_testbed(self.suite.testbed), named_fleet(self.suite.fleet)
            study, properties = self.study(member), how.properties
            campaigns.begin(directory, study, wait=how.wait, place=place, file=file, fleet=fleet, properties=properties)
            self.ran = True

    def is_unfinished(self, member: SuiteStudy) -> bool:
        if not suites.has_campaign(self.directory, member):
            return True
        if member.stopped is None and not suites.can_run(self.directory, member):
            return True  # killed before the index said why it cannot run
        with Store.open(self.directory / member.name, readonly=True) as store:
            return not is_finished(store) or (self.how.invalid and bool(store.counts()["invalid"]))

    def study(self, member: SuiteStudy) -> Study:
        return load_member(suites.study_file(self.directory, member), self.suite.selection)

    def _position(self, member: SuiteStudy, later: Sequence[SuiteStudy]) -> SuitePosition:
        """Return the position of a study in the suite, for its display of progress; `later` are the studies after it.

        Treatments with a platform or an instrument that some study found missing are not counted. The later studies are
        assumed to exceed their forecasts by the same factor as the studies so far."""
        trials = done = emulated = 0
        begun_s = later_s = took_s = wanted_s = 0.0
        missing_parts = set[str]()
        for other in self.suite.studies:
            if not suites.has_campaign(self.directory, other):
                continue
            with Store.open(self.directory / other.name, readonly=True) as store:
                missing_parts |= missing(store)
                emulated = max(emulated, emulated_guests(store))
                pace = eta_estimator(store, installed_scenario(store.study))
                counts = store.counts()
            actual_s, expected_s = pace.actual_and_expected_s
            took_s, wanted_s = took_s + actual_s, wanted_s + expected_s
            if other != member:
                begun_s += pace.remaining_s if other in later else 0.0
                trials += sum(counts.values()) - counts["unavailable"]
                done += counts["valid"] + counts["invalid"]
        for study in (self.study(other) for other in later if not suites.has_campaign(self.directory, other)):
            rows = treatments_without(study, missing_parts)
            trials += len(rows) * study.design.replicates
            later_s += forecast(study, scenario_of(study), rows, emulated=emulated).total_s
        return SuitePosition(member.name, trials, done, begun_s + later_s * (took_s / wanted_s if wanted_s else 1.0))
