"""The text that all forms of a comparison of two campaigns share: differences, and what was not compared. Pure.

It is in English only."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from lastro.analysis.campaign import Report
from lastro.analysis.compare import RANDOMIZATION
from lastro.analysis.comparison import Absent, Compared, Comparison, OneSided, Side
from lastro.report.language import ENGLISH
from lastro.report.numbers import STATUS_WORDS, count, percent
from lastro.report.remark_words import meaning, sign
from lastro.report.words import of_guest, waiting
from lastro.results.samples import GENERATOR_LIMITED
from lastro.units import human_duration

_NONE = {"provenance": "not recorded", "profile": "none", "setting": "not set", "design": ""}
_FARTHER = 2.0  # times as far apart as the campaigns that show the spread: worth a mention
_MOST_CHARACTERS = 40  # of a fact of provenance, after what A and B have in common
_MOST_FACTS = 4  # of one chapter, with their values


def label(cell: Compared) -> str:
    """Return the levels of a treatment: 'native · cgroups'."""
    return " · ".join(str(level) for _, level in cell.levels) or "the treatment"


def not_compared(cell: Compared) -> str | None:
    """Return why a cell has no test; None if it has one."""
    return "; ".join(f"{each.side}: {_why_absent(each)}" for each in cell.absent) or cell.no_test or None


def _why_absent(absent: Absent) -> str:
    row, cell = absent.row, absent.cell
    if cell.bounded:
        return f"only a lower bound in {cell.bounded} of {count(len(cell.points), 'trial')}"
    if row.status == "unavailable" and row.reason:
        return f"unavailable: {row.reason}"
    return "not measured" if row.n_valid else STATUS_WORDS[row.status]


def why_only(found: OneSided) -> str:
    """Return why the other campaign lacks these treatments."""
    other = "B" if found.only_in == "A" else "A"
    lacking = ", ".join(f"{name} = {level}" for name, level in found.lacking)
    return f"{other} has no {lacking}" if lacking else f"{other}'s study excludes this combination"


def differences(comparison: Comparison) -> Iterator[tuple[str, str, str]]:
    """Yield (what, value in A, value in B)."""
    for kind, what, *values in comparison.differences:
        a, b = (_NONE[kind] if value is None else value for value in values)
        yield what, a, b


def difference_lines(comparison: Comparison) -> Iterator[str]:
    """Yield what differs, for readers: of long values, where they differ; of a long chapter, only the names."""
    chapters: dict[str, list[str]] = {}
    for _, what, *_ in comparison.differences:
        chapters.setdefault(what.rpartition(".")[0], []).append(what)
    for what, in_a, in_b in differences(comparison):
        chapter = what.rpartition(".")[0]
        if not chapter or len(chapters[chapter]) <= _MOST_FACTS:
            a, b = _where_apart(in_a, in_b)
            yield f"{what}: A {a}, B {b}"
        elif chapters[chapter][0] == what:
            names = ", ".join(name.rpartition(".")[2] for name in chapters[chapter])
            yield f"{chapter}, {count(len(chapters[chapter]), 'fact')}: {names} (values: --json)"


def _where_apart(a: str, b: str) -> tuple[str, str]:
    """Shorten two long texts to the words in which they differ."""
    if max(len(a), len(b)) <= _MOST_CHARACTERS:
        return a, b
    words_a, words_b = a.split(), b.split()
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(words_a, words_b, strict=False))
    same = len(list(pairs))
    shown = [" ".join((["…"] if same else []) + words[same:]) for words in (words_a, words_b)]
    return tuple(f"{text[:_MOST_CHARACTERS]}…" if len(text) > _MOST_CHARACTERS else text for text in shown)  # type: ignore[return-value]


def changed_host_text(comparison: Comparison) -> str:
    """Say in which facts the hosts differ although they must not; empty if they do not, or may."""
    found = comparison.changed_host
    if not found:
        return ""
    named = ", ".join(each.what for each in found[:_MOST_FACTS])
    return f"the hosts differ in {count(len(found), 'fact')} ({named}{', …' if len(found) > _MOST_FACTS else ''})"


def between_notes(comparison: Comparison) -> Iterator[str]:
    """Yield whether intervals and tests contain the differences between equal campaigns, and what to do if not."""
    found = comparison.between
    if found is None:
        yield (
            "WARNING: how much two campaigns of the same thing differ on this host is not known, so no interval or p "
            "contains it. A shift of the whole host between A and B looks like a difference of every treatment. "
            f"Measure it with `lastro noise-floor {comparison.a.directory} --campaigns 5`, or compare within one "
            "campaign: as levels of one factor, both run in the same blocks."
        )
        return
    if found.spreads:
        sizes = ", ".join(f"{name} {percent(each.spread)}" for name, each in found.spreads.items())
        yield (
            f"Intervals and p contain the spread between {found.campaigns} campaigns in which nothing changed "
            f"(standard deviation: {sizes})."
        )
    if comparison.without_spread:
        names = ", ".join(metric.name for metric in comparison.without_spread)
        yield f"WARNING: the spread between equal campaigns is not known for {names}: no interval or p contains it."
    apart_s = comparison.apart_s
    if apart_s is not None and apart_s > _FARTHER * found.span_s:
        yield (
            f"A and B began {human_duration(apart_s)} apart, those campaigns within {human_duration(found.span_s)}: "
            "the spread may be larger over the longer time."
        )


def guest_notes(comparison: Comparison) -> Iterator[str]:
    """Yield which campaigns are of guests, and whether the campaigns ran on different kinds of machines."""
    apart = {each.what for each in comparison.differences if each.kind == "provenance"}
    if len({report.guest for _, report in comparison.sides}) > 1 or RANDOMIZATION in apart:
        yield (
            "WARNING: A and B ran on different kinds of machines, at least one of them a guest: a ratio B / A compares "
            "these machines, not what the study varies."
        )
    yield from _by_side((of_guest(report.guest, ENGLISH), side) for side, report in comparison.sides)


def notes(comparison: Comparison) -> Iterator[str]:
    """Yield caveats on the campaigns, each once, and the metrics that only one of them has."""
    yield from guest_notes(comparison)
    for side, report in comparison.sides:
        if not report.progress.finished:
            left = f"{waiting(report):,} of {report.progress.n_trials:,}"
            yield f"{side} is unfinished: {left} trials have not run"
    yield from _by_side((_marks_on(report), side) for side, report in comparison.sides)
    if dependent := comparison.dependent:
        metrics: dict[str, list[str]] = {}
        for side, metric in dependent:
            metrics.setdefault(metric.name, []).append(side)
        where = ", ".join(f"{metric} in {' and '.join(sides)}" for metric, sides in metrics.items())
        yield (
            f"Trials that are close in time are correlated ({where}): intervals and tests take the variance of a mean "
            f"to be up to {max(dependent.values()):.1f} times that of independent trials"
        )
    own_a, own_b = ({metric.name for metric in report.study.metrics} for _, report in comparison.sides)
    for side, alone in (("A", own_a - own_b), ("B", own_b - own_a)):
        if alone:
            yield f"metrics only in {side}'s study: {', '.join(sorted(alone))}"


def _marks_on(report: Report) -> Iterator[str]:
    """Yield what the marks on the numbers of one campaign mean, each after the sign that the table has."""
    for kind in report.kinds_of_marks:
        if kind == GENERATOR_LIMITED:
            limited = count(report.n_limited, "treatment")
            yield f"{sign(kind)} the generator was the bottleneck in some trials of {limited}"
        else:
            yield f"{sign(kind)} {kind}: {meaning(kind, ENGLISH)}"


def _by_side(found: Iterable[tuple[Iterable[str], Side]]) -> Iterator[str]:
    """Yield each note once, after the campaigns that it is on."""
    sides: dict[str, list[str]] = {}
    for notes, side in found:
        for note in notes:
            sides.setdefault(note, []).append(side)
    yield from (f"{' and '.join(those)}: {note}" for note, those in sides.items())
