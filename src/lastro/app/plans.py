"""Plans: the trials that a study or a suite would run here, and how long they would take."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING

from lastro.app.hosts import scenario_on_host
from lastro.app.messages import say
from lastro.app.studies import GivenSuite, load_testbed
from lastro.campaign.duration import Forecast, forecast
from lastro.errors import HostBusy, HostError, TrialError
from lastro.platforms.base import AVAILABLE, Availability
from lastro.scenarios.base import scenario_of
from lastro.scenarios.shared.bases import OnPlatforms
from lastro.scenarios.shared.pools import MissingPlatform
from lastro.study import design
from lastro.study.model import Study

if TYPE_CHECKING:
    from lastro.host.testbed_file import TestbedFile

NoPlan = HostError | TrialError
Planned = tuple[str, "StudyPlan | NoPlan"]  # a study's name in its suite, and its plan or why there is none


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """The options for probing in `lastro plan`. With `wait`, wait until another Lastro releases the host."""

    probe: bool = True
    wait: bool = False
    testbed: Path | None = None


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """A study as it would run here: the availability of each treatment, and the forecast of the duration."""

    study: Study
    treatments: list[design.Treatment]
    availability: list[Availability]
    probed: bool
    forecast: Forecast
    busy: str = ""  # why it was not probed: another Lastro holds the host
    emulated: bool | None = False  # the host is a guest in software; None if only booting it can show that

    @property
    def trials(self) -> int:
        return len(self.treatments) * self.study.design.replicates

    @property
    def runnable(self) -> list[design.Treatment]:
        """The treatments that can run here."""
        return list(compress(self.treatments, map(bool, self.availability)))

    def total_s(self, blocks: int) -> float:
        """Return the expected duration of a campaign of this many blocks."""
        return self.forecast.total_s + self.forecast.trials_s * (blocks / self.study.design.replicates - 1)


def plan_of(
    study: Study, probing: ProbeOptions, missing: dict[str, MissingPlatform] | None = None, place: str = ""
) -> StudyPlan:
    """Return the plan of a study.

    `missing` has the platforms that earlier plans of this command found missing; those found now are added to it.
    `place` names the study within a suite, for the progress message.

    Raises: HostError when this host cannot be probed, for example without a root filesystem; TrialError when a probe
    loses the connection to a host."""
    scenario = scenario_of(study)
    treatments = design.treatments(study)
    probed = probing.probe and (os.geteuid() == 0 or not scenario.needs_root)
    known_missing = {} if missing is None else missing
    availability_list = [AVAILABLE] * len(treatments)
    probing_s = None
    busy = ""
    file = load_testbed(probing.testbed)
    emulated = None if file and (file.guest or file.guests) else 0
    try:
        if probed:
            availability_list, probing_s, emulated = _probe(study, treatments, probing, file, known_missing, place)
    except HostBusy as error:
        probed, busy = False, error.message
    runnable = list(compress(treatments, map(bool, availability_list)))
    expected = forecast(study, scenario, runnable, probing_s=probing_s, emulated=emulated or 0)
    return StudyPlan(
        study, treatments, availability_list, probed, expected, busy, None if emulated is None else emulated > 0
    )


def _probe(
    study: Study,
    treatments: list[design.Treatment],
    probing: ProbeOptions,
    file: TestbedFile | None,
    missing: dict[str, MissingPlatform],
    place: str,
) -> tuple[list[Availability], float, int]:
    """Return the availability of each treatment, the seconds that probing takes, and the number of emulated guests.

    The seconds are those that the campaign will need to probe. So the time to build images is left out, since the
    campaign will not build them again. Time saved now by results in `missing` is included, since the campaign probes
    again."""
    with scenario_on_host(study, f"plan of {study.name}", wait=probing.wait, file=file) as scenario:
        pool = scenario.pool if isinstance(scenario, OnPlatforms) and not scenario.guests else None
        if pool:
            pool.missing = missing
        if scenario.needs_root:
            say(f"{place}probing what this host can run …")
        began_s = time.monotonic()
        availability = [scenario.availability_at(study.config(treatment.levels)) for treatment in treatments]
        took_s = time.monotonic() - began_s
        took_s += pool.spared_s - scenario.testbed.session.built_s if pool else 0.0
        guests = [here.testbed.guest for here in scenario.guests.values() or [scenario] if here.needs_root]
        return availability, took_s, sum(guest is not None and guest["emulated"] for guest in guests)


def plans_of(given: GivenSuite, probing: ProbeOptions) -> Sequence[Planned]:
    """Return (name, plan) for each study of a suite, in running order; without a plan, the error takes its place."""
    planned: list[Planned] = []
    missing: dict[str, MissingPlatform] = {}
    n_studies = len(given.studies)
    for position, (file, study) in enumerate(zip(given.folder.files, given.studies, strict=True), start=1):
        place = f"study {position} of {n_studies}: {file.stem}: "
        try:
            planned.append((file.stem, plan_of(study, probing, missing, place)))
        except (HostError, TrialError) as error:  # such as an image that cannot be built; the others have plans
            planned.append((file.stem, error))
    return planned


def reasons(plan: StudyPlan) -> dict[tuple[str, str | None], int]:
    """Return {(reason, remedy): number of treatments that cannot run because of it}."""
    missing = [availability for availability in plan.availability if not availability]
    return Counter((str(availability.reason), availability.remedy) for availability in missing)
