"""One study on several hosts: the effect of each level on each host, its mean over hosts, and its range on a new host.

An effect is the ratio of the mean at a level of a factor to the mean at the reference level, both over the combinations
of the other factors. The logarithms of the hosts' ratios are pooled (`stats.pooling`). The effects of two hosts are not
pooled, because one difference cannot show how much hosts differ; instead, they are compared with each other. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lastro.analysis.build import decision_by_p
from lastro.analysis.campaign import CampaignResults, MeasuredIn
from lastro.analysis.claim_cells import Untestable
from lastro.analysis.claim_effects import ClaimEffects
from lastro.analysis.claims import Judgement, judge, judge_by
from lastro.analysis.claims.stand_ins import measured_levels
from lastro.analysis.host_effects import HostCells, HostEffect, too_few_hosts
from lastro.analysis.host_facts import MACHINE, RANDOMIZATION, USUAL, named_facts
from lastro.analysis.verdicts import Verdict, verdict_on_ratio
from lastro.errors import InputError, did_you_mean
from lastro.results.samples import Metric
from lastro.stats.contrasts import exponential
from lastro.stats.families import holm
from lastro.stats.intervals import Estimate, Interval, satterthwaite, t_quantile
from lastro.stats.notes import N_, Note
from lastro.stats.pooling import Estimator, MeasuredEffect, PooledMean
from lastro.stats.student import t_p
from lastro.study.design import common_baseline
from lastro.study.model import Level, Levels, Study

if TYPE_CHECKING:
    from lastro.analysis.claims.claim import Claim, Claims

_HOSTS_IN = N_("{n} of {all} hosts in {guests}")


@dataclass(frozen=True, slots=True)
class PooledHost:
    """A host, with the joint results of its campaigns, whose directories are `campaigns`."""

    name: str
    report: CampaignResults
    campaigns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PooledEffect:
    """The effect of a level against the reference level on a metric, on each host and pooled.

    Means are over the combinations of the other factors that all hosts with this effect measured."""

    metric: Metric
    factor: str
    level: str
    reference: str
    hosts: tuple[HostEffect, ...]
    strata: int = 0  # number of combinations in the means
    all_strata: int = 0  # number of combinations of the other factors
    pooled: PooledMean | None = None  # pooled logarithm of the ratio; None for fewer than three hosts
    between_hosts: Estimate | None = None  # for two hosts, the effect on the second divided by the effect on the first
    absent_because: tuple[Note, ...] = ()  # reasons why effects are not pooled
    p_adjusted: float | None = None  # p-value of `pooled`, or else of `between_hosts`, corrected by Holm's method
    verdict: Verdict = ""

    @property
    def label(self) -> str:
        return f"{self.factor}: {self.level} / {self.reference}"

    @property
    def mean(self) -> Estimate | None:
        """The mean ratio over hosts; its `n` counts hosts."""
        return self.pooled.estimate.mapped(exponential) if self.pooled else None

    @property
    def prediction(self) -> Interval | None:
        """The interval for the true ratio on a new host."""
        return self.pooled.prediction.mapped(exponential) if self.pooled else None


@dataclass(frozen=True, slots=True)
class JudgedClaim:
    """The judgements of one claim: `pooled` by all hosts together, and `on_each` by each host."""

    pooled: Judgement
    on_each: tuple[Judgement, ...]


@dataclass(frozen=True, slots=True)
class PooledStudy:
    """The effects of a study on several hosts, in the order of metrics, factors and levels."""

    hosts: tuple[PooledHost, ...]
    metrics: tuple[Metric, ...]
    effects: tuple[PooledEffect, ...]
    estimator: Estimator
    claims: tuple[JudgedClaim, ...] = ()

    @property
    def study(self) -> Study:
        return self.hosts[0].report.study

    @property
    def confidence(self) -> float:
        return self.study.design.confidence

    @property
    def guest(self) -> MeasuredIn | None:
        """The guests among the hosts; None if all are real."""
        return MeasuredIn.among([host.report.guest for host in self.hosts], _HOSTS_IN)

    def of(self, metric: Metric) -> tuple[PooledEffect, ...]:
        return tuple(effect for effect in self.effects if effect.metric == metric)


def pool_hosts(
    hosts: Sequence[PooledHost],
    estimator: Estimator = "reml",
    metrics: Sequence[str] = (),
    claims: Claims | None = None,
) -> PooledStudy:
    """Pool the effects on these `metrics` (default: the study's own) over hosts, and judge claims.

    Raises: InputError for a metric that some host did not measure, or measured in another unit."""
    reports = [host.report for host in hosts]
    chosen = [_metric(name, hosts) for name in dict.fromkeys(metrics) or [m.name for m in reports[0].study.metrics]]
    levels = list(_levels(reports))
    effects = [_effect(reports, metric, compared, estimator) for metric in chosen for compared in levels]
    ps = holm([effect.pooled.estimate.p if effect.pooled else None for effect in effects])
    ps_between = holm([effect.between_hosts.p if effect.between_hosts else None for effect in effects])
    corrected = []
    for effect, p, p_between in zip(effects, ps, ps_between, strict=True):
        decision = decision_by_p(p, reports[0].study.design.alpha)
        verdict = verdict_on_ratio(effect.metric, decision, effect.mean.value if effect.mean else None)
        corrected.append(replace(effect, p_adjusted=p_between if p is None else p, verdict=verdict))
    judged = _judge_claims(claims, reports, estimator) if claims else ()
    return PooledStudy(tuple(hosts), tuple(chosen), tuple(corrected), estimator, judged)


def machine(provenance: Mapping[str, Any]) -> tuple[str | None, ...]:
    """Return the facts that distinguish machines, in the order of `MACHINE`; None if not recorded or usual (`USUAL`).

    The value of address randomization includes its name, because reports show these facts without names."""
    known = {name: None if value == USUAL.get(name) else value for name, value in named_facts(provenance).items()}
    if known[RANDOMIZATION]:
        known[RANDOMIZATION] = f"{RANDOMIZATION} {known[RANDOMIZATION]}"
    return tuple(known[name] for name in MACHINE)


def _metric(name: str, hosts: Sequence[PooledHost]) -> Metric:
    """Return the metric of this name. Raises: InputError unless all hosts have it, in one unit and direction."""
    known = [{metric.name: metric for metric in host.report.metrics} for host in hosts]
    everywhere = set.intersection(*map(set, known))
    if name not in everywhere:
        raise InputError(f"metric '{name}' is not in every campaign", did_you_mean(name, everywhere))
    first = known[0][name]
    for host, own in zip(hosts, known, strict=True):
        if (own[name].unit, own[name].better) != (first.unit, first.better):
            raise InputError(
                f"metric {name} differs: it is in {first.unit} ({first.better} is better) on {hosts[0].name}, and in "
                f"{own[name].unit} ({own[name].better}) on {host.name}",
                "run both campaigns again with this version of Lastro",
            )
    return first


def _levels(reports: Sequence[CampaignResults]) -> Iterator[tuple[str, Level, Level]]:
    """Yield (factor, level, reference level) of every level that some host measured, except the reference.

    The reference is the level of the common baseline if some host measured it, otherwise the first measured level."""
    measured = measured_levels(reports)
    baseline = common_baseline([report.study for report in reports])
    for on_hosts in zip(*(report.study.factors for report in reports), strict=True):
        name = on_hosts[0].name
        all_levels = dict.fromkeys(level for factor in on_hosts for level in factor.levels)
        levels = [level for level in all_levels if level in measured.get(name, ())]
        of_baseline = baseline.get(name)
        reference = of_baseline if of_baseline in levels else next(iter(levels), None)
        yield from ((name, level, reference) for level in levels if reference is not None and level != reference)


def _effect(
    reports: Sequence[CampaignResults], metric: Metric, compared: tuple[str, Level, Level], estimator: Estimator
) -> PooledEffect:
    """Return the effect on a metric; `compared` is (factor, level, reference level)."""
    factor, level, reference = compared
    names = (factor, str(level), str(reference))
    sides: list[Levels] = [{factor: (level,)}, {factor: (reference,)}]
    try:
        cells = HostCells(reports, metric.name, estimator)
        (of, to), strata, all_strata = cells.sides(sides, {})
    except Untestable as untestable:
        nowhere = tuple(HostEffect(at, None, None, untestable.why) for at in range(len(reports)))
        return PooledEffect(metric, *names, nowhere, absent_because=untestable.why)
    hosts = cells.on_each(of, to)
    measured = [host.effect for host in hosts if host.effect is not None]
    pooled = cells.pooled(hosts)
    between = _between_two_hosts(measured[0], measured[1], cells.confidence) if len(measured) == 2 else None
    why = () if pooled else (too_few_hosts(len(measured)),)
    return PooledEffect(metric, *names, hosts, strata, all_strata, pooled, between, why)


def _between_two_hosts(first: MeasuredEffect, second: MeasuredEffect, confidence: float) -> Estimate:
    """Return the ratio of the effect on the second host to that on the first."""
    value = second.value - first.value
    variances = [first.error**2, second.error**2]
    error = math.sqrt(sum(variances))
    df = satterthwaite(variances, [first.df, second.df])
    interval = Interval.around(value, t_quantile(confidence, df) * error, confidence)
    return Estimate(value, interval, 2, p=t_p(value, error, df, 0.0), df=df).mapped(exponential)


_NO_DIFFERENCE = N_("the published figure is a difference, and only ratios are pooled over hosts")


def _judge_claims(claims: Claims, reports: Sequence[CampaignResults], estimator: Estimator) -> tuple[JudgedClaim, ...]:
    """Judge every claim twice: by all hosts together, and by each host separately."""

    def effects(claim: Claim) -> ClaimEffects:
        cells = [HostCells(reports, metric, estimator) for metric in claim.statement.metrics]
        measured = claim.statement.effects(claim, *cells)
        why = Note(_NO_DIFFERENCE)
        return replace(measured, parts=tuple(replace(part, beside=None, incomparable=why) for part in measured.parts))

    pooled = judge_by(claims, reports, effects)
    on_each = zip(*(judge(claims, report) for report in reports), strict=True)
    return tuple(JudgedClaim(of_all, of_each) for of_all, of_each in zip(pooled, on_each, strict=True))
