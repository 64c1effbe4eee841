"""Compare the platforms over the studies of a suite: their scores, and the service levels that they hold. Pure.

A candidate is a platform. In each study, only the first metric with a better direction counts. Goodness is the ratio of
a platform to the reference in this metric, above 1 if the platform is better. The reference is the bare host, or else
the platform of the baseline. If a study has several variants of a platform, which differ in options, the first variant
that was measured counts. All combinations of the other factors of a study are conditions of equal weight. A score is
the weighted geometric mean of goodness over the studies, by draws from the posterior (`stats.scores`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.decision import (
    SlaDecision,
    SlaQuestion,
    Undecidable,
    campaigns_of,
    decide_if_possible,
    group_by_levels,
    metric_trials,
)
from lastro.errors import InputError, did_you_mean
from lastro.results.samples import Metric
from lastro.stats.campaign_effects import linked
from lastro.stats.intervals import Estimate, alpha_of
from lastro.stats.look_state import FEWEST_BLOCKS
from lastro.stats.notes import N_
from lastro.stats.scores import StudyTrials, score
from lastro.study.levels import split_options
from lastro.study.service_level import ServiceLevel

PLATFORM, NATIVE = "platform", "native"
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class SuiteColumn:
    """The results of one study: how good each candidate is in `metric`, and which candidates hold the service levels.

    `goodness` has for each candidate the ratio to the reference, above 1 if it is better, with its interval; None if
    the study did not measure it in every condition. `decision` is None without service levels."""

    name: str
    metric: Metric
    weight: float
    goodness: tuple[Estimate | None, ...]
    decision: SlaDecision | None


@dataclass(frozen=True, slots=True)
class SuiteDecision:
    """The candidates compared over the studies of a suite."""

    candidates: tuple[str, ...]
    reference: int  # index of the reference in `candidates`
    columns: tuple[SuiteColumn, ...]
    # Of each candidate; None if a study whose weight is above 0 did not measure the candidate.
    scores: tuple[Estimate | None, ...]
    # For each candidate, the probability that its score is the highest; the reference does not compete.
    best: tuple[float, ...]
    left_out: Mapping[str, str]  # {study that does not count: the reason}
    confidence: float

    @property
    def leader(self) -> int | None:
        """The index of the candidate (not the reference) that is most probably the best; None without any score."""
        scored = [at for at, score in enumerate(self.scores) if score and at != self.reference]
        return max(scored, key=self.best.__getitem__, default=None)

    @property
    def levels_outcome(self) -> Literal["kept", "none", "undecided"] | None:
        """Whether a candidate keeps the service levels of all studies; None if no study has any.

        It is "none" if each candidate that was measured is rejected in some study."""
        verdicts = [self._verdicts(at) for at in range(len(self.candidates))]
        if not any(verdicts):
            return None
        if {"accepted"} in verdicts:
            return "kept"
        measured = [of_candidate for of_candidate in verdicts if of_candidate != {"missing"}]
        return "none" if measured and all("rejected" in of_candidate for of_candidate in measured) else "undecided"

    def keeps_all(self, at: int) -> bool:
        """Return whether a candidate is accepted in every study that has service levels; False if no study has any."""
        return self._verdicts(at) == {"accepted"}

    def _verdicts(self, at: int) -> set[str]:
        """Return the verdicts on a candidate in the studies that have service levels."""
        decisions = [column.decision for column in self.columns if column.decision]
        surest = [(decision, surest_variant(decision, self.candidates[at])) for decision in decisions]
        return {"missing" if variant is None else decision.choice.verdict(variant) for decision, variant in surest}


def surest_variant(decision: SlaDecision, platform: str) -> int | None:
    """Return the index of the variant of a platform that most probably holds the service levels.

    Variants that are not rejected take precedence. None if no candidate of the decision is of this platform."""
    odds, rejected = decision.choice.odds, decision.choice.rejected
    platforms = [split_options(candidate.levels[PLATFORM])[0] for candidate in decision.candidates]
    variants = [at for at, name in enumerate(platforms) if name == platform]
    return max(variants, key=lambda at: (not odds[at].missing, at not in rejected, odds[at].holds), default=None)


def decide_suite(
    reports: Mapping[str, CampaignResults], levels: Sequence[str], weights: Mapping[str, float], confidence: float
) -> SuiteDecision:
    """Compare the candidates over these studies, {name of the study: its results}.

    `levels` are service levels as users write them. Each applies to the studies that have its metric. A study to which
    none of them applies is judged by the service levels in its own file. `weights` are {name of a study: its weight},
    by default 1.

    Raises: InputError if no study can be used, if a service level does not apply to any study, or if a weight is for an
    unknown study."""
    if unknown := next((name for name in weights if name not in reports), None):
        raise InputError(f"there is no study '{unknown}' that was measured", did_you_mean(unknown, reports))
    left_out = {name: why for name, report in reports.items() if (why := _unusable(report))}
    used = {name: report for name, report in reports.items() if name not in left_out}
    if not used:
        raise InputError("none of these studies compares platforms", "each needs two blocks, and two platforms")
    if not any(weights.get(name, 1.0) for name in used):
        raise InputError("none of these studies has a weight above 0", "leave out --weights to count each as 1")
    platforms = [str(row.treatment.levels[PLATFORM]) for report in used.values() for row in report.rows]
    names = list(dict.fromkeys(split_options(platform)[0] for platform in platforms))
    first_study = next(iter(used.values())).study
    baseline, _ = split_options(str(first_study.design.baseline.get(PLATFORM, "")))
    reference = next(names.index(name) for name in (NATIVE, baseline, names[0]) if name in names)
    by_study = _service_levels(used, levels, [(reports[name], why) for name, why in left_out.items()])
    alpha = alpha_of(confidence) / max(1, sum(map(bool, by_study.values())))
    studies, decisions = [], []
    for name, report in used.items():
        studies.append(_study_trials(report, names, weights.get(name, 1.0)))
        question = SlaQuestion(tuple(by_study[name]), factors=(PLATFORM,), confidence=1 - alpha)
        decisions.append(decide_if_possible(report, question))
    scores = score(studies, len(names), reference, alpha_of(confidence))
    in_columns = zip(used.items(), studies, scores.goodness, decisions, strict=True)
    columns = tuple(
        SuiteColumn(name, _directed_metric(report), study.weight, goodness, decision)
        for (name, report), study, goodness, decision in in_columns
    )
    return SuiteDecision(tuple(names), reference, columns, scores.scores, scores.best, left_out, confidence)


def suite_decision_of(reports: Mapping[str, CampaignResults]) -> SuiteDecision | None:
    """Return the comparison by the service levels in the study files; None if no study compares platforms."""
    usable = any(not _unusable(report) for report in reports.values())
    return decide_suite(reports, (), {}, CONFIDENCE) if usable else None


def _unusable(report: CampaignResults) -> str:
    """Return why a study does not count; empty if it does."""
    if not any(factor.name == PLATFORM for factor in report.varying):
        return N_("it does not vary the platform")
    if not any(metric.better != "neither" for metric in report.metrics):
        return N_("no metric is better higher or lower")
    if len(report.blocks) < FEWEST_BLOCKS:
        return N_("it has fewer than two blocks")
    try:
        campaigns = campaigns_of(report)
    except Undecidable:
        return N_("its campaigns ran on different machines")
    at = {row.treatment.index: (row.treatment.index, 0) for row in report.rows}
    trials = metric_trials(report, report.rows, at, _directed_metric(report).name)
    alike = not campaigns or linked(trials, campaigns)
    return "" if alike else N_("its campaigns have fewer than two treatments in common")


def _directed_metric(report: CampaignResults) -> Metric:
    """Return the first metric with a better direction."""
    return next(metric for metric in report.metrics if metric.better != "neither")


def _service_levels(
    reports: Mapping[str, CampaignResults], texts: Sequence[str], left_out: Sequence[tuple[CampaignResults, str]]
) -> dict[str, list[ServiceLevel]]:
    """Return {study: its service levels}, from `texts` or, if none of them applies to the study, from its file.

    Raises: InputError for a text that does not apply to any study that counts."""
    by_study: dict[str, list[ServiceLevel]] = {name: [] for name in reports}
    for text in texts:
        n_refused = 0
        for name, report in reports.items():
            try:
                by_study[name].append(ServiceLevel.parse(text, report.metrics))
            except InputError:
                n_refused += 1
        if n_refused == len(reports):  # `parse` names all metrics if no study has the metric
            every = [*reports.values(), *(report for report, _ in left_out)]
            level = ServiceLevel.parse(text, [metric for report in every for metric in report.metrics])
            report, why = next((report, why) for report, why in left_out if level.metric in report.metrics)
            raise InputError(
                f"--sla '{text}': only {report.directory} measures {level.metric.name}, "
                f"and it does not count here: {why}",
                f"decide on {report.directory} by itself",
            )
    for name, report in reports.items():
        of_file = [f"{metric} {level}" for metric, level in report.study.sla.items()]
        by_study[name] = by_study[name] or [ServiceLevel.parse(text, report.metrics) for text in of_file]
    return by_study


def _study_trials(report: CampaignResults, names: Sequence[str], weight: float) -> StudyTrials:
    """Return the trials of a study by candidate and condition; `names` are the candidates of the suite."""
    candidates, of_candidate = group_by_levels(report.rows, [PLATFORM])
    rest = [factor.name for factor in report.varying if factor.name != PLATFORM]
    conditions, of_condition = group_by_levels(report.rows, rest)
    at = {index: (of_candidate[index], of_condition[index]) for index in of_candidate}
    metric = _directed_metric(report)
    trials = metric_trials(report, report.rows, at, metric.name)
    variants = tuple(names.index(split_options(levels[PLATFORM])[0]) for levels in candidates)
    return StudyTrials(trials, variants, len(conditions), metric.better == "higher", weight, campaigns_of(report))
