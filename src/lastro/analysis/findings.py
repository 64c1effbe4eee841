"""The key findings of a campaign: which levels of a factor differ, are alike or are undecided, and by how much.

The findings are the cost of neighbours and the recovery by isolation (`interference`), the effect of every other factor
on the first metric, a finding on each further metric, and the treatments and values that are missing. The numbers on
factors come from two families of comparisons: the main effects of a metric, and the pairs of levels without the
reference. The intervals of each family are simultaneous, so that any of them may be reported. A level differs
if its interval excludes a difference of zero. Levels are alike if the intervals of all their pairs lie within the
metric's margin: the margin in the study, or else `ALIKE`. All other levels are undecided. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lastro.analysis.build import common_levels
from lastro.analysis.campaign import CampaignResults, Gap, MetricView
from lastro.analysis.effects import LEAST_BLOCKS, factor_pairs, main_effects
from lastro.analysis.growth import SizeRelation, growths
from lastro.analysis.interference import ISOLATION, NEIGHBOUR, Interference, interference, reports_isolation
from lastro.analysis.metric_values import MetricValues, values_of
from lastro.analysis.model import Analysis, FactorPairs
from lastro.analysis.noise_floor import applicable_floor
from lastro.results.additions import HOPS
from lastro.results.samples import Metric
from lastro.stats.simultaneous import Pair

ALIKE = 0.10  # relative difference up to which means are called alike, if the study has no margin for the metric

Effect = tuple[FactorPairs, str, str]  # (factor, level, the level that it is compared with)


@dataclass(frozen=True, slots=True)
class LevelGroups:
    """The levels of one factor, grouped by what the data show (see the module's docstring).

    `differing` are the levels that differ from the reference, the farthest first. `group` has the reference and the
    levels that are alike to it and to each other. `widest` is the pair of levels in `group` that may differ most; None
    if `group` has only the reference. `near` are the levels that are alike to the reference, but not to the whole
    group. `undecided` are all other levels."""

    differing: tuple[str, ...]
    group: tuple[str, ...]
    widest: Pair | None
    near: tuple[str, ...]
    undecided: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MetricFindings:
    """The findings on one metric; means are called alike up to the relative difference `margin`."""

    metric: Metric
    data: MetricValues
    factors: tuple[FactorPairs, ...]
    margin: float = ALIKE

    @property
    def shared(self) -> frozenset[str]:
        """The names of levels that more than one factor has, so that the name alone is ambiguous."""
        levels = Counter(level for names in self.data.factors.values() for level in names)
        return frozenset(level for level, times in levels.items() if times > 1)

    @property
    def one_block(self) -> bool:
        """True if there are too few blocks for an interval of a difference."""
        return len(self.data.blocks) < LEAST_BLOCKS

    @property
    def largest_first(self) -> list[FactorPairs]:
        """The factors in descending order of their largest significant difference; those without one come last."""

        def negative_largest(factor: FactorPairs) -> float:
            return min((-pair.distance for pair in factor.effects.values() if pair.differs), default=0)

        return sorted(self.factors, key=negative_largest)

    @property
    def compared(self) -> list[FactorPairs]:
        """The factors for which at least one level is compared with the reference."""
        return [factor for factor in self.factors if factor.effects]

    @property
    def pairs(self) -> list[Pair]:
        """Every pair of levels of each factor, each pair once."""
        with_reference = [pair for factor in self.compared for pair in factor.effects.values()]
        return with_reference + [factor.pairs[levels] for factor in self.compared for levels in factor.in_order]

    @property
    def never_varied(self) -> bool:
        """True if all values of the metric are equal, in every pair of levels."""
        return all(pair.constant for pair in self.pairs)

    @property
    def differing(self) -> list[Effect]:
        """The levels that differ from their reference, farthest first; if none does, other differing pairs."""
        with_reference = [(factor, level, factor.reference) for factor in self.compared for level in factor.others]
        others = [(factor, level, to) for factor in self.compared for level, to in factor.in_order]
        for effects in (with_reference, others):
            differing = [(factor, level, to) for factor, level, to in effects if factor.of(level, to).differs]
            if differing:
                return sorted(differing, key=lambda effect: -effect[0].of(*effect[1:]).distance)
        return []

    @property
    def undecided(self) -> list[Pair]:
        """The pairs of levels that neither differ nor are alike."""
        return [pair for pair in self.pairs if not (pair.differs or pair.alike(self.margin))]


@dataclass(frozen=True, slots=True)
class MissingTreatments:
    """The treatments and values that are missing in a campaign.

    `gaps` are the unavailable treatments. `lost` is the number of treatments whose trials were all invalid, and `where`
    describes these by their levels. `empty` are the names of the metrics without any value, and `bounded` the names of
    the metrics with values that are only lower bounds.
    """

    gaps: tuple[Gap, ...]
    lost: int
    where: str
    empty: tuple[str, ...]
    bounded: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Findings:
    """The key findings of a campaign."""

    interference: Interference | None  # None without a neighbour
    # (levels of the other factors, the first metric's line over the number of hops of a chain)
    hops: tuple[tuple[tuple[str, ...], SizeRelation], ...]
    covered: frozenset[str]  # names of the factors that `interference` and `hops` cover
    first: MetricFindings  # on the first metric
    others: tuple[MetricFindings, ...]  # on all other metrics; metrics with a better direction come first
    missing: MissingTreatments


def findings(report: CampaignResults, analysis: Analysis | None = None) -> Findings | None:
    """Return the key findings of a report; None before anything was measured.

    `analysis` is the analysis of the report, if the caller has it. Without it, only the comparisons that the findings
    need are computed, in a fraction of the time."""
    if not report.blocks:
        return None
    neighbours = interference(report)
    growth_of_rows = ((row.levels, row.metrics[0]) for row in growths(report, HOPS).rows)
    relations = ((levels, growth.against["hops"]) for levels, growth in growth_of_rows if growth)
    hops = tuple((levels, relation) for levels, relation in relations if relation.line)
    covered = set[str]()
    if neighbours:
        covered.add(NEIGHBOUR)
        if reports_isolation(report):
            covered.add(ISOLATION)
    if hops:
        covered.add(HOPS.factor)
    first, *others = report.views
    others.sort(key=lambda view: view.metric.better == "neither")  # metrics without a direction come last
    return Findings(
        interference=neighbours,
        hops=hops,
        covered=frozenset(covered),
        first=metric_findings(first, analysis),
        others=tuple(metric_findings(view, analysis) for view in others),
        missing=_missing(report),
    )


def metric_findings(view: MetricView, analysis: Analysis | None) -> MetricFindings:
    """Return the findings on one metric; `analysis` is as in `findings`."""
    data = values_of(view)
    margin = view.report.study.margins.get(view.metric.name, ALIKE)
    if analysis is not None:
        return MetricFindings(view.metric, data, analysis.metrics[view.index].pairs, margin)
    known = applicable_floor(view)
    floor = known.share if known else None
    return MetricFindings(view.metric, data, factor_pairs(data, main_effects(data, floor), floor), margin)


def level_groups(factor: FactorPairs, margin: float) -> LevelGroups:
    """Return the levels of a factor that differ, are alike (by at most the fraction `margin`), or are undecided."""
    differing = [level for level in factor.others if factor.of(level).differs]
    rest = [level for level in factor.others if not factor.of(level).differs]
    group, widest = _group_alike(rest, factor, margin)
    rest = [level for level in rest if level not in group]
    near = [level for level in rest if factor.of(level).alike(margin)]
    undecided = [level for level in rest if level not in near]
    farthest_first = sorted(differing, key=lambda level: -factor.of(level).distance)
    in_order = (level for level in factor.levels if level in group)
    return LevelGroups(tuple(farthest_first), tuple(in_order), widest, tuple(near), tuple(undecided))


def _group_alike(levels: Sequence[str], factor: FactorPairs, margin: float) -> tuple[list[str], Pair | None]:
    """Return the reference with the levels that are alike to it and to each other, and their pair that may differ most.

    Levels join this group in order of their distance from the reference. The pair is None if no level joins."""
    group, in_group = [factor.reference], list[Pair]()
    for level in sorted(levels, key=lambda level: factor.of(level).distance):
        pairs = [factor.of(level), *(factor.pairs.get((level, other)) for other in group[1:])]
        alike = [pair for pair in pairs if pair is not None and pair.alike(margin)]
        if len(alike) == len(pairs):
            group.append(level)
            in_group += alike
    return group, max(in_group, key=lambda pair: pair.most, default=None)


def _missing(report: CampaignResults) -> MissingTreatments:
    lost = [row.treatment for row in report.rows if row.status == "invalid"]
    return MissingTreatments(
        gaps=report.gaps,
        lost=len(lost),
        where=common_levels(report.study, lost) if lost else "",
        empty=tuple(view.metric.name for view in report.views if not view.n_blocks),
        bounded=tuple(view.metric.name for view in report.views if any(cell.bounded for cell in view.cells)),
    )
