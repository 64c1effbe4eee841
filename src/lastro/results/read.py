"""Read a whole campaign from its database, as plain data for reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lastro.grouping import by_key
from lastro.results.database import damaged
from lastro.results.looks import Look
from lastro.results.members import Member
from lastro.results.provenance import Provenance, common_provenance
from lastro.results.rows import Attempt, BlockPlace, TestbedRow, TreatmentRow, TrialRow
from lastro.results.samples import Series
from lastro.results.segments import HostSegment, segments_of_trials
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

    Raw series may be larger than all other data, so they are loaded later. When it is called with (trial, attempt)
    pairs, `later_series` opens the campaign again, and returns the series of each pair, in the order of the pairs.
    `later_histograms` does the same for histograms."""

    directory: str
    study: Study
    treatments: list[TreatmentRow]
    trials: list[TrialRow]
    attempts: list[Attempt]  # in running order
    provenance: Provenance
    calibrations: dict[str, Any]
    noise_floor: Any
    events: list[tuple[str, str, str]]  # (UTC time, kind, text)
    later_series: LaterSeries
    later_histograms: LaterHistograms
    # The campaigns if several were merged (`results.merge`), or the testbeds of a fleet if several measured; else
    # empty.
    members: tuple[Member, ...] = ()
    segments: tuple[HostSegment, ...] = ()  # each begins where the campaign continued on a changed host
    looks: tuple[Look, ...] = ()  # empty unless this is a single campaign that runs until a decision is made


def load_campaign(store: Store) -> CampaignData:
    """Read a whole campaign as it is at one moment, even while it runs. Raises: StoreError for a damaged database."""
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
            segments=store.segments(),
            looks=store.looks(),
            later_series=partial(_later, store.directory, Store.series),
            later_histograms=partial(_later, store.directory, Store.histograms),
        )
        testbeds, places = store.testbeds(), store.places()
        of_testbeds = {row.name: store.calibrations(row.name) for row in testbeds}
    if reason := _contradiction(data):
        raise damaged(store.directory, reason)
    return _with_testbeds(data, testbeds, places, of_testbeds) if store.is_fleet else data


def _with_testbeds(
    data: CampaignData, testbeds: Sequence[TestbedRow], places: Iterable[BlockPlace], calibrations: Mapping[str, Any]
) -> CampaignData:
    """Return the campaign of a fleet with its testbeds as members, and with the provenance that all of them share.

    `calibrations` maps the name of a testbed to its calibrations. If a treatment can run on some testbeds only, its
    unavailable trials on other testbeds are left out."""
    blocks: dict[str, list[int]] = {row.name: [] for row in testbeds}
    for block, testbed in {place.block: place.testbed for place in places}.items():  # the last place of each block
        blocks[testbed].append(block)
    rows = [row for row in testbeds if blocks[row.name]] or testbeds
    runnable = {row.treatment.index for row in data.treatments if row.unavailable is None}
    trials = [trial for trial in data.trials if trial.state != "unavailable" or trial.treatment not in runnable]
    of_block = by_key((trial.block, trial.number) for trial in trials)
    numbers = {row.name: [n for block in blocks[row.name] for n in of_block.get(block, ())] for row in rows}
    members = tuple(
        Member(row.name, row.provenance, frozenset(blocks[row.name]), frozenset(numbers[row.name]), testbed=True)
        for row in rows
    )
    return replace(
        data,
        trials=trials,
        provenance=data.provenance | common_provenance([row.provenance for row in rows]),
        calibrations={name: values for name, values in calibrations.items() if values},
        members=members if len(members) > 1 else (),
    )


def split_by_testbed(data: CampaignData) -> list[CampaignData]:
    """Split a campaign by the testbeds of its fleet, into one campaign each; without members, return it unchanged."""
    if not data.members:
        return [data]
    return [
        replace(
            data,
            directory=f"{data.directory}: {member.directory}",
            trials=[trial for trial in data.trials if trial.number in member.trials],
            attempts=[attempt for attempt in data.attempts if attempt.trial in member.trials],
            provenance=member.provenance,
            calibrations=data.calibrations.get(member.directory, {}),
            members=(),
            segments=segments_of_trials(data.segments, data.attempts, member.trials),
            looks=(),
        )
        for member in data.members
    ]


def _contradiction(data: CampaignData) -> str | None:
    """Return how rows of the database contradict each other, although each row is valid alone; None if they do not."""
    factors = {factor.name: set(factor.levels) for factor in data.study.factors}
    for row in data.treatments:
        levels = row.treatment.levels
        if set(levels) != set(factors) or any(levels[name] not in known for name, known in factors.items()):
            return f"table treatment, row {row.treatment.index}, column levels: {dict(levels)} is not in the study"
    places: set[tuple[int, int]] = set()
    adaptive = data.study.design.allocation == "adaptive"  # blocks may lack treatments
    for at, trial in enumerate(data.trials, 1):
        row_is = f"table trial, row {trial.number}, column"
        if trial.number != at and not adaptive:
            return f"{row_is} number: trial {at} is missing"
        if adaptive and -(-trial.number // max(1, len(data.treatments))) != trial.block:
            return f"{row_is} block: its number is not in block {trial.block}"
        if trial.treatment >= len(data.treatments):
            return f"{row_is} treatment: there is no treatment {trial.treatment}"
        if (trial.block, trial.treatment) in places:
            return f"{row_is} block: treatment {trial.treatment} is already in block {trial.block}"
        places.add((trial.block, trial.treatment))
    blocks = [0, *(look.block for look in data.looks)]
    if any(a >= b for a, b in pairwise(blocks)) or blocks[-1] > data.study.design.most_blocks:
        return "table meta, row 'looks', column value: its blocks are not in order"
    return None


def _later(
    directory: Path, read: Callable[[Store, int, int], list[_Found]], attempts: Iterable[tuple[int, int]]
) -> list[list[_Found]]:
    with Store.open(directory, readonly=True) as store, store.snapshot():
        return [read(store, trial, attempt) for trial, attempt in attempts]
