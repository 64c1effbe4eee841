"""The noise floor: the baseline against itself, and the band around 1 within which equal treatments differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.noise_floor import floor_here
from lastro.figures.effects import floor_share
from lastro.figures.rows import FigureRow, RowBand, RowDot, RowPanel, drawn_rows
from lastro.figures.scale import AxisEnds, Ends, over
from lastro.words.language import Language

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_floor(report: CampaignResults, say: Language) -> Figure | None:
    """Draw a row for each metric with a noise floor; None when none is known."""
    rows, notes, at = [], [], [1.0]
    intervals: list[Ends] = []
    for view in report.views:
        if (floor := floor_here(view)) is None:
            continue
        metric = report.noise_floor["metrics"][view.metric.name]
        found = metric["interval"]
        ends = None if found is None else (found["low"], found["high"])
        words = f"± {floor_share(floor.share, say)} %\n" + say("n = {n} pairs", n=say.integer(metric["n_pairs"]))
        band = RowBand(1 - floor.share, 1 + floor.share)
        rows.append(FigureRow(view.metric.name, words, [band, RowDot(metric["ratio"], ends)]))
        notes += [] if floor.note is None else [say.note(floor.note)]
        intervals += [] if ends is None else [ends]
        at += [band.low, band.high, *(ends or ()), *([] if metric["ratio"] is None else [metric["ratio"]])]
    if not rows:
        return None
    room = 0.05 * (max(at) - min(at))
    low = min(at) - room
    axis = over(
        intervals, AxisEnds(max(0.0, low), max(at) + room), bounded=low < 0
    )  # a ratio of amounts is not below 0
    how = say("band: how far equal treatments differ here; dot: the baseline against itself, with its interval")
    panel = RowPanel(rows, axis, say("ratio of the baseline to itself"), 1.0)
    lines = [how, *dict.fromkeys(notes), *axis.words(say("ratio"), say)]
    return drawn_rows([panel], say("Noise floor of this host"), lines, say)
