"""Which candidate is the best over the studies of a suite, how good it is in each, and where it keeps the levels. Pure.

A candidate is a platform. In each study, the first metric that is better higher or lower counts: how many times as good
a platform is as the reference, which is the bare host or else the platform of the baseline. A study may have a platform
with several options: the first that was measured counts. What else a study varies are conditions, of equal weight. The
score is the weighted geometric mean over the studies. All of it is drawn from the posterior of `stats.decision`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.decision import SlaDecision, SlaQuestion, decide, grouped, metric_trials
from lastro.errors import InputError, did_you_mean
from lastro.results.samples import Metric
from lastro.stats.notes import N_
from lastro.stats.scores import Spread, StudyTrials, score
from lastro.stats.settled import FEWEST_BLOCKS
from lastro.study.levels import split_options
from lastro.study.service_level import ServiceLevel

PLATFORM, NATIVE = "platform", "native"


@dataclass(frozen=True, slots=True)
class SuiteColumn:
    """What one study says of the candidates: how good each is in `metric`, and which keep its service levels.

    `goodness` is None for a candidate that the study did not measure in every condition. `decision` is None without
    service levels."""

    name: str
    metric: Metric
    weight: float
    goodness: tuple[Spread | None, ...]
    decision: SlaDecision | None


@dataclass(frozen=True, slots=True)
class SuiteDecision:
    """The candidates compared over the studies of a suite.

    `scores` are None for a candidate that some study with a weight has not measured. `best` is the probability that a
    candidate has the highest score of all but the reference. `left_out` has the reason why a study does not count."""

    candidates: tuple[str, ...]
    reference: int
    columns: tuple[SuiteColumn, ...]
    scores: tuple[Spread | None, ...]
    best: tuple[float, ...]
    left_out: Mapping[str, str]
    confidence: float

    @property
    def leader(self) -> int | None:
        """Return the candidate that is most probably the best beside the reference; None without any score."""
        return max((at for at, score in enumerate(self.scores) if score and at != self.reference),
                   key=self.best.__getitem__, default=None)  # fmt: skip

    def keeps_all(self, at: int) -> bool:
        """Return whether a candidate surely keeps the levels of every study that has some."""
        verdicts = [surest_variant(column.decision, self.candidates[at]) for column in self.columns if column.decision]
        return bool(verdicts) and all(each is not None and each[0] == "accepted" for each in verdicts)


def surest_variant(decision: SlaDecision, platform: str) -> tuple[str, float] | None:
    """Return verdict and probability of the variant of a platform that most surely keeps the levels, if it has any."""
    odds = decision.choice.odds
    own = [at for at, each in enumerate(decision.candidates) if split_options(each.levels[PLATFORM])[0] == platform]
    best = max(own, key=lambda at: (not odds[at].missing, odds[at].holds), default=None)
    return None if best is None else (decision.choice.verdict(best), odds[best].holds)


def decide_suite(
    reports: Mapping[str, CampaignResults],
    levels: Sequence[str],
    weights: Mapping[str, float],
    confidence: float,
) -> SuiteDecision:
    """Compare the candidates over these studies, {name: its report}.

    `levels` are service levels as users write them. Each applies to the studies that have its metric; a study to which
    none applies has the levels of its own file.

    Raises: InputError where no study can be used, for a level that fits none, and for a weight of an unknown study."""
    if unknown := next((name for name in weights if name not in reports), None):
        raise InputError(f"this suite has no study '{unknown}' that was measured", did_you_mean(unknown, reports))
    left_out = {name: why for name, report in reports.items() if (why := _unusable(report))}
    used = {name: report for name, report in reports.items() if name not in left_out}
    if not used:
        raise InputError("no study of this suite compares platforms", "each needs two blocks, and two platforms")
    if not any(weights.get(name, 1.0) for name in used):
        raise InputError("no study of this suite has a weight above 0", "leave out --weights to count each as 1")
    levels_there = [str(row.treatment.levels[PLATFORM]) for report in used.values() for row in report.rows]
    names = list(dict.fromkeys(split_options(level)[0] for level in levels_there))
    baselines = [str(report.study.design.baseline.get(PLATFORM, "")) for report in used.values()]
    wanted = (name for name in (NATIVE, split_options(baselines[0])[0], names[0]) if name in names)
    reference = names.index(next(wanted))
    by_study = _levels_of(used, levels)
    alpha = (1 - confidence) / max(1, sum(map(bool, by_study.values())))
    studies, decisions = [], []
    for name, report in used.items():
        studies.append(_study_trials(report, names, weights.get(name, 1.0)))
        levels_here = by_study[name]
        question = SlaQuestion(tuple(levels_here), factors=(PLATFORM,), confidence=1 - alpha)
        decisions.append(decide(report, question) if levels_here else None)
    scores = score(studies, len(names), reference, 1 - confidence)
    columns = tuple(
        SuiteColumn(name, _counted(report), study.weight, goodness, decision)
        for (name, report), study, goodness, decision in zip(
            used.items(), studies, scores.goodness, decisions, strict=True
        )
    )
    return SuiteDecision(tuple(names), reference, columns, scores.scores, scores.best, left_out, confidence)


def _unusable(report: CampaignResults) -> str:
    """Return why a study does not count; empty if it does."""
    if not any(factor.name == PLATFORM for factor in report.varying):
        return N_("it does not vary the platform")
    if not any(metric.better != "neither" for metric in report.metrics):
        return N_("no metric is better higher or lower")
    blocks = {point.block for row in report.rows for cell in row.cells for point in cell.points}
    return "" if len(blocks) >= FEWEST_BLOCKS else N_("it has fewer than two blocks")


def _counted(report: CampaignResults) -> Metric:
    return next(metric for metric in report.metrics if metric.better != "neither")


def _levels_of(reports: Mapping[str, CampaignResults], texts: Sequence[str]) -> dict[str, list[ServiceLevel]]:
    found: dict[str, list[ServiceLevel]] = {name: [] for name in reports}
    metrics = [metric for report in reports.values() for metric in report.metrics]
    for text in texts:
        n_refused = 0
        for name, report in reports.items():
            try:
                found[name].append(ServiceLevel.parse(text, report.metrics))
            except InputError:
                n_refused += 1
        if n_refused == len(reports):
            ServiceLevel.parse(text, metrics)  # the error names the metrics of all studies
    for name, report in reports.items():
        own = [f"{metric} {level}" for metric, level in report.study.sla.items()]
        found[name] = found[name] or [ServiceLevel.parse(text, report.metrics) for text in own]
    return found


def _study_trials(report: CampaignResults, names: Sequence[str], weight: float) -> StudyTrials:
    candidates, of_candidate = grouped(report.rows, [PLATFORM])
    rest = [factor.name for factor in report.varying if factor.name != PLATFORM]
    conditions, of_condition = grouped(report.rows, rest)
    at = {number: (of_candidate[number], of_condition[number]) for number in of_candidate}
    metric = _counted(report)
    trials = metric_trials(report, report.rows, at, metric.name)
    variants = tuple(names.index(split_options(each[PLATFORM])[0]) for each in candidates)
    return StudyTrials(trials, variants, len(conditions), metric.better == "higher", weight)
