"""The document on the results of a campaign in its short form, for a comment on a pull request.

It holds the answer with its caveats, one table of ratios, and what is missing."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from lastro import papers
from lastro.analysis.campaign import CampaignResults
from lastro.analysis.decision import decision_of
from lastro.builders.content import Content
from lastro.builders.decision import decision_section, short_answer
from lastro.builders.results import notices
from lastro.builders.tables import ratios_table
from lastro.document import Block, CommandLine, Figure, Figures, Items, Paragraph, Title, section
from lastro.plain import plain
from lastro.stats.notes import N_
from lastro.words import campaign as words
from lastro.words.absences import ALONE, NOT_RUN, lacks_spread
from lastro.words.language import Language
from lastro.words.numbers import GEOMETRIC, UNDECIDED, WIDEST, is_undecided, percent
from lastro.words.opening import opening
from lastro.words.reasons import grouped
from lastro.words.remarks import short

_MOST_PLACES = 300  # characters of the directories in a command; a longer list is replaced by DIR
_LEGEND = N_(
    "Each cell is the ratio to the baseline ({baseline}; other factors equal) with its {confidence} interval: "
    "▲ better, ▼ worse, ↑ higher, ↓ lower, ≈ not distinguishable. Intervals and marks are corrected for the number of "
    "ratios of the metric."
)
_MEANS = N_("Cells without a ratio have the mean ± half the width of its {confidence} interval over n valid trials.")
_REST = N_("The whole report, with the statistics, the provenance and the commands that repeat it:")


def short_results_blocks(content: Content, links: Mapping[str, str]) -> Iterator[Block]:
    """Yield the short form of the results. `links` are {title: address} of the figures that were written to files."""
    report, say = content.report, content.say
    decision = decision_of(report)
    sentences = opening(report, say, content.analysis, short_answer(decision, say))
    yield Title(report.study.title or report.study.name, sentences, words.summary(report, say))
    yield from notices(say, unfinished=not report.progress.finished)
    yield from decision_section(decision, say, papers.recommended_by(report.study.name))
    if content.claims_tally:
        yield Paragraph(f"{say('Claims')}: {content.claims_tally}")
    yield from section(
        say("Figures"), Figures(tuple(Figure(title, address=address) for title, address in links.items()))
    )
    if table := ratios_table(content):
        title, marks = words.titled(say("Results"), words.place(report, say)), report.kinds_of_marks
        legend = Items(tuple(f"{short(kind, say)}." for kind in marks))
        yield from section(title, Paragraph(" ".join(_legend(content))), legend, table)
    yield from section(say("What is missing, and why"), *_missing(report, say))
    yield CommandLine(say(_REST).removesuffix(":"), _command_for_all(report, say))


def _legend(content: Content) -> Iterator[str]:
    report, say = content.report, content.say
    confidence = percent(report.study.design.confidence, say)
    if baseline := report.study.design.baseline:
        named = ", ".join(f"{name} = {level}" for name, level in baseline.items())
        yield say(_LEGEND, baseline=named, confidence=confidence)
    yield say(_MEANS, confidence=confidence)
    cells = [cell for row in report.rows for cell in row.cells]
    if any(row.status == "pending" for row in report.rows):
        yield say(NOT_RUN)
    if any(map(lacks_spread, cells)):
        yield say(ALONE)
    if any(cell.ratio and is_undecided(cell.ratio) for cell in cells):
        yield say(UNDECIDED, widest=WIDEST)
    if report.on_logs:
        yield f"{', '.join(report.on_logs)}: {say(GEOMETRIC)}."


def _missing(report: CampaignResults, say: Language) -> Iterator[Block]:
    """Yield why treatments cannot run here and why attempts were invalid, with the treatments or trials concerned."""
    gaps = [
        f"{gap.where or say.count(len(gap.treatments), 'treatment')}: {gap.reason}"
        + (f" {say('Remedy: {remedy}', remedy=gap.remedy)}" if gap.remedy else "")
        for gap in report.gaps
    ]
    reasons = grouped((reason, attempt.trial) for attempt in report.invalid_attempts for reason in attempt.reasons)
    largest_first = sorted(((reason, len(set(trials))) for reason, trials in reasons), key=lambda group: -group[1])
    invalid = [f"{reason} ({say.count(n, 'trial')})" for reason, n in largest_first]
    if not (gaps or invalid) and report.progress.finished:
        yield Paragraph(say(words.NOTHING_MISSING))
    yield Items(tuple(gaps), title=say("Unavailable on this host"))
    yield Items(tuple(invalid), title=say("Invalid attempts"))
    if not report.progress.finished:
        yield Paragraph(words.not_run_yet(report, say))


def _command_for_all(report: CampaignResults, say: Language) -> str:
    """Return the command line that writes the whole report as Markdown."""
    is_merged = report.members and not report.of_fleet
    directories = [member.directory for member in report.members] if is_merged else [report.directory]
    places = shlex.join(map(plain, directories))
    language = [] if say.code == "en" else ["--lang", say.code]
    output = ["-o", "report.md"] if is_merged else []
    options = shlex.join(["--format", "md", "--full", *language, *output])
    return f"lastro report {places if len(places) <= _MOST_PLACES else 'DIR'} {options}"
