"""The key findings of a campaign, in at most six plain sentences. Pure.

The cost of a hop of a chain, the cost of neighbours and the recovery by isolation come first. The effects of all other
factors on the first metric follow, a sentence for each factor, largest difference first. Then comes a sentence for each
further metric, and last what is missing. `analysis.findings` computes the data of the sentences."""

from __future__ import annotations

from collections.abc import Iterator

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.findings import Findings, MetricFindings, MissingTreatments, findings, level_groups
from lastro.analysis.model import Analysis, FactorPairs
from lastro.stats.notes import N_
from lastro.words.interference import hop_sentences, interference_sentences
from lastro.words.language import Language
from lastro.words.numbers import mean_text
from lastro.words.pairs import PairPhrases, undecided_text, with_aliases
from lastro.words.phrases import join_names, sentence

MOST = 6  # sentences
_FEWEST_NEIGHBOURS = 2  # sentences on neighbours for which there is always room
_MOST_OTHER_EFFECTS = 2  # effects to report on a metric other than the first
_MOST_REASONS = 2
_REASON = 160  # characters of a reason in a sentence


def key_findings(report: CampaignResults, say: Language, analysis: Analysis | None = None) -> tuple[str, ...]:
    """Return at most `MOST` sentences; none before the first measurement. Without `analysis`, it is computed here."""
    if (all_findings := findings(report, analysis)) is None:
        return ()
    missing = _missing(all_findings.missing, say)
    others = list(filter(None, (_KeySentences(metric, say).in_one() for metric in all_findings.others)))
    hops = hop_sentences(all_findings.hops, all_findings.first.metric, say)
    room = MOST - len(missing) - bool(others) - len(hops)
    neighbours = interference_sentences(all_findings.interference, say, room)
    first = list(_first(all_findings, say, named=len(report.rows) > 1))
    if first and neighbours:
        neighbours = interference_sentences(all_findings.interference, say, max(_FEWEST_NEIGHBOURS, room - len(first)))
    leading = [*hops, *[*neighbours, *first][:room]]
    return (*leading, *others[: MOST - len(missing) - len(leading)], *missing)


def _first(findings: Findings, say: Language, *, named: bool) -> Iterator[str]:
    """Yield a sentence on the first metric for each factor that has no sentence on hops or neighbours.

    If no factor varies, yield a sentence on each mean instead; `named` adds the levels of the treatment to it."""
    sentences = _KeySentences(findings.first, say)
    if not findings.first.factors:
        yield from sentences.mean_sentences(named=named)
    elif findings.first.one_block:
        if not findings.covered:
            text = N_("With one block, no difference in {metric} is distinguishable from chance.")
            yield say(text, metric=findings.first.metric.name)
    else:
        factors = [factor for factor in findings.first.largest_first if factor.factor not in findings.covered]
        yield from (sentence(sentences.clauses(factor)) for factor in factors)


class _KeySentences:
    """The sentences on the effects of factors on one metric, or on its means."""

    def __init__(self, findings: MetricFindings, say: Language) -> None:
        self.findings, self.say, self.metric = findings, say, findings.metric

    def mean_sentences(self, *, named: bool) -> Iterator[str]:
        """Yield a sentence on the mean of each measured treatment, with its levels if `named`."""
        say, data = self.say, self.findings.data
        for index, summary in data.summaries.items():
            text = f"{mean_text(summary, say)} {self.metric.unit}".rstrip()
            where = " (" + ", ".join(f"{k} = {v}" for k, v in data.levels[index].items()) + ")" if named else ""
            blocks = say.count(summary.n, "block")
            yield say("With {blocks}, {metric} is {mean}.", blocks=blocks, metric=self.metric.name, mean=text + where)

    def clauses(self, factor: FactorPairs) -> Iterator[str]:
        """Yield clauses on the levels that differ from the reference, are equivalent, are undecided or are left out."""
        phrases = self._phrases(factor)
        if not factor.effects:
            yield phrases.unknown()
            return
        levels = level_groups(factor, self.findings.margin)
        if levels.differing:
            yield phrases.changed(levels.differing)
        if levels.widest:
            yield phrases.alike(levels.group, levels.widest)
        for level in levels.near:
            yield phrases.alike([factor.reference, level], factor.of(level))
        if levels.undecided:
            yield phrases.undecided(levels.undecided)
        yield phrases.left_out()

    def in_one(self) -> str:
        """Return one sentence on all effects on the metric; empty if the metric never varied.

        It has the largest effects or, without significant effects, what is undecided or how small all differences
        are."""
        findings, compared = self.findings, self.findings.compared
        if findings.never_varied:
            return ""
        unknown = [self._phrases(factor).unknown() for factor in findings.factors if not factor.effects]
        if differing := findings.differing:
            return sentence(
                [self._phrases(factor).changed([level], to) for factor, level, to in differing[:_MOST_OTHER_EFFECTS]]
            )
        words = {
            "factors": join_names(
                [factor.factor + with_aliases(factor.aliases, self.say) for factor in compared], self.say
            ),
            "metric": self.metric.name,
            "average": self.say("on average") + " " if any(factor.strata > 1 for factor in compared) else "",
        }
        if unsure := findings.undecided:
            what = self.say("whether {metric} differs {average}between levels of {factors}", **words)
            return sentence([undecided_text(what, unsure, findings.margin, self.say), *unknown])
        most = self._phrases(compared[0]).limit(max(findings.pairs, key=lambda pair: pair.most))
        text = N_("between levels of {factors}, {metric} differs {average}by less than {most}")
        return sentence([self.say(text, most=most, **words), *unknown])

    def _phrases(self, factor: FactorPairs) -> PairPhrases:
        return PairPhrases(factor, self.metric, self.say, self.findings.margin, self.findings.shared)


def _levels(where: str) -> str:
    return where.replace("; ", " · ")  # ';' separates the clauses of the sentence


def _missing(missing: MissingTreatments, say: Language) -> tuple[str, ...]:
    """Return a tuple of one sentence on what is missing; empty if nothing is.

    It names unavailable treatments with the reasons, treatments without a valid trial, and metrics without a valid
    value. Long reasons, such as the output of a command, are cut; the report lists them whole."""
    gaps = []
    for gap in missing.gaps:
        where, reason = _levels(gap.where) or say.count(len(gap.treatments), "treatment"), gap.reason
        short = reason if len(reason) <= _REASON else f"{reason[: _REASON - 1].rstrip()}…"
        gaps.append(say("{where} ({reason})", where=where, reason=short))
    clauses = [say("not measured here: {gaps}", gaps="; ".join(gaps[:_MOST_REASONS]))] if gaps else []
    if (more := len(gaps) - _MOST_REASONS) > 0:
        clauses.append(say("further reasons: {n}", n=more))
    if missing.lost:
        where = _levels(missing.where) or say.count(missing.lost, "treatment")
        clauses.append(say("no valid trial of {where}", where=where))
    if missing.empty:
        clauses.append(say("no valid value of {metrics}", metrics=", ".join(missing.empty)))
    if missing.bounded:
        text = N_("treatments with only a lower bound of {metrics} are left out")
        clauses.append(say(text, metrics=", ".join(missing.bounded)))
    return (sentence(clauses),) if clauses else ()
