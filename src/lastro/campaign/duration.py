"""The duration of a campaign: a forecast before its first trial, an estimate from its trials afterwards.

A forecast adds up the start of the session, the probes (measured, if they have just run), the calibrations, the
durations of trials that their scenario expects, and the report. An estimate uses the mean duration of each treatment
that has run. For other treatments it uses the expected duration, times the ratio of actual to expected durations of the
treatments that have run.

The durations that a scenario expects are for a host. In a guest that is emulated in software, every command takes
longer, so each trial is expected to last `EMULATED_TRIAL_S` longer."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lastro.errors import LastroError, Unavailable
from lastro.results.store import Store
from lastro.scenarios.base import Config, Scenario
from lastro.study import design
from lastro.study.design import Treatment
from lastro.study.levels import written_parts
from lastro.study.model import Study

_SESSION_S = 1.5  # approximate: lock the host, collect facts about it and its tools, release it
EMULATED_TRIAL_S = 15.0  # measured with chains on a processor of 2.6 GHz: 12 to 17 s
_EMULATED_BOOT_S = 60.0  # approximate: of each guest, one after the other
_REPORT_S = 6.0  # approximate: results, figures and the page
_LONGEST_S = 1e9  # of a trial
_KINDS = ("platform", "instrument")  # of parts that a study may find missing on this host


@dataclass(frozen=True, slots=True)
class Forecast:
    """The seconds that a whole campaign is expected to take, by activity."""

    session_s: float
    probing_s: float
    calibrations_s: float
    trials_s: float
    report_s: float

    @property
    def total_s(self) -> float:
        return self.session_s + self.probing_s + self.calibrations_s + self.trials_s + self.report_s


def forecast(
    study: Study,
    scenario: type[Scenario],
    treatments: Sequence[Treatment],
    *,
    probing_s: float | None = None,
    emulated: int = 0,
) -> Forecast:
    """Forecast the duration of a campaign of these treatments.

    `probing_s` is how long the probes took, if they have just run; None forecasts it. `emulated` is the number of the
    campaign's hosts that are emulated guests."""
    configs = [study.config(treatment.levels) for treatment in treatments]
    calibrations: dict[str, Config] = {}
    more_s = EMULATED_TRIAL_S if emulated else 0.0
    for config in configs:
        calibrations.update(scenario.calibrations(config))
    return Forecast(
        session_s=emulated * _EMULATED_BOOT_S + (_SESSION_S if scenario.needs_root else 0.0),
        probing_s=scenario.probing_s(configs) if probing_s is None else probing_s,
        calibrations_s=sum(_duration_s(scenario, config) + more_s for config in calibrations.values()),
        trials_s=study.design.replicates * sum(_duration_s(scenario, config) + more_s for config in configs),
        report_s=_REPORT_S if scenario.needs_root else 0.0,
    )


def _duration_s(scenario: type[Scenario], config: Config) -> float:
    seconds = scenario.duration_s(config)
    if isinstance(seconds, int | float) and 0 <= seconds <= _LONGEST_S:
        return seconds
    raise Unavailable(f"scenario {scenario.name} expects a trial to last {seconds!r} s", "correct its duration_s")


def missing(store: Store) -> set[str]:
    """Return the platforms and instruments of a campaign that cannot be used here, such as 'platform kvm'.

    No treatment with such a platform or instrument is available. A platform or instrument is left out if the cause may
    be something else: if an instrument is used only with missing platforms, or a platform only together with other
    platforms."""
    rows = [(_parts(store.study, row.treatment), bool(row.unavailable)) for row in store.treatments()]
    usable = {part for parts, unavailable in rows if not unavailable for part in parts}
    gone: set[str] = set()
    for kind in _KINDS:
        for parts in [parts for parts, _ in rows if not parts & gone]:
            of_kind = [part for part in parts if part.startswith(f"{kind} ")]
            if len(of_kind) == 1 and of_kind[0] not in usable:
                gone.add(of_kind[0])
    return gone


def treatments_without(study: Study, gone: Collection[str]) -> list[Treatment]:
    """Return the treatments of a study that use none of the platforms and instruments `gone`."""
    return [treatment for treatment in design.treatments(study) if not _parts(study, treatment) & set(gone)]


def _parts(study: Study, row: Treatment) -> set[str]:
    """Return the platforms and the instrument of a treatment, without options, such as 'platform kvm'."""
    config = study.config(row.levels)
    return {f"{kind} {name}" for kind in _KINDS if config.get(kind) for name, _ in written_parts(config, kind)}


def emulated_guests(store: Store) -> int:
    """Return the number of emulated guests of a campaign; with a fleet, of the testbed that has the most."""
    provenances = [store.provenance, *(row.provenance for row in store.testbeds())]
    return max(sum(each.guest.emulated for each in place.guests.values() or [place]) for place in provenances)


def expected_s(
    study: Study, scenario: type[Scenario] | None, treatments: Iterable[Treatment], *, emulated: bool = False
) -> dict[int, float]:
    """Return {index of a treatment: expected seconds of one trial}; all are 0 if `scenario` is None.

    With `emulated`, the trials run in an emulated guest, and so take longer."""
    if scenario is None:
        return dict.fromkeys((row.index for row in treatments), 0.0)
    more_s = EMULATED_TRIAL_S if emulated else 0.0
    return {row.index: _duration_s(scenario, study.config(row.levels)) + more_s for row in treatments}


def eta_estimator(store: Store, scenario: type[Scenario] | None) -> EtaEstimator:
    """Return an estimator of the remaining time of a campaign, which knows its remaining trials and past attempts."""
    rows = [row.treatment for row in store.treatments()]
    try:
        expected = expected_s(store.study, scenario, rows, emulated=emulated_guests(store) > 0)
    except (KeyError, ValueError, TypeError, LastroError):  # for a study of another version, only its trials count
        expected = {}
    pace = EtaEstimator(expected, store.unfinished_by_treatment())
    for treatment, took_s in store.durations():
        pace.note(treatment, took_s)
    return pace


class EtaEstimator:
    """Estimates the remaining time of a campaign's trials, in seconds."""

    def __init__(self, expected_s: Mapping[int, float], remaining_trials: Mapping[int, int]) -> None:
        """Initialize with the expected seconds of a trial and the number of trials still to run, both by treatment."""
        self._expected_s = expected_s
        self.remaining_trials = dict(remaining_trials)
        self._attempts: Counter[int] = Counter()
        self._took_s: dict[int, float] = defaultdict(float)  # all attempts at a treatment together

    def note(self, treatment: int, took_s: float, *, final: bool = False) -> None:
        """Add an attempt that took `took_s`; it is `final` if its trial needs no further attempt."""
        self._attempts[treatment] += 1
        self._took_s[treatment] += took_s
        if final:
            self.remaining_trials[treatment] = max(0, self.remaining_trials.get(treatment, 0) - 1)

    @property
    def is_known(self) -> bool:
        """True if the time can be estimated: a trial has run, or all remaining treatments have an expected duration."""
        return bool(self._took_s) or all(self._expected_s.get(index) for index, n in self.remaining_trials.items() if n)

    @property
    def remaining_s(self) -> float:
        took_s, expected_s = self.actual_and_expected_s
        n_attempts = self._attempts.total()
        ratio = took_s / expected_s if expected_s else 1.0
        mean_s = sum(self._took_s.values()) / n_attempts if n_attempts else 0.0
        remaining_s = 0.0
        for treatment, n_trials in self.remaining_trials.items():
            if n := self._attempts[treatment]:
                remaining_s += n_trials * self._took_s[treatment] / n
            else:
                remaining_s += n_trials * (ratio * self._expected_s.get(treatment, 0.0) or mean_s)
        return remaining_s

    @property
    def actual_and_expected_s(self) -> tuple[float, float]:
        """The actual and the expected total seconds of the attempts so far whose treatment has an expected duration."""
        actual_s = expected_s = 0.0
        for treatment, took_s in self._took_s.items():
            if trial_s := self._expected_s.get(treatment):
                actual_s += took_s
                expected_s += self._attempts[treatment] * trial_s
        return actual_s, expected_s
