"""What a calibration found: the baseline against itself, and around 1 the band in which nothing can be told apart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lastro.report.calibration import KEY, floor_here
from lastro.report.figures.style import FAINT, GRID, PALETTE, SMALL_PT, headed, new_figure, numbers_in, wrapped
from lastro.report.language import Language
from lastro.report.model import Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW_IN = 0.42


def draw_floor(report: Report, say: Language) -> Figure | None:
    """One row for each metric with a noise floor, that by which tables judge; None without a calibration."""
    kept = report.calibrations.get(KEY)
    metrics = kept.get("metrics") if isinstance(kept, Mapping) else None
    if not isinstance(metrics, Mapping):
        return None
    floors = {metric.name: floor_here(report, index) for index, metric in enumerate(report.metrics)}
    found = {
        name: (floor, metric)
        for name, floor in floors.items()
        if floor is not None and isinstance(metric := metrics.get(name), Mapping)
    }
    if not found:
        return None
    figure = new_figure(_ROW_IN * len(found) + 1.5)
    axes = figure.subplots()
    for y, (floor, metric) in enumerate(found.values()):
        _row(axes, y, floor.share, metric, say)
    axes.axvline(1, color="black", linewidth=0.9)
    axes.set_yticks(range(len(found)), [wrapped(name, 18) for name in found])
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.locator_params(axis="x", nbins=5)
    axes.set_xlabel(say("ratio of the baseline to itself"))
    numbers_in(axes, say)
    how = say("band: differences in it cannot be told from none; dot: the baseline against itself, with its interval")
    notes = dict.fromkeys(say.note(floor.note) for floor, _ in found.values() if floor.note is not None)
    headed(figure, say("Noise floor of this host"), how, *notes)
    return figure


def _row(axes: Axes, y: int, floor: float, metric: Mapping[str, Any], say: Language) -> None:
    axes.barh(y, 2 * floor, left=1 - floor, height=0.62, color=FAINT, alpha=0.6)
    interval = metric.get("interval")
    if isinstance(interval, Mapping):
        low, high = _number(interval.get("low")), _number(interval.get("high"))
        if low is not None and high is not None:
            axes.plot([low, high], [y, y], color=PALETTE[0], linewidth=1.8, solid_capstyle="butt")
    if (ratio := _number(metric.get("ratio"))) is not None:
        axes.plot([ratio], [y], marker="o", ms=5, color=PALETTE[0], mec="white", mew=0.6, zorder=4)
    pairs = _number(metric.get("n_pairs")) or 0
    text = say.number(f"± {100 * floor:.2g} %") + "\n" + say("n = {n} pairs", n=say.integer(int(pairs)))
    place: Any = ("axes fraction", "data")
    axes.annotate(text, (1.02, y), xycoords=place, va="center", fontsize=SMALL_PT, annotation_clip=False)


def _number(value: Any) -> float | None:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if fits else None
