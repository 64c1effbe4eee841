"""The document on a study that several hosts measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lastro.analysis.pooled_study import PooledStudy
from lastro.builders import pool_tables
from lastro.builders.page_figures import NO_FIGURES, PageFigures
from lastro.builders.page_head import notices
from lastro.document import Block, Figures, Fold, Heading, Items, Paragraph, Table, Title
from lastro.words.campaign import title_with_place
from lastro.words.language import Language
from lastro.words.pool import place


def pool_blocks(pooled: PooledStudy, say: Language, page_figures: PageFigures = NO_FIGURES) -> Iterator[Block]:
    """Yield the answer, the hosts, the tables and figures of each metric, the claims, and how to read the tables.

    The table of ratios on each host is folded, unless it is the only table of its metric."""
    title = pooled.study.title or pooled.study.name
    kicker = say("Lastro, over several hosts")
    measured = place(pooled, say)

    def captioned(table: Table) -> Table:
        return replace(table, title=title_with_place(table.title, measured), whole=True)

    yield Title(title, tuple(pool_tables.opening_sentences(pooled, say)), kicker=kicker)
    yield from notices(say, unfinished=False)
    yield Items(tuple(pool_tables.warnings(pooled, say)), tag=say("note"))
    hosts = pool_tables.hosts_table(pooled, say)
    yield Heading(title_with_place(hosts.title, measured), "hosts", hosts.title)
    yield replace(hosts, title="", whole=True)
    for at, metric in enumerate(pooled.metrics):
        pooled_tables = [
            captioned(table)
            for table in (pool_tables.means_table(pooled, metric, say), pool_tables.apart_table(pooled, metric, say))
            if table
        ]
        on_hosts = captioned(pool_tables.hosts_effects_table(pooled, metric, say))
        yield Heading(metric.name, f"metric-{at + 1}")
        yield Paragraph(metric.summary, dim=True)
        yield Figures(page_figures.of("forest", metric=at))
        yield from pooled_tables
        if on_hosts:
            yield Fold(on_hosts.title, (replace(on_hosts, title=""),)) if pooled_tables else on_hosts
    if pooled.claims:
        yield Heading(say("Claims"), "claims")
        yield captioned(pool_tables.pooled_claims_table(pooled.claims, say))
    yield Heading(say("How to read it"), "reading")
    yield Items(tuple(pool_tables.notes(pooled, say)))
