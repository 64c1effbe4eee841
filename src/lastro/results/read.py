"""A campaign read whole from its database, as plain data for whatever reports on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lastro.results.database import damaged, is_quantity
from lastro.results.samples import Series
from lastro.results.store import STATES, Attempt, Store, TreatmentRow, TrialRow
from lastro.study.model import Study

LaterSeries = Callable[[Iterable[tuple[int, int]]], list[list[Series]]]


@dataclass(frozen=True, slots=True)
class CampaignData:
    """All that a report needs; no transcripts, which `lastro show` reads trial by trial.

    Raw series may be larger than all else: `later_series` opens the campaign again and gives those of each (trial,
    attempt) that it is asked for, in that order. `attempts` are in running order; `events` are (UTC time, kind,
    text)."""

    directory: str
    study: Study
    treatments: list[TreatmentRow]
    trials: list[TrialRow]
    attempts: list[Attempt]
    provenance: dict[str, Any]
    calibrations: dict[str, Any]
    events: list[tuple[str, str, str]]
    later_series: LaterSeries


def load_campaign(store: Store) -> CampaignData:
    """Everything at once. Raises: StoreError when the database is damaged."""
    with store.snapshot():
        data = CampaignData(
            directory=str(store.directory),
            study=store.study,
            treatments=store.treatments(),
            trials=store.trials(),
            attempts=store.attempts(),
            provenance=store.provenance,
            calibrations=store.calibrations(),
            events=store.events(),
            later_series=partial(_series, store.directory),
        )
    if reason := _torn(data):
        raise damaged(store.directory, reason)
    return data


def _torn(data: CampaignData) -> str | None:
    """What does not belong together, which SQLite reads without complaint where bytes of the file are others."""
    factors = {factor.name for factor in data.study.factors}
    for row in data.treatments:
        if set(row.treatment.levels) != factors:
            return f"treatment {row.treatment.index} has levels of {sorted(row.treatment.levels)}"
    treatments, trials = {row.treatment.index for row in data.treatments}, {trial.number for trial in data.trials}
    for trial in data.trials:
        if trial.treatment not in treatments or trial.state not in STATES or not is_quantity(trial.block):
            return f"trial {trial.number} is {trial.state}, of treatment {trial.treatment} and block {trial.block}"
    for attempt in data.attempts:
        if attempt.trial not in trials or not is_quantity(attempt.duration_s):
            return f"an attempt of trial {attempt.trial} took {attempt.duration_s} s"
    return None


def _series(directory: Path, attempts: Iterable[tuple[int, int]]) -> list[list[Series]]:
    with Store.open(directory, readonly=True) as store, store.snapshot():
        return [store.series(trial, attempt) for trial, attempt in attempts]
