"""Tables as lines of text: columns are aligned by cells, also where a character fills two."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text

from lastro.console import grid


def test_columns_are_two_cells_apart_and_numbers_end_together() -> None:
    rows = [("study", "trials", ""), ("a", "8", "finished"), ("longer", "1,024", "")]
    assert [line.plain for line in grid(rows, right={1})] == [
        "study   trials", "a            8  finished", "longer   1,024",
    ]  # fmt: skip


def test_a_character_of_two_cells_counts_as_two() -> None:
    first, second = (line.plain for line in grid([("負荷", "x"), ("load", "x")]))
    assert cell_len(first) == cell_len(second) == len(second)


def test_a_cell_of_several_lines_keeps_its_styles_and_the_columns_their_width() -> None:
    cell = Text("\n").join([Text("mean"), Text("ratio", "red")])
    above, below = grid([("a", cell, "b")], widths=(3, 6, 1))
    assert (above.plain, below.plain) == ("a    mean    b", "     ratio")
    assert [below.plain[span.start : span.end] for span in below.spans if str(span.style) == "red"] == ["ratio"]


def test_a_table_is_not_broken_nor_its_markup_obeyed() -> None:
    long = "x" * 500
    (line,) = grid([(long, "[red]", ":smile:")])
    assert line.plain == f"{long}  [red]  :smile:"
