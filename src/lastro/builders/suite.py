"""The document on a suite: a few sentences and a key figure for each study, a table of all claims, what is missing.

It links to the report of each study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lastro import document as doc
from lastro import papers
from lastro.analysis.decision import decision_of
from lastro.analysis.suite_decision import suite_decision_of
from lastro.builders.conditions import gap_notes
from lastro.builders.content import Content, notices, tiles_of
from lastro.builders.decision import short_answer
from lastro.builders.page_figures import planned_figures, svgs_of
from lastro.builders.stat_tables import claims_table
from lastro.builders.suite_decision import suite_decision_section
from lastro.words import campaign as words
from lastro.words.claims import explanation, tally_text
from lastro.words.language import Language
from lastro.words.opening import opening


@dataclass(frozen=True, slots=True)
class StoppedStudy:
    """The reason why a study of a suite did not run to its end; `midway` is true if it started."""

    reason: str
    remedy: str | None
    midway: bool


@dataclass(frozen=True, slots=True)
class StudySection:
    """A study of a suite."""

    name: str
    title: str
    content: Content | None  # content of the study's report; None before it has a campaign
    stopped: StoppedStudy | None
    unjudged: bool  # whether the study has claims, but no campaign to judge them by
    link: str  # address of the study's report, relative to the page


def suite_blocks(
    title: str, description: str, sections: Sequence[StudySection], say: Language, source: str = ""
) -> Iterator[doc.Block]:
    """Yield the document on a suite: the tally of claims, the best platform, a section per study, what is missing.

    `source` is the name of a built-in suite, or any other text."""
    contents = [section.content for section in sections if section.content]
    judged = [judgement for content in contents for judgement in content.judgements]
    reports = [content.report for content in contents]
    tiles = ((say.integer(len(sections)), say("studies"), ""), *tiles_of(reports, say))
    yield doc.Title(title, (tally_text(judged, say),) if judged else (), description, say("Lastro report"), tiles)
    unfinished = any(section.content is None or not section.content.report.progress.finished for section in sections)
    yield from notices(say, unfinished=unfinished)
    decision = suite_decision_of({section.name: section.content.report for section in sections if section.content})
    yield from suite_decision_section(decision, papers.recommended(source), say)
    for section in sections:
        yield from _study(section, say)
    unjudged = [section.name for section in sections if section.unjudged]
    if judged or unjudged:
        yield doc.Heading(say("Claims"), "claims")
        if judged:
            yield _claims(sections, say)
        for name in unjudged:
            yield doc.Paragraph(say("Study {study} has not started: its claims are not judged.", study=name))
    yield doc.Heading(say("What is missing, and why"), "missing", say("Missing"))
    named = [(section.name, gap) for section in sections if section.content for gap in section.content.report.gaps]
    gaps = tuple(gap_notes(named, say))
    yield doc.Notes("", gaps)
    invalid = sum(report.progress.n_invalid_attempts for report in reports)
    if invalid:
        attempts = say.count(invalid, "attempt")
        yield doc.Paragraph(f"{say('{attempts} judged invalid and set aside', attempts=attempts)}.")
    if unfinished:
        yield doc.Paragraph(say("Trials that have not run yet are missing too."))
    elif not gaps and not invalid:
        yield doc.Paragraph(say(words.NOTHING_MISSING))


def study_head(section: StudySection, say: Language, *, begun: bool, title: str = "") -> Iterator[doc.Block]:
    """Yield the heading of a study, and why it did not run to its end or has not started."""
    yield doc.Heading(f"{section.name}: {title}" if title else section.name, f"study-{section.name}", section.name)
    if stopped := section.stopped:
        yield doc.Items((stopped.reason,), tag=say("ended by an error") if stopped.midway else say("could not run"))
        if stopped.remedy:
            yield doc.Paragraph(say("Remedy: {remedy}", remedy=stopped.remedy), dim=True)
    if not begun:
        yield doc.Paragraph(say("It has not started."))


def _study(section: StudySection, say: Language) -> Iterator[doc.Block]:
    content = section.content
    yield from study_head(section, say, begun=content is not None, title=section.title)
    if content is None:
        return
    answer = short_answer(decision_of(content.report), say)
    yield from map(doc.Paragraph, opening(content.report, say, content.analysis, answer))
    views, plans = content.report.views, planned_figures(content)
    measured = (plan for plan in plans if plan.metric is not None and views[plan.metric].n_blocks)
    first = next((doc.Figure(plan.title, svgs) for plan in measured if (svgs := svgs_of(plan))), None)
    yield doc.Figures((first,) if first else ())
    if content.judgements:
        yield doc.Paragraph(tally_text(content.judgements, say))
    yield doc.Paragraph(words.summary(content.report, say), dim=True)
    yield doc.Paragraph((doc.Span(say("The whole report of this study"), link=section.link),))


def _claims(sections: Sequence[StudySection], say: Language) -> doc.Table:
    judged = [(section.name, section.content) for section in sections if section.content and section.content.judgements]
    tables = [(name, claims_table(content.judgements, "", say)) for name, content in judged]
    first = tables[0][1]
    notes = (
        explanation(next(section.content.report for section in sections if section.content), say),
        say("The claims of each study are a separate family."),
    )
    title = words.title_with_place(first.title, words.place_of([content.report.guest for _, content in judged], say))
    columns = (say("study"), *first.columns)
    rows = tuple((name, *row) for name, table in tables for row in table.rows)
    right, long = (frozenset(column + 1 for column in indices) for indices in (first.right, first.long))
    return doc.Table(first.name, title, columns, rows, right, long, " ".join(notes), whole=True)
