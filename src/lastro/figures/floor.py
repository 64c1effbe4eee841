"""The noise floor: the baseline against itself, and the band around 1 within which equal treatments differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.noise_floor import floor_here
from lastro.figures.effects import floor_share
from lastro.figures.rows import FigureRow, fit_rows, set_rows
from lastro.figures.scale import AxisEnds, interval_bar, over
from lastro.figures.style import FAINT, PALETTE, headed, new_figure, numbers_in
from lastro.words.language import Language

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BAND_IN = 0.17


def draw_floor(report: CampaignResults, say: Language) -> Figure | None:
    """Draw a row for each metric with a noise floor; None when none is known."""
    floors = {view.metric.name: floor_here(view) for view in report.views}
    found = {name: (floor, report.noise_floor["metrics"][name]) for name, floor in floors.items() if floor is not None}
    if not found:
        return None
    figure = new_figure()
    axes = figure.subplots()
    ends = _reach([(floor.share, metric) for floor, metric in found.values()])
    axes.set_xlim(ends.low, ends.high)
    numbers_in(axes, say)
    rows = set_rows(
        axes, [FigureRow(name, _words(floor.share, metric, say)) for name, (floor, metric) in found.items()]
    )
    for y, (floor, metric) in zip(rows.places, found.values(), strict=True):
        _row(axes, y, floor.share, metric)
    axes.axvline(1, color="black", linewidth=0.9)
    axes.set_xlabel(say("ratio of the baseline to itself"))
    how = say("band: how far equal treatments differ here; dot: the baseline against itself, with its interval")
    notes = dict.fromkeys(say.note(floor.note) for floor, _ in found.values() if floor.note is not None)
    headed(figure, say("Noise floor of this host"), how, *notes, *ends.words(say("ratio"), say))
    fit_rows(figure, [(axes, rows)])
    return figure


def _reach(found: Sequence[tuple[float, Mapping[str, Any]]]) -> AxisEnds:
    """Return an axis around 1 for every band, dot and interval; a ratio of amounts is not below 0."""
    intervals = [interval for _, metric in found if (interval := _interval(metric)) is not None]
    at = [1.0, *(1 + floor for floor, _ in found), *(1 - floor for floor, _ in found)]
    at += [ratio for _, metric in found if (ratio := metric["ratio"]) is not None]
    low = min(at + [end for end, _ in intervals])
    high = max(at + [end for _, end in intervals])
    room = 0.05 * (high - low)
    return over(intervals, AxisEnds(max(0.0, low - room), high + room), bounded=low - room < 0)


def _row(axes: Axes, y: float, floor: float, metric: Mapping[str, Any]) -> None:
    axes.barh(y, 2 * floor, left=1 - floor, height=_BAND_IN, color=FAINT, alpha=0.6)
    if (interval := _interval(metric)) is not None:
        interval_bar(axes, interval, y, PALETTE[0])
    if (ratio := metric["ratio"]) is not None:
        axes.plot([ratio], [y], marker="o", ms=5, color=PALETTE[0], mec="white", mew=0.6, zorder=4)


def _words(floor: float, metric: Mapping[str, Any], say: Language) -> str:
    return f"± {floor_share(floor, say)} %\n" + say("n = {n} pairs", n=say.integer(metric["n_pairs"]))


def _interval(metric: Mapping[str, Any]) -> tuple[float, float] | None:
    interval = metric["interval"]
    return None if interval is None else (interval["low"], interval["high"])
