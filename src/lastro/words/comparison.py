"""The wording that all documents on a comparison of two campaigns share: differences, and what was not compared. Pure.

What programs read (`builders.data`) is always in English."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.comparison import ComparedCell, Comparison, MissingSide, UnmatchedTreatments
from lastro.analysis.host_facts import RANDOMIZATION
from lastro.grouping import by_key
from lastro.results.samples import GENERATOR_LIMITED
from lastro.stats.margins import POWER
from lastro.stats.notes import N_
from lastro.units import human_duration
from lastro.words.campaign import guest_sentences, waiting
from lastro.words.language import ENGLISH, Language
from lastro.words.numbers import STATUS_WORDS, margins_text, percent
from lastro.words.phrases import join_names, merged_sentences
from lastro.words.remarks import meaning, sign

_NONE = {"provenance": N_("not recorded"), "profile": N_("none"), "setting": N_("not set"), "design": ""}
_FARTHER = 2.0  # a note follows if A and B are this many times as far apart in time as the campaigns behind the spread
_MOST_CHARACTERS = 40  # of a fact of provenance, after the words that A and B have in common
_MOST_FACTS = 4  # facts of a chapter of provenance that are written with their values


def label(cell: ComparedCell, say: Language = ENGLISH) -> str:
    """Return the levels of a treatment: 'native · cgroups'."""
    return " · ".join(str(level) for _, level in cell.levels) or say("the treatment")


def not_compared(cell: ComparedCell, say: Language = ENGLISH) -> str | None:
    """Return why a cell has no test, by side: 'B: not run yet'; None if it has one."""
    if cell.absent:
        return "; ".join(f"{missing.side}: {_why_absent(missing, say)}" for missing in cell.absent)
    return say.note(cell.no_test) if cell.no_test else None


def _why_absent(absent: MissingSide, say: Language) -> str:
    row, cell = absent.row, absent.cell
    if cell.bounded:
        trials = say.count(len(cell.points), "trial")
        return say("only a lower bound in {n} of {trials}", n=cell.bounded, trials=trials)
    if row.status == "unavailable" and row.reason:
        return say("unavailable: {reason}", reason=row.reason)
    return say("not measured") if row.n_valid else say(STATUS_WORDS[row.status])


def why_unmatched(unmatched: UnmatchedTreatments, say: Language = ENGLISH) -> str:
    """Return why only one campaign has these treatments: the other one lacks a level, or excludes the combination."""
    other = "B" if unmatched.only_in == "A" else "A"
    if lacking := ", ".join(f"{name} = {level}" for name, level in unmatched.lacking):
        return say("{side} has no {levels}", side=other, levels=lacking)
    return say("{side}'s study excludes this combination", side=other)


def differences(comparison: Comparison, say: Language = ENGLISH) -> Iterator[tuple[str, str, str]]:
    """Yield (name, value in A, value in B) of each setting or recorded fact that differs."""
    for kind, what, *values in comparison.differences:
        a, b = (say(_NONE[kind]) if value is None else value for value in values)
        yield what, a, b


def difference_lines(comparison: Comparison, say: Language = ENGLISH) -> Iterator[str]:
    """Yield a line for each setting or recorded fact that differs between A and B; long values are cut.

    A chapter of provenance with more than four such facts has one line, which lists only their names."""
    chapters = by_key((difference.what.rpartition(".")[0], difference.what) for difference in comparison.differences)
    for what, in_a, in_b in differences(comparison, say):
        chapter = what.rpartition(".")[0]
        if not chapter or len(chapters[chapter]) <= _MOST_FACTS:
            a, b = _shortened_pair(in_a, in_b)
            yield f"{what}: A {a}, B {b}"
        elif chapters[chapter][0] == what:
            names = ", ".join(name.rpartition(".")[2] for name in chapters[chapter])
            facts = say.count(len(chapters[chapter]), "fact")
            yield say("{chapter}, {facts}: {names} (values: --json)", chapter=chapter, facts=facts, names=names)


def _shortened_pair(a: str, b: str) -> tuple[str, str]:
    """Remove the words that both texts begin with, and cut both to 40 characters; unchanged if both are short."""
    if max(len(a), len(b)) <= _MOST_CHARACTERS:
        return a, b
    words_a, words_b = a.split(), b.split()
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(words_a, words_b, strict=False))
    n_common = len(list(pairs))

    def shortened(words: list[str]) -> str:
        text = " ".join((["…"] if n_common else []) + words[n_common:])
        return f"{text[:_MOST_CHARACTERS]}…" if len(text) > _MOST_CHARACTERS else text

    return shortened(words_a), shortened(words_b)


def changed_host_text(comparison: Comparison, say: Language = ENGLISH) -> str:
    """Return in which facts the hosts differ; empty without --fail-changed-host, or if they do not differ."""
    changes = comparison.changed_host
    if not changes:
        return ""
    names = ", ".join(change.what for change in changes[:_MOST_FACTS]) + (", …" if len(changes) > _MOST_FACTS else "")
    return say("the hosts differ in {facts} ({names})", facts=say.count(len(changes), "fact"), names=names)


def between_notes(comparison: Comparison, say: Language) -> Iterator[str]:
    """Yield whether intervals and tests allow for the spread between campaigns in which nothing changed.

    If they do not, the sentence is a warning and says how to measure that spread."""
    between = comparison.between
    if between is None:
        yield say(
            "WARNING: how much two campaigns of the same thing differ on this host is not known, so no interval or p "
            "contains it. A shift of the whole host between A and B looks like a difference of every treatment. "
            "Measure it with `lastro noise-floor {directory} --campaigns 5`, or compare within one campaign: as levels "
            "of one factor, both run in the same blocks.",
            directory=comparison.a.directory,
        )
        return
    if between.spreads:
        sizes = ", ".join(f"{name} {percent(spread.spread, say, digits=2)}" for name, spread in between.spreads.items())
        yield say(
            "Intervals and p contain the spread between {n} campaigns in which nothing changed (standard deviation: "
            "{sizes}).",
            n=between.campaigns,
            sizes=sizes,
        )
    if comparison.without_spread:
        yield say(
            "WARNING: the spread between equal campaigns is not known for {metrics}: no interval or p contains it.",
            metrics=", ".join(metric.name for metric in comparison.without_spread),
        )
    apart_s = comparison.apart_s
    if apart_s is not None and apart_s > _FARTHER * between.span_s:
        yield say(
            "A and B began {apart} apart, those campaigns within {span}: the spread may be larger over the longer "
            "time.",
            apart=human_duration(apart_s),
            span=human_duration(between.span_s),
        )


def guest_notes(comparison: Comparison, say: Language = ENGLISH) -> Iterator[str]:
    """Yield a warning if A and B ran on different kinds of machines, and which of them ran in a guest."""
    differing = {difference.what for difference in comparison.differences if difference.kind == "provenance"}
    if len({report.guest for _, report in comparison.sides}) > 1 or RANDOMIZATION in differing:
        yield say(
            "WARNING: A and B ran on different kinds of machines, at least one of them a guest: a ratio B / A compares "
            "these machines, not what the study varies."
        )
    yield from merged_sentences(((side, guest_sentences(report.guest, say)) for side, report in comparison.sides), say)


def comparison_notes(comparison: Comparison, say: Language = ENGLISH) -> Iterator[str]:
    """Yield notes on guests, unfinished campaigns, marks, correlated trials, and metrics of only one campaign."""
    yield from guest_notes(comparison, say)
    for side, report in comparison.sides:
        if not report.progress.finished:
            n, total = say.integer(waiting(report)), say.integer(report.progress.n_trials)
            yield say("{side} is unfinished: {n} of {all} trials have not run", side=side, n=n, all=total)
    yield from merged_sentences(((side, _marks_on(report, say)) for side, report in comparison.sides), say)
    if dependent := comparison.dependent:
        sides = by_key((metric.name, side) for side, metric in dependent)
        where = (say("{metric} in {sides}", metric=name, sides=join_names(ab, say)) for name, ab in sides.items())
        yield say(
            "Trials that are close in time are correlated ({where}): intervals and tests take the variance of a mean "
            "to be up to {factor} times that of independent trials",
            where=", ".join(where),
            factor=say.number(f"{max(dependent.values()):.1f}"),
        )
    metrics_a, metrics_b = ({metric.name for metric in report.study.metrics} for _, report in comparison.sides)
    for side, only_here in (("A", metrics_a - metrics_b), ("B", metrics_b - metrics_a)):
        if only_here:
            yield say("metrics only in {side}'s study: {metrics}", side=side, metrics=", ".join(sorted(only_here)))


def _marks_on(report: CampaignResults, say: Language) -> Iterator[str]:
    """Yield 'sign: meaning' for each kind of mark on the numbers of a campaign."""
    for kind in report.kinds_of_marks:
        if kind == GENERATOR_LIMITED:
            limited = say.count(report.n_limited, "treatment")
            text = say("the generator was the bottleneck in some trials of {treatments}", treatments=limited)
        else:
            text = f"{say(kind)}: {meaning(kind, say)}"
        yield f"{sign(kind)} {text}"


def gate_conclusion(comparison: Comparison, say: Language = ENGLISH) -> str:
    """Return the conclusion of the gate, its power and, on a pass, how large a regression it may have missed.

    Empty without a gate."""
    if comparison.margins is None:
        return ""
    margin, tests = margins_text(comparison.judged_margins, say), say.count(comparison.n_judged, "test")
    if n_regressions := len(comparison.regressions):
        parts = [
            say(
                "Gate: {regressions} of more than {margin} ({tests}; at most one gate in {n} fails by chance).",
                regressions=say.count(n_regressions, "regression"),
                margin=margin,
                tests=tests,
                n=f"{1 / comparison.alpha:.3g}",
            )
        ]
    else:
        passed = N_("Gate: no regression of more than {margin} was found ({tests}).")
        if comparison.n_judged:
            passed = N_(
                "Gate: no regression of more than {margin} was found ({tests}; smaller or noisier regressions may have "
                "been missed)."
            )
        parts = [say(passed, margin=margin, tests=tests), _largest_missed(comparison, say)]
    parts.append(_power(comparison, say))
    if unjudged := len(comparison.not_judged):
        parts.append(say("Not judged: {cells}, for the reasons above.", cells=say.count(unjudged, "cell")))
    return " ".join(filter(None, parts))


def _power(comparison: Comparison, say: Language) -> str:
    """Return how large a loss this gate finds in the noisiest and in the median cell; empty without judged cells."""
    if not (cells := comparison.sensitivity):
        return ""
    noisiest, middle = cells[-1], cells[(len(cells) - 1) // 2]
    if len(cells) == 1:
        text = N_("With {power} power, it could have seen a loss of {loss} or more in its cell.")
        if noisiest.least_found == math.inf:
            text = N_("In its cell, it could have missed a loss of any size.")
    elif noisiest.least_found < math.inf:
        text = N_(
            "With {power} power, it could have seen a loss of {loss} or more in any one cell ({metric} of "
            "{treatment}), and one of {median} in the median cell."
        )
    elif middle.least_found < math.inf:
        text = N_(
            "In the noisiest cell ({metric} of {treatment}), it could have missed a loss of any size, and with {power} "
            "power, one of {median} in the median cell."
        )
    else:
        text = N_("In the noisiest cell ({metric} of {treatment}), it could have missed a loss of any size.")
    return say(
        text,
        power=percent(POWER, say),
        loss=percent(noisiest.least_found, say, digits=2),
        metric=noisiest.metric.name,
        treatment=label(noisiest, say),
        median=percent(middle.least_found, say, digits=2),
    )


def _largest_missed(comparison: Comparison, say: Language) -> str:
    """Return the largest regression that some interval still allows; empty if no cell was judged."""
    if comparison.most_allowed is None:
        return ""
    loss, cell = comparison.most_allowed
    allowed = N_("The intervals allow one of up to {loss}: {metric} of {treatment}.")
    if loss == math.inf:
        allowed = N_("The intervals allow one of any size: {metric} of {treatment}.")
    return say(allowed, loss=percent(loss, say, digits=2), metric=cell.metric.name, treatment=label(cell, say))
