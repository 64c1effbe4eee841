"""Classes of matplotlib for annotations only: importing this module does not import matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text
else:
    Axes = Figure = Text = Any

__all__ = ["Axes", "Figure", "Text"]
