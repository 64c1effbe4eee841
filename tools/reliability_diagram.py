"""Draw the table of `lastro decide`'s promises as a reliability diagram: `python tools/reliability_diagram.py`.

What benches/decision_promises.py printed is in docs/howto-decide.md, and the picture beside it."""

from __future__ import annotations

import re
from pathlib import Path

from lastro.figures.style import GREY, Picture, colour_of, marker_of, style
from lastro.figures.xy import Plot, PlotAxis, PlotLine, PlotPanel, draw_plot
from lastro.words.language import ENGLISH

DOCS = Path(__file__).parents[1] / "docs"
PAGE, PICTURE = DOCS / "howto-decide.md", DOCS / "images" / "reliability.svg"
_ROW = re.compile(r"^\| ([^|]+) \| (\d+) \|.*\| ([\d →,]+) \|$", re.MULTILINE)
_PAIR = re.compile(r"(\d+) → (\d+)")
_SCALE = [(float(at), str(at)) for at in range(0, 101, 25)]
_WIDTH = 3.0  # points: what is promised on either side


def promises(page: str) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Return {noise: {blocks: [(stated, came true)]}}, in per cent."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    table = page.partition("<!-- promises -->")[2].partition("<!-- end of promises -->")[0]
    for noise, blocks, pairs in _ROW.findall(table):
        found.setdefault(noise, {})[blocks] = [(float(p), float(true)) for p, true in _PAIR.findall(pairs)]
    return found


def diagram(page: str) -> Picture:
    ends = (0.0, 100.0)
    width = [(at - _WIDTH, at + _WIDTH) for at in ends]
    as_stated = PlotLine(ends, ends, {"color": GREY, "lw": 0.8, "ls": "--"}, band=width)
    panels = [
        PlotPanel([as_stated, *(_line(at, *row) for at, row in enumerate(rows.items()))], [noise])
        for noise, rows in promises(page).items()
    ]
    plot = Plot(
        panels,
        "What lastro decide states, and what came true",
        [f"simulated worlds; dashed: as many as stated, with {_WIDTH:g} points on either side"],
        x=PlotAxis("stated, %", *ends, ticks=_SCALE),
        y=PlotAxis("came true, %", *ends, ticks=_SCALE),
        panel_in=1.7,
        across=3,
        legend_title="stated, %; a line for each number of blocks",
    )
    with style():
        return Picture("reliability", plot.title, draw_plot(plot, ENGLISH))


def _line(at: int, blocks: str, pairs: list[tuple[float, float]]) -> PlotLine:
    stated, true = zip(*pairs, strict=True)
    return PlotLine(stated, true, {"color": colour_of(at), "marker": marker_of(at), "ms": 3, "lw": 1}, blocks)


if __name__ == "__main__":
    PICTURE.write_text(diagram(PAGE.read_text(encoding="utf-8")).svg(), encoding="utf-8")
