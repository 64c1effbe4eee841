"""Curves over a numeric factor, such as digits, threads, files or clients. Pure.

A curve has a line for each platform and a panel for each combination of the other factors. The numbers are the levels
of a factor, `"instrument.threads" = [1, 1000]`, or an option inside its levels, `instrument = ["pi:digits=1000",
"pi:digits=10000"]`. Text such as 300M or 16K is a number with a prefix."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lastro.analysis.campaign import CampaignResults, MetricView, Row
from lastro.study.levels import join_options, part_level, split_options
from lastro.study.model import Factor, Level

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([kMGT]?)(?:i?B|bit/s|bps)?", re.IGNORECASE)
_PREFIX = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}  # for an axis, 1000 is close enough to 1024
MOST_PANELS = 12  # in one figure
_FIRST = "platform"  # the factor that provides the lines, where it varies


@dataclass(frozen=True, slots=True)
class CurveLine:
    """One line of a curve: a treatment for each number, None where the study has no such treatment.

    `is_baseline`: the other lines are compared with this one."""

    name: str
    rows: tuple[Row | None, ...]
    is_baseline: bool

    @property
    def runs_here(self) -> bool:
        return any(row is not None and row.status != "unavailable" for row in self.rows)


@dataclass(frozen=True, slots=True)
class Panel:
    """One combination of the factors that are neither the axis nor lines."""

    levels: tuple[str, ...]
    lines: tuple[CurveLine, ...]


@dataclass(frozen=True, slots=True)
class Curve:
    """The curve of one numeric factor or option.

    `factor` is the axis, such as 'instrument.threads'; `labels` are its levels as the study writes them, in the order
    of `numbers`. `lines` is the factor that provides the lines (empty: there is one line); `others` are the factors
    that differ between panels."""

    factor: str
    labels: tuple[Level, ...]
    numbers: tuple[float, ...]
    lines: str
    others: tuple[str, ...]
    panels: tuple[Panel, ...]

    @property
    def line_names(self) -> tuple[str, ...]:
        """The names of the lines of all panels: the baseline first, lines that cannot run here last."""
        lines = {line.name: line for panel in self.panels for line in panel.lines}
        running = {line.name for panel in self.panels for line in panel.lines if line.runs_here}
        order = sorted(lines, key=lambda name: (name not in running, not lines[name].is_baseline))
        return tuple(order)

    def measures(self, view: MetricView) -> bool:
        """Return whether a line has values of the metric at two numbers or more."""
        lines = [line for panel in self.panels for line in panel.lines]
        return any(sum(_n(row, view) > 0 for row in line.rows) > 1 for line in lines)

    def shows_all(self, view: MetricView) -> bool:
        """Return whether every trial of the metric is a point of this curve."""
        if not self.measures(view) or len(self.panels) > MOST_PANELS:
            return False
        own = sum(_n(row, view) for panel in self.panels for line in panel.lines for row in line.rows)
        return own == sum(len(cell.points) for cell in view.cells)


def _n(row: Row | None, view: MetricView) -> int:
    return len(view.of(row).points) if row is not None else 0


def curves(report: CampaignResults) -> tuple[Curve, ...]:
    """Return a curve for each numeric factor, or option within a factor, with two or more numbers at fixed levels."""
    found = []
    for factor in report.varying:
        if all(number_of(level) is not None for level in factor.levels):
            found.append(_curve(report, factor.name, factor.name, {level: (level, "") for level in factor.levels}))
        else:
            for option in _numbered_options(factor):
                found.append(_curve(report, f"{factor.name}.{option}", factor.name, _split(factor, option)))
    return tuple(found)


def number_of(level: Level) -> float | None:
    """Return the number of a level such as 2000, '2000' or '300M'; None for other text and for booleans."""
    if isinstance(level, bool):
        return None
    if isinstance(level, int | float):
        return float(level)
    match = _NUMBER.fullmatch(level)
    return float(match[1]) * _PREFIX[match[2].lower()] if match else None


def _numbered_options(factor: Factor) -> list[str]:
    """Return the numeric options in which levels of a factor differ while the rest of the level is the same."""
    names = dict.fromkeys(name for level in factor.levels for name in split_options(str(level))[1])
    return [name for name in names if _split(factor, name)]


def _split(factor: Factor, option: str) -> dict[Level, tuple[Level, str]]:
    """Return {level: (number as written, level without it)} for levels whose remainder has two or more numbers."""
    found: dict[Level, tuple[Level, str]] = {}
    numbers: dict[str, set[float]] = {}
    for level in factor.levels:
        part, options = split_options(str(level))
        text = options.pop(option, "")
        if not (number := number_of(text)):  # 0 means that the part chooses a size: it has no place on the axis
            continue
        rest = join_options(part, [f"{name}={value}" for name, value in options.items()])
        found[level] = (int(text) if text.isdigit() else text, rest)
        numbers.setdefault(rest, set()).add(number)
    return {level: (text, rest) for level, (text, rest) in found.items() if len(numbers[rest]) > 1}


def _curve(report: CampaignResults, name: str, factor: str, places: Mapping[Level, tuple[Level, str]]) -> Curve:
    """Return one curve; `places` maps each level of the factor to its place on the axis and the rest of the level."""
    labels = sorted({text for text, _ in places.values()}, key=lambda text: number_of(text) or 0.0)
    at: dict[tuple[tuple[str, ...], str], dict[Level, Row]] = {}
    rest = [
        (row, places[row.treatment.levels[factor]][0], dict(_others(report, row, factor, places)))
        for row in report.rows
        if row.treatment.levels[factor] in places
    ]
    # Keep the rest of a level even if it is the same everywhere: it says what the number belongs to.
    names = [n for n in rest[0][2] if n == factor or len({others[n] for _, _, others in rest}) > 1] if rest else []
    lines = _FIRST if _FIRST in names else next((n for n in names if n != factor), "")
    panels = tuple(n for n in names if n != lines)
    for row, text, others in rest:
        at.setdefault((tuple(others[n] for n in panels), others.get(lines, "")), {})[text] = row
    return Curve(
        name,
        tuple(labels),
        tuple(number_of(text) or 0.0 for text in labels),
        lines,
        panels,
        tuple(_panel(levels, at, labels) for levels in dict.fromkeys(levels for levels, _ in at)),
    )


def _others(
    report: CampaignResults, row: Row, factor: str, places: Mapping[Level, tuple[Level, str]]
) -> Iterator[tuple[str, str]]:
    """Yield (factor, level) for the levels other than the number; the level of a varying part includes its options."""
    levels = dict(row.treatment.levels)
    left = places[levels.pop(factor)][1]
    if left:
        levels[factor] = left
    varying = {each.name for each in report.varying} & set(levels)
    for name in [each.name for each in report.varying if each.name in varying]:
        kind = name.partition(".")[0]
        if kind == name or kind not in varying:
            own = {key: level for key, level in levels.items() if key == name or key in varying}
            yield name, part_level(own, name) if "." not in name else str(levels[name])


def _panel(
    levels: tuple[str, ...], at: Mapping[tuple[tuple[str, ...], str], Mapping[Level, Row]], labels: Sequence[Level]
) -> Panel:
    own = {line: rows for (panel, line), rows in at.items() if panel == levels}
    baseline = {line for line, rows in own.items() if any(row.is_baseline for row in rows.values())}
    if len(baseline) == len(own) > 1:  # the baseline is a number of every line, not one of the lines
        baseline = set()
    lines = (CurveLine(name, tuple(map(rows.get, labels)), name in baseline) for name, rows in own.items())
    return Panel(levels, tuple(lines))
