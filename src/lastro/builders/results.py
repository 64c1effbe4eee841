"""The document on the results of a campaign: the content of its HTML page, with plain tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.model import MetricAnalysis
from lastro.analysis.scaling import scalings
from lastro.builders.content import Content
from lastro.builders.part_properties import part_tables
from lastro.builders.published_tables import INTRODUCTION, published_tables
from lastro.builders.search_tables import tables_of
from lastro.builders.stat_tables import (
    claims_table,
    effects_table,
    interaction_table,
    tables_behind,
)
from lastro.builders.statistics_words import (
    check_sentences,
    metric_summary,
    noise_floor_sentence,
    statistics_sentences,
    time_sentences,
)
from lastro.builders.tables import (
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
from lastro.document import Block, CommandLine, Figures, Fold, Items, Paragraph, Table, Title, section
from lastro.words import campaign as words
from lastro.words.language import Language
from lastro.words.opening import opening


def results_blocks(content: Content, figures: Mapping[str, str] | None = None) -> Iterator[Block]:
    """Yield the answer, the results, the statistics, what is missing, and how to repeat it.

    `figures` are links to figures that were written, {alternative text: address}."""
    report, metrics, say = content.report, content.analysis.metrics, content.say
    yield Title(report.study.title or report.study.name, opening(report, say))
    yield Paragraph(words.summary(report, say))
    yield from notices(report, say)
    yield from section(say("Figures"), Figures(tuple((figures or {}).items())))
    yield from _statistics(content)
    yield from section(say("What is missing, and why"), *_missing(report, say))
    over_time = tuple(text for each in metrics for text in time_sentences(each, content.analysis.alpha, say))
    yield from section(say("Time course"), Items(over_time))
    used = (property_table(name, title, table, say, ours=True) for name, title, table in words.resources(report, say))
    yield from section(say("Resources"), *_captioned(used, report, say))
    if report.residuals:
        table = property_table("residuals", "", report.residuals, say, ours=False)
        yield from section(say("Residual differences"), Paragraph(say(words.RESIDUALS)), table)
    facts = Items(tuple(_facts(report.provenance)))
    yield from section(say("Provenance"), Fold(say("Provenance"), (facts,)))
    commands = (CommandLine(what, line) for what, line in words.commands(report, say))
    yield from section(say("How to repeat it"), *commands)
    yield from section(say("Limitations"), Items(tuple(words.limitations(report, say))))


def notices(report: CampaignResults, say: Language) -> Iterator[Block]:
    """Yield what is not translated, and how an unfinished campaign continues."""
    if say.code != "en":
        yield Paragraph(say(words.AS_WRITTEN))
    if not report.progress.finished:
        yield CommandLine(say(words.CONTINUE).removesuffix(":"), "lastro resume")


def _statistics(content: Content) -> Iterator[Block]:
    """Yield curves, effects, interactions, claims and results, then the statistics behind them."""
    report, metrics, say = content.report, content.analysis.metrics, content.say

    def captioned(*tables: Table) -> Iterator[Table]:
        return _captioned(tables, report, say)

    yield from section(say("How metrics vary with numeric factors"), *captioned(*curve_tables(report, say).values()))
    yield from section(say("What each factor does"), *captioned(*(effects_table(metric, say) for metric in metrics)))
    found = (interaction_table(metric, one, say) for metric in metrics for one in metric.interactions)
    yield from section(say("Where effects depend on each other"), *captioned(*found))
    judged = claims_table(content.judgements, content.claims_note, say)
    yield from section(say("Claims"), Paragraph(content.claims_tally), *captioned(judged))
    if content.published:
        tables = captioned(*published_tables(content.published, report.study.design.confidence, say))
        yield from section(say("As published"), Paragraph(say(INTRODUCTION)), *tables)
    results = (results_table(content, view) for view in report.views)
    yield from section(say("Results"), *captioned(*results, *tables_of(report, say)))
    yield from section(say("What was really measured"), *_really(report, say))
    yield from section(
        say("The statistics behind it"),
        Paragraph(noise_floor_sentence(content.analysis, say)),
        *(_behind(metric, content.analysis.alpha, report, say) for metric in metrics),
    )
    lines = (scaling_table(report, scaling, say) for scaling in scalings(report))
    yield from section(say("Scaling"), *captioned(*lines, *growth_tables(report, say)))


def _captioned(tables: Iterable[Table], report: CampaignResults, say: Language) -> Iterator[Table]:
    return (captioned(table, report, say) for table in tables if table)


def _really(report: CampaignResults, say: Language) -> Iterator[Block]:
    parts = part_tables(report, say)
    tables = (really_table(report, say), *parts, doses_table(report, say), remarks_table(report, say))
    if tables[0]:
        yield Paragraph(say(words.REALLY))
    yield from _captioned(tables, report, say)


def _behind(metric: MetricAnalysis, alpha: float, report: CampaignResults, say: Language) -> Fold:
    tables = tables_behind(metric, say)
    body: list[Block] = [captioned(table, report, say) if table else Paragraph(table.note) for table in tables]
    body.insert(1, Paragraph(" ".join(check_sentences(metric, say))))
    body.insert(0, Paragraph(" ".join(statistics_sentences(metric, alpha, say))))
    return Fold(f"{metric.metric.name}: {metric_summary(metric, say)}", tuple(body))


def _missing(report: CampaignResults, say: Language) -> Iterator[Block]:
    gaps, invalid = gaps_table(report, say), invalid_table(report, say)
    if not (gaps or invalid) and report.progress.finished:
        yield Paragraph(say(words.NOTHING_MISSING))
    yield from _captioned((gaps, invalid), report, say)
    if not report.progress.finished:
        yield Paragraph(words.not_run_yet(report, say))


def _facts(value: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the leaves of the provenance, each with its path: 'host.cpu.model: AMD EPYC 7B13'."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _facts(item, (*path, str(key)))
    elif path:
        text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        yield f"{'.'.join(path)}: {text}"
