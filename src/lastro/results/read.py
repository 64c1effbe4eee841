"""A campaign read whole from its database, as plain data for whatever reports on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lastro.results.store import Attempt, Store, TreatmentRow, TrialRow
from lastro.study.model import Study


@dataclass(frozen=True, slots=True)
class CampaignData:
    """All that a report needs; no transcripts and no raw series, which `lastro show` reads trial by trial.

    `attempts` are in running order; `events` are (UTC time, kind, text)."""

    directory: str
    study: Study
    treatments: list[TreatmentRow]
    trials: list[TrialRow]
    attempts: list[Attempt]
    provenance: dict[str, Any]
    calibrations: dict[str, Any]
    events: list[tuple[str, str, str]]


def load_campaign(store: Store) -> CampaignData:
    """Everything at once. Raises: StoreError when the database is damaged."""
    with store.snapshot():
        return CampaignData(
            directory=str(store.directory),
            study=store.study,
            treatments=store.treatments(),
            trials=store.trials(),
            attempts=store.attempts(),
            provenance=store.provenance,
            calibrations=store.calibrations(),
            events=store.events(),
        )
