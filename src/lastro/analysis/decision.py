"""Which candidate keeps its service levels at the least cost: the trials of a campaign as `stats.decision` needs them.

A candidate is a choice of levels of the factors that a user chooses, such as platform, link and isolation. A condition
is one that its user does not choose, such as the neighbour: the service levels must hold in each. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from lastro.analysis.campaign import CampaignResults, Row
from lastro.analysis.properties import column_of
from lastro.analysis.table_choice import is_under
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
class SlaQuestion:
    """A question: which choice of levels holds all service levels, and which of those costs the least?

    `required` are properties without which a choice is no candidate; `wished` decide between candidates whose costs
    cannot be told apart. `under` are the levels of conditions in which service levels must hold, by factor; all that
    were measured if empty. `factors` are those of which a candidate is a choice, by default all that users choose and
    that are not in `under`; if none is left, those in `under` and those with one level, which then name the
    candidates."""

    levels: tuple[ServiceLevel, ...]
    cost: Cost | None = None
    required: tuple[Requirement, ...] = ()
    wished: tuple[Requirement, ...] = ()
    under: Mapping[str, Sequence[str]] = field(default_factory=dict)
    factors: tuple[str, ...] = ()
    confidence: float = 0.95

    @classmethod
    def of_study(cls, report: CampaignResults) -> SlaQuestion:
        """Return what a study itself asks, which may be nothing."""
        study, metrics = report.study, report.metrics
        return cls(
            tuple(ServiceLevel.parse(f"{name} {level}", metrics) for name, level in study.sla.items()),
            Cost.of(study.cost, metrics) if study.cost else None,
            tuple(Requirement.of(name, value) for name, value in study.require.items()),
            tuple(Requirement.of(name, value) for name, value in study.wish.items()),
            confidence=study.design.confidence,
        )

    @classmethod
    def asked(
        cls,
        report: CampaignResults,
        levels: Sequence[str] = (),
        cost: str | None = None,
        required: Sequence[str] = (),
        wished: Sequence[str] = (),
        under: Mapping[str, Sequence[str]] | None = None,
        confidence: float | None = None,
    ) -> SlaQuestion:
        """Return what a user asks, as text. Whatever is left out is what the study asks.

        Raises: InputError for what cannot be read, and for properties of which the campaign knows nothing."""
        own = cls.of_study(report)
        properties = [tuple(map(Requirement.parse, texts)) for texts in (required, wished)]
        if any(properties) and not report.provenance.get("properties"):
            raise InputError(
                "this campaign did not look for properties",
                "`lastro run STUDY --properties` does, as a table [require] or [wish] does",
            )
        return cls(
            tuple(dict.fromkeys(ServiceLevel.parse(level, report.metrics) for level in levels)) or own.levels,
            own.cost if cost is None else Cost.parse(cost, report.metrics),
            properties[0] or own.required,
            properties[1] or own.wished,
            under or {},
            confidence=confidence or own.confidence,
        )

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of all metrics on which the answer depends."""
        priced = self.cost.weights if self.cost else ()
        return tuple(dict.fromkeys([*(level.metric.name for level in self.levels), *priced]))

    def limits(self) -> list[Limit]:
        return [Limit(self.metrics.index(level.metric.name), level.limit, level.at_least) for level in self.levels]

    def weights(self) -> dict[int, float]:
        """Return {index of a metric: its weight in the cost}."""
        return {self.metrics.index(name): weight for name, weight in self.cost.weights.items()} if self.cost else {}


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
    """The answer to a question. `choice` is among `candidates`, which are in the order of the study.

    `lacking` are those that are not candidates, because a requirement is not met or it is not known whether it is.
    `conditions` have labels, as candidates do. `given` are the factors with one level in every condition: {name:
    level}. Of accepted candidates whose costs cannot be told apart, the recommended one meets the most wishes;
    `cheapest` is the one that costs the least."""

    report: CampaignResults
    question: SlaQuestion
    candidates: tuple[Deployment, ...]
    lacking: tuple[Deployment, ...]
    conditions: tuple[str, ...]
    given: Mapping[str, str]
    choice: Choice
    n_blocks: int
    looks: tuple[Look, ...] = ()
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
        alpha = (1 - self.question.confidence) / len(self.candidates)
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
    """Return the answer to what the study itself asks; None if it asks nothing, or without two blocks."""
    if not report.study.sla or not any(view.n_blocks >= FEWEST_BLOCKS for view in report.views):
        return None
    return decide(report, SlaQuestion.of_study(report), judge)


def look_at(report: CampaignResults, fraction: float, before: Settled) -> tuple[SlaDecision | None, Settled]:
    """Look at a campaign that grows, with this fraction of its most blocks, by the study's own levels and cost.

    Return the decision so far, and what all looks have found; no decision if there are not yet two blocks."""
    after = [before]

    def judged(trials: Any, limits: Any, weights: Any, size: tuple[int, int], alpha: float) -> Choice:
        choice, found = look(trials, limits, weights, size, alpha, fraction, before)
        after.append(found)
        return choice

    return decision_of(report, judged), after[-1]


def decide(report: CampaignResults, question: SlaQuestion, judge: Judge | None = None) -> SlaDecision:
    """Judge every candidate by its valid trials in the conditions of the question.

    If the campaign has looked at its trials by the same question, its looks have decided, and nothing is tested again.

    Raises: InputError without a service level, for a level that the study does not have, and with fewer than two
    blocks."""
    if not question.levels:
        raise InputError("there is no service level to decide by", "write one as in --sla 'latency_p99 < 1 ms'")
    usual = _usual_factors(report, question.under)
    chosen = question.factors or usual
    rest = [factor.name for factor in report.varying if factor.name not in chosen]
    rows, lacking = _meeting(report, question, chosen)
    candidates, of_candidate = grouped(rows, chosen)
    conditions, of_condition = grouped(rows, rest)
    at = {row.treatment.index: (of_candidate[row.treatment.index], of_condition[row.treatment.index]) for row in rows}
    trials = [metric_trials(report, rows, at, name) for name in question.metrics]
    n_blocks = max((len(own) for metric in trials for own in metric.cells.values()), default=0)
    if rows and n_blocks < FEWEST_BLOCKS:
        raise InputError(
            "a decision needs valid trials of at least two blocks", "`lastro run --replicates 3` measures more"
        )
    looks = report.looks if chosen == usual and _asked_by_looks(report, question, len(candidates)) else ()
    judge = judge or (partial(choose, stage=_standing(looks[-1])) if looks else choose)
    size, alpha = (len(candidates), len(conditions)), 1 - question.confidence
    choice = judge(trials, question.limits(), question.weights(), size, alpha) if rows else NO_CHOICE
    deployments = tuple(
        _deployment(report, question, own, [row for row in rows if of_candidate[row.treatment.index] == number])
        for number, own in enumerate(candidates)
    )
    levels = {name: list(dict.fromkeys(_level(row, name) for row in rows)) for name in rest}
    varied = [name for name in rest if len(levels[name]) != 1]
    return SlaDecision(
        report,
        question,
        deployments,
        lacking,
        tuple(", ".join(f"{name} = {own[name]}" for name in varied) for own in conditions),
        {name: levels[name][0] for name in rest if name not in varied},
        _by_wishes(choice, [sum(map(bool, each.wishes)) for each in deployments], priced=bool(question.cost)),
        n_blocks,
        looks,
        choice.recommended,
    )


def _usual_factors(report: CampaignResults, under: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the factors of which a candidate is a choice if a question names none."""
    open_ones = [factor.name for factor in report.varying if factor.name not in under]
    return tuple(filter(is_choice, open_ones)) or tuple(
        factor.name for factor in report.study.factors if is_choice(factor.name)
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


def _asked_by_looks(report: CampaignResults, question: SlaQuestion, n_candidates: int) -> bool:
    """Return whether a campaign has looked at its trials by this question, whatever it says of costs and wishes."""
    if not report.looks or any(number >= n_candidates for each in report.looks for number in each.numbers):
        return False
    own = SlaQuestion.of_study(report)
    same_limits = set(question.levels) == set(own.levels) and question.confidence == own.confidence
    return same_limits and not question.under and question.required == own.required


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
    report: CampaignResults, question: SlaQuestion, chosen: Sequence[str]
) -> tuple[list[Row], tuple[Deployment, ...]]:
    """Return the rows of candidates that meet all requirements, and the other candidates with the reasons."""
    rows = [row for row in report.rows if is_under(report, row, question.under)]
    groups, of = grouped(rows, chosen)
    first = {of[row.treatment.index]: row for row in reversed(rows)}
    reasons = {
        at: [why for met, why in (_met(report, row, each) for each in question.required) if not met]
        for at, row in first.items()
    }
    lacking = [
        Deployment(own, labelled(own, report), tuple(reasons[at])) for at, own in enumerate(groups) if reasons[at]
    ]
    return [row for row in rows if not reasons[of[row.treatment.index]]], tuple(lacking)


def _deployment(
    report: CampaignResults, question: SlaQuestion, levels: Mapping[str, str], rows: Sequence[Row]
) -> Deployment:
    """Return the candidate of these levels, with what is known of it by its rows."""
    gaps = dict.fromkeys(row.reason or row.status for row in rows if not row.n_valid)
    wishes = tuple(_met(report, rows[0], wish)[0] for wish in question.wished)
    return Deployment(levels, labelled(levels, report), tuple(gaps), wishes)


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
