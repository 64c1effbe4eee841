"""The duration of a campaign: a forecast before its first trial, an estimate from its trials afterwards.

A forecast adds up the start of the session, the probes (measured, if they have just run), the calibrations, the
durations of trials that their scenario expects, and the report. An estimate uses the mean duration of each treatment
that has run. For the others it uses the expected duration, times the ratio of actual to expected durations of those
that have run.

What a scenario expects is for a host. In a guest that is emulated in software, every command takes longer, so each
trial is expected to last `EMULATED_TRIAL_S` longer."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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


def configuration(study: Study, treatment: Treatment) -> Config:
    return study.config(treatment.levels)


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
    """Forecast a campaign of these treatments. `probing_s` is how long the probes have just taken, if known.

    `emulated` is the number of guests that are emulated, if those are the hosts."""
    configs = [configuration(study, treatment) for treatment in treatments]
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
    found = scenario.duration_s(config)
    if isinstance(found, int | float) and 0 <= found <= _LONGEST_S:
        return found
    raise Unavailable(f"scenario {scenario.name} expects a trial to last {found!r} s", "correct its duration_s")


def missing(store: Store) -> set[str]:
    """Return the platforms and instruments of a campaign with which no treatment can run here, as 'platform kvm'."""
    rows = [(_parts(store.study, row.treatment), bool(row.unavailable)) for row in store.treatments()]
    some = {part for parts, unavailable in rows if not unavailable for part in parts}
    gone: set[str] = set()
    for kind in _KINDS:  # of an instrument, a platform that is missing shows nothing; nor do several of each other
        known = [[part for part in parts if part.startswith(f"{kind} ")] for parts, _ in rows if not parts & gone]
        gone |= {parts[0] for parts in known if len(parts) == 1} - some
    return gone


def missing_trials(study: Study, gone: Collection[str]) -> list[Treatment]:
    """Return the treatments that may run although these platforms and instruments are missing."""
    return [row for row in design.treatments(study) if not _parts(study, row) & set(gone)]


def _parts(study: Study, row: Treatment) -> set[str]:
    """Return the platforms and the instrument, as far as the scenario has them, as 'platform kvm', without options."""
    config = configuration(study, row)
    return {f"{kind} {name}" for kind in _KINDS if config.get(kind) for name, _ in written_parts(config, kind)}


def emulated_guests(store: Store) -> int:
    """Return the number of guests in software that were the hosts of a campaign, or of one testbed of its fleet."""
    provenances = [store.provenance, *(row.provenance for row in store.testbeds())]
    return max(map(_emulated, provenances))


def _emulated(provenance: Mapping[str, Any]) -> int:
    several = [each.get("guest", {}) for each in provenance.get("guests", {}).values()]
    return sum(bool(guest.get("emulated")) for guest in several or [provenance.get("guest", {})])


def expected_s(
    study: Study, scenario: type[Scenario] | None, treatments: Iterable[Treatment], *, emulated: bool = False
) -> dict[int, float]:
    """Return the expected seconds of one trial of each treatment, by its index; 0 without a scenario."""
    if scenario is None:
        return dict.fromkeys((row.index for row in treatments), 0.0)
    more_s = EMULATED_TRIAL_S if emulated else 0.0
    return {row.index: _duration_s(scenario, configuration(study, row)) + more_s for row in treatments}


def pace_of(store: Store, scenario: type[Scenario] | None) -> EtaEstimator:
    """Return the current pace of a campaign, from its remaining trials and the durations of its attempts."""
    rows = [row.treatment for row in store.treatments()]
    try:
        expected = expected_s(store.study, scenario, rows, emulated=emulated_guests(store) > 0)
    except (KeyError, ValueError, TypeError, LastroError):  # another version's study: only its own trials count then
        expected = {}
    pace = EtaEstimator(expected, store.left())
    for treatment, took_s in store.durations():
        pace.note(treatment, took_s)
    return pace


class EtaEstimator:
    """Time to the end of a campaign's trials, in seconds."""

    def __init__(self, expected_s: Mapping[int, float], left: Mapping[int, int]) -> None:
        """Take the expected seconds of a trial and the number of remaining trials, both by treatment."""
        self._expected_s = expected_s
        self.left = dict(left)
        self._attempts: Counter[int] = Counter()
        self._took_s: dict[int, float] = defaultdict(float)  # all attempts at a treatment together

    def note(self, treatment: int, took_s: float, *, final: bool = False) -> None:
        """Add an attempt that took `took_s`; `final` when its trial needs no other."""
        self._attempts[treatment] += 1
        self._took_s[treatment] += took_s
        if final:
            self.left[treatment] = max(0, self.left.get(treatment, 0) - 1)

    @property
    def knows(self) -> bool:
        """True if the time can be estimated: a trial has run, or all treatments left have an expected duration."""
        return bool(self._took_s) or all(self._expected_s.get(index) for index, n in self.left.items() if n)

    @property
    def remaining_s(self) -> float:
        (took_s, wanted_s), n_attempts = self.actual_and_expected_s, self._attempts.total()
        ratio = took_s / wanted_s if wanted_s else 1.0
        mean_s = sum(self._took_s.values()) / n_attempts if n_attempts else 0.0
        return sum(n * self._trial_s(index, ratio, mean_s) for index, n in self.left.items() if n)

    def _trial_s(self, treatment: int, ratio: float, mean_s: float) -> float:
        if n := self._attempts[treatment]:
            return self._took_s[treatment] / n
        return ratio * self._expected_s.get(treatment, 0.0) or mean_s

    @property
    def actual_and_expected_s(self) -> tuple[float, float]:
        """The actual and the expected seconds of the attempts so far that had an expected duration."""
        known = [
            (took_s, self._attempts[at] * wanted_s)
            for at, took_s in self._took_s.items()
            if (wanted_s := self._expected_s.get(at))
        ]
        return sum(took_s for took_s, _ in known), sum(wanted_s for _, wanted_s in known)
