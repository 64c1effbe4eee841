"""Small panels side by side, one for each treatment, with the same axes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lastro.analysis.campaign import CampaignResults, Row
from lastro.figures.style import SMALL_PT, is_narrow, width_of
from lastro.figures.text import chars, wrapped
from lastro.words.language import Language

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PANELS = 36


@dataclass(frozen=True, slots=True)
class Panels:
    """The axes of `n` panels in rows of `across`, `deep` rows of them."""

    axes: tuple[Axes, ...]
    across: int
    room: float  # for a line of a panel's title, in average characters

    @property
    def deep(self) -> int:
        return math.ceil(len(self.axes) / self.across)

    @property
    def stacked(self) -> tuple[Axes, ...]:
        return self.axes[:: self.across]

    def label(self, at: int, text: str) -> None:
        """Put a title on a panel, and numbers on its horizontal axis if it is the lowest of its column."""
        self.axes[at].set_title(text, loc="left", fontsize=SMALL_PT)
        self.axes[at].tick_params(labelsize=SMALL_PT, labelbottom=at + self.across >= len(self.axes))


def panels_of(figure: Figure, n: int, most_across: int = 3) -> Panels:
    across = min(2 if is_narrow(figure) else most_across, n)
    grid = list(figure.subplots(math.ceil(n / across), across, sharex=True, sharey=True, squeeze=False).flat)
    for axes in grid[n:]:
        axes.set_axis_off()
    return Panels(tuple(grid[:n]), across, chars(width_of(figure) / across - 0.35, SMALL_PT))


def treatment_label(report: CampaignResults, row: Row, n: int, room: float, say: Language) -> str:
    """Return the varying levels of a treatment, wrapped, and its number of trials."""
    levels = [str(row.treatment.levels[factor.name]) for factor in report.varying]
    return "\n".join((*([wrapped(" · ".join(levels), room)] if levels else []), say("n = {n}", n=say.integer(n))))


def not_all(n: int, say: Language) -> str:
    """Return how many treatments have a panel; empty if all have."""
    return say("{n} of {all} treatments", n=MOST_PANELS, all=n) if n > MOST_PANELS else ""
