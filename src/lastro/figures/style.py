"""The style of all figures (colours, fonts, headings, legends), and a `Picture` that saves as SVG, PNG or PDF.

Each figure can be drawn in two widths with text of the same size: one for a large screen and paper, one for a phone.
Figures are as tall as necessary."""

from __future__ import annotations

import io
import math
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any
from xml.sax.saxutils import escape

from lastro.figures.matplotlib_types import Axes, Figure
from lastro.figures.svg import compact
from lastro.figures.text import chars, lines_of, safe, width_em, wrapped
from lastro.results.samples import Metric
from lastro.words.language import Language
from lastro.words.numbers import direction_text, metric_heading

# Okabe and Ito, Color Universal Design (2008): distinguishable with any colour vision; markers differ too.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7A7A7A")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")
STROKES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
GREY, FAINT, GRID = "#555555", "#B8B8B8", "#E4E4E4"
DASHED: Any = {"color": "black", "linewidth": 0.8, "linestyle": (0, (2, 1.5))}
WIDE_IN, NARROW_IN = 5.0, 3.35
SMALL_PT = 7.3
_AROUND_IN, _BETWEEN_IN = 1.15, 0.3  # usual room above and below all axes, and between two axes
_ALIKE = 0.1  # if the height changes by a smaller fraction, the tick labels stay
_RC: dict[Any, Any] = {
    "figure.dpi": 288,  # text is measured in whole pixels
    "font.family": ["DejaVu Sans"],
    "font.size": 8.5,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8.5,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 8,
    "legend.fontsize": 7.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.edgecolor": GREY,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "hatch.linewidth": 0.4,
    "svg.fonttype": "none",
    "svg.hashsalt": "lastro",
    "pdf.fonttype": 42,
    "text.parse_math": False,  # a "$" in a name is a dollar
    "path.simplify": False,
}


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawn figure with its title, and a `name` that can be the stem of a file name.

    The same data give the same bytes. The label of the matplotlib figure, if any, describes it for readers who cannot
    see it; then an SVG contains the title and the label."""

    name: str
    title: str
    figure: Figure

    def svg(self) -> str:
        out = io.StringIO()
        with style():
            self.figure.savefig(
                out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
            )
        svg, label = compact(out.getvalue()), str(self.figure.get_label())
        if not label:
            return svg
        start = svg.index(">", svg.index("<svg")) + 1  # the place of both elements: SVG 1.1, section 5.4
        return f"{svg[:start]}<title>{escape(self.title)}</title><desc>{escape(label)}</desc>{svg[start:]}"

    def png(self) -> bytes:
        out = io.BytesIO()
        with style():
            self.figure.savefig(out, format="png", dpi=160, metadata={"Software": None})
        return out.getvalue()

    def pdf(self) -> bytes:
        out = io.BytesIO()
        with style():
            self.figure.savefig(out, format="pdf", metadata={"CreationDate": None, "Creator": None, "Producer": None})
        return out.getvalue()


@cache
def _matplotlib() -> ModuleType:
    """Import matplotlib without the settings of the user, whose `matplotlibrc` may even be in the working directory."""
    os.environ.pop("MPLBACKEND", None)  # of a notebook; the import fails if it lacks that backend
    import matplotlib as mpl

    mpl.rcParams.update(mpl.rcParamsDefault)
    return mpl


@contextmanager
def style(width_in: float = WIDE_IN) -> Iterator[None]:
    """Apply the fonts and lines of all figures, and a width of `width_in` inches, while a figure is drawn or saved."""
    with _matplotlib().rc_context(_RC | {"figure.figsize": (width_in, width_in)}), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a glyph that DejaVu lacks does not concern the user
        yield


def new_figure() -> Figure:
    """Return an empty figure as wide as the current `style` says; `fit_height` sets its height."""
    from matplotlib.figure import Figure

    return Figure(figsize=(page_in(), 4.0), layout="constrained")


def width_of(figure: Any) -> float:
    """Return the width of a figure in inches."""
    return float(figure.get_size_inches()[0])


def page_in() -> float:
    """Return the width, in inches, of the figures that are drawn under the current `style`."""
    import matplotlib as mpl

    return float(mpl.rcParams["figure.figsize"][0])


def is_narrow() -> bool:
    return page_in() < (WIDE_IN + NARROW_IN) / 2


def fit_height(figure: Figure, stacked: Sequence[Axes], height_in: float) -> Figure:
    """Lay out the figure so that the heights of the `stacked` axes sum to `height_in`; return the figure.

    Titles, labels and legends add to that height."""
    from matplotlib.ticker import FixedLocator

    around_in = _AROUND_IN + _BETWEEN_IN * (len(stacked) - 1)
    for enough_in in (around_in, 3 * around_in, 9 * around_in):
        figure.set_size_inches(width_of(figure), height_in + enough_in)
        if _lay_out(figure):
            break
    else:  # labels take the whole width: better a crowded figure than none
        figure.set_size_inches(width_of(figure), height_in + around_in)
    stretched = _stretch(figure, stacked, height_in)
    locators = [axes.yaxis.get_major_locator() for axes in figure.axes if axes.axison]
    # Numbers at the ticks depend on the height of the axes; fixed names do not.
    if abs(math.log(stretched)) > _ALIKE and not all(isinstance(each, FixedLocator) for each in locators):
        _lay_out(figure)
    figure.set_layout_engine(None)  # not "none": that draws twice when the figure is saved
    if (side := figure._supylabel) is not None:  # type: ignore[attr-defined]
        side.set_y((stacked[0].get_position().y1 + stacked[-1].get_position().y0) / 2)
    for axes in figure.axes:
        for text in (axes.xaxis.label, axes._left_title):  # type: ignore[attr-defined]
            # A label that the left or right edge of the figure would cut moves sideways, into the figure.
            box, edge_px = text.get_window_extent(), 0.04 * figure.dpi
            move_px = min(0.0, figure.bbox.width - edge_px - box.x1) or max(0.0, edge_px - box.x0)
            if text.get_text() and move_px:
                text.set_x(text.get_position()[0] + move_px / axes.bbox.width)
    return figure


def _lay_out(figure: Figure) -> bool:
    """Lay out the figure and return True; without enough room, change nothing and return False."""
    engine = figure.get_layout_engine()
    assert engine is not None
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        engine.execute(figure)
    return not any("layout not applied" in str(warning.message) for warning in warned)


def _stretch(figure: Figure, stacked: Sequence[Axes], height_in: float) -> float:
    """Stretch the `stacked` axes until their heights sum to `height_in`; return the factor by which they grew.

    All other axes and titles move along. This is four times as fast as a second layout, which takes half of the time of
    a figure."""
    old_in = float(figure.get_size_inches()[1])
    rows = [(old_in * float(box.y0), old_in * float(box.y1)) for box in (axes.get_position() for axes in stacked)]
    axes_in = sum(top - bottom for bottom, top in rows)
    factor = max(height_in, 1.0 - old_in + axes_in) / axes_in
    new_in = old_in + (factor - 1) * axes_in

    def moved(y: float) -> float:
        below_in = sum(min(max(old_in * y, bottom), top) - bottom for bottom, top in rows)
        return (old_in * y + (factor - 1) * below_in) / new_in

    for axes in figure.axes:
        (x0, y0), (x1, y1) = axes.get_position(original=True).get_points()
        axes.set_position((x0, moved(y0), x1 - x0, moved(y1) - moved(y0)))
        axes.set_in_layout(True)
    for title in (figure._suptitle, figure._supxlabel):  # type: ignore[attr-defined]
        if title is not None:
            title.set_y(moved(title.get_position()[1]))
    figure.set_size_inches(figure.get_size_inches()[0], new_in)
    return factor


def colour_of(at: int) -> str:
    return PALETTE[at % len(PALETTE)]


def marker_of(at: int) -> str:
    return MARKERS[at % len(MARKERS)]


def add_heading(figure: Figure, what: str, *how: str) -> None:
    """Write a title above a figure: `what` it shows, in bold, and below that the lines `how` to read it.

    Lines are wrapped to the width of the figure. The title ends with an empty line for each line of `how`, so that the
    layout has room for them."""
    from matplotlib.transforms import ScaledTranslation

    size_pt, room_in = 9.0, width_of(figure) - 0.1
    first = wrapped(what, chars(room_in, size_pt), 400, bold=True)
    rest = "\n".join(wrapped(line, chars(room_in, size_pt - 0.5), 400) for line in how if line)
    below = "\n " * lines_of(rest) if rest else ""
    figure.suptitle(first + below, fontsize=size_pt, x=0.01, ha="left", fontweight="bold")
    down = ScaledTranslation(0, -(lines_of(first) * 1.2 * size_pt + 4) / 72, figure.dpi_scale_trans)
    figure.text(
        0.01, 1, rest, fontsize=size_pt - 0.5, color="#333333", ha="left", va="top", linespacing=1.2,
        transform=figure.transFigure + down,
    )  # fmt: skip


def add_legend(figure: Figure, handles: Sequence[Any], title: str | None = None, most: int = 2) -> None:
    """Put a legend below the figure, in as many columns as fit, at most `most`; long labels are wrapped."""
    if not handles:
        return
    room = width_of(figure) - 0.75
    for handle in handles:
        handle.set_label(wrapped(handle.get_label(), chars(room, SMALL_PT), 160))
    widest_in = max(width_em(line) for entry in handles for line in entry.get_label().split("\n")) * SMALL_PT / 72
    columns = min(most, len(handles), max(1, int((width_of(figure) - 0.2) / (widest_in + 0.55))))
    figure.legend(
        handles=handles, loc="outside lower left", ncols=columns, frameon=False, title=title, alignment="left",
        title_fontsize=8, fontsize=SMALL_PT, handleheight=1.1,
    )  # fmt: skip


def label_with_numbers(axes: Axes, say: Language, *, x: bool = True, y: bool = False) -> None:
    """Label the chosen axes (`x`, `y`) with as many round numbers as fit, in the number format of the language."""
    from matplotlib.ticker import NullLocator

    from lastro.figures.ticks import TickLabels, Ticks, plain, round_numbers

    for chosen, axis in ((x, axes.xaxis), (y, axes.yaxis)):
        if chosen:
            axis.set_major_locator(Ticks(plain(say), round_numbers))
            axis.set_major_formatter(TickLabels(plain(say)))
            axis.set_minor_locator(NullLocator())


def metric_title(metric: Metric, say: Language) -> str:
    return " — ".join(part for part in (metric.name, direction_text(metric, say)) if part)


def axis_title(metric: Metric) -> str:
    return safe(metric_heading(metric))


def file_stem(*parts: str) -> str:
    """Join the parts into a file name without characters that are special to a file system or a shell."""
    text = "-".join(part for part in parts if part)
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", text).strip("._") or "figure"
