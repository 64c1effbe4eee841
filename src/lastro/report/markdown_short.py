"""The short form of the report as Markdown, for a comment on a pull request, which GitHub limits to 64 KiB.

It holds the answer with its caveats, one table of ratios, and what is missing. However large a campaign is, and however
long its texts, the form stays within `LIMIT`: what does not fit is counted."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from lastro.analysis.campaign import Report
from lastro.plain import plain
from lastro.render.fitting import LIMIT, cut, fitting, size, table_within
from lastro.render.markdown import code, escape, images, section
from lastro.report import words
from lastro.report.absences import ALONE, NOT_RUN, is_alone
from lastro.report.caveats import caveats
from lastro.report.content import Content
from lastro.report.key_findings import key_findings
from lastro.report.language import Language
from lastro.report.markdown import unfinished
from lastro.report.numbers import GEOMETRIC, UNDECIDED, WIDEST, is_undecided
from lastro.report.opening import warnings
from lastro.report.reasons import grouped
from lastro.report.remark_words import short
from lastro.report.tables import ratios_table
from lastro.stats.notes import N_

_HERE = 300  # characters of the directories in a command; longer ones are left to the reader
_LEGEND = N_(
    "Each cell is the ratio to the baseline ({baseline}; other factors equal) with its {confidence} interval: "
    "▲ better, ▼ worse, ↑ higher, ↓ lower, ≈ not distinguishable. Intervals and marks are corrected for the number of "
    "ratios of the metric."
)
_MEANS = N_("Cells without a ratio have the mean ± half the width of its {confidence} interval over n valid trials.")
_REST = N_("The whole report, with the statistics, the provenance and the commands that repeat it:")


def render_short(content: Content, figures: Mapping[str, str] | None = None) -> str:
    """Return the short form. `figures` are links to figures that were written, {alternative text: address}."""
    report, say = content.report, content.say
    above = list(_above(content, figures or {}))
    below = [
        *section(say("What is missing, and why"), *_missing(report, say)),
        escape(say(_REST)),
        code(_whole(report, say), "sh"),
    ]
    room = LIMIT - size("\n\n".join((*above, *below)))
    return "\n\n".join((*above, *_ratios(content, room), *below)) + "\n"


def _above(content: Content, figures: Mapping[str, str]) -> Iterator[str]:
    report, say = content.report, content.say
    yield f"# {cut(report.study.title or report.study.name)}"
    yield from fitting([f"**{cut(text)}**" for text in warnings(report, say)], say)
    yield from (f"**{cut(text)}**" for text in (*key_findings(report, say), *caveats(report, say)))
    yield cut(words.summary(report, say))
    if say.code != "en":
        yield f"*{escape(say(words.AS_WRITTEN))}*"
    yield from unfinished(report, say)
    if content.claims_tally:
        yield f"{escape(say('Claims'))}: {cut(content.claims_tally)}"
    yield from section(say("Figures"), *fitting(list(images(figures)), say))


def _ratios(content: Content, room: int) -> Iterator[str]:
    """Yield the table, with as many rows as fit into `room` bytes, below what its cells are."""
    report, say = content.report, content.say
    if table := ratios_table(content):
        title, legend = words.titled(say("Results"), words.place(report, say)), " ".join(_legend(content))
        room -= size(title + legend) + 10
        yield from section(title, legend, *table_within(table, room, say, "lastro report --format md --full"))


def _legend(content: Content) -> Iterator[str]:
    report, say = content.report, content.say
    confidence = words.percent(report.study.design.confidence)
    if baseline := report.study.design.baseline:
        named = ", ".join(f"{name} = {level}" for name, level in baseline.items())
        yield cut(say(_LEGEND, baseline=named, confidence=confidence))
    yield escape(say(_MEANS, confidence=confidence))
    cells = [cell for row in report.rows for cell in row.cells]
    if any(row.status == "pending" for row in report.rows):
        yield escape(say(NOT_RUN))
    if any(map(is_alone, cells)):
        yield escape(say(ALONE))
    if any(cell.ratio and is_undecided(cell.ratio) for cell in cells):
        yield escape(say(UNDECIDED, widest=WIDEST))
    if report.on_logs:
        yield cut(f"{', '.join(report.on_logs)}: {say(GEOMETRIC)}.")
    yield from fitting([f"{cut(short(kind, say))}." for kind in report.kinds_of_marks], say)


def _missing(report: Report, say: Language) -> Iterator[str]:
    """Yield what cannot run here and what was invalid, each reason once with its number of treatments or trials."""
    gaps = [
        f"{gap.where or say.count(len(gap.treatments), 'treatment')}: {gap.reason}"
        + (f" {say('Remedy: {remedy}', remedy=gap.remedy)}" if gap.remedy else "")
        for gap in report.gaps
    ]
    found = grouped((reason, attempt.trial) for attempt in report.invalid_attempts for reason in attempt.reasons)
    largest_first = sorted(((reason, len(set(trials))) for reason, trials in found), key=lambda each: -each[1])
    invalid = [f"{reason} ({say.count(n, 'trial')})" for reason, n in largest_first]
    if not (gaps or invalid) and report.progress.finished:
        yield escape(say(words.NOTHING_MISSING))
    for title, items in ((say("Unavailable on this host"), gaps), (say("Invalid attempts"), invalid)):
        if items:
            yield f"**{escape(title)}**"
            yield "\n".join(fitting([f"- {cut(item)}" for item in items], say, "- "))
    if not report.progress.finished:
        yield escape(words.not_run_yet(report, say))


def _whole(report: Report, say: Language) -> str:
    """Return the command that writes the whole report."""
    several = report.members and not report.of_fleet
    places = [member.directory for member in report.members] if several else [report.directory]
    here = shlex.join(map(plain, places))
    language = [] if say.code == "en" else ["--lang", say.code]
    output = ["-o", "report.md"] if several else []
    options = shlex.join(["--format", "md", "--full", *language, *output])
    return f"lastro report {here if len(here) <= _HERE else 'DIR'} {options}"
