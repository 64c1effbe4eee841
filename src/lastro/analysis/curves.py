"""Curves over a numeric factor, such as digits, threads, files or clients. Pure.

A curve has a line for each platform and a panel for each combination of the other factors. The numbers on its
horizontal axis are the levels of a factor, as in `"instrument.threads" = [1, 1000]`, or the values of an option inside
the levels of a factor, as in `instrument = ["pi:digits=1000", "pi:digits=10000"]`. 300M and 16K are numbers, too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lastro.analysis.campaign import CampaignResults, MetricView, Row
from lastro.study.levels import join_options, part_level, split_options
from lastro.study.model import Factor, Level

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([kMGT]?)(?:i?B|bit/s|bps)?", re.IGNORECASE)
_PREFIX = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}  # 1000 is close enough to 1024 on an axis
MOST_PANELS = 12  # in one figure
_PLATFORM = "platform"  # the factor that provides the lines, if it varies


@dataclass(frozen=True, slots=True)
class CurveLine:
    """One line of a curve: the row of the treatment at each number of the axis; None where the study has no treatment.

    `is_baseline` is True if the other lines are compared with this line."""

    name: str
    rows: tuple[Row | None, ...]
    is_baseline: bool

    @property
    def runs_here(self) -> bool:
        """True if some treatment of the line is available on this host."""
        return any(row is not None and row.status != "unavailable" for row in self.rows)


@dataclass(frozen=True, slots=True)
class Panel:
    """The lines for one combination of levels of all factors but the axis and the factor that provides the lines."""

    levels: tuple[str, ...]
    lines: tuple[CurveLine, ...]


@dataclass(frozen=True, slots=True)
class Curve:
    """The curve of one numeric factor or option."""

    factor: str  # name of the axis, such as 'instrument.threads'
    labels: tuple[Level, ...]  # `numbers` as the study writes them
    numbers: tuple[float, ...]  # on the axis, in ascending order
    lines: str  # the factor that provides the lines; empty: there is one line
    others: tuple[str, ...]  # factors that differ between panels
    panels: tuple[Panel, ...]

    @property
    def line_names(self) -> tuple[str, ...]:
        """The names of the lines of all panels: the baseline first, lines that cannot run here last."""
        lines = {line.name: line for panel in self.panels for line in panel.lines}
        running = {line.name for panel in self.panels for line in panel.lines if line.runs_here}
        order = sorted(lines, key=lambda name: (name not in running, not lines[name].is_baseline))
        return tuple(order)

    def measures(self, view: MetricView) -> bool:
        """Return whether some line has values of the metric at two or more numbers of the axis."""
        lines = [line for panel in self.panels for line in panel.lines]
        return any(sum(_n(row, view) > 0 for row in line.rows) > 1 for line in lines)

    def shows_all(self, view: MetricView) -> bool:
        """Return whether this curve shows every value of the metric."""
        if not self.measures(view) or len(self.panels) > MOST_PANELS:
            return False
        n_shown = sum(_n(row, view) for panel in self.panels for line in panel.lines for row in line.rows)
        return n_shown == sum(len(cell.points) for cell in view.cells)


def _n(row: Row | None, view: MetricView) -> int:
    """Return the number of values of a metric in a row; 0 without a row."""
    return len(view.of(row).points) if row is not None else 0


def curves(report: CampaignResults) -> tuple[Curve, ...]:
    """Return a curve for each factor whose levels are numbers, and for each numeric option inside levels."""
    result = []
    for factor in report.varying:
        if all(number_of(level) is not None for level in factor.levels):
            result.append(_curve(report, factor.name, factor.name, {level: (level, "") for level in factor.levels}))
            continue
        for option in dict.fromkeys(name for level in factor.levels for name in split_options(str(level))[1]):
            if places := _split_levels(factor, option):
                result.append(_curve(report, f"{factor.name}.{option}", factor.name, places))
    return tuple(result)


def number_of(level: Level) -> float | None:
    """Return the number of a level such as 2000, '2000' or '300M'; None for other text and for booleans."""
    if isinstance(level, bool):
        return None
    if isinstance(level, int | float):
        return float(level)
    match = _NUMBER.fullmatch(level)
    return float(match[1]) * _PREFIX[match[2].lower()] if match else None


def _split_levels(factor: Factor, option: str) -> dict[Level, tuple[Level, str]]:
    """Return {level: (the option's number as the study writes it, the level without the option)}.

    A level is included only if its remainder occurs with two or more numbers."""
    split: dict[Level, tuple[Level, str]] = {}
    numbers: dict[str, set[float]] = {}
    for level in factor.levels:
        part, options = split_options(str(level))
        text = options.pop(option, "")
        number = number_of(text)
        if not number:  # 0 means that the part chooses a size, which has no place on the axis
            continue
        rest = join_options(part, [f"{name}={value}" for name, value in options.items()])
        split[level] = (int(text) if text.isdigit() else text, rest)
        numbers.setdefault(rest, set()).add(number)
    return {level: (text, rest) for level, (text, rest) in split.items() if len(numbers[rest]) > 1}


def _curve(report: CampaignResults, name: str, factor: str, places: Mapping[Level, tuple[Level, str]]) -> Curve:
    """Return the curve `name`; `places` is {level of `factor`: (its number on the axis, the rest of the level)}."""
    labels = sorted({text for text, _ in places.values()}, key=lambda text: number_of(text) or 0.0)
    rows = [row for row in report.rows if row.treatment.levels[factor] in places]
    others = [dict(_other_levels(report, row, factor, places)) for row in rows]
    # Keep the rest of a level even if it is the same everywhere, because it says what the number belongs to.
    first = others[0] if others else {}
    names = [other for other in first if other == factor or len({levels[other] for levels in others}) > 1]
    lines = _PLATFORM if _PLATFORM in names else next((other for other in names if other != factor), "")
    panels = tuple(other for other in names if other != lines)
    by_panel: dict[tuple[str, ...], dict[str, dict[Level, Row]]] = {}
    for row, levels in zip(rows, others, strict=True):
        panel = by_panel.setdefault(tuple(levels[other] for other in panels), {})
        label, _ = places[row.treatment.levels[factor]]
        panel.setdefault(levels.get(lines, ""), {})[label] = row
    drawn = []
    for panel_levels, by_line in by_panel.items():
        baseline = {line for line, of_line in by_line.items() if any(row.is_baseline for row in of_line.values())}
        if len(baseline) == len(by_line) > 1:  # the baseline is a number on the axis, not one of the lines
            baseline = set()
        of_panel = (CurveLine(line, tuple(map(at.get, labels)), line in baseline) for line, at in by_line.items())
        drawn.append(Panel(panel_levels, tuple(of_panel)))
    return Curve(name, tuple(labels), tuple(number_of(text) or 0.0 for text in labels), lines, panels, tuple(drawn))


def _other_levels(
    report: CampaignResults, row: Row, factor: str, places: Mapping[Level, tuple[Level, str]]
) -> Iterator[tuple[str, str]]:
    """Yield (factor, level) of a treatment for all varying factors; the level of `factor` is without the axis number.

    The level of a part, such as `platform`, includes the options that vary separately, such as `platform.storage`."""
    levels = dict(row.treatment.levels)
    _, rest = places[levels.pop(factor)]
    if rest:
        levels[factor] = rest
    varying = [other.name for other in report.varying if other.name in levels]
    for name in varying:
        kind = name.partition(".")[0]
        if kind == name:
            yield name, part_level({key: level for key, level in levels.items() if key in varying}, name)
        elif kind not in varying:
            yield name, str(levels[name])
