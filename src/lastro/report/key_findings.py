"""The key findings of a campaign, in at most six plain sentences. Pure: a report in, sentences out.

The cost of neighbours and the recovery by isolation come first (`interference`, with intervals of its own). Then comes
the effect of every other factor on the first metric, a sentence for each, largest difference first; then a sentence for
each further metric; last, what is missing. The numbers on factors come from simultaneous intervals for all pairs of
levels of all factors of a metric (`analysis.joint`), so that any of them may be reported. A level differs if its
interval excludes no difference; levels are alike if the intervals of all their pairs lie within `pair_phrases.ALIKE`;
anything else is undecided."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations

from lastro.analysis.campaign import Report, common_levels
from lastro.analysis.joint import LEAST_BLOCKS, joint_pairs
from lastro.analysis.measured import measured
from lastro.analysis.model import FactorPairs
from lastro.analysis.noise_floor import floor_here
from lastro.report.interference import ISOLATION, NEIGHBOUR, interference, isolation_is_told
from lastro.report.language import Language
from lastro.report.numbers import mean_text
from lastro.report.pair_phrases import ALIKE, PairPhrases, undecided
from lastro.report.phrases import joined, sentence
from lastro.stats.intervals import describe
from lastro.stats.notes import N_
from lastro.stats.simultaneous import Pair

MOST = 6  # sentences
_FEWEST_NEIGHBOURS = 2  # sentences on neighbours for which there is always room
_OF_OTHERS = 2  # effects to report on a metric other than the first
_MOST_REASONS = 2


def key_findings(report: Report, say: Language) -> tuple[str, ...]:
    """Return at most `MOST` sentences; none before anything was measured."""
    if not any(cell.points for row in report.rows for cell in row.cells):
        return ()
    missing = _missing(report, say)
    others = list(_others(report, say))
    room = MOST - len(missing) - bool(others)
    told = interference(report, say, room)
    covered = {NEIGHBOUR} | ({ISOLATION} if isolation_is_told(report) else set()) if told else set()
    first = list(_first(report, covered, say))
    if first and told:
        told = interference(report, say, max(_FEWEST_NEIGHBOURS, room - len(first)))
    found = [*told, *first][:room]
    return (*found, *others[: MOST - len(missing) - len(found)], *missing)


def _first(report: Report, covered: Collection[str], say: Language) -> Iterator[str]:
    """Yield a sentence on the first metric for each factor that is not covered; without factors, on its mean."""
    findings = _Findings(report, 0, say)
    if not findings.factors:
        yield from findings.mean(named=len(report.rows) > 1)
    elif len(findings.data.blocks) < LEAST_BLOCKS:
        if not covered:
            text = N_("With one block, no difference in {metric} is distinguishable from chance.")
            yield say(text, metric=findings.metric.name)
    else:
        factors = [factor for factor in findings.factors if factor.factor not in covered]
        for factor in sorted(factors, key=_largest_first):
            yield sentence(findings.clauses(factor))


def _largest_first(factor: FactorPairs) -> float:
    """Return a sort key: factors with a level that differs, by the largest difference; then the others."""
    return min(
        (-factor.of(level).distance for level in factor.others if factor.pairs and factor.differs(level)), default=0
    )


def _others(report: Report, say: Language) -> Iterator[str]:
    """Yield a sentence for each other metric; metrics with a better direction come first."""
    for index in sorted(range(1, len(report.metrics)), key=lambda index: report.metrics[index].better == "neither"):
        if text := _Findings(report, index, say).in_one():
            yield text


class _Findings:
    """The findings on one metric."""

    def __init__(self, report: Report, index: int, say: Language) -> None:
        self.say, self.metric, self.data = say, report.metrics[index], measured(report, index)
        floor = floor_here(report, index)
        self.factors = joint_pairs(self.data, floor.share if floor else None)
        levels = [level for names in self.data.factors.values() for level in names]
        self.shared = frozenset(level for level in levels if levels.count(level) > 1)

    def mean(self, *, named: bool) -> Iterator[str]:
        """Yield the mean of the only measured treatment; if `named`, with its levels."""
        say = self.say
        for index, cell in self.data.cells.items():
            text = f"{mean_text(describe(list(cell.values()), self.data.confidence), say)} {self.metric.unit}".rstrip()
            where = " (" + ", ".join(f"{k} = {v}" for k, v in self.data.levels[index].items()) + ")" if named else ""
            blocks = say.count(len(cell), "block")
            yield say("With {blocks}, {metric} is {mean}.", blocks=blocks, metric=self.metric.name, mean=text + where)

    def clauses(self, factor: FactorPairs) -> Iterator[str]:
        """Yield clauses: which levels differ from the reference, which are alike, which are undecided."""
        phrases = self._phrases(factor)
        if not factor.pairs:
            yield phrases.unknown()
            return
        rest = [level for level in factor.others if not factor.differs(level)]
        if differing := [level for level in factor.others if level not in rest]:
            yield phrases.changed(sorted(differing, key=lambda level: -factor.of(level).distance))
        group, widest = _alike(rest, factor)
        if widest:
            yield phrases.alike([level for level in factor.levels if level in group], widest)
        rest = [level for level in rest if level not in group]
        for level in (level for level in rest if factor.of(level).alike(ALIKE)):
            yield phrases.alike([factor.reference, level], factor.of(level))
        rest = [level for level in rest if not factor.of(level).alike(ALIKE)]
        if hidden := [level for level in rest if factor.of(level).differs]:
            yield phrases.hidden(hidden)
        if unsure := [level for level in rest if level not in hidden]:
            yield phrases.undecided(unsure)
        yield phrases.left_out()

    def in_one(self) -> str:
        """Return a sentence on what changes the metric most, or that nothing does, or that this is undecided.

        Empty where the metric never varied, or where nothing is known."""
        compared = [factor for factor in self.factors if factor.pairs]
        effects = [(factor, level, factor.reference) for factor in compared for level in factor.others]
        pairs = [factor.pairs[at] for factor in compared for at in combinations(factor.levels, 2)]
        if all(pair.error == pair.distance == 0 for pair in pairs):
            return ""
        unknown = [self._phrases(factor).unknown() for factor in self.factors if not factor.pairs]
        differing = [effect for effect in effects if effect[0].differs(effect[1])] or self._others_differing(compared)
        if differing:
            differing.sort(key=lambda effect: -effect[0].pairs[effect[1:]].distance)
            more = len(differing) - _OF_OTHERS
            changes = [self._phrases(factor).changed([level], to) for factor, level, to in differing[:_OF_OTHERS]]
            return sentence([*changes, self.say("levels that change it less: {n}", n=more) if more > 0 else ""])
        hidden = [pair for factor in compared for pair in map(factor.of, factor.others) if pair.differs]
        unsure = [pair for pair in pairs if not (pair.differs or pair.alike(ALIKE))]
        words = {
            "factors": joined([factor.factor for factor in compared], self.say),
            "metric": self.metric.name,
            "average": self.say("on average") + " " if any(factor.strata > 1 for factor in compared) else "",
        }
        if unsure:
            what = self.say("whether {metric} differs {average}between levels of {factors}", **words)
            return sentence([undecided(what, unsure, self.say), *unknown])
        if hidden:
            text = N_("by how much {metric} differs between levels of {factors} is below the noise floor of this host")
            return sentence([self.say(text, **words), *unknown])
        most = self._phrases(compared[0]).limit(max(pairs, key=lambda pair: pair.most))
        text = N_("between levels of {factors}, {metric} differs {average}by less than {most}")
        return sentence([self.say(text, most=most, **words), *unknown])

    @staticmethod
    def _others_differing(compared: Sequence[FactorPairs]) -> list[tuple[FactorPairs, str, str]]:
        """Return pairs of levels that differ from each other, for when no level differs from its reference."""
        return [
            (factor, level, to)
            for factor in compared
            for to, level in combinations(factor.others, 2)
            if factor.floor is None and factor.pairs[level, to].differs
        ]

    def _phrases(self, factor: FactorPairs) -> PairPhrases:
        return PairPhrases(factor, self.metric, self.say, self.shared)


def _alike(levels: Sequence[str], factor: FactorPairs) -> tuple[list[str], Pair | None]:
    """Return a group of levels with the reference in which all pairs are alike, and the pair that may differ most."""
    group, widest = [factor.reference], None
    for level in sorted(levels, key=lambda level: factor.of(level).distance):
        pairs = [factor.pairs[level, other] for other in group]
        if all(pair.alike(ALIKE) for pair in pairs):
            group.append(level)
            widest = max(filter(None, [widest, *pairs]), key=lambda pair: pair.most)
    return group, widest


def _missing(report: Report, say: Language) -> tuple[str, ...]:
    """Return a sentence on unavailable treatments and why, invalid treatments and metrics without a value, if any."""
    gaps = [
        say("{where} ({reason})", where=gap.where or say.count(len(gap.treatments), "treatment"), reason=gap.reason)
        for gap in report.gaps
    ]
    clauses = [say("not measured here: {gaps}", gaps="; ".join(gaps[:_MOST_REASONS]))] if gaps else []
    if (more := len(gaps) - _MOST_REASONS) > 0:
        clauses.append(say("further reasons: {n}", n=more))
    if lost := [row.treatment for row in report.rows if row.status == "invalid"]:
        where = common_levels(report.study, lost) or say.count(len(lost), "treatment")
        clauses.append(say("no valid trial of {where}", where=where))
    empty = [m.name for at, m in enumerate(report.metrics) if not any(row.cells[at].points for row in report.rows)]
    if empty:
        clauses.append(say("no valid value of {metrics}", metrics=", ".join(empty)))
    bounded = [m.name for at, m in enumerate(report.metrics) if any(row.cells[at].bounded for row in report.rows)]
    if bounded:
        text = N_("treatments with only a lower bound of {metrics} are left out")
        clauses.append(say(text, metrics=", ".join(bounded)))
    return (sentence(clauses),) if clauses else ()
