"""The titles of published tables and figures, and the levels of several factors on one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lastro.analysis.as_published import PublishedPanel
from lastro.stats.notes import N_
from lastro.study.model import Level, Levels
from lastro.words.language import Language

if TYPE_CHECKING:
    from lastro.analysis.claims.claim import PublishedMark
    from lastro.study.printed import Passage

_PLACES = {"table": N_("table {n}"), "figure": N_("figure {n}")}


def title_of(passage: Passage, say: Language) -> str:
    """Return the title of a table or a figure with its place in the source: 'Time until it is up (table 1)'."""
    kind, _, number = passage.where.partition(" ")
    where = say(_PLACES[kind], n=number) if kind in _PLACES else passage.where
    return f"{passage.title(say.code)} ({where})"


def marks_of(panel: PublishedPanel) -> list[PublishedMark]:
    """Return the published values that belong to bars of a panel; empty without any."""
    return [bar.mark for bar in panel.bars if bar.mark is not None]


def levels_text(levels: Sequence[Level], say: Language) -> str:
    """Return the level, or if there are several 'mean of cpu, io'."""
    text = ", ".join(map(str, levels))
    return say("mean of {levels}", levels=text) if len(levels) > 1 else text


def combination_text(side: Levels, say: Language, *, short: bool = False) -> str:
    """Return the levels of several factors on one line: 'lxc · ovs'; numbers have their factor: '3x3 · hello_s = 5'.

    If `short`, all factors are left out, and several levels of one factor are only counted: 'mean of 3'."""
    texts = []
    for name, levels in side.items():
        if short and len(levels) > 1:
            texts.append(say("mean of {n}", n=say.integer(len(levels))))
        elif short or all(isinstance(level, str) for level in levels):
            texts.append(levels_text(levels, say))
        else:
            texts.append(f"{name} = {levels_text(levels, say)}")
    return " · ".join(texts)
