"""Documents on a terminal and as Markdown: every kind of block, in any width, with any text."""

from __future__ import annotations

import pytest

from lastro.document import Fold, Items, Paragraph, Table, Title
from lastro.render.fitting import LIMIT, markdown_within
from lastro.render.markdown import markdown
from lastro.render.terminal import terminal_lines
from lastro.words.language import ENGLISH, language

TABLE = Table("t", "Rates", ("metric", "rate", ""), (("throughput", "12 ± 1", "▲"), ("loss", "3", "")), frozenset({1}))
BLOCKS = (
    Title("A study", ("It passed.",)),
    Items(("first", "second")),
    TABLE,
    Fold("alike: 2 rows", (TABLE,)),
    Items(("why", "how"), numbered=True),
    Paragraph("The end."),
    Items(()),
)
HEAD = ["It passed.", "", "A study", "first", "second", "", "Rates"]


def test_a_terminal_has_the_answer_first_and_a_blank_line_between_blocks() -> None:
    rows = ["metric        rate", "─────────────────────", "throughput  12 ± 1  ▲", "loss             3"]
    below = ["1. why", "2. how", "", "The end."]
    lines = terminal_lines(BLOCKS, 80, ENGLISH)
    assert lines == [*HEAD, *rows, "", "alike: 2 rows; --all shows them", "", *below]
    opened = terminal_lines(BLOCKS, 80, ENGLISH, everything=True)
    assert opened == [*HEAD, *rows, "", "alike: 2 rows", "Rates", *rows, "", *below]
    assert "alike: 2 rows; use --all para ver" in terminal_lines(BLOCKS, 80, language("pt-BR"))


def test_rows_that_are_too_wide_become_sentences() -> None:
    assert terminal_lines([TABLE], 20, ENGLISH) == ["Rates", "throughput  ▲", "    rate 12 ± 1", "loss", "    rate 3"]


def test_no_line_is_wider_than_the_terminal_and_none_controls_it() -> None:
    text = "many words \x1b[31m and\nmore " * 30
    blocks = [Title(text, (text,)), Paragraph(text), Items((text,)), Fold(text, (TABLE,))]
    lines = terminal_lines(blocks, 60, ENGLISH)
    assert max(map(len, lines)) <= 60 and all(line.isprintable() for line in lines)


def test_markdown_has_every_block_and_escapes_its_text() -> None:
    rows = "| metric | rate |  |\n| --- | ---: | --- |\n| throughput | 12 ± 1 | ▲ |\n| loss | 3 |  |"
    assert markdown(BLOCKS, ENGLISH).split("\n\n") == [
        "# A study", "**It passed.**", "- first\n- second", "**Rates**", rows, "**Rates**",
        "<details><summary>alike: 2 rows</summary>", rows, "</details>", "1. why\n2. how", "The end.\n",
    ]  # fmt: skip
    hostile = "<b>@all | [x](y)"
    text = markdown(
        [Title(hostile, (hostile,)), Paragraph(hostile), Items((hostile,)), Fold(hostile, (TABLE,))], ENGLISH
    )
    assert "<b>" not in text and "@" not in text and text.count(r"\[x\]") == 5


@pytest.mark.parametrize("folded", [False, True])
def test_markdown_for_a_comment_leaves_rows_out_and_counts_them(folded: bool) -> None:
    table = Table("t", "", ("what", "value"), tuple((f"row {at}", "x" * 50) for at in range(2000)))
    blocks = [Title("A study"), Fold("all alike", (table,)) if folded else table, Items(("y" * 9000,) * 9)]
    text = markdown_within(blocks, ENGLISH, "lastro all")
    kept = text.count("| row ")
    assert LIMIT - 2000 < len(text.encode()) <= LIMIT and f"and {2000 - kept:,} more rows: `lastro all`" in text
    assert f"<summary>{'all alike' if folded else f'Show {kept} of 2,000'}</summary>" in text
    assert "\n- and " in text, "items, too, are left out"
    assert markdown_within(BLOCKS, ENGLISH, "lastro all") == markdown(BLOCKS, ENGLISH), "a small one is whole"
