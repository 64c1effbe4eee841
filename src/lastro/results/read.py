"""Read a whole campaign from its database, as plain data for reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lastro.results.database import damaged
from lastro.results.members import Member
from lastro.results.rows import Attempt, TreatmentRow, TrialRow
from lastro.results.samples import Series
from lastro.results.store import Store
from lastro.study.model import Study

if TYPE_CHECKING:
    from lastro.results.hdr import NamedHistogram

_Found = TypeVar("_Found")
LaterSeries = Callable[[Iterable[tuple[int, int]]], list[list[Series]]]
LaterHistograms = Callable[[Iterable[tuple[int, int]]], "list[list[NamedHistogram]]"]


@dataclass(frozen=True, slots=True)
class CampaignData:
    """The data of a campaign for a report, without transcripts, which `lastro show` reads trial by trial.

    Raw series may be larger than all other data, so `later_series` opens the campaign again and returns the series of
    the given (trial, attempt) pairs, in that order; `later_histograms` does so for histograms. `attempts` are in
    running order; `events` are (UTC time, kind, text). `members` are the campaigns if there are several
    (`results.together`)."""

    directory: str
    study: Study
    treatments: list[TreatmentRow]
    trials: list[TrialRow]
    attempts: list[Attempt]
    provenance: dict[str, Any]
    calibrations: dict[str, Any]
    noise_floor: Any
    events: list[tuple[str, str, str]]
    later_series: LaterSeries
    later_histograms: LaterHistograms
    members: tuple[Member, ...] = ()


def load_campaign(store: Store) -> CampaignData:
    """Load a campaign in a consistent state. Raises: StoreError when the database is damaged."""
    with store.snapshot():
        data = CampaignData(
            directory=str(store.directory),
            study=store.study,
            treatments=store.treatments(),
            trials=store.trials(),
            attempts=store.attempts(),
            provenance=store.provenance,
            calibrations=store.calibrations(),
            noise_floor=store.noise_floor(),
            events=store.events(),
            later_series=partial(_later, store.directory, Store.series),
            later_histograms=partial(_later, store.directory, Store.histograms),
        )
    if reason := _torn(data):
        raise damaged(store.directory, reason)
    return data


def _torn(data: CampaignData) -> str | None:
    """Describe rows that contradict each other, although each row is valid; None if there are none."""
    factors = {factor.name: set(factor.levels) for factor in data.study.factors}
    for row in data.treatments:
        levels = row.treatment.levels
        if set(levels) != set(factors) or any(levels[name] not in known for name, known in factors.items()):
            return f"table treatment, row {row.treatment.index}, column levels: {dict(levels)} is not in the study"
    places: set[tuple[int, int]] = set()
    for at, trial in enumerate(data.trials, 1):
        row_is = f"table trial, row {trial.number}, column"
        if trial.number != at:
            return f"{row_is} number: trial {at} is missing"
        if trial.treatment >= len(data.treatments):
            return f"{row_is} treatment: there is no treatment {trial.treatment}"
        if (trial.block, trial.treatment) in places:
            return f"{row_is} block: treatment {trial.treatment} is already in block {trial.block}"
        places.add((trial.block, trial.treatment))
    return None


def _later(
    directory: Path, read: Callable[[Store, int, int], list[_Found]], attempts: Iterable[tuple[int, int]]
) -> list[list[_Found]]:
    with Store.open(directory, readonly=True) as store, store.snapshot():
        return [read(store, trial, attempt) for trial, attempt in attempts]
