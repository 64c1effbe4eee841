"""Draw how well the residuals meet the assumptions: a normal quantile plot, and residuals against fitted values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lastro.analysis.model import MetricAnalysis
from lastro.figures.style import (
    GREY,
    GRID,
    PALETTE,
    fit,
    headed,
    is_narrow,
    new_figure,
    numbers_in,
    points,
    titled,
    width_of,
)
from lastro.words.language import Language

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lastro.stats.residual_checks import ResidualChecks


def draw_checks(analysis: MetricAnalysis, say: Language) -> Figure | None:
    """Draw two small panels, side by side where they fit; None without residuals to show."""
    checks, anova = analysis.checks, analysis.anova
    if checks is None or anova is None or len(checks.points) < 3:
        return None
    figure = new_figure()
    across = 1 if is_narrow(figure) else 2
    normal, against = figure.subplots(2 // across, across).flat
    x, y = zip(*checks.points, strict=True)
    reach = [min(x), max(x)]
    normal.plot(reach, reach, color="black", linewidth=0.9)
    points(normal, x, y, PALETTE[0], 2.2, alpha=0.6)
    normal.set_xlabel(say("normal quantile"))
    titled(normal, say("residual (standard deviations)"), width_of(figure) / across - 0.6, 8)
    against.axhline(0, color="black", linewidth=0.9)
    points(against, anova.fitted, anova.residuals, PALETTE[0], 2.2, alpha=0.6)
    against.set_xlabel(say("fitted value (logarithm)") if anova.log else say("fitted value"))
    titled(against, say("residual"), size_pt=8)
    if analysis.metric.non_negative and not anova.log and min(anova.fitted) >= 0:
        against.set_xlim(left=max(0.0, against.get_xlim()[0]))
    for axes in (normal, against):
        _plain(axes, say)
    n = say("n = {n}", n=say.integer(anova.n))
    headed(figure, f"{analysis.metric.name} ({n})", _verdict(checks, say))
    return fit(figure, [normal] if across == 2 else [normal, against], 1.75 * (3 - across))


def _verdict(checks: ResidualChecks, say: Language) -> str:
    if checks.shapiro_w is None or checks.shapiro_p is None:
        return ""
    words = say("residuals look normal") if checks.looks_normal else say("residuals are not normal")
    return f"{words}: Shapiro-Wilk W = {say.number(f'{checks.shapiro_w:.3f}')}, {_p(checks.shapiro_p, say)}"


def _p(p: float, say: Language) -> str:
    return say.number("p < 0.001" if p < 0.001 else f"p = {p:.3f}")


def _plain(axes: Axes, say: Language) -> None:
    axes.grid(color=GRID, linewidth=0.6)
    axes.spines["left"].set_visible(True)
    axes.spines["left"].set_color(GREY)
    axes.tick_params(labelsize=7)
    numbers_in(axes, say, x=True, y=True)
