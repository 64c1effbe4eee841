"""A figure of durations that are all measured from the same starting moment: a row for each treatment."""

from __future__ import annotations

from lastro.analysis.campaign import CampaignResults
from lastro.figures.matplotlib_types import Figure
from lastro.figures.rows import FigureRow, RowDot, RowPanel, draw_rows
from lastro.figures.scale import ends_of, from_zero
from lastro.figures.style import colour_of, marker_of
from lastro.figures.xy import Look
from lastro.results.additions import Milestones
from lastro.words.language import Language

_DOT: Look = {"ms": 4.5, "mec": "white", "mew": 0.5}


def draw_milestones(milestones: Milestones, report: CampaignResults, say: Language) -> Figure | None:
    """Draw the mean of each duration with its interval; None with fewer than two durations, or if none was measured."""
    by_name = {view.metric.name: view for view in report.views}
    views = [by_name[name] for name in milestones.metrics if name in by_name]
    measured = [row for row in report.rows if any(view.of(row).summary for view in views)]
    if len(views) < 2 or not measured:
        return None
    varying = [factor.name for factor in report.varying] or [factor.name for factor in report.study.factors]
    looks: list[Look] = [
        {"marker": marker_of(at), "color": colour_of(at), "linestyle": "none"} for at in range(len(views))
    ]
    rows = []
    for row in measured:
        dots = []
        for view, look in zip(views, looks, strict=True):
            if summary := view.of(row).summary:
                dots.append(RowDot(summary.mean, ends_of(summary.interval), look["color"], {**look, **_DOT}, 1.2))
        rows.append(FigureRow(" · ".join(str(row.treatment.levels[name]) for name in varying), marks=dots))
    ends = from_zero([summary for row in measured for view in views if (summary := view.of(row).summary)], 1.05)
    n_most = max(row.n_valid for row in measured)
    how = say("mean of the valid trials with its interval, n = {n} at most", n=say.integer(n_most))
    legend = [(view.metric.name, look) for view, look in zip(views, looks, strict=True)]
    lines = [how, *ends.words(say("time"), say)]
    return draw_rows([RowPanel(rows, ends, say(milestones.axis))], say(milestones.title), lines, say, legend)
