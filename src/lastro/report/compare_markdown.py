"""A comparison of two campaigns as Markdown, for a pull request or a wiki. It is in English only."""

from __future__ import annotations

import math
from collections.abc import Iterator

from lastro.analysis.comparison import Comparison
from lastro.report.compare_text import HEADS, below_table, headline, notes_on, row_of, sides_of, tested_cells
from lastro.report.fitting import LIMIT, WORDS, cut, fit, fitting, size
from lastro.report.language import ENGLISH
from lastro.report.markdown import escape, fold, table_lines
from lastro.report.numbers import count
from lastro.report.tables import Table


def markdown(comparison: Comparison, *, everything: bool = False) -> str:
    """Return the verdict, the cells that differ, the other cells folded, and the notes.

    Without `everything`, it fits into a comment on GitHub: the last rows are left out, and counted."""
    text = escape if everything else cut
    notes = [f"{number}. {text(note)}" for number, note in enumerate(notes_on(comparison), 1)]
    rest = [f"- {text(paragraph)}" for paragraph in below_table(comparison)]
    if not everything:
        notes, rest = list(fitting(notes, ENGLISH, "- ")), list(fitting(rest, ENGLISH, "- "))
    above = [f"# {text(comparison.study.title or comparison.study.name)}", f"**{text(headline(comparison))}**"]
    above.append("\n".join(f"- {text(side)}" for side in sides_of(comparison)))
    below = ["\n".join(notes), "\n".join(rest)]
    room = math.inf if everything else LIMIT - size("\n\n".join((*above, *below)))
    return "\n\n".join(filter(None, (*above, *_tables(comparison, room), *below))) + "\n"


def _tables(comparison: Comparison, room: float) -> Iterator[str]:
    """Yield the rows that differ, the folded other ones, and how many do not fit into `room` bytes."""
    tested, alike = tested_cells(comparison)
    head, rule, *rows = table_lines(Table("", "", HEADS, tuple(map(row_of, (*tested, *alike)))))
    kept = fit(rows, room - 2 * size(head + rule) - WORDS)
    if first := rows[: min(kept, len(tested))]:
        yield "\n".join((head, rule, *first))
    if others := rows[len(tested) : kept]:
        yield fold(f"{count(len(alike), 'row')} not distinguishable", "\n".join((head, rule, *others)))
    if left := len(rows) - kept:
        yield f"and {count(left, 'more row')}: `lastro compare --format md --all`"
