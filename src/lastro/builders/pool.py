"""The document on a study that several hosts measured. Pure but for what draws its claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from lastro.analysis.pooled import PooledStudy
from lastro.builders.pool_tables import (
    apart_table,
    hosts_effects_table,
    hosts_table,
    means_table,
    notes,
    opening,
    pooled_claims_table,
    warnings,
)
from lastro.document import Block, Figures, Fold, Items, Table, Title
from lastro.words.campaign import titled
from lastro.words.language import Language
from lastro.words.pool import place


def pool_blocks(found: PooledStudy, say: Language, figures: Mapping[str, str] | None = None) -> Iterator[Block]:
    """Yield the answer, the hosts, the tables of each metric, the claims and the notes.

    The ratios on each host are folded, unless there is nothing else. `figures` are links to figures that were written,
    {alternative text: address}."""
    yield Title(found.study.title or found.study.name, tuple(opening(found, say)))
    yield Items(tuple(warnings(found, say)))
    yield Figures(tuple((figures or {}).items()))
    measured = place(found, say)
    for table, folded in _tables(found, say):
        title = titled(table.title, measured)
        yield Fold(title, (replace(table, title=""),)) if folded else replace(table, title=title)
    yield Items(tuple(notes(found, say)))


def _tables(found: PooledStudy, say: Language) -> Iterator[tuple[Table, bool]]:
    """Yield the tables that have rows, and whether they are folded."""
    yield hosts_table(found, say), False
    for metric in found.metrics:
        own = [table for table in (means_table(found, metric, say), apart_table(found, metric, say)) if table]
        yield from ((table, False) for table in own)
        if each := hosts_effects_table(found, metric, say):
            yield each, bool(own)
    if found.claims:
        yield pooled_claims_table(found.claims, say), False
