"""The noise floor of a study: run its A/A campaign and judge it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lastro.app import campaigns
from lastro.app.campaign_dirs import check_place, open_campaign
from lastro.app.contents import report_of
from lastro.app.hosts import guest_names, guests_to_boot, require_runnable
from lastro.app.messages import say
from lastro.app.provenance import changed_facts
from lastro.app.rights import require_root
from lastro.app.studies import testbed_of
from lastro.campaign.duration import emulated_guests, forecast
from lastro.campaign.runner import utc_now
from lastro.errors import InputError
from lastro.guest import surely_emulated
from lastro.results.provenance import Provenance, RecordedRole
from lastro.results.segments import change_texts
from lastro.results.store import Store
from lastro.scenarios.base import scenario_of
from lastro.study import design
from lastro.study.aa_study import aa_study, first_treatments
from lastro.study.model import PATIENCE, Level, Study
from lastro.units import human_duration

if TYPE_CHECKING:
    from lastro.analysis.noise_floor import NoiseFloors
    from lastro.host.testbed_file import TestbedFile

SHORT_S = 3600.0
MARK = "noise_floor_of"  # in the provenance of an A/A campaign: the study that it is for


def study_of(directory: Path) -> Study:
    """Return the study of a campaign. Raises: InputError when it is an A/A campaign."""
    with open_campaign(directory) as store:
        if store.provenance.noise_floor_of:
            raise InputError(f"{directory} is an A/A campaign itself", "name the campaign or study for which it ran")
        return store.study


def run(
    study: Study, directory: Path, judged: Path | None, file: TestbedFile | None, *, everything: bool, wait: bool
) -> None:
    """Run the A/A campaign of a study in `directory`, on the testbed of `file` or else of the campaign `judged`.

    Unless `everything` is true, it has only as many baseline treatments as fit into an hour, and at least one."""
    scenario_class = scenario_of(study)
    if scenario_class.needs_root:
        require_root("noise-floor")
    emulated = 0
    if judged:
        with open_campaign(judged) as store:
            require_runnable(store)
            emulated = 0 if file else emulated_guests(store)
            file = file or testbed_of(store)  # a floor holds only where it was measured
    check_place(directory)
    aa = aa_study(study)
    if scenario_class.needs_root:
        plans = guests_to_boot(file, guest_names(aa))
        emulated = min(len(plans), max(emulated, sum(map(surely_emulated, plans))))

    treatments, blocks = design.treatments(aa), aa.design.replicates

    def expected_s(n_treatments: int) -> float:
        return forecast(aa, scenario_class, treatments[:n_treatments], emulated=emulated).total_s

    fitting = len(treatments)
    while not everything and fitting > 1 and expected_s(fitting) > SHORT_S:
        fitting -= 1
    words = f"A/A campaign: {fitting} of {len(treatments)} baseline treatments, {blocks} blocks"
    more = "" if fitting == len(treatments) else " (--all runs all of them)"
    took = human_duration(expected_s(fitting))
    shortened = aa if fitting == len(treatments) else first_treatments(aa, fitting)
    say(f"{words}, {fitting * blocks} trials, about {took}{more}; in {directory}")
    campaigns.begin(directory, shortened, wait=wait, file=file, marks={MARK: study.name})


def judge(directories: Sequence[Path], study: Study) -> NoiseFloors:
    """Return the noise floors from finished A/A campaigns of `study`, and store them in the first one's database."""
    from lastro.analysis.noise_floor import noise_floors, to_dict

    reports = []
    wanted = aa_study(study)
    for directory in directories:
        reports.append(report := report_of(directory))
        aa = report.study
        for what, value, wanted_value in (
            ("scenario", aa.scenario, wanted.scenario),
            ("factors", aa.factors, wanted.factors),
            ("settings", _measurement_settings(aa.settings), _measurement_settings(wanted.settings)),
            ("metrics", [metric.name for metric in aa.metrics], [metric.name for metric in wanted.metrics]),
        ):
            if value != wanted_value:
                message = f"the campaign in {directory} is not an A/A campaign of this study: it has different {what}"
                raise InputError(message, "name another directory with -o, or run without -o")
        if not report.progress.finished:
            hint = f"continue with `lastro resume {directory}`, then repeat this command"
            raise InputError(f"the A/A campaign in {directory} is unfinished", hint)
    floors = noise_floors(reports, study)
    _store_floors(directories[0], to_dict(floors, utc_now()))
    return floors


def _measurement_settings(settings: Mapping[str, Level]) -> dict[str, Level]:
    """Return the settings except those that only limit waiting, which campaigns of earlier versions may lack."""
    return {name: value for name, value in settings.items() if name not in PATIENCE}


def _store_floors(directory: Path, value: dict[str, Any]) -> None:
    with Store.open(directory) as store:
        store.save_noise_floor(value)


def store_in_campaign(judged: Path, directories: Sequence[Path], floors: NoiseFloors, *, changed_host: bool) -> None:
    """Store the noise floors of the A/A campaigns in `directories` in the campaign `judged`.

    Raises: InputError if the campaigns ran under different conditions, unless `changed_host` accepts that."""
    from lastro.analysis.noise_floor import to_dict

    changes: dict[str, None] = {}
    for directory in directories:
        before, now = _provenance(judged), _provenance(directory)
        was, is_ = before.testbed.roles, now.testbed.roles
        differences = change_texts(changed_facts(before.chapters, now.chapters))
        for role in {**was, **is_}:
            there, here = (_place_of(roles.get(role, RecordedRole())) for roles in (was, is_))
            differences += [f"{role} was on {there}, is on {here}"] if there != here else []
        if differences and not changed_host:
            raise InputError(
                f"the A/A campaign in {directory} ran under different conditions than {judged}: "
                f"{'; '.join(differences)}",
                "run it on the same host and image, or store the floors anyway with --changed-host",
            )
        changes |= dict.fromkeys(differences)
    _store_floors(judged, {**to_dict(floors, utc_now()), "changed_host": list(changes)})
    with Store.open(judged) as store:
        store.log(utc_now(), "noise floor", f"from {', '.join(map(str, directories))}")


def _provenance(directory: Path) -> Provenance:
    with open_campaign(directory) as store:
        return store.provenance


def _place_of(role: RecordedRole) -> str:
    """Return the place of a role as text: 'root@192.0.2.2, CPUs 0-1, cards eth1, eth2', or 'this machine'."""
    cpus = [f"CPUs {role.cpu_set}"] if role.cpu_set != "all" else []
    cards = [f"cards {', '.join(role.links.values())}"] if role.links else []
    return ", ".join([role.reached, *cpus, *cards])
