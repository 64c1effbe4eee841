"""The section on the statistics of each metric: sentences and tables. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from lastro.builders.content import Content
from lastro.builders.stat_tables import tables_behind
from lastro.builders.statistics_words import metric_summary, noise_floor_sentence, statistics_sentences
from lastro.builders.tables import table_with_place
from lastro.document import Block, Fold, Heading, Paragraph, Span
from lastro.words.campaign import HOW_TO_READ


def statistics_blocks(content: Content) -> Iterator[Block]:
    """Yield the statistics of each metric, folded; effects and interactions have sections of their own."""
    say = content.say
    yield Heading(say("The statistics behind it"), "statistics", say("Statistics"))
    yield Paragraph(say(HOW_TO_READ), dim=True)
    yield Paragraph(noise_floor_sentence(content.analysis, say))
    for metric in content.analysis.metrics:
        tables = (table_with_place(table, content.report, say) for table in tables_behind(metric, say))
        blocks = (table if table else Paragraph(table.note, dim=True) for table in tables)
        body = (Paragraph(" ".join(statistics_sentences(metric, say))), *blocks)
        summary = (Span(metric.metric.name, "strong"), Span(f": {metric_summary(metric, say)}"))
        yield Fold(summary, tuple(filter(None, body)))
