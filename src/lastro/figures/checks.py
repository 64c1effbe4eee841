"""Draw how well the residuals meet the assumptions: a normal quantile plot, and residuals against fitted values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lastro.analysis.model import MetricAnalysis
from lastro.figures.style import PALETTE
from lastro.figures.xy import Item, Look, PanelRule, Plot, PlotAxis, PlotLine, PlotPanel, dots, drawn
from lastro.words.language import Language

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lastro.stats.residual_checks import ResidualChecks

_BLACK: Look = {"color": "black", "linewidth": 0.9}


def draw_checks(analysis: MetricAnalysis, say: Language) -> Figure | None:
    """Draw two small panels; None without residuals to show."""
    checks, anova = analysis.checks, analysis.anova
    if checks is None or anova is None or len(checks.points) < 3:
        return None
    x, y = [at for at, _ in checks.points], [value for _, value in checks.points]
    ends, look = [min(x), max(x)], dots(PALETTE[0], 2.2)
    normal: list[Item] = [PlotLine(ends, ends, _BLACK), PlotLine(x, y, look)]
    against: list[Item] = [PanelRule("y", 0, _BLACK), PlotLine(anova.fitted, anova.residuals, look)]
    least, most = min(anova.fitted), max(anova.fitted)
    # An axis of amounts does not go below 0, where its room around the points would.
    cut = analysis.metric.non_negative and not anova.log and 0 <= least < 0.05 * (most - least)
    fitted = say("fitted value (logarithm)") if anova.log else say("fitted value")
    n = say("n = {n}", n=say.integer(anova.n))
    plot = Plot(
        [
            PlotPanel(normal, [say("residual (standard deviations)")], PlotAxis(say("normal quantile")), PlotAxis()),
            PlotPanel(against, [say("residual")], PlotAxis(fitted, low=0.0 if cut else None), PlotAxis()),
        ],
        f"{analysis.metric.name} ({n})", [_verdict(checks, say)],
        PlotAxis(), PlotAxis(), 1.75, across=2, narrow_across=1,
    )  # fmt: skip
    return drawn(plot, say)


def _verdict(checks: ResidualChecks, say: Language) -> str:
    if checks.shapiro_w is None or checks.shapiro_p is None:
        return ""
    words = say("residuals look normal") if checks.looks_normal else say("residuals are not normal")
    p = "p < 0.001" if checks.shapiro_p < 0.001 else f"p = {checks.shapiro_p:.3f}"
    return f"{words}: Shapiro-Wilk W = {say.number(f'{checks.shapiro_w:.3f}')}, {say.number(p)}"
