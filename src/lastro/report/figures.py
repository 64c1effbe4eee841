"""One picture for each metric: every treatment's mean with its interval, every trial's point, and what is missing

marked where it would stand. Horizontal, because names of levels are long; small multiples for up to four factors."""

from __future__ import annotations

import io
import itertools
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lastro.report.model import Cell, Report, Row
from lastro.report.numbers import direction_text, metric_heading
from lastro.results.samples import Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito, Color Universal Design (2008): told apart with any colour vision; markers differ besides.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7A7A7A")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")
_GREY, _FAINT = "#555555", "#B8B8B8"
_DASHED: Any = {"color": "black", "linewidth": 0.8, "linestyle": (0, (2, 1.5))}
_SLOT_IN = 0.16  # height of one treatment
_GAP_SLOTS = 0.8  # between two levels of the factor on the axis
_STYLE: dict[Any, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.edgecolor": _GREY,
    "axes.axisbelow": True,
    "hatch.linewidth": 0.4,
    "svg.fonttype": "none",
    "svg.hashsalt": "lastro",
    "text.parse_math": False,  # a "$" in a name is a dollar
    "path.simplify": False,
}


@dataclass(frozen=True, slots=True)
class _Roles:
    """Which factors are drawn as what: `rows` on the axis, `colours`, facets `across` and `down`; () for none."""

    rows: tuple[str, ...]
    colours: tuple[str, ...]
    across: tuple[str, ...]
    down: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Grid:
    """The levels of every role, and the row of the report at each combination: {(row, colour, across, down): Row}.

    `absent` are the colours of which nothing at all has a value: they share one slot, so that they stay in sight
    without filling half of the picture."""

    roles: _Roles
    rows: tuple[str, ...]
    colours: tuple[str, ...]
    absent: tuple[str, ...]
    across: tuple[str, ...]
    down: tuple[str, ...]
    at: Mapping[tuple[str, str, str, str], Row]

    @property
    def present(self) -> tuple[str, ...]:
        return tuple(colour for colour in self.colours if colour not in self.absent)

    @property
    def group(self) -> int:
        """Slots for one level of the axis."""
        return len(self.present) + bool(self.absent)

    def top(self, row: int) -> float:
        """The place of a level's first treatment on the vertical axis, in slots from the top."""
        return row * (self.group + _GAP_SLOTS)

    @property
    def slots(self) -> float:
        return self.top(len(self.rows))


def metric_svg(report: Report, index: int) -> str:
    """The figure of one metric as an SVG document; the same data give the same bytes."""
    with _style():
        return _svg(_metric_figure(report, index))


def metric_png(report: Report, index: int, dpi: int = 160) -> bytes:
    with _style():
        out = io.BytesIO()
        _metric_figure(report, index).savefig(out, format="png", dpi=dpi, metadata={"Software": None})
        return out.getvalue()


def timeline_svg(report: Report) -> str | None:
    """Every attempt of the campaign by when it began and how long it took; None without attempts."""
    moments = [(at, moment) for moment in report.timeline if (at := _parse(moment.started_utc)) is not None]
    if not moments:
        return None
    with _style():
        return _svg(_timeline_figure(report, moments))


def figure_name(metric: Metric) -> str:
    """A file name without anything that a file system or a shell would mind."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", metric.name).strip("._") or "metric"


# Drawing


@contextmanager
def _style() -> Iterator[None]:
    import matplotlib as mpl

    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a glyph that DejaVu lacks is no concern of the user's
        yield


def _svg(figure: Figure) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return out.getvalue()


def _metric_figure(report: Report, index: int) -> Figure:
    from matplotlib.figure import Figure

    metric, grid = report.metrics[index], _grid(report, index)
    panel_in = max(0.9, grid.slots * _SLOT_IN)
    size = (max(7.0, 1.3 + 3.1 * len(grid.across)), len(grid.down) * (panel_in + 0.3) + 1.1)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(len(grid.down), len(grid.across), sharex=True, sharey=True, squeeze=False)
    usual_n, baselines = _usual_n(report, index), _baseline_means(report, index)
    for (down, below), (across, beside) in itertools.product(enumerate(grid.down), enumerate(grid.across)):
        axes = panels[down][across]
        _panel(axes, index, grid, (beside, below), usual_n, baselines)
        axes.set_title(_safe(" · ".join(part for part in (beside, below) if part)), fontsize=8.5, loc="left")
    _scale(panels[0][0], report, index)
    for axes in panels[-1]:
        axes.set_xlabel(_safe(metric_heading(metric)))
    figure.suptitle(_title(report, metric, usual_n), fontsize=9.5, x=0.01, ha="left")
    _legend(figure, report, index, grid)
    return figure


def _title(report: Report, metric: Metric, usual_n: int | None) -> str:
    """Two lines: what is shown and which way is better; how to read it."""
    n = f"; n = {usual_n} where none is written" if usual_n else ""
    how = f"mean, {report.study.design.confidence:.0%} interval and every trial{n}"
    return "\n".join((_safe(" — ".join(part for part in (metric.name, direction_text(metric)) if part)), how))


def _grid(report: Report, index: int) -> _Grid:
    roles = _roles(report)
    levels = {factor.name: [str(level) for level in factor.levels] for factor in report.study.factors}

    def combined(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(" · ".join(combination) for combination in itertools.product(*(levels[name] for name in names)))

    def place(row: Row, names: tuple[str, ...]) -> str:
        return " · ".join(str(row.treatment.levels[name]) for name in names)

    at = {
        (place(row, roles.rows), place(row, roles.colours), place(row, roles.across), place(row, roles.down)): row
        for row in report.rows
    }
    colours = combined(roles.colours)
    seen = {colour for (_, colour, _, _), row in at.items() if row.cells[index].summary is not None}
    absent = tuple(colour for colour in colours if colour not in seen) if roles.colours else ()
    return _Grid(roles, combined(roles.rows), colours, absent, combined(roles.across), combined(roles.down), at)


def _roles(report: Report) -> _Roles:
    """The factor with most levels on the axis, the next by colour (as far as colours reach), the others as facets."""
    names = [f.name for f in sorted(report.varying, key=lambda factor: -len(factor.levels))]
    if not names:
        return _Roles((), (), (), ())
    sizes = {factor.name: len(factor.levels) for factor in report.varying}
    rest = names[1:]
    colour = next((name for name in rest if sizes[name] <= len(PALETTE)), None)
    rest = [name for name in rest if name != colour]
    across = next((name for name in rest if sizes[name] <= 4), None)
    down = tuple(name for name in rest if name != across)
    return _Roles((names[0],), (colour,) if colour else (), (across,) if across else (), down)


def _usual_n(report: Report, index: int) -> int | None:
    """The n that most treatments have, written once; None when nothing was measured."""
    found = Counter(cell.summary.n for row in report.rows if (cell := row.cells[index]).summary is not None)
    return found.most_common(1)[0][0] if found else None


def _panel(
    axes: Axes, index: int, grid: _Grid, facet: tuple[str, str], usual_n: int | None, baselines: Mapping[int, float]
) -> None:
    for row_at, level in enumerate(grid.rows):
        top = grid.top(row_at)
        for slot, colour in enumerate(grid.present):
            row = grid.at.get((level, colour, *facet))
            if row is None or row.cells[index].summary is None:
                _missing(axes, top + slot, _why_missing(row))
            else:
                _treatment(axes, row.cells[index], top + slot, grid.colours.index(colour), usual_n)
            if row is not None and (mean := baselines.get(row.treatment.index)) is not None:
                axes.plot([mean, mean], [top + slot - 0.5, top + slot + 0.5], zorder=1.5, **_DASHED)
        if grid.absent:
            rows = [grid.at.get((level, colour, *facet)) for colour in grid.absent]
            why = ", ".join(sorted({_why_missing(row) for row in rows}))
            _missing(axes, top + len(grid.present), f"{', '.join(grid.absent)}: {why}")
    labels = [_safe(level, 40) or "all" for level in grid.rows]
    axes.set_yticks([grid.top(at) + (grid.group - 1) / 2 for at in range(len(grid.rows))], labels)
    axes.set_ylim(grid.slots - _GAP_SLOTS - 0.3, -0.7)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelbottom=True, labelsize=7)
    axes.grid(axis="x", color="#E4E4E4", linewidth=0.6)


def _why_missing(row: Row | None) -> str:
    if row is None:
        return "excluded by the study"
    return {"unavailable": "unavailable", "invalid": "invalid", "pending": "not run yet"}.get(row.status, "no value")


def _missing(axes: Axes, y: float, words: str) -> None:
    """A hatched band over the whole width where the treatment would stand."""
    axes.axhspan(y - 0.42, y + 0.42, facecolor="none", edgecolor=_FAINT, hatch="//////", linewidth=0)
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    place: Any = ("axes fraction", "data")
    words = _safe(f"✕ {words}", 60)
    axes.annotate(words, (0.02, y), xycoords=place, va="center", fontsize=5.5, color=_GREY, bbox=box)


def _treatment(axes: Axes, cell: Cell, y: float, colour_at: int, usual_n: int | None) -> None:
    assert cell.summary is not None
    colour, marker = PALETTE[colour_at % len(PALETTE)], MARKERS[colour_at % len(MARKERS)]
    values = [point.value for point in cell.points]
    axes.plot(
        values, _spread(y, len(values)), linestyle="none", marker="o", ms=2.3, mew=0, color=colour, alpha=0.5, zorder=3
    )
    mean, interval = cell.summary.mean, cell.summary.interval
    if interval is not None:
        axes.plot([interval.low, interval.high], [y, y], color=colour, linewidth=1.7, solid_capstyle="butt")
    axes.plot([mean], [y], marker=marker, ms=4.6, color=colour, mec="white", mew=0.6, linestyle="none", zorder=4)
    n = cell.summary.n
    notes = ["†" if cell.limited else "", f"n = {n}" if n != usual_n else "", "" if interval else "no interval"]
    if text := " ".join(note for note in notes if note):
        place: Any = ("axes fraction", "data")
        axes.annotate(text, (1.01, y), xycoords=place, va="center", fontsize=5.5, color=_GREY, annotation_clip=False)


def _baseline_means(report: Report, index: int) -> dict[int, float]:
    """The mean of each treatment's baseline: {treatment: mean}, for those whose baseline has one."""
    means = {row.treatment.index: cell.summary.mean for row in report.rows if (cell := row.cells[index]).summary}
    return {
        row.treatment.index: means[row.baseline.index]
        for row in report.rows
        if row.baseline is not None and row.baseline.index in means
    }


def _spread(y: float, n: int) -> list[float]:
    """Points of one treatment a little apart, in the order of their blocks."""
    return [y + (0.0 if n == 1 else 0.32 * (2 * at / (n - 1) - 1)) for at in range(n)]


def _scale(axes: Axes, report: Report, index: int) -> None:
    """Logarithmic where the means span more than a factor of thirty; some width where there is but one value."""
    means = [cell.summary.mean for row in report.rows if (cell := row.cells[index]).summary is not None]
    values = [point.value for row in report.rows for point in row.cells[index].points]
    if not values:
        axes.set_xticks([])
    elif min(values) > 0 and max(means) / min(means) > 30:
        axes.set_xscale("log")
    elif min(values) == max(values):
        room = abs(values[0]) * 0.1 or 1.0
        axes.set_xlim(values[0] - room, values[0] + room)


def _legend(figure: Figure, report: Report, index: int, grid: _Grid) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Line2D([], [], color=PALETTE[at % len(PALETTE)], marker=MARKERS[at % len(MARKERS)], ms=5, label=_safe(level))
        for at, level in enumerate(grid.colours)
        if grid.roles.colours and level not in grid.absent
    ]
    if _baseline_means(report, index):
        handles.append(Line2D([], [], label="mean of its baseline", **_DASHED))
    missing = sorted({_why_missing(row) for row in report.rows if row.cells[index].summary is None})
    if missing:
        label = f"✕ {', '.join(missing)}"
        handles.append(Patch(facecolor="none", edgecolor=_FAINT, hatch="//////", linewidth=0, label=label))
    if any(row.cells[index].limited for row in report.rows):
        handles.append(Line2D([], [], linestyle="none", label="† generator-limited: a lower bound"))
    if handles:
        title = _safe(grid.roles.colours[0]) if grid.roles.colours else None
        figure.legend(
            handles=handles, loc="outside lower left", ncols=min(4, len(handles)), frameon=False, title=title,
            alignment="left", title_fontsize=8,
        )  # fmt: skip


def _timeline_figure(report: Report, moments: Sequence[tuple[datetime, Any]]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.4, 2.6), layout="constrained")
    axes = figure.subplots()
    origin = min(at for at, _ in moments)
    hours = (max(at for at, _ in moments) - origin).total_seconds() > 3 * 3600
    unit_s, unit = (3600, "hours") if hours else (60, "minutes")
    for valid, colour, marker in ((True, PALETTE[0], "o"), (False, PALETTE[1], "X")):
        chosen = [(at, moment) for at, moment in moments if moment.valid is valid]
        times = [(at - origin).total_seconds() / unit_s for at, _ in chosen]
        label = f"{'valid' if valid else 'invalid'} attempt ({len(chosen):,})"
        durations = [moment.duration_s for _, moment in chosen]
        size = 2.2 if valid else 4.5
        axes.plot(
            times, durations, linestyle="none", marker=marker, ms=size, mew=0, color=colour, alpha=0.7, label=label
        )
    _mark_events(axes, report, origin, unit_s)
    axes.set_xlabel(f"{unit} since the first trial")
    axes.set_ylabel("duration of the trial (s)")
    axes.set_ylim(0, 1.12 * max(moment.duration_s for _, moment in moments) or 1.0)
    axes.grid(axis="y", color="#E4E4E4", linewidth=0.6)
    figure.legend(loc="outside upper left", ncols=2, frameon=False)
    return figure


def _mark_events(axes: Axes, report: Report, origin: datetime, unit_s: int) -> None:
    """Interruptions and whatever else happened between start and end, as vertical lines."""
    left, right = axes.get_xlim()
    for at_utc, kind, _ in report.events[:200]:
        at = _parse(at_utc)
        if at is None:
            continue
        x = (at - origin).total_seconds() / unit_s
        if left <= x <= right:
            axes.axvline(x, color=_GREY, linewidth=0.8, linestyle=(0, (3, 2)))
            axes.annotate(
                _safe(kind), (x, 1), xycoords=("data", "axes fraction"), fontsize=6.5, color=_GREY, rotation=90,
                ha="right", va="top",
            )  # fmt: skip


def _parse(utc: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(utc)
    except ValueError:
        return None
    return at.replace(tzinfo=None)


def _safe(text: str, most: int = 90) -> str:
    """A name as it can be drawn: no control characters, and not longer than a line."""
    shown = "".join(char if char.isprintable() else " " for char in text)
    return shown if len(shown) <= most else shown[: most - 1] + "…"
