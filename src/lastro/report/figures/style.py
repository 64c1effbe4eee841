"""What all figures share: colours, type, one figure object that saves as SVG, PNG or PDF, and SVG that is small.

Figures are narrow and as tall as they need, so that their text can still be read on a telephone."""

from __future__ import annotations

import io
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from lastro.report.language import Language
from lastro.report.numbers import direction_text, metric_heading
from lastro.results.samples import Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito, Color Universal Design (2008): told apart with any colour vision; markers differ besides.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7A7A7A")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")
GREY, FAINT, GRID = "#555555", "#B8B8B8", "#E4E4E4"
DASHED: Any = {"color": "black", "linewidth": 0.8, "linestyle": (0, (2, 1.5))}
WIDTH_IN = 5.0
SMALL_PT = 7.3
_RC: dict[Any, Any] = {
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
    """One figure: a name that can be a file's stem, what it shows, and the drawing. Same data, same bytes."""

    name: str
    title: str
    figure: Figure

    def svg(self) -> str:
        out = io.StringIO()
        with style():
            self.figure.savefig(
                out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
            )
        return compact(out.getvalue())

    def png(self, dpi: int = 160) -> bytes:
        out = io.BytesIO()
        with style():
            self.figure.savefig(out, format="png", dpi=dpi, metadata={"Software": None})
        return out.getvalue()

    def pdf(self) -> bytes:
        out = io.BytesIO()
        with style():
            self.figure.savefig(out, format="pdf", metadata={"CreationDate": None, "Creator": None, "Producer": None})
        return out.getvalue()


@contextmanager
def style() -> Iterator[None]:
    """The type and the lines of all figures, while one is drawn or saved."""
    import matplotlib as mpl

    with mpl.rc_context(_RC), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a glyph that DejaVu lacks is no concern of the user's
        yield


def new_figure(height_in: float, width_in: float = WIDTH_IN) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width_in, height_in), layout="constrained")


def points(axes: Axes, x: Sequence[float], y: Sequence[float], colour: str, size_pt: float = 2.2, **more: Any) -> None:
    """Round points, one for each trial; in SVG they become a single path, so that thousands stay light."""
    axes.plot(
        x, y, linestyle="none", marker="o", ms=size_pt, mew=0, color=colour, gid=f"points-{size_pt:g}", **more
    )  # fmt: skip


def colour_of(at: int) -> str:
    return PALETTE[at % len(PALETTE)]


def marker_of(at: int) -> str:
    return MARKERS[at % len(MARKERS)]


def headed(figure: Figure, what: str, *how: str, width: int = 74) -> None:
    """A title over the whole figure, wrapped to its width: in bold what is shown, below it how to read it.

    The title holds empty lines for the second, so that the layout makes room for it."""
    first = textwrap.wrap(safe(what, 400), width - 14) or [""]
    rest = [part for line in how if line for part in textwrap.wrap(safe(line, 400), width)]
    size_pt, height_pt = 9.0, 72 * figure.get_size_inches()[1]
    figure.suptitle("\n".join([*first, *[" "] * len(rest)]), fontsize=size_pt, x=0.01, ha="left", fontweight="bold")
    if rest:
        top = 1 - (len(first) * 1.2 * size_pt + 4) / height_pt
        text = "\n".join(rest)
        figure.text(0.01, top, text, fontsize=size_pt - 0.5, color="#333333", ha="left", va="top", linespacing=1.2)


def numbers_in(axes: Axes, say: Language, *, x: bool = True, y: bool = False) -> None:
    """Numbers on the axes with the decimal mark of the language; English has its own already."""
    if say.decimal == ".":
        return
    for chosen, axis in ((x, axes.xaxis), (y, axes.yaxis)):
        if chosen and not isinstance(axis.get_major_formatter(), _localiser()):  # panels may share an axis
            axis.set_major_formatter(_localiser()(axis.get_major_formatter(), say))


def metric_title(metric: Metric, say: Language) -> str:
    return " — ".join(part for part in (metric.name, direction_text(metric, say)) if part)


def axis_title(metric: Metric) -> str:
    return safe(metric_heading(metric))


def safe(text: str, most: int = 90) -> str:
    """A name as it can be drawn: no control characters, and not longer than a line."""
    shown = "".join(char if char.isprintable() else " " for char in text)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def wrapped(text: str, width: int, most: int = 60) -> str:
    """A label over several lines where it is long."""
    return "\n".join(textwrap.wrap(safe(text, most), width, break_on_hyphens=True) or [""])


def file_stem(*parts: str) -> str:
    """A file name without anything that a file system or a shell would mind."""
    text = "-".join(part for part in parts if part)
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", text).strip("._") or "figure"


# Small SVG

_POINTS = re.compile(r'<g id="points-([\d.]+)">(.*?)</g>\s*</g>', re.DOTALL)
_USE = re.compile(r'<use [^>]*?x="([-\d.]+)" y="([-\d.]+)" style="([^"]*)"/>')
_GEOMETRY = re.compile(r'(?<= )(?:d|x|y|transform|width|height|points)="[^"]*"')
_LONG = re.compile(r"-?\d+\.\d{3,}")


def compact(svg: str) -> str:
    """Points as one path each group, and coordinates to a hundredth of a point: an eighth of the bytes."""
    svg = _POINTS.sub(_one_path, svg)
    return _GEOMETRY.sub(lambda found: _LONG.sub(_rounded, found[0]), svg)


def _rounded(number: re.Match[str]) -> str:
    text = f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _one_path(group: re.Match[str]) -> str:
    """Strokes of no length with round ends, which are dots: M x y h 0."""
    found = _USE.findall(group[2])
    if not found:
        return group[0]
    clip = re.search(r'clip-path="[^"]*"', group[2])
    colour, opacity = (re.search(rf"{name}: *([#\w.]+)", found[0][2]) for name in ("fill", "fill-opacity"))
    dots = "".join(f"M{_rounded_text(x)} {_rounded_text(y)}h0" for x, y, _ in found)
    look = f"fill: none; stroke: {colour[1] if colour else '#000000'}; stroke-opacity: {opacity[1] if opacity else 1}"
    shape = f"stroke-width: {group[1]}; stroke-linecap: round; stroke-linejoin: round"
    return f'<g {clip[0] if clip else ""}><path d="{dots}" style="{look}; {shape}"/></g>'


def _rounded_text(number: str) -> str:
    return f"{float(number):.2f}".rstrip("0").rstrip(".")


@cache
def _localiser() -> Any:
    from matplotlib.ticker import Formatter

    class Localised(Formatter):
        """Another formatter's text with the decimal mark of a language."""

        def __init__(self, inner: Formatter, say: Language) -> None:
            self.inner, self.say = inner, say

        def __call__(self, x: float, pos: int | None = None) -> str:
            return self.say.number(self.inner(x, pos))

        def set_locs(self, locs: Any) -> None:
            self.inner.set_locs(locs)

        def set_axis(self, axis: Any) -> None:
            super().set_axis(axis)
            self.inner.set_axis(axis)

        def get_offset(self) -> str:
            return self.say.number(self.inner.get_offset())

    return Localised
