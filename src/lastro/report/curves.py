"""What a campaign varies by number: digits, threads, files, clients. A line for each platform, a panel for each

combination of the other factors. Pure.

The numbers are the levels of a factor, `"instrument.threads" = [1, 1000]`, or an option that is written into them,
`instrument = ["pi:digits=1000", "pi:digits=10000"]`. Text such as 300M or 16K is a number with a prefix."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lastro.report.language import N_, Language
from lastro.report.model import Report, Row
from lastro.report.remarks import signs
from lastro.study.levels import join_options, part_level, split_options
from lastro.study.model import Factor, Level

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([kMGT]?)(?:i?B|bit/s|bps)?", re.IGNORECASE)
_PREFIX = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}  # of places on an axis: 1K and 1024 are near enough
MOST_PANELS = 12  # of one figure
_FIRST = "platform"  # what has a line of its own where it varies
_WHY_MISSING = {
    "unavailable": N_("unavailable"),
    "invalid": N_("invalid"),
    "pending": N_("not run yet"),
    "valueless": N_("no value"),
}


@dataclass(frozen=True, slots=True)
class Line:
    """One level of what has lines, over the numbers of its curve: a treatment for each, None where the study has none.

    `is_baseline`: what the others are compared with."""

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
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Curve:
    """`factor` is the axis, as 'instrument.threads'; `labels` are its levels as the study writes them, in the order of

    `numbers`. `lines` says of what there are lines (empty: there is one), `others` what differs between panels."""

    factor: str
    labels: tuple[Level, ...]
    numbers: tuple[float, ...]
    lines: str
    others: tuple[str, ...]
    panels: tuple[Panel, ...]

    @property
    def line_names(self) -> tuple[str, ...]:
        """Of all panels, in the order of the study; first the baseline, last those that cannot run here."""
        found = {line.name: line for panel in self.panels for line in panel.lines}
        running = {line.name for panel in self.panels for line in panel.lines if line.runs_here}
        order = sorted(found, key=lambda name: (name not in running, not found[name].is_baseline))
        return tuple(order)

    def measures(self, index: int) -> bool:
        """Whether there is a value of the report's metric number `index` at two numbers or more."""
        lines = [line for panel in self.panels for line in panel.lines]
        return any(sum(_n(row, index) > 0 for row in line.rows) > 1 for line in lines)

    def shows_all(self, report: Report, index: int) -> bool:
        """Whether every trial of the metric is a point of this curve."""
        if not self.measures(index) or len(self.panels) > MOST_PANELS:
            return False
        own = sum(_n(row, index) for panel in self.panels for line in panel.lines for row in line.rows)
        return own == sum(_n(row, index) for row in report.rows)


def _n(row: Row | None, index: int) -> int:
    return len(row.cells[index].points) if row is not None else 0


def curves(report: Report) -> tuple[Curve, ...]:
    """One for each factor, or option within a factor, that has two numbers or more beside the same other levels."""
    found = []
    for factor in report.varying:
        if all(number_of(level) is not None for level in factor.levels):
            found.append(_curve(report, factor.name, factor.name, {level: (level, "") for level in factor.levels}))
        else:
            for option in _numbered_options(factor):
                found.append(_curve(report, f"{factor.name}.{option}", factor.name, _split(factor, option)))
    return tuple(found)


def number_of(level: Level) -> float | None:
    """2000, '2000', '300M' -> a number; None for any other text, and for yes or no."""
    if isinstance(level, bool):
        return None
    if isinstance(level, int | float):
        return float(level)
    match = _NUMBER.fullmatch(level)
    return float(match[1]) * _PREFIX[match[2].lower()] if match else None


def level_text(level: Level, say: Language) -> str:
    """A number of an axis as people read it, '200,000'; text as the study has it."""
    if isinstance(level, int):
        return say.integer(level)
    return say.number(f"{level:g}") if isinstance(level, float) else level


def why_missing(row: Row | None, index: int, say: Language) -> str:
    """Why a treatment has no value of a metric, with its marks; empty where it has one, and where there is no such
    treatment."""
    if row is None or row.cells[index].summary is not None:
        return ""
    return say(_WHY_MISSING.get(row.status, _WHY_MISSING["valueless"])) + signs(row.cells[index].marks)


def _numbered_options(factor: Factor) -> list[str]:
    """Options in the levels of a factor that are numbers, of which some differ while all the rest is the same."""
    names = dict.fromkeys(name for level in factor.levels for name in split_options(str(level))[1])
    return [name for name in names if _split(factor, name)]


def _split(factor: Factor, option: str) -> dict[Level, tuple[Level, str]]:
    """{level: (number as it is written, the level without it)}, of those whose rest has two numbers or more."""
    found: dict[Level, tuple[Level, str]] = {}
    numbers: dict[str, set[float]] = {}
    for level in factor.levels:
        part, options = split_options(str(level))
        text = options.pop(option, "")
        if not (number := number_of(text)):  # 0 leaves the choice of a size to the part: it lies nowhere on the axis
            continue
        rest = join_options(part, [f"{name}={value}" for name, value in options.items()])
        found[level] = (int(text) if text.isdigit() else text, rest)
        numbers.setdefault(rest, set()).add(number)
    return {level: (text, rest) for level, (text, rest) in found.items() if len(numbers[rest]) > 1}


def _curve(report: Report, name: str, factor: str, places: Mapping[Level, tuple[Level, str]]) -> Curve:
    """`places` tells of each level of the factor its place on the axis, and what is left of it."""
    labels = sorted({text for text, _ in places.values()}, key=lambda text: number_of(text) or 0.0)
    at: dict[tuple[tuple[str, ...], str], dict[Level, Row]] = {}
    rest = [
        (row, places[row.treatment.levels[factor]][0], dict(_others(report, row, factor, places)))
        for row in report.rows
        if row.treatment.levels[factor] in places
    ]
    # What an option leaves of its level is told even where it is the same everywhere: it says of what the number is.
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
    report: Report, row: Row, factor: str, places: Mapping[Level, tuple[Level, str]]
) -> Iterator[tuple[str, str]]:
    """The levels beside the number. Factors that are options of a part which varies too are told with the part."""
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
    if len(baseline) == len(own) > 1:  # the baseline is a number of each line, and none of the lines
        baseline = set()
    lines = (Line(name, tuple(map(rows.get, labels)), name in baseline) for name, rows in own.items())
    return Panel(levels, tuple(lines))
