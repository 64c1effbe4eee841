"""One line on how platforms compare on the first metric, the worst first, for the end of a terminal. Pure.

The key findings compare each level with the reference of its factor. This line compares the platforms with the best of
them. Its intervals are corrected for all pairs of platforms, so they hold although the data choose the best and the
worst."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.findings import MetricFindings, level_groups, metric_findings
from lastro.analysis.model import Analysis, FactorPairs
from lastro.analysis.remarks import in_order
from lastro.results.samples import Metric
from lastro.stats.notes import N_
from lastro.stats.simultaneous import Pair
from lastro.words.language import Language
from lastro.words.pairs import PairPhrases
from lastro.words.phrases import join_names
from lastro.words.remarks import signs_of

_FACTORS = ("platform", "attachment", "implementation")  # the first of these that varies is compared
_LEAST_LEVELS = 3  # with two, the key findings say the same
_MOST_CLAUSES = 3
_FEW = 3  # names in a list


def platform_line(report: CampaignResults, say: Language, analysis: Analysis | None = None) -> str:
    """Return the line; empty if only one factor varies or has two levels: then the key findings say the same.

    `analysis` is the analysis of the report, if the caller has it."""
    varying = [factor.name for factor in report.varying]
    name = next((name for name in _FACTORS if name in varying), None)
    if name is None or len(varying) < 2 or not report.views:
        return ""
    findings = metric_findings(report.views[0], analysis)
    factor = next((factor for factor in findings.factors if factor.factor == name), None)
    if findings.one_block or factor is None or len(factor.levels) < _LEAST_LEVELS:
        return ""
    kinds: dict[str, set[str]] = {}
    for row in report.rows:
        kinds.setdefault(str(row.treatment.levels[name]), set()).update(mark.kind for mark in row.cells[0].marks)
    return PlatformLine(findings, _against_best(factor, findings.metric), say, kinds).text()


def _against_best(factor: FactorPairs, metric: Metric) -> FactorPairs:
    """Return the comparisons of a factor with its best level as the reference.

    Return `factor` unchanged if neither direction is better, or if not all levels are compared with the best one."""
    if metric.better == "neither":
        return factor
    loss = {factor.reference: 0.0} | {level: _loss(pair, metric) for level, pair in factor.effects.items()}
    best = min(loss, key=loss.__getitem__)
    others = [level for level in factor.levels if level != best]
    known = {factor.reference, *(level for level, to in factor.pairs if to == best)}
    if best == factor.reference or not known.issuperset(others):
        return factor
    return replace(factor, reference=best, effects={level: factor.of(level, best) for level in others})


def _loss(pair: Pair, metric: Metric) -> float:
    """Return how much worse the first level of a pair is than the second; negative if it is better.

    If neither direction is better, return how much higher it is. A relative pair yields a logarithm."""
    change = math.log(pair.value) if pair.relative else pair.value / (pair.scale or 1.0)
    return -change if metric.better == "higher" else change


@dataclass(frozen=True, slots=True)
class PlatformLine:
    """The line on the levels of a factor; `kinds` are {level: the kinds of its marks}.

    The signs of marks that all levels have follow the name of the metric; all other signs follow that of a level."""

    findings: MetricFindings
    factor: FactorPairs
    say: Language
    kinds: Mapping[str, Set[str]]

    def text(self) -> str:
        phrases = PairPhrases(self.factor, self.findings.metric, self.say, self.findings.margin, self.findings.shared)
        text = N_("Against {reference}, {metric}: {clauses}.")
        if any(pair.strata > 1 for pair in self.factor.effects.values()):
            text = N_("Against {reference}, {metric} on average: {clauses}.")
        return self.say(
            text,
            reference=self._name(self.factor.reference, phrases),
            metric=self.findings.metric.name + signs_of(in_order(self._shared())),
            clauses="; ".join(self._clauses(phrases)),
        )

    def _clauses(self, phrases: PairPhrases) -> Iterator[str]:
        """Yield at most `_MOST_CLAUSES`: levels that differ, the worst first, then those alike, then the undecided.

        If neither direction is better, the level that differs most comes first."""
        say, groups = self.say, level_groups(self.factor, self.findings.margin)
        alike = [level for level in (*groups.group, *groups.near) if level != self.factor.reference]
        room = _MOST_CLAUSES - bool(alike) - bool(groups.undecided)
        directed = self.findings.metric.better != "neither"
        worst_first = sorted(groups.differing, key=self._loss, reverse=True) if directed else groups.differing
        for at, level in enumerate(worst_first[:room], 1):
            more = len(worst_first) - room if at == room else 0
            and_more = ", " + say("and {n} more", n=say.integer(more)) if more > 0 else ""
            yield f"{self._name(level, phrases)} {self._change(level, phrases)}{and_more}"
        if alike:
            most = phrases.limit(max((self.factor.of(level) for level in alike), key=lambda pair: pair.most))
            yield say("{levels} within {most}", levels=self._names(alike, phrases), most=most)
        if groups.undecided:
            yield say("{levels} not distinguishable", levels=self._names(groups.undecided, phrases))

    def _change(self, level: str, phrases: PairPhrases) -> str:
        """Format how a level differs: '17 times [15, 19] worse', '8 % [6, 10] better (below the noise floor)'."""
        say, loss = self.say, self._loss(level)
        text = N_("{change} worse") if loss > 0 else N_("{change} better")
        if self.findings.metric.better == "neither":
            text = N_("{change} higher") if loss > 0 else N_("{change} lower")
        changed = say(text, change=phrases.size(self.factor.of(level)).text(say))
        return f"{changed} ({say('below the noise floor')})" if self.factor.under_floor(level) else changed

    def _loss(self, level: str) -> float:
        return _loss(self.factor.of(level), self.findings.metric)

    def _names(self, levels: Sequence[str], phrases: PairPhrases) -> str:
        return join_names([self._name(level, phrases) for level in levels], self.say, _FEW)

    def _name(self, level: str, phrases: PairPhrases) -> str:
        return phrases.name(level) + signs_of(in_order(self.kinds[level] - self._shared()))

    def _shared(self) -> Set[str]:
        return frozenset.intersection(*(frozenset(self.kinds[level]) for level in self.factor.levels))
