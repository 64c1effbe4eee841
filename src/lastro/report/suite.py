"""The HTML page of a suite: a few sentences and a key figure for each study, a table of all claims, what is missing.

It links to the report of each study, which has the details."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lastro import __version__
from lastro.builders import stat_tables
from lastro.builders.content import Content
from lastro.document import Table
from lastro.figures import FigurePlan, plans
from lastro.report.html import html_environment, plate
from lastro.words import campaign as words
from lastro.words.claims_text import explanation, tally_text
from lastro.words.language import Language
from lastro.words.opening import opening

_KEY_FIGURES = ("curve", "effects", "distribution")  # in order of preference


@dataclass(frozen=True, slots=True)
class StoppedStudy:
    """The reason why a study did not run. `midway` is true if it started but did not finish."""

    reason: str
    remedy: str | None
    midway: bool


@dataclass(frozen=True, slots=True)
class StudySection:
    """A study of a suite.

    `content` is the content of its report, or None before it has a campaign; `link` leads from the page to that report.
    `unjudged` is true if it has claims, but no campaign to judge them by."""

    name: str
    title: str
    content: Content | None
    stopped: StoppedStudy | None
    unjudged: bool
    link: str


def render_suite(title: str, description: str, directory: str, sections: Sequence[StudySection], say: Language) -> str:
    """Return the page as a string. The same reports give the same bytes."""
    context = {
        "say": say,
        "words": words,
        "version": __version__,
        "title": title,
        "description": description,
        "directory": directory,
        "tiles": _tiles(sections, say),
        "sections": [_section(section, say) for section in sections],
        "claims": _claims(sections, say),
        "tally": tally_text(
            [one for section in sections if section.content for one in section.content.judgements], say
        ),
        "unjudged": [
            say("Study {study} has not started: its claims are not judged.", study=section.name)
            for section in sections
            if section.unjudged
        ],
        "gaps": list(_gaps(sections)),
        "invalid": sum(section.content.report.progress.n_invalid_attempts for section in sections if section.content),
        "unfinished": any(f.content is None or not f.content.report.progress.finished for f in sections),
    }
    return html_environment().get_template("suite.html.j2").render(context)


def _tiles(sections: Sequence[StudySection], say: Language) -> list[tuple[str, str, str]]:
    """Return (number, words, CSS class) for each tile in the band under the title."""
    reports = [section.content.report for section in sections if section.content]
    states = (
        ("valid", say("valid trials")),
        ("invalid", say("invalid trials")),
        ("unavailable", say("trials unavailable here")),
    )
    tiles = [(len(sections), say("studies"), ""), (sum(len(report.rows) for report in reports), say("treatments"), "")]
    tiles += [(sum(report.progress.counts.get(state, 0) for report in reports), text, state) for state, text in states]
    if waiting := sum(words.waiting(report) for report in reports):
        tiles.append((waiting, say("trials not run yet"), "pending"))
    return [(say.integer(number), text, kind if number else "") for number, text, kind in tiles]


def _section(section: StudySection, say: Language) -> dict[str, Any]:
    content = section.content
    found: dict[str, Any] = {
        "name": section.name,
        "title": section.title,
        "link": section.link,
        "stopped": section.stopped,
    }
    if content is None:
        return {**found, "summary": "", "opening": (), "figure": None, "tally": ""}
    return {
        **found,
        "summary": words.summary(content.report, say),
        "opening": opening(content.report, say),
        "figure": _key_figure(content),
        "tally": tally_text(content.judgements, say) if content.judgements else "",
    }


def _key_figure(content: Content) -> dict[str, Any] | None:
    """Return the title and SVG of the most informative figure: one of the first measured metric."""
    found = [
        plan
        for plan in plans(content.report, content.analysis, content.say, content.judgements)
        if plan.metric is not None and content.report.views[plan.metric].n_blocks
    ]
    for kind in _KEY_FIGURES:
        for plan in (plan for plan in found if plan.kind == kind):
            if (drawn := _drawn(plan)) is not None:
                return drawn | {"title": words.titled(plan.title, words.place(content.report, content.say))}
    return None


def _drawn(plan: FigurePlan) -> dict[str, Any] | None:
    svg = plate(plan)
    return {"title": plan.title, "note": "", "svg": svg, "table": None} if svg else None


def _claims(sections: Sequence[StudySection], say: Language) -> Table | None:
    """Return one table with the claims of all studies, with a column for the study."""
    tables = [
        (section.name, stat_tables.claims_table(section.content.judgements, "", say))
        for section in sections
        if section.content and section.content.judgements
    ]
    if not tables:
        return None
    first = tables[0][1]
    judged = [f.content.report.guest for f in sections if f.content and f.content.judgements]
    notes = (
        explanation(next(f.content.report for f in sections if f.content), say),
        say("The claims of each study are a separate family."),
    )
    return Table(
        first.name,
        words.titled(first.title, words.place_of(judged, say)),
        (say("study"), *first.columns),
        tuple((name, *row) for name, table in tables for row in table.rows),
        frozenset(column + 1 for column in first.right),
        frozenset(column + 1 for column in first.long),
        " ".join(notes),
    )


def _gaps(sections: Sequence[StudySection]) -> Iterator[dict[str, Any]]:
    """Yield each reason for unavailability once, with the studies and levels that it affects."""
    where: dict[tuple[str, str | None], list[tuple[str, str, int]]] = {}
    for section in sections:
        for gap in section.content.report.gaps if section.content else ():
            where.setdefault((gap.reason, gap.remedy), []).append((section.name, gap.where, gap.n_trials))
    for (reason, remedy), places in where.items():
        yield {"reason": reason, "remedy": remedy, "places": places}
