"""Decide which candidate holds all service levels at the least cost, from the trials of a campaign. Pure.

A candidate is a combination of levels of the factors that a user chooses, such as platform, link and isolation. A
condition is a combination of levels of all other factors, such as the neighbour: the service levels must hold in every
condition. `stats.decision` judges the candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter
from typing import Any

from lastro.analysis.campaign import CampaignResults, Row
from lastro.analysis.host_facts import MACHINE, compare_members
from lastro.analysis.table_choice import TableChoice, check_requirement, is_under
from lastro.errors import InputError
from lastro.results.looks import Look
from lastro.results.members import campaigns_of_blocks
from lastro.stats.campaign_effects import linked
from lastro.stats.cell_means import MetricTrials
from lastro.stats.decision import NO_CHOICE, Choice, Limit, LimitOdds, Stage, choose, more_blocks
from lastro.stats.intervals import alpha_of
from lastro.stats.look_state import FEWEST_BLOCKS, LookState
from lastro.stats.looks import take_look
from lastro.stats.notes import Note
from lastro.stats.simultaneous import most_blocks
from lastro.study.design import Treatment
from lastro.study.levels import NONE
from lastro.study.requirement import Requirement
from lastro.study.service_level import Cost, ServiceLevel, is_choice

Judge = Callable[..., Choice]  # with the arguments of `stats.decision.choose`


@dataclass(frozen=True, slots=True)
class SlaQuestion:
    """A question: which candidates hold all service levels, and which of these candidates costs the least?

    If `factors` is empty, a candidate combines the levels of all varying factors that users choose, except the factors
    in `under`. If this leaves no factor, a candidate combines the levels of all factors that users choose, even of
    those in `under` or with one level."""

    levels: tuple[ServiceLevel, ...]
    cost: Cost | None = None
    required: tuple[Requirement, ...] = ()  # properties without which a combination of levels is not a candidate
    # Properties that decide between candidates whose costs are not distinguishable.
    wished: tuple[Requirement, ...] = ()
    # {factor: levels} of the conditions in which the service levels must hold; if empty, all measured conditions.
    under: Mapping[str, Sequence[str]] = field(default_factory=dict)
    factors: tuple[str, ...] = ()  # whose levels a candidate combines
    confidence: float = 0.95

    @property
    def alpha(self) -> float:
        """The level of significance of the decision."""
        return alpha_of(self.confidence)

    @classmethod
    def of_study(cls, report: CampaignResults) -> SlaQuestion:
        """Return the question that the study file asks; its `levels` are empty if the study has no service levels."""
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
        """Parse the question that a user asks on the command line; omitted parts come from the study file.

        Raises: InputError for text that cannot be parsed, and for properties if the campaign did not record any."""
        of_study = cls.of_study(report)
        properties = [tuple(map(Requirement.parse, texts)) for texts in (required, wished)]
        if any(properties) and not report.provenance.properties:
            raise InputError(
                "this campaign did not look for properties",
                "`lastro run STUDY --properties` does, as a table [require] or [wish] does",
            )
        return cls(
            tuple(dict.fromkeys(ServiceLevel.parse(level, report.metrics) for level in levels)) or of_study.levels,
            of_study.cost if cost is None else Cost.parse(cost, report.metrics),
            properties[0] or of_study.required,
            properties[1] or of_study.wished,
            under or {},
            confidence=confidence or of_study.confidence,
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
    """A combination of levels that a user may choose; `label` names it: 'runc · macvlan-bridge · cgroups'.

    `gaps` are the reasons why treatments with these levels were not measured, or why requirements are not met.
    Translatable reasons are notes. `wishes` has for each wish of the question whether it is met; None if not known."""

    levels: Mapping[str, str]
    label: str
    gaps: tuple[str, ...] = ()
    wishes: tuple[bool | None, ...] = ()


@dataclass(frozen=True, slots=True)
class SlaDecision:
    """The answer to a question. Candidates are given by their indices in `candidates`."""

    report: CampaignResults
    question: SlaQuestion
    candidates: tuple[Deployment, ...]  # in the order of the study
    # Combinations that are not candidates: they do not meet a requirement, or it is not known whether they do.
    lacking: tuple[Deployment, ...]
    # {factor: level} of each condition, for the factors whose levels differ between conditions.
    conditions: tuple[Mapping[str, str], ...]
    given: Mapping[str, str]  # levels of all other factors
    # The judgement of each candidate, and the recommended candidate: among accepted candidates whose costs are not
    # distinguishable, the one that meets the most wishes.
    choice: Choice
    n_blocks: int
    looks: tuple[Look, ...] = ()  # the campaign's looks, if they tested this question
    cheapest: int | None = None  # the candidate that would be recommended without wishes; None if there is none

    def candidate_of(self, treatment: Treatment) -> int | None:
        """Return the index of the candidate that a treatment measures; None if its levels are not a candidate."""
        for number, candidate in enumerate(self.candidates):
            if all(str(treatment.levels[name]) == level for name, level in candidate.levels.items()):
                return number
        return None

    @property
    def n_campaigns(self) -> int:
        """The number of campaigns whose trials are decided on together."""
        return 1 if self.report.of_fleet else max(1, len(self.report.members))

    @property
    def without_trials(self) -> frozenset[int]:
        """The indices of the candidates that get no more trials, since a look of an adaptive campaign dropped them."""
        if self.report.study.design.allocation != "adaptive":
            return frozenset()
        return frozenset(dropped.candidate for look in self.looks for dropped in look.dropped)

    def nearest_limit(self, at: int) -> LimitOdds | None:
        """Return the odds of the limit that candidate `at` holds with the lowest probability.

        Among equally probable limits, it is the one that is nearest to the mean, in half widths of the interval. None
        if the candidate has no value for any limit."""
        known = []
        for level, odds in zip(self.question.levels, self.choice.odds[at].limits, strict=True):
            if odds:
                mean, low, high = odds.mean.spread
                half = mean - low if level.at_least else high - mean
                distance = (mean - level.limit) * (1 if level.at_least else -1)
                half_widths = distance / half if half > 0 else math.copysign(math.inf, distance)
                known.append((odds.holds, half_widths, odds))
        return min(known, key=itemgetter(0, 1))[2] if known else None

    def more_blocks(self, chance: float, at: int | None = None) -> int | None:
        """Return how many more blocks are needed to decide on candidate `at` (default: the likeliest).

        `chance` is the probability with which they suffice. None if not even the maximum number of blocks suffices.
        Also None for several campaigns, because more blocks do not reduce the differences between campaigns."""
        at = self.choice.likeliest if at is None else at
        assert at is not None
        if self.n_campaigns > 1:
            return None
        return more_blocks(self.choice.odds[at].tail, self.n_blocks, chance, self.choice.levels(self.question.alpha))

    def more_blocks_on_cost(self, chance: float) -> int | None:
        """Return the number of further blocks that show which candidates in `choice.alike` cost less.

        For each candidate, they suffice with the probability `chance`. None if not even the maximum number suffices, or
        if there is no such candidate."""
        alphas = (self.question.alpha, self.question.alpha)
        return most_blocks([more_blocks(less, self.n_blocks, chance, alphas) for less in self.choice.alike_less])

    @property
    def cost_blocks(self) -> list[int | None] | None:
        """`more_blocks_on_cost` with a probability of 50 %, and of 80 %.

        None if no other candidate's cost is alike, or if there are several campaigns."""
        if not self.choice.alike_less or self.n_campaigns > 1:
            return None
        return [self.more_blocks_on_cost(chance) for chance in (0.5, 0.8)]

    def order(self) -> list[int]:
        """Return the indices of all candidates: accepted (by cost), open (by probability), rejected, not measured."""
        choice = self.choice
        open_ones = [at for at in range(len(choice.odds)) if choice.verdict(at) == "open"]
        open_ones.sort(key=lambda at: -choice.odds[at].holds)
        missing = [at for at, odds in enumerate(choice.odds) if odds.missing]
        return [*choice.accepted, *open_ones, *choice.rejected, *missing]

    def ranked_rows(self) -> list[Row]:
        """Return all treatments: those of each candidate in the order of `order`, then those of no candidate.

        The treatments of one candidate, one for each condition, stay in the order of the study."""
        ranks = {tuple(self.candidates[at].levels.items()): rank for rank, at in enumerate(self.order())}
        names = [*self.candidates[0].levels] if self.candidates else []

        def rank(row: Row) -> int:
            return ranks.get(tuple((name, _level(row, name)) for name in names), len(ranks))

        return sorted(self.report.rows, key=rank)


class Undecidable(InputError):
    """The trials do not allow a decision: there are too few blocks, or campaigns of different hosts."""


def decision_of(report: CampaignResults, judge: Judge | None = None) -> SlaDecision | None:
    """Return the answer to the question in the study file; None as for `decide_if_possible`."""
    if not report.study.sla:  # a stored study's other tables may name what this campaign does not measure
        return None
    return decide_if_possible(report, SlaQuestion.of_study(report), judge)


def decide_if_possible(
    report: CampaignResults, question: SlaQuestion, judge: Judge | None = None
) -> SlaDecision | None:
    """Return what `decide` returns; None without service levels, or if the trials do not allow a decision."""
    with suppress(Undecidable):
        return decide(report, question, judge) if question.levels else None
    return None


def table_rows(report: CampaignResults, decision: SlaDecision | None, choice: TableChoice | None = None) -> list[Row]:
    """Return the treatments of a table: all, or those of `choice`.

    Unless `choice` sorts them, they have the order of the decision or, without one, of the study. Raises: InputError
    for a factor, a level or a metric of `choice` that the campaign does not have."""
    return (choice or TableChoice()).of(decision.ranked_rows() if decision else report.rows, report)


def look_at(report: CampaignResults, fraction: float, before: LookState) -> tuple[SlaDecision | None, LookState]:
    """Decide the study's question on a running campaign, after this fraction of its maximum number of blocks.

    `before` is the state after the earlier looks. Return the decision so far (None with fewer than two blocks), and the
    state after this look."""
    after = [before]

    def judged(trials: Any, limits: Any, weights: Any, size: tuple[int, int], alpha: float) -> Choice:
        choice, settled = take_look(trials, limits, weights, size, alpha, fraction, before)
        after.append(settled)
        return choice

    return decision_of(report, judged), after[-1]


def decide(report: CampaignResults, question: SlaQuestion, judge: Judge | None = None) -> SlaDecision:
    """Judge every candidate by its valid trials in the conditions of the question.

    If the campaign had looks that asked this question, candidates stay accepted or rejected as the looks decided, and
    nothing is tested again. `judge` replaces `stats.decision.choose`.

    Raises: InputError without a service level, and for a level that the study does not have; Undecidable if no metric
    of the question has values in two blocks, or if several campaigns are not comparable."""
    if not question.levels:
        raise InputError("there is no service level to decide by", "write one as in --sla 'latency_p99 < 1 ms'")
    usual = _usual_factors(report, question.under)
    chosen = question.factors or usual
    rest = [factor.name for factor in report.varying if factor.name not in chosen]
    rows, lacking = _split_by_requirements(report, question, chosen)
    candidates, of_candidate = group_by_levels(rows, chosen)
    conditions, of_condition = group_by_levels(rows, rest)
    at = {row.treatment.index: (of_candidate[row.treatment.index], of_condition[row.treatment.index]) for row in rows}
    trials = [metric_trials(report, rows, at, name) for name in question.metrics]
    n_blocks = max((len(by_block) for metric in trials for by_block in metric.cells.values()), default=0)
    if rows and n_blocks < FEWEST_BLOCKS:
        raise Undecidable(
            f"a decision by {', '.join(question.metrics)} needs values of at least two blocks",
            "`lastro results` says what was measured; `lastro run --replicates 3` measures more",
        )
    campaigns = campaigns_of(report)
    if campaigns and not all(linked(metric, campaigns) for metric in trials if metric.cells):
        raise Undecidable(
            f"{report.directory} have fewer than two treatments in common, so how far they differ is not known",
            "measure two in each of them, such as the baseline and one more, or decide on each by itself",
        )
    looks = report.looks if chosen == usual and _looks_answer(report, question, len(candidates)) else ()
    usual_judge = partial(choose, campaigns=campaigns)
    if looks:  # their decisions are final, and nothing else is decided
        final = Stage(lambda alpha: 0.0, frozenset(looks[-1].accepted), frozenset(looks[-1].rejected))
        usual_judge = partial(usual_judge, stage=final)
    judge = judge or usual_judge
    size, alpha = (len(candidates), len(conditions)), question.alpha
    choice = judge(trials, question.limits(), question.weights(), size, alpha) if rows else NO_CHOICE
    deployments = []
    for number, of_number in enumerate(candidates):
        own_rows = [row for row in rows if of_candidate[row.treatment.index] == number]
        gaps = dict.fromkeys(row.reason or Note(row.status) for row in own_rows if not row.n_valid)
        wishes = tuple(check_requirement(report, own_rows[0], wish)[0] for wish in question.wished)
        deployments.append(Deployment(of_number, label_of(of_number, report), tuple(gaps), wishes))
    levels = {name: list(dict.fromkeys(_level(row, name) for row in rows)) for name in rest}
    varied = [name for name in rest if len(levels[name]) != 1]
    varying = tuple({name: condition[name] for name in varied} for condition in conditions)
    given = {name: levels[name][0] for name in rest if name not in varied}
    n_met = [sum(map(bool, deployment.wishes)) for deployment in deployments]
    wished, cheapest = _prefer_wishes(choice, n_met, priced=bool(question.cost)), choice.recommended
    return SlaDecision(report, question, tuple(deployments), lacking, varying, given, wished, n_blocks, looks, cheapest)


def campaigns_of(report: CampaignResults) -> dict[int, int] | None:
    """Return {block: campaign} of a report on several campaigns; None for one, even if its blocks ran on a fleet.

    Raises: Undecidable if they ran on different machines."""
    across = None if report.of_fleet else compare_members(report)
    if across is None:
        return None
    if across.other_machine:
        facts = (name for name in MACHINE if name in across.differing)
        differing = "; ".join(f"{name}: {' and '.join(map(str, across.differing[name]))}" for name in facts)
        raise Undecidable(
            f"{report.directory} ran on different machines ({differing}), but a service level holds for one",
            "decide on each by itself; `lastro pool` says how far hosts differ",
        )
    return campaigns_of_blocks(report.members)


def _usual_factors(report: CampaignResults, under: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the factors whose levels a candidate combines by default: see `factors` in `SlaQuestion`."""
    open_ones = [factor.name for factor in report.varying if factor.name not in under]
    all_names = [factor.name for factor in report.study.factors]
    return tuple(filter(is_choice, open_ones)) or tuple(filter(is_choice, all_names))


def _prefer_wishes(choice: Choice, n_met: Sequence[int], *, priced: bool) -> Choice:
    """Return the choice, with the recommendation moved to the candidate that meets the most wishes.

    Accepted candidates compete whose costs are not distinguishable from the cost of the recommended one; without costs
    (not `priced`), all accepted candidates compete. `n_met` has the number of wishes that each candidate meets."""
    if choice.recommended is None:
        return choice
    near = (choice.recommended, *choice.alike)
    best = max(near if priced else choice.accepted, key=n_met.__getitem__)
    is_cheapest = priced and best == choice.recommended
    return replace(
        choice,
        recommended=best,
        alike=tuple(at for at in near if at != best) if priced else (),
        alike_less=choice.alike_less if is_cheapest else (),
        accepted=(best, *(at for at in choice.accepted if at != best)),
    )


def _looks_answer(report: CampaignResults, question: SlaQuestion, n_candidates: int) -> bool:
    """Return whether the interim looks of a campaign tested the limits of this question; its costs may differ."""
    if not report.looks or any(number >= n_candidates for look in report.looks for number in look.numbers):
        return False
    of_study = SlaQuestion.of_study(report)
    same_limits = set(question.levels) == set(of_study.levels) and question.confidence == of_study.confidence
    return same_limits and not question.under and question.required == of_study.required


def _level(row: Row, name: str) -> str:
    return str(row.treatment.levels[name])


def group_by_levels(rows: Sequence[Row], names: Sequence[str]) -> tuple[list[dict[str, str]], dict[int, int]]:
    """Return the combinations {factor: level} of these factors, and {treatment: index of its combination}."""
    numbers: dict[tuple[str, ...], int] = {}
    number_of = {}
    for row in rows:
        key = tuple(_level(row, name) for name in names)
        number_of[row.treatment.index] = numbers.setdefault(key, len(numbers))
    return [dict(zip(names, key, strict=True)) for key in numbers], number_of


def _split_by_requirements(
    report: CampaignResults, question: SlaQuestion, chosen: Sequence[str]
) -> tuple[list[Row], tuple[Deployment, ...]]:
    """Return the rows of the combinations that meet all requirements, and the other combinations with the reasons."""
    rows = [row for row in report.rows if is_under(report, row, question.under)]
    groups, number_of = group_by_levels(rows, chosen)
    first_rows = {number_of[row.treatment.index]: row for row in reversed(rows)}
    reasons = {}
    for number, row in first_rows.items():
        checks = [check_requirement(report, row, requirement) for requirement in question.required]
        reasons[number] = tuple(why for is_met, why in checks if not is_met)
    unmet = [(levels, reasons[number]) for number, levels in enumerate(groups) if reasons[number]]
    lacking = [Deployment(levels, label_of(levels, report), why) for levels, why in unmet]
    return [row for row in rows if not reasons[number_of[row.treatment.index]]], tuple(lacking)


def metric_trials(
    report: CampaignResults, rows: Sequence[Row], at: Mapping[int, tuple[int, int]], name: str
) -> MetricTrials:
    """Return the values of a metric in these rows; `at` is {treatment: (index of candidate, index of condition)}.

    A value that the load generator limited also counts as a lower bound if higher is better."""
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


def levels_text(levels: Mapping[str, str]) -> str:
    """Format {factor: level} as 'anomaly = cpu, function = nat'."""
    return ", ".join(f"{name} = {level}" for name, level in levels.items())


def label_of(levels: Mapping[str, str], report: CampaignResults) -> str:
    """Return the label of a combination of levels: 'runc · isolation=none'; without levels, the name of the study."""
    label = " · ".join(f"{name}=none" if level == NONE else level for name, level in levels.items())
    return label or report.study.name
