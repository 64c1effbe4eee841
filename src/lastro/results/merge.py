"""Merge campaigns of one study, for levels that need different kernels or hosts, and so must be measured separately.

Each block comes from one campaign, so treatments of different campaigns are compared through treatments that both
campaigns measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from lastro.errors import InputError
from lastro.results.members import Member
from lastro.results.provenance import common_provenance
from lastro.results.read import CampaignData
from lastro.results.rows import Attempt, TreatmentRow, TrialRow
from lastro.results.segments import HostSegment
from lastro.study.design import Treatment, common_baseline, is_compatible
from lastro.study.model import PATIENCE, Factor, Level, Study

_Found = TypeVar("_Found")
Key = tuple[tuple[str, Level], ...]


def merge_campaigns(campaigns: Sequence[CampaignData]) -> CampaignData:
    """Merge campaigns of one study into one, in the order in which they began; return a single campaign unchanged.

    Treatments, trials and blocks get new numbers. A treatment is unavailable if no campaign could run it. Noise floors
    are left out, since each applies to one campaign only.

    Raises: InputError if a campaign is given twice, or the studies differ in more than levels and replicates."""
    if len(campaigns) == 1:
        return campaigns[0]
    # By the time at which the first attempt began; without attempts, by a text that sorts after any time.
    ordered = sorted(campaigns, key=lambda each: min((attempt.started_utc for attempt in each.attempts), default="~"))
    require_one_study(ordered)
    for directory, n in Counter(campaign.directory for campaign in ordered).items():
        if n > 1:
            raise InputError(f"{directory} is given twice", "name each campaign once")
    with_spans = list(zip(_spans(ordered), ordered, strict=True))
    rows = _treatments(ordered)
    indices = {key: row.treatment.index for key, row in rows.items()}
    runnable = {row.treatment.index for row in rows.values() if row.unavailable is None}
    trials, attempts, segments = list[TrialRow](), list[Attempt](), list[HostSegment]()
    for span, campaign in with_spans:
        n_trials, n_blocks = span.trials.start - 1, span.blocks.start - 1  # numbers that earlier campaigns use
        new_index = {row.treatment.index: indices[_key(row.treatment.levels)] for row in campaign.treatments}
        for trial in campaign.trials:
            treatment = new_index[trial.treatment]
            if trial.state != "unavailable" or treatment not in runnable:
                number, block = trial.number + n_trials, trial.block + n_blocks
                trials.append(replace(trial, number=number, block=block, treatment=treatment))
        segments += [replace(segment, after=segment.after + len(attempts)) for segment in campaign.segments]
        for attempt in campaign.attempts:
            number, block = attempt.trial + n_trials, attempt.block + n_blocks
            attempts.append(replace(attempt, trial=number, block=block, treatment=new_index[attempt.treatment]))
    whole = _joined_study([campaign.study for campaign in ordered])
    return replace(
        ordered[0],
        directory=", ".join(campaign.directory for campaign in ordered),
        study=whole,
        treatments=list(rows.values()),
        trials=trials,
        attempts=attempts,
        provenance=common_provenance([campaign.provenance for campaign in ordered]),
        calibrations={campaign.directory: campaign.calibrations for campaign in ordered if campaign.calibrations},
        noise_floor=None,
        looks=(),
        events=sorted(
            (at, kind, f"{campaign.directory}: {text}") for campaign in ordered for at, kind, text in campaign.events
        ),
        later_series=partial(_later, tuple((span.trials, campaign.later_series) for span, campaign in with_spans)),
        later_histograms=partial(
            _later, tuple((span.trials, campaign.later_histograms) for span, campaign in with_spans)
        ),
        segments=tuple(segments),
        members=tuple(member for span, campaign in with_spans for member in _members(span, campaign, whole)),
    )


def require_one_study(campaigns: Sequence[CampaignData]) -> None:
    """Raise InputError if the studies of the campaigns differ in anything but levels and replicates."""
    first, *others = campaigns
    for other in others:
        if difference := next(_differences(first.study, other.study), None):
            raise _not_one_study(first, other, *difference)
    common = common_baseline([campaign.study for campaign in campaigns])
    for name, level in first.study.design.baseline.items():
        if name not in common:
            other = next(campaign for campaign in others if not is_compatible(campaign.study, name, level))
            of_other = other.study.design.baseline[name]
            raise _not_one_study(first, other, f"the baseline's {name}", str(level), str(of_other))


def _not_one_study(first: CampaignData, other: CampaignData, what: str, of_first: str, of_other: str) -> InputError:
    return InputError(
        f"{first.directory} and {other.directory} are not campaigns of one study: {what} is {of_first} and {of_other}",
        "only levels and replicates may differ; `lastro compare` compares campaigns before and after a change",
    )


def _differences(a: Study, b: Study) -> Iterator[tuple[str, str, str]]:
    """Yield (what differs, its value in a, its value in b) for two studies; levels and replicates may differ."""
    settings = [name for name in dict.fromkeys([*a.constants, *b.constants]) if name not in PATIENCE]
    of_a, of_b = _identity(a, settings), _identity(b, settings)
    yield from ((what, str(value), str(of_b[what])) for what, value in of_a.items() if value != of_b[what])


def _identity(study: Study, settings: Iterable[str]) -> dict[str, Any]:
    """Return {name of a property: its value}, of the properties in which campaigns of one study must agree."""
    return {
        "the study name": study.name,
        "the study scenario": study.scenario,
        "the list of factors": ", ".join(factor.name for factor in study.factors),
        **{f"the setting {name}": study.constants.get(name, "not set") for name in settings},
        "the list of metrics": ", ".join(metric.name for metric in study.metrics),
        "the list of factors of the baseline": ", ".join(sorted(study.design.baseline)) or "none",
        "the confidence": study.design.confidence,
    }


class _Span(NamedTuple):
    """The ranges of numbers that the blocks and trials of one campaign get in the merged campaign."""

    blocks: range
    trials: range


def _spans(campaigns: Iterable[CampaignData]) -> Iterator[_Span]:
    block = trial = 1
    for campaign in campaigns:
        blocks = range(block, block + max((row.block for row in campaign.trials), default=0))
        trials = range(trial, trial + max((row.number for row in campaign.trials), default=0))
        yield _Span(blocks, trials)
        block, trial = blocks.stop, trials.stop


def _members(span: _Span, campaign: CampaignData, whole: Study) -> Iterator[Member]:
    """Yield the members that `campaign` becomes in a merged campaign: itself, or each testbed of its fleet.

    `span` has its numbers in the merged campaign, whose study is `whole`."""
    changes = campaign.study.changes if campaign.study.changes != whole.changes else ()
    if not campaign.members:
        yield Member(campaign.directory, campaign.provenance, span.blocks, span.trials, changes=changes)
    for testbed in campaign.members:
        yield replace(
            testbed,
            directory=f"{campaign.directory}: {testbed.directory}",
            blocks=frozenset(block + span.blocks.start - 1 for block in testbed.blocks),
            testbed=False,  # the members differ not only in their testbeds
            trials=frozenset(trial + span.trials.start - 1 for trial in testbed.trials),
            changes=changes,
        )


def _key(levels: Mapping[str, Level]) -> Key:
    return tuple(levels.items())


def _treatments(campaigns: Sequence[CampaignData]) -> dict[Key, TreatmentRow]:
    """Return {levels: treatment} for the distinct treatments of all campaigns, with new indices in sorted order.

    They are sorted by the positions of their levels in `_levels`. A treatment that is available in at least one
    campaign is available."""
    levels = _levels([campaign.study for campaign in campaigns])
    by_levels: dict[Key, TreatmentRow] = {}
    for row in (row for campaign in campaigns for row in campaign.treatments):
        key = _key(row.treatment.levels)
        if key not in by_levels or row.unavailable is None:
            by_levels[key] = row
    ordered = sorted(by_levels, key=lambda key: [levels[name].index(level) for name, level in key])
    return {key: replace(by_levels[key], treatment=Treatment(at, dict(key))) for at, key in enumerate(ordered)}


def _levels(studies: Sequence[Study]) -> dict[str, tuple[Level, ...]]:
    """Return {factor: its levels in all studies}, without repeats, in the order in which the studies list them."""
    return {
        factor.name: tuple(dict.fromkeys(level for study in studies for level in study.factors[at].levels))
        for at, factor in enumerate(studies[0].factors)
    }


def _joined_study(studies: Sequence[Study]) -> Study:
    """Return the first study, changed so that it describes the merged campaign.

    It has the levels of all studies, the sum of their replicates, and their common baseline. It keeps its `changes`
    only if they are equal in all studies."""
    first = studies[0]
    changes = first.changes if len({study.changes for study in studies}) == 1 else ()
    replicates = sum(study.design.replicates for study in studies)
    design = replace(first.design, replicates=replicates, baseline=common_baseline(studies))
    factors = tuple(Factor(name, levels) for name, levels in _levels(studies).items())
    return replace(first, factors=factors, design=design, changes=changes)


def _later(
    sources: Sequence[tuple[range, Callable[[Iterable[tuple[int, int]]], list[list[_Found]]]]],
    attempts: Iterable[tuple[int, int]],
) -> list[list[_Found]]:
    """Return the series (or histograms) of each (trial, attempt) of the merged campaign, in the order of `attempts`.

    `sources` has for each campaign the range of its trial numbers in the merged campaign, and a function that reads
    its series (or histograms) by its own trial numbers."""
    pairs = list(attempts)
    found: dict[tuple[int, int], list[_Found]] = {}
    for trials, source in sources:
        of_source = [(trial, attempt) for trial, attempt in pairs if trial in trials]
        read = source([(trial - trials.start + 1, attempt) for trial, attempt in of_source])
        found |= dict(zip(of_source, read, strict=True))
    return [found[pair] for pair in pairs]
