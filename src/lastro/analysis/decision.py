"""Which candidate keeps its service levels at the least cost: the trials of a campaign as `stats.decision` needs them.

A candidate is a choice of levels of the factors that a user chooses, such as platform, link and isolation. A condition
is one that its user does not choose, such as the neighbour: the service levels must hold in each. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from lastro.analysis.campaign import CampaignResults, Row
from lastro.analysis.properties import column_of
from lastro.analysis.selected import is_under
from lastro.errors import InputError
from lastro.results.looks import Look
from lastro.stats.cell_means import MetricTrials
from lastro.stats.decision import NO_CHOICE, Choice, Limit, Stage, choose, more_blocks
from lastro.stats.looks import look
from lastro.stats.settled import FEWEST_BLOCKS, Settled
from lastro.study.design import Treatment
from lastro.study.levels import NONE
from lastro.study.requirement import Requirement
from lastro.study.service_level import Cost, ServiceLevel, is_choice

Judge = Callable[..., Choice]  # as `stats.decision.choose`


@dataclass(frozen=True, slots=True)
class Deployment:
    """One choice; `label` names it: 'runc · macvlan-bridge · cgroups'.

    `gaps` says what was not measured, or which requirement is not met, and why. `wishes` says of each wish whether it
    is met; None if that is not known."""

    levels: Mapping[str, str]
    label: str
    gaps: tuple[str, ...] = ()
    wishes: tuple[bool | None, ...] = ()


@dataclass(frozen=True, slots=True)
class SlaDecision:
    """The choice among `candidates`, in the order of the study. `conditions` have labels, as candidates do.

    `lacking` are those that are not candidates, because a requirement is not met or it is not known whether it is.
    `given` are the factors with one level in every condition: {name: level}. `metrics` are the names to which numbers
    in `choice` refer. Of accepted candidates whose costs cannot be told apart, the recommended one meets the most
    wishes (`wished`); `cheapest` is the one that costs the least."""

    report: CampaignResults
    levels: tuple[ServiceLevel, ...]
    cost: Cost | None
    required: tuple[Requirement, ...]
    candidates: tuple[Deployment, ...]
    lacking: tuple[Deployment, ...]
    conditions: tuple[str, ...]
    given: Mapping[str, str]
    metrics: tuple[str, ...]
    choice: Choice
    confidence: float
    n_blocks: int
    looks: tuple[Look, ...] = ()
    wished: tuple[Requirement, ...] = ()
    cheapest: int | None = None

    def candidate_of(self, treatment: Treatment) -> int:
        """Return the number of the candidate that a treatment measures."""
        return next(
            number
            for number, each in enumerate(self.candidates)
            if all(str(treatment.levels[name]) == level for name, level in each.levels.items())
        )

    def more_blocks(self, chance: float, at: int | None = None) -> int | None:
        """Return how many more blocks decide on a candidate with this probability, by default on the likeliest."""
        at = self.choice.likeliest if at is None else at
        assert at is not None
        alpha = (1 - self.confidence) / len(self.candidates)
        return more_blocks(self.choice.odds[at].holds, self.n_blocks, chance, alpha)

    def order(self) -> list[int]:
        """Return the numbers of all candidates: the accepted by cost, the open ones, the rejected, the unmeasured."""
        choice = self.choice
        open_ones = [
            at for at, odds in enumerate(choice.odds)
            if not odds.missing and at not in choice.accepted and at not in choice.rejected
        ]  # fmt: skip
        open_ones.sort(key=lambda at: -choice.odds[at].holds)
        missing = [at for at, odds in enumerate(choice.odds) if odds.missing]
        return [*choice.accepted, *open_ones, *choice.rejected, *missing]


def decision_of(report: CampaignResults, judge: Judge | None = None) -> SlaDecision | None:
    """Return the decision by the study's own service levels and cost; None without any, or without two blocks."""
    study = report.study
    if not study.sla or not any(view.n_blocks >= FEWEST_BLOCKS for view in report.views):
        return None
    levels = [ServiceLevel.parse(f"{name} {level}", report.metrics) for name, level in study.sla.items()]
    cost, required = study_cost(report), study_requirements(report)
    return decide(report, levels, cost, required, {}, study.design.confidence, judge=judge, wished=study_wishes(report))


def study_cost(report: CampaignResults) -> Cost | None:
    return Cost.of(report.study.cost, report.metrics) if report.study.cost else None


def study_requirements(report: CampaignResults) -> list[Requirement]:
    return [Requirement.of(name, value) for name, value in report.study.require.items()]


def study_wishes(report: CampaignResults) -> list[Requirement]:
    return [Requirement.of(name, value) for name, value in report.study.wish.items()]


def look_at(report: CampaignResults, fraction: float, before: Settled) -> tuple[SlaDecision | None, Settled]:
    """Look at a campaign that grows, with this fraction of its most blocks, by the study's own levels and cost.

    Return the decision so far, and what all looks have found; no decision if there are not yet two blocks."""
    after = [before]

    def judged(trials: Any, limits: Any, weights: Any, size: tuple[int, int], alpha: float) -> Choice:
        choice, found = look(trials, limits, weights, size, alpha, fraction, before)
        after.append(found)
        return choice

    return decision_of(report, judged), after[-1]


def decide(
    report: CampaignResults,
    levels: Sequence[ServiceLevel],
    cost: Cost | None,
    required: Sequence[Requirement],
    under: Mapping[str, Sequence[str]],
    confidence: float = 0.95,
    chosen: Sequence[str] = (),
    judge: Judge | None = None,
    wished: Sequence[Requirement] = (),
) -> SlaDecision:
    """Judge every candidate by its valid trials under these levels of the conditions; all that were measured if empty.

    `chosen` are the factors of which a candidate is a choice, by default all that users choose and that are not in
    `under`; if none is left, those in `under` and those with one level, which then name the candidates. If the campaign
    has looked at them by the same levels, its looks have decided, and nothing is tested again.

    Raises: InputError without a service level, for a level that the study does not have, and with fewer than two
    blocks."""
    if not levels:
        raise InputError("there is no service level to decide by", "write one as in --sla 'latency_p99 < 1 ms'")
    rows = [row for row in report.rows if is_under(report, row, under)]
    factors = [factor.name for factor in report.varying]
    usual = [name for name in factors if is_choice(name) and name not in under]
    usual = usual or [factor.name for factor in report.study.factors if is_choice(factor.name)]
    chosen = chosen or usual
    rest = [name for name in factors if name not in chosen]
    rows, lacking = _meeting(report, rows, required, chosen)
    candidates, of_candidate = grouped(rows, chosen)
    conditions, of_condition = grouped(rows, rest)
    names = tuple(dict.fromkeys([*(level.metric.name for level in levels), *(cost.weights if cost else ())]))
    at = {row.treatment.index: (of_candidate[row.treatment.index], of_condition[row.treatment.index]) for row in rows}
    trials = [metric_trials(report, rows, at, name) for name in names]
    n_blocks = max((len(own) for metric in trials for own in metric.cells.values()), default=0)
    if rows and n_blocks < FEWEST_BLOCKS:
        raise InputError(
            "a decision needs valid trials of at least two blocks", "`lastro run --replicates 3` measures more"
        )
    limits = [Limit(names.index(level.metric.name), level.limit, level.at_least) for level in levels]
    weights = {names.index(name): weight for name, weight in cost.weights.items()} if cost else {}
    same_question = not under and chosen == usual and list(required) == study_requirements(report)
    own_looks = same_question and _are_own(report, levels, confidence, len(candidates))
    looks = report.looks if own_looks else ()
    judge = judge or (partial(choose, stage=_standing(looks[-1])) if looks else choose)
    size = (len(candidates), len(conditions))
    choice = judge(trials, limits, weights, size, 1 - confidence) if rows else NO_CHOICE
    same = {name: next(iter(found)) for name in rest if len(found := {_level(row, name) for row in rows}) == 1}
    varied = [name for name in rest if name not in same]
    first = {of_candidate[row.treatment.index]: row for row in reversed(rows)}
    wishes = [tuple(_met(report, first[number], each)[0] for each in wished) for number in range(len(candidates))]
    return SlaDecision(
        report,
        tuple(levels),
        cost,
        tuple(required),
        tuple(
            Deployment(own, labelled(own, report), _gaps(rows, at, number), wishes[number])
            for number, own in enumerate(candidates)
        ),
        lacking,
        tuple(", ".join(f"{name} = {own[name]}" for name in varied) for own in conditions),
        same,
        names,
        _by_wishes(choice, [sum(map(bool, each)) for each in wishes], priced=bool(cost)),
        confidence,
        n_blocks,
        looks,
        tuple(wished),
        choice.recommended,
    )


def _by_wishes(choice: Choice, n_met: Sequence[int], *, priced: bool) -> Choice:
    """Return the choice, in which the candidate that meets the most wishes leads those of costs that are alike."""
    if choice.recommended is None:
        return choice
    near = (choice.recommended, *choice.alike)
    best = max(near if priced else choice.accepted, key=n_met.__getitem__)
    return replace(
        choice,
        recommended=best,
        alike=tuple(at for at in near if at != best) if priced else (),
        accepted=(best, *(at for at in choice.accepted if at != best)),
    )


def _are_own(report: CampaignResults, levels: Sequence[ServiceLevel], confidence: float, n_candidates: int) -> bool:
    """Return whether a campaign has looked at its trials by these service levels, with this confidence."""
    study = report.study
    if any(number >= n_candidates for each in report.looks for number in each.numbers):
        return False
    own = {f"{name} {level}" for name, level in study.sla.items()} if report.looks else set()
    same = {ServiceLevel.parse(text, report.metrics) for text in own} == set(levels)
    return bool(own) and same and confidence == study.design.confidence


def _standing(last: Look) -> Stage:
    """Return the stage of a campaign that has looked, at which nothing more is accepted or rejected."""
    return Stage(lambda alpha: 0.0, frozenset(last.accepted), frozenset(last.rejected))


def _level(row: Row, name: str) -> str:
    return str(row.treatment.levels[name])


def grouped(rows: Sequence[Row], names: Sequence[str]) -> tuple[list[dict[str, str]], dict[int, int]]:
    """Return the combinations of levels of these factors, in order, and {treatment: number of its combination}."""
    found: dict[tuple[str, ...], int] = {}
    of = {}
    for row in rows:
        key = tuple(_level(row, name) for name in names)
        of[row.treatment.index] = found.setdefault(key, len(found))
    return [dict(zip(names, key, strict=True)) for key in found], of


def _meeting(
    report: CampaignResults, rows: Sequence[Row], required: Sequence[Requirement], chosen: Sequence[str]
) -> tuple[list[Row], tuple[Deployment, ...]]:
    """Return the rows of candidates that meet all requirements, and the other candidates with the reasons."""
    groups, of = grouped(rows, chosen)
    first = {of[row.treatment.index]: row for row in reversed(rows)}
    reasons = {at: [why for each in required if (why := _unmet(report, row, each))] for at, row in first.items()}
    lacking = [
        Deployment(own, labelled(own, report), tuple(reasons[at])) for at, own in enumerate(groups) if reasons[at]
    ]
    return [row for row in rows if not reasons[of[row.treatment.index]]], tuple(lacking)


def _unmet(report: CampaignResults, row: Row, required: Requirement) -> str:
    """Return why a candidate does not meet a requirement; empty if it does."""
    met, why = _met(report, row, required)
    return "" if met else why


def _met(report: CampaignResults, row: Row, required: Requirement) -> tuple[bool | None, str]:
    """Return whether a candidate meets a requirement, None if that is not known, and what was found."""
    part = column_of(report.study, row.treatment.levels, required.kind)
    table: Any = report.provenance
    for key in ("properties", required.kind, part, required.name):
        table = table.get(key) if isinstance(table, Mapping) else None
    if not isinstance(table, Mapping):
        return None, f"{required.name} of {part} is not known: the campaign did not look for it"
    if (met := required.met_by(table)) is None:
        return None, f"{required.name} of {part} is not known: {table.get('how')}"
    return met, f"{required.name} of {part}: {table.get('text')} ({table.get('how')})"


def metric_trials(
    report: CampaignResults, rows: Sequence[Row], at: Mapping[int, tuple[int, int]], name: str
) -> MetricTrials:
    index = next(number for number, metric in enumerate(report.metrics) if metric.name == name)
    cells: dict[tuple[int, int], dict[int, float]] = {}
    floors: set[tuple[int, int]] = set()
    for row in rows:
        cell, key = row.cells[index], at[row.treatment.index]
        if cell.points:
            cells[key] = {point.block: point.value for point in cell.points}
        if cell.bounded or (cell.limited and cell.metric.better == "higher"):
            floors.add(key)
    return MetricTrials(cells, frozenset(floors))


def labelled(levels: Mapping[str, str], report: CampaignResults) -> str:
    named = " · ".join(f"{name}=none" if level == NONE else level for name, level in levels.items())
    return named or report.study.name


def _gaps(rows: Sequence[Row], at: Mapping[int, tuple[int, int]], candidate: int) -> tuple[str, ...]:
    """Return the reasons why a candidate was not measured in some condition."""
    own = [row for row in rows if at[row.treatment.index][0] == candidate and not row.n_valid]
    return tuple(dict.fromkeys(row.reason or row.status for row in own))
