"""Round numbers on an axis: as many as fit, formatted as numbers in reports are."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from matplotlib.ticker import Formatter, Locator, NullLocator

from lastro.figures.matplotlib_types import Axes
from lastro.figures.text import width_em
from lastro.words.language import Language
from lastro.words.numbers import axis_numbers

Ladder = Callable[[float, float, bool], Iterable[Sequence[float]]]  # ends, logarithmic or not -> ticks, most first

MOST = {"x": 7, "y": 5}
_GAP_EM = {"x": 1.0, "y": 0.9}  # between two labels


_RATIOS: tuple[tuple[float, ...], ...] = (
    (0.01, 0.1, 1, 10, 100),
    (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100),
    (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20),
    (0.25, 0.5, 0.7, 1, 1.4, 2, 3, 4),
    (0.4, 0.6, 0.8, 1, 1.2, 1.5, 2),
    (0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3),
    (0.85, 0.9, 0.95, 1, 1.05, 1.1, 1.15),
    (0.94, 0.96, 0.98, 1, 1.02, 1.04, 1.06),
    (0.97, 0.98, 0.99, 1, 1.01, 1.02, 1.03),
)


class Ticks(Locator):
    """A locator for matplotlib: as many ticks as fit, from a `ladder` of choices, without labels that touch.

    A ladder yields lists of ticks, the longest first. `text` formats the labels of a list. The choice is made when the
    figure is drawn, so it holds for the final length of the axis."""

    axis: Any

    def __init__(self, text: Callable[[Sequence[float]], list[str]], ladder: Ladder) -> None:
        self.text, self.ladder = text, ladder

    def __call__(self) -> list[float]:
        low, high = self.axis.get_view_interval()
        return self.tick_values(low, high)

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        low, high = sorted((vmin, vmax))
        log, ticks = self.axis.get_scale() == "log", [low]
        for rungs in self.ladder(low, high, log):
            if not rungs:
                continue
            ticks = list(rungs)
            if len(ticks) <= MOST[self.axis.axis_name] and self._apart(ticks, low, high, log):
                return ticks
        return ticks[:1]

    def _apart(self, ticks: Sequence[float], low: float, high: float, log: bool) -> bool:
        axes, side = self.axis.axes, self.axis.axis_name
        size_px = self.axis._get_tick_label_size(side) * axes.figure.dpi / 72
        length_em = (axes.bbox.width if side == "x" else axes.bbox.height) / size_px
        ends = [math.log10(end) if log else end for end in (low, high)]
        at_em = [((math.log10(t) if log else t) - ends[0]) / ((ends[1] - ends[0]) or 1) * length_em for t in ticks]
        half_em = [width_em(text) / 2 if side == "x" else 0.5 for text in self.text(ticks)]
        places = itertools.pairwise(zip(at_em, half_em, strict=True))
        return all(b - a >= half_a + half_b + _GAP_EM[side] for (a, half_a), (b, half_b) in places)


class TickLabels(Formatter):
    """A formatter for matplotlib that labels ticks by the function `text`, which must be the one that `Ticks` has."""

    def __init__(self, text: Callable[[Sequence[float]], list[str]]) -> None:
        self.text = text

    def __call__(self, x: float, pos: int | None = None) -> str:
        return self.text([x])[0]

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        return self.text(list(values)) if len(values) else []


def plain(say: Language) -> Callable[[Sequence[float]], list[str]]:
    return lambda values: axis_numbers(values, say)


def round_numbers(low: float, high: float, log: bool) -> Iterator[list[float]]:
    """Yield lists of round numbers between two ends, with steps of 1, 2 or 5 times a power of ten, longest list first.

    For a logarithmic axis that spans more than a factor of three, yield the lists of `powers`."""
    if log and high > 3 * low:
        yield from powers(low, high)
        return
    span = high - low
    if not (span > 0 and math.isfinite(span)):
        yield [low]
        return
    first = math.floor(math.log10(span)) - 1
    for power, step in itertools.product(range(first, first + 4), (1, 2, 5)):
        width = step * 10.0**power
        start, end = math.ceil(low / width - 1e-9), math.floor(high / width + 1e-9)
        if end - start < 20:
            yield [float(f"{at * width:.12g}") for at in range(start, end + 1)]


def powers(low: float, high: float) -> Iterator[list[float]]:
    """Yield lists of ticks for a logarithmic axis, the longest first.

    The ticks are 1, 2, 5, 10, …; then 1, 3, 10, …; then every power of ten; then every second power, and so on."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps, stride in (((1, 2, 5), 1), ((1, 3), 1), *(((1,), stride) for stride in range(1, 13))):
        chosen = (step * 10.0**power for power in powers if power % stride == 0 for step in steps)
        yield [float(f"{tick:.12g}") for tick in chosen if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]


def ratio_axis(axes: Axes, low: float, high: float, say: Language) -> None:
    """Make the horizontal axis logarithmic, from `low` to `high`, with a few round ratios as ticks: ×0.5, ×1, ×2."""

    def text(ratios: Sequence[float]) -> list[str]:
        return [f"×{axis_numbers([ratio], say)[0]}" for ratio in ratios]

    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(Ticks(text, ratio_ladder))
    axes.xaxis.set_major_formatter(TickLabels(text))
    axes.xaxis.set_minor_locator(NullLocator())


def ratio_ladder(low: float, high: float, _log: bool) -> Iterator[list[float]]:
    """Yield lists of round ratios between two ends, in the order in which to try them; the last has only 1.

    Most lists are rows of `_RATIOS`, from the finest suitable row back to the first. The search for it begins at the
    first row with three ratios between the ends, and goes on as long as the next row reaches as far. If the axis is
    very wide, powers of ten come first."""
    if low < 0.008 or high > 120:
        yield from powers(low, high)
    rows = [[float(step) for step in steps if low <= step <= high] for steps in _RATIOS]
    finest = next((at for at, steps in enumerate(rows) if len(steps) >= 3), 0)
    for coarser, finer in itertools.pairwise(rows[finest:]):
        if not (coarser and finer and finer[0] <= coarser[0] and finer[-1] >= coarser[-1]):
            break
        finest += 1
    yield from rows[finest::-1]
    yield [1.0]
