"""The section on the statistics of each metric: sentences and tables. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from lastro.analysis.model import MetricAnalysis
from lastro.builders.content import Content
from lastro.builders.stat_tables import effects_table, interaction_table, tables_behind
from lastro.builders.statistics_words import metric_summary, noise_floor_sentence, statistics_sentences
from lastro.builders.tables import captioned
from lastro.document import Block, Fold, Heading, Paragraph, Span, Table
from lastro.words.campaign import HOW_TO_READ
from lastro.words.language import Language


def statistics_blocks(content: Content, *, effects: bool = False) -> Iterator[Block]:
    """Yield the statistics of each metric, folded.

    With `effects`, they begin with the tables of effects and interactions, which a report has in a section of their
    own."""
    say = content.say
    yield Heading(say("The statistics behind it"), "statistics", say("Statistics"))
    yield Paragraph(say(HOW_TO_READ), dim=True)
    yield Paragraph(noise_floor_sentence(content.analysis, say))
    for metric in content.analysis.metrics:
        shown = [*(_effects(metric, say) if effects else ()), *tables_behind(metric, say)]
        tables = (captioned(table, content.report, say) for table in shown)
        blocks = (table if table else Paragraph(table.note, dim=True) for table in tables)
        body = (Paragraph(" ".join(statistics_sentences(metric, say))), *blocks)
        summary = (Span(metric.metric.name, "strong"), Span(f": {metric_summary(metric, say)}"))
        yield Fold(summary, tuple(filter(None, body)))


def _effects(metric: MetricAnalysis, say: Language) -> Iterator[Table]:
    if table := effects_table(metric, say):
        yield table
    yield from (interaction_table(metric, interaction, say) for interaction in metric.interactions)
