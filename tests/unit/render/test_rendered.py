"""Documents in a terminal, as pages, as Markdown and in LaTeX: every kind of block, in any width, with any text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import get_args

import pytest

from lastro.document import (
    Block,
    Code,
    CommandLine,
    Facts,
    Figure,
    Figures,
    Fold,
    Grid,
    GridCell,
    GridRow,
    Heading,
    Items,
    Notes,
    Paragraph,
    Span,
    Table,
    Title,
)
from lastro.render.fitting import LIMIT, markdown_within
from lastro.render.html import html
from lastro.render.latex import latex
from lastro.render.markdown import markdown
from lastro.render.terminal import styled_lines, terminal_lines
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


def test_words_keep_their_styles_where_a_line_ends_and_the_lines_of_a_note_stand_below_each_other() -> None:
    first = (Span("✓ so", "better"), Span(": "), Span("a claim\tof many words", "strong"))
    notes = Notes("", (("", (first, (Span("why: ", "dim"), Span("5\xa0% of it")))), ("", ("another",))))
    lines = styled_lines((notes,), 14, ENGLISH)
    assert [line.plain for line in lines] == [
        "✓ so: a claim", "    of many", "    words", "  why: 5 % of", "    it", "", "another",
    ]  # fmt: skip
    styles = [[(line.plain[span.start : span.end], span.style) for span in line.spans if span.style] for line in lines]
    assert styles[0] == [("✓ so", "green"), ("a claim", "bold")]
    assert styles[3] == [("why: ", "dim")] and styles[4] == []


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


HOSTILE = "<b onclick=x>@all | [x](y) \"' $#%{\x1b[31m"
ROWS = Table("t", HOSTILE, (HOSTILE, HOSTILE), ((HOSTILE, HOSTILE),), note=HOSTILE, tags=(HOSTILE,))
CELL = GridCell(((Span(HOSTILE, "mean", HOSTILE),), (Span(HOSTILE, "better", HOSTILE, axis=(-1.0, 0.0, 0.5)),)))
EVERY_KIND: tuple[Block, ...] = (
    Title(HOSTILE, (HOSTILE,), HOSTILE, HOSTILE, ((HOSTILE, HOSTILE, "valid"),)),
    Heading(HOSTILE, "first", HOSTILE),
    Heading(HOSTILE, "second", listed=False),
    Paragraph((Span(HOSTILE, "strong"), Span(HOSTILE, "code"), Span(HOSTILE, link="#first"), Span(HOSTILE)), dim=True),
    Items((HOSTILE, HOSTILE), title=HOSTILE, numbered=True),
    Items((HOSTILE,), tag=HOSTILE),
    CommandLine(HOSTILE, HOSTILE, HOSTILE),
    CommandLine(HOSTILE, HOSTILE),
    Code(HOSTILE),
    Facts({HOSTILE: {HOSTILE: [HOSTILE, HOSTILE]}, "more": None, "yes": True, "none": {}}, HOSTILE),
    ROWS,
    Grid(
        (GridCell(((Span(HOSTILE),),), head=True), CELL),
        (
            GridRow((GridCell(((Span(HOSTILE),),), columns=2),), "group"),
            GridRow((GridCell(((Span(HOSTILE),),), head=True), CELL), "baseline"),
        ),
        (ROWS,), HOSTILE, HOSTILE, (HOSTILE,), HOSTILE,
    ),
    Notes(HOSTILE, (("gap-1", (HOSTILE, (Span(HOSTILE, "dim"),))),)),
    Figures((Figure(HOSTILE, ('<svg width="9pt"></svg>',) * 2, note=HOSTILE, table=ROWS),), (Paragraph(HOSTILE),)),
    Figures((Figure(HOSTILE, address="figures/a b.svg"),)),
    Fold(HOSTILE, (ROWS, Paragraph(HOSTILE))),
)  # fmt: skip


class _Tags(HTMLParser):
    """The tags and attributes of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes |= {name for name, _ in attrs}
        if tag not in ("meta", "path", "circle"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("path", "circle"):
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_every_kind_of_block_is_there() -> None:
    assert {type(block) for block in EVERY_KIND} == set(get_args(Block))


@pytest.mark.parametrize("code", ["en", "pt-BR"])
def test_a_page_shows_every_kind_and_nothing_of_its_text_becomes_markup(code: str) -> None:
    page = html(EVERY_KIND, language(code), HOSTILE)
    tags = _Tags(page)
    assert tags.open == [] and "onclick" not in tags.attributes and "<b onclick" not in page
    assert tags.text.count(HOSTILE) == 72 and page.count("title=") == 4
    assert re.findall(r'href="(.*?)"', page) == ["#first", "#first", "figures/a b.svg"]
    assert page.count('class="spark"') == 2 and page.count('aria-label="&lt;b') == 2
    assert page == html(EVERY_KIND, language(code), HOSTILE), "the same document gives the same bytes"


def test_latex_and_markdown_and_a_terminal_show_every_kind() -> None:
    text = latex(EVERY_KIND, ENGLISH)
    bare = re.sub(r"\\[\\{}$&#_%]", "", text)
    assert bare.count("{") == bare.count("}") and "$" not in bare and "#" not in bare
    assert text.count("% lastro: t\n") == text.count("% end\n") == 4
    marked = markdown(EVERY_KIND, ENGLISH)
    outside = re.sub(r"(?s)```.*?```", "", marked)
    assert "<b" not in outside and "@" not in outside and outside.count("![") == 1
    lines = terminal_lines(EVERY_KIND, 4000, ENGLISH, everything=True)
    assert all(line.isprintable() for line in lines) and len(lines) > 40


EMPTY: tuple[Block, ...] = (
    Paragraph(""), Items((), title="nothing"), Code(""), Facts({}, "nothing"), Table("t", "nothing", ("nothing",), ()),
    Grid((CELL,), (), (), "nothing", "nothing"), Notes("nothing", ()), Figures(()),
)  # fmt: skip


def test_a_block_without_text_shows_nothing_in_any_form() -> None:
    empty = (*EMPTY, Fold("nothing", EMPTY))
    assert not any(empty) and {type(block) for block in empty} == set(get_args(Block)) - {Title, Heading, CommandLine}
    document = (
        Title("T"),
        *empty,
        Fold("kept", (*EMPTY, Paragraph("text"))),
        Figures((), (*EMPTY, Paragraph("beside"))),
    )
    for text in (
        html(document, ENGLISH, "c"),
        latex(document, ENGLISH),
        markdown(document, ENGLISH),
        "\n".join(terminal_lines(document, 80, ENGLISH, everything=True)),
    ):
        assert "nothing" not in text and "text" in text and "beside" in text


def test_a_grid_in_a_narrow_terminal_has_headings_and_several_tables() -> None:
    def cell(text: str, *, head: bool = False, right: bool = False) -> GridCell:
        return GridCell(((Span(text),),), head=head, right=right)

    head = (cell("place", head=True), cell("kind", head=True), cell("n", head=True, right=True), cell("a"), cell("b"))
    rows = tuple(
        GridRow((cell(place, head=True), cell(kind, head=True), cell("5"), cell(f"{kind}-first"), cell("second")))
        for place in ("here", "there")
        for kind in ("x", "y")
    )
    grid = Grid(head, rows, (), legend=("the end",))
    assert terminal_lines([grid], 80, ENGLISH) == [
        "place  kind  n  a        b",
        "───────────────────────────────",
        "here   x     5  x-first  second",
        "here   y     5  y-first  second",
        "there  x     5  x-first  second",
        "there  y     5  y-first  second",
        "the end",
    ]
    assert terminal_lines([grid], 27, ENGLISH)[:4] == [
        "kind  n  a        b", "────────────────────────", "here", "x     5  x-first  second",
    ]  # fmt: skip
    narrow = terminal_lines([grid], 17, ENGLISH)
    assert narrow.count("here · x") == 2 and max(map(len, narrow)) <= 17
