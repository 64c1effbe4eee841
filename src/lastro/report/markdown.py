"""The whole report as Markdown, for a wiki or a bundle: the content of the HTML page, with plain tables.

All text from a study or a trial is escaped, so that none of it becomes markup, a link or a mention."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lastro.analysis.campaign import Report
from lastro.analysis.model import MetricAnalysis
from lastro.analysis.scaling import scalings
from lastro.document import Table
from lastro.render.markdown import bullets, code, escape, fold, images, section, table_text
from lastro.report import words
from lastro.report.content import Content
from lastro.report.language import Language
from lastro.report.opening import opening
from lastro.report.published_tables import INTRODUCTION, published_tables
from lastro.report.search_tables import tables_of
from lastro.report.stat_tables import (
    claims_table,
    effects_table,
    interaction_table,
    tables_behind,
)
from lastro.report.statistics_words import (
    check_sentences,
    metric_summary,
    noise_floor_sentence,
    statistics_sentences,
    time_sentences,
)
from lastro.report.tables import (
    captioned,
    curve_tables,
    doses_table,
    gaps_table,
    growth_tables,
    invalid_table,
    property_table,
    really_table,
    remarks_table,
    results_table,
    scaling_table,
)


def render_markdown(content: Content, figures: Mapping[str, str] | None = None) -> str:
    """Return the document. `figures` are links to figures that were written, {alternative text: address}."""
    return "\n\n".join(_parts(content, figures or {})) + "\n"


def _parts(content: Content, figures: Mapping[str, str]) -> Iterator[str]:
    report, say = content.report, content.say
    yield f"# {escape(report.study.title or report.study.name)}"
    yield from (f"**{escape(sentence)}**" for sentence in opening(report, say))
    yield escape(words.summary(report, say))
    if say.code != "en":
        yield f"*{escape(say(words.AS_WRITTEN))}*"
    yield from unfinished(report, say)
    yield from section(say("Figures"), *images(figures))
    yield from _statistics(content)
    yield from section(say("What is missing, and why"), *_missing(report, say))
    over_time = [
        text for each in content.analysis.metrics for text in time_sentences(each, content.analysis.alpha, say)
    ]
    yield from section(say("Time course"), bullets(over_time))
    yield from section(say("Resources"), *_resources(report, say))
    yield from section(say("Residual differences"), *_residuals(report, say))
    yield from section(say("Provenance"), fold(say("Provenance"), bullets(_facts(report.provenance))))
    yield from section(say("How to repeat it"), *_commands(report, say))
    yield from section(say("Limitations"), bullets(words.limitations(report, say)))


def unfinished(report: Report, say: Language) -> Iterator[str]:
    """Yield that trials are left to run, and how to continue; nothing for a finished campaign."""
    if not report.progress.finished:
        yield f"**{escape(say('unfinished'))}** {escape(say(words.CONTINUE))} `lastro resume`"


def _statistics(content: Content) -> Iterator[str]:
    """Yield curves, effects, interactions, claims and results, then the statistics behind them."""
    report, metrics, say = content.report, content.analysis.metrics, content.say

    def texts(tables: Iterable[Table]) -> list[str]:
        return [_table(table, report, say) for table in tables if table]

    yield from section(say("How metrics vary with numeric factors"), *texts(curve_tables(report, say).values()))
    yield from section(say("What each factor does"), *texts(effects_table(metric, say) for metric in metrics))
    found = (interaction_table(metric, one, say) for metric in metrics for one in metric.interactions)
    yield from section(say("Where effects depend on each other"), *texts(found))
    yield from section(
        say("Claims"),
        escape(content.claims_tally),
        *texts([claims_table(content.judgements, content.claims_note, say)]),
    )
    if content.published:
        tables = texts(published_tables(content.published, report.study.design.confidence, say))
        yield from section(say("As published"), escape(say(INTRODUCTION)), *tables)
    results = (results_table(content, view) for view in report.views)
    yield from section(say("Results"), *texts(results), *texts(tables_of(report, say)))
    yield from section(say("What was really measured"), *_really(report, say))
    yield from section(
        say("The statistics behind it"),
        escape(noise_floor_sentence(content.analysis, say)),
        *(part for metric in metrics for part in _behind(metric, content.analysis.alpha, report, say)),
    )
    lines = (scaling_table(report, scaling, say) for scaling in scalings(report))
    yield from section(say("Scaling"), *texts(lines), *texts(growth_tables(report, say)))


def _really(report: Report, say: Language) -> Iterator[str]:
    tables = (really_table(report, say), doses_table(report, say), remarks_table(report, say))
    if tables[0]:
        yield escape(say(words.REALLY))
    yield from (_table(table, report, say) for table in tables if table)


def _behind(metric: MetricAnalysis, alpha: float, report: Report, say: Language) -> Iterator[str]:
    tables = tables_behind(metric, say)
    body = [_table(table, report, say) if table else escape(table.note) for table in tables]
    body.insert(1, escape(" ".join(check_sentences(metric, say))))
    body.insert(0, escape(" ".join(statistics_sentences(metric, alpha, say))))
    yield fold(f"{metric.metric.name}: {metric_summary(metric, say)}", "\n\n".join(filter(None, body)))


def _missing(report: Report, say: Language) -> Iterator[str]:
    gaps, invalid = gaps_table(report, say), invalid_table(report, say)
    if not (gaps or invalid) and report.progress.finished:
        yield escape(say(words.NOTHING_MISSING))
    yield from (_table(table, report, say) for table in (gaps, invalid) if table)
    if not report.progress.finished:
        yield escape(words.not_run_yet(report, say))


def _resources(report: Report, say: Language) -> Iterator[str]:
    for name, title, table in words.resources(report, say):
        yield _table(property_table(name, title, table, say, ours=True), report, say)


def _residuals(report: Report, say: Language) -> Iterator[str]:
    if report.residuals:
        yield escape(say(words.RESIDUALS))
        yield table_text(property_table("residuals", "", report.residuals, say, ours=False), say)


def _facts(value: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the leaves of the provenance, each with its path: 'host.cpu.model: AMD EPYC 7B13'."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _facts(item, (*path, str(key)))
    elif path:
        text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        yield f"{'.'.join(path)}: {text}"


def _commands(report: Report, say: Language) -> Iterator[str]:
    for what, command in words.commands(report, say):
        yield f"{escape(what)}:"
        yield code(command, "sh")


def _table(table: Table, report: Report, say: Language) -> str:
    return table_text(captioned(table, report, say), say)
