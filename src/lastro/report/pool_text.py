"""A study on several hosts as plain text for a terminal, and as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from lastro.analysis.pooled import PooledStudy
from lastro.document import Table
from lastro.plain import plain
from lastro.render.fitting import LIMIT, cut, fitting, size, tables_within
from lastro.render.markdown import bullets, escape, images, table_text
from lastro.report.language import Language
from lastro.report.pool_tables import (
    apart_table,
    hosts_effects_table,
    hosts_table,
    means_table,
    notes,
    opening,
    place,
    pooled_claims_table,
    warnings,
)
from lastro.report.words import titled


def terminal_lines(found: PooledStudy, width: int, say: Language, *, everything: bool = False) -> list[str]:
    """Return the answer, the hosts, and the tables of each metric; with `everything`, also the ratios on each host.

    Rows of a table that is wider than `width` cells become sentences."""
    lines = [line for sentence in opening(found, say) for line in _wrapped(sentence, width)]
    lines += ["", *_wrapped(found.study.title or found.study.name, width)]
    lines += [line for sentence in warnings(found, say) for line in _wrapped(sentence, width)]
    for table in tables(found, say, everything=everything):
        lines += ["", *_table(table, width)]
    return [*lines, "", *(line for sentence in notes(found, say) for line in _wrapped(sentence, width))]


def markdown(
    found: PooledStudy, say: Language, figures: Mapping[str, str] | None = None, *, everything: bool = False
) -> str:
    """Return the same for a pull request or a wiki; without `everything`, it fits into a comment on GitHub.

    `figures` are links to figures that were written, {alternative text: address}."""
    title, shown = found.study.title or found.study.name, list(tables(found, say, everything=True))
    if everything:
        parts = [f"# {escape(title)}", *(f"**{escape(sentence)}**" for sentence in opening(found, say))]
        parts += [bullets(warnings(found, say)), *images(figures or {}), *(table_text(table, say) for table in shown)]
        return "\n\n".join(filter(None, [*parts, bullets(notes(found, say))])) + "\n"
    above = [f"# {cut(title)}", *fitting([f"**{cut(sentence)}**" for sentence in opening(found, say)], say)]
    above += [_bullets(warnings(found, say), say), *fitting(list(images(figures or {})), say)]
    below = _bullets(notes(found, say), say)
    room = LIMIT - size("\n\n".join((*above, below)))
    first = list(tables(found, say, everything=False))  # those of each host are the first to be left out
    ordered = [*first, *(table for table in shown if table not in first)]
    middle = tables_within(ordered, room, say, "lastro pool --format md --all")
    return "\n\n".join(filter(None, [*above, *middle, below])) + "\n"


def _bullets(items: Iterable[str], say: Language) -> str:
    return "\n".join(fitting([f"- {cut(item)}" for item in items], say, "- "))


def tables(found: PooledStudy, say: Language, *, everything: bool) -> Iterator[Table]:
    """Yield the tables that have rows. The ratios on each host are also there where nothing else is."""
    measured = place(found, say)
    for table in _tables(found, say, everything=everything):
        yield replace(table, title=titled(table.title, measured))


def _tables(found: PooledStudy, say: Language, *, everything: bool) -> Iterator[Table]:
    yield hosts_table(found, say)
    for metric in found.metrics:
        own = [table for table in (means_table(found, metric, say), apart_table(found, metric, say)) if table]
        yield from own
        each = hosts_effects_table(found, metric, say)
        if each and (everything or not own):
            yield each
    if found.claims:
        yield pooled_claims_table(found.claims, say)


def _table(table: Table, width: int) -> Iterator[str]:
    from lastro.console import grid

    yield from _wrapped(" — ".join(filter(None, (table.title, table.note))), width)
    rows = [tuple(map(plain, row)) for row in table.rows]
    head, *body = grid([table.columns, *rows], right=table.right)
    if (needed := max(line.cell_len for line in (head, *body))) <= width:
        yield from (head.plain, "─" * needed, *(line.plain for line in body))
        return
    for first, *others in rows:
        yield from _wrapped(first, width)
        values = [f"{column} {text}" for column, text in zip(table.columns[1:], others, strict=True) if text]
        for line in values if len(table.long) > 1 else ["; ".join(values)]:
            yield from (f"    {part}" for part in _wrapped(line, width - 4))


def _wrapped(paragraph: str, width: int) -> list[str]:
    return textwrap.wrap(plain(paragraph), width, subsequent_indent="    ") or [""]
