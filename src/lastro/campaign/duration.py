"""How long a campaign takes: foretold before it has trials, and from those that it has afterwards.

A forecast is made of the session's start, of the probes of what can run (as long as they took, where they were just
made), of calibration runs, of the trials as their scenario expects them, and of the report. Once trials have run, what
they took counts: of a treatment that has run its own mean; of another what was expected of it, times the ratio that all
others have shown between the two."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lastro import registry
from lastro.errors import LastroError
from lastro.results.store import Store
from lastro.scenarios.base import Config, Scenario
from lastro.study import design
from lastro.study.design import Treatment
from lastro.study.levels import split_options
from lastro.study.model import Study

_SESSION_S = 1.5  # taking the host, facts of it and of the tools, and giving it back, about
_REPORT_S = 6.0  # results, figures and the page, about


def configuration(study: Study, treatment: Treatment) -> Config:
    return {**study.settings, **treatment.levels}


@dataclass(frozen=True, slots=True)
class Forecast:
    """Seconds of a whole campaign, by what they are spent on."""

    session_s: float
    probing_s: float
    calibrations_s: float
    trials_s: float
    report_s: float

    @property
    def total_s(self) -> float:
        return self.session_s + self.probing_s + self.calibrations_s + self.trials_s + self.report_s


def forecast(
    study: Study, scenario: type[Scenario], treatments: Sequence[Treatment], *, probing_s: float | None = None
) -> Forecast:
    """Of a campaign of these treatments. `probing_s` is what finding them out has just taken, where that is known."""
    configs = [configuration(study, treatment) for treatment in treatments]
    calibrations: dict[str, Config] = {}
    for config in configs:
        calibrations.update(scenario.calibrations(config))
    return Forecast(
        session_s=_SESSION_S if scenario.needs_root else 0.0,
        probing_s=scenario.probing_s(configs) if probing_s is None else probing_s,
        calibrations_s=sum(scenario.duration_s(config) for config in calibrations.values()),
        trials_s=study.design.replicates * sum(scenario.duration_s(config) for config in configs),
        report_s=_REPORT_S if scenario.needs_root else 0.0,
    )


def missing(store: Store) -> set[str]:
    """Platforms of which a campaign has found that none of its treatments can run here."""
    study, rows = store.study, store.treatments()
    some = {_platform(study, row.treatment) for row in rows if not row.unavailable}
    return {_platform(study, row.treatment) for row in rows} - some - {""}


def due(study: Study, gone: Collection[str]) -> list[Treatment]:
    """Treatments that may run although these platforms are missing."""
    return [row for row in design.treatments(study) if _platform(study, row) not in gone]


def _platform(study: Study, row: Treatment) -> str:
    """The platform's name without what was chosen of it; empty where the scenario has none."""
    return split_options(str(configuration(study, row).get("platform", "")))[0]


def expected_s(study: Study, scenario: type[Scenario] | None, treatments: Iterable[Treatment]) -> dict[int, float]:
    """Seconds of one trial of each treatment, by its index; without its scenario nothing is expected of any."""
    return {
        row.index: 0.0 if scenario is None else scenario.duration_s(configuration(study, row)) for row in treatments
    }


def scenario_of(study: Study) -> type[Scenario] | None:
    """None for a scenario that is no longer there: a campaign can be read without the part that it ran with."""
    try:
        return registry.get("scenario", study.scenario)  # type: ignore[no-any-return]
    except LastroError:
        return None


def pace_of(store: Store, scenario: type[Scenario] | None) -> Pace:
    """Of a campaign as it stands: what is left of it, and what its attempts have taken."""
    rows = [row.treatment for row in store.treatments()]
    try:
        expected = expected_s(store.study, scenario, rows)
    except (KeyError, ValueError, TypeError, LastroError):  # another version's study: only its own trials tell then
        expected = {}
    pace = Pace(expected, store.left())
    for treatment, took_s in store.durations():
        pace.note(treatment, took_s)
    return pace


class Pace:
    """Time to the end of a campaign's trials, in seconds."""

    def __init__(self, expected_s: Mapping[int, float], left: Mapping[int, int]) -> None:
        """Seconds that a trial of each treatment is expected to take, and how many each has left."""
        self._expected_s = expected_s
        self.left = dict(left)
        self._took_s: dict[int, list[float]] = defaultdict(list)

    def note(self, treatment: int, took_s: float, *, final: bool = False) -> None:
        """An attempt that took so long; `final` when its trial needs no other."""
        self._took_s[treatment].append(took_s)
        if final:
            self.left[treatment] = max(0, self.left.get(treatment, 0) - 1)

    @property
    def knows(self) -> bool:
        """Whether anything was measured, or expected of what is left."""
        return bool(self._took_s) or all(self._expected_s.get(index) for index, n in self.left.items() if n)

    @property
    def remaining_s(self) -> float:
        (took_s, wanted_s), mean_s = self.seen_s, self._mean_s()
        ratio = took_s / wanted_s if wanted_s else 1.0
        return sum(n * self._trial_s(index, ratio, mean_s) for index, n in self.left.items() if n)

    def _trial_s(self, treatment: int, ratio: float, mean_s: float) -> float:
        if took_s := self._took_s.get(treatment):
            return sum(took_s) / len(took_s)
        return ratio * self._expected_s.get(treatment, 0.0) or mean_s

    @property
    def seen_s(self) -> tuple[float, float]:
        """Seconds that the attempts so far have taken, and that were expected of them."""
        known = [(took_s, wanted_s) for at, took_s in self._took_s.items() if (wanted_s := self._expected_s.get(at))]
        return sum(sum(took_s) for took_s, _ in known), sum(len(took_s) * wanted_s for took_s, wanted_s in known)

    def _mean_s(self) -> float:
        all_s = [each for took_s in self._took_s.values() for each in took_s]
        return sum(all_s) / len(all_s) if all_s else 0.0
