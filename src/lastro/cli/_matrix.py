"""Results of probes, as tables that fit a terminal and as a list of every combination. Pure."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lastro import papers
from lastro.builders.data.encoder import pick
from lastro.cli._properties import property_list
from lastro.platforms.base import Availability
from lastro.scenarios.shared.properties import PartProperties

WORKS, FAILS, UNTRIED = "✓", "✗", "·"
_GAP = 2


@dataclass(frozen=True, slots=True)
class ProbedPart:
    """The result of probing a part; `on` is the platform on which it was tried, or the platform itself."""

    kind: str
    name: str
    on: str
    availability: Availability


def cells(findings: Sequence[ProbedPart]) -> list[dict[str, Any]]:
    """Return a dictionary for every combination of platform, attachment and isolation, with its availability.

    A combination is available if its attachment and its isolation each work on its platform; the combination as a whole
    is not probed."""
    of = {(finding.kind, finding.on, finding.name): finding.availability for finding in findings}
    platforms = [finding.name for finding in findings if finding.kind == "platform"]
    kinds = [
        dict.fromkeys(finding.name for finding in findings if finding.kind == kind)
        for kind in ("attachment", "isolation")
    ]
    return [
        {"platform": platform, "attachment": attachment, "isolation": isolation, **_plain(availability)}
        for platform, attachment, isolation in itertools.product(platforms, *kinds)
        for availability in [of["attachment", platform, attachment] and of["isolation", platform, isolation]]
    ]


def _plain(availability: Availability) -> dict[str, Any]:
    mark = WORKS if availability else FAILS
    return {"available": bool(availability), "mark": mark, **pick(availability, "reason remedy")}


def document(
    host: Mapping[str, Any],
    guest: Mapping[str, Any] | None,
    findings: Sequence[ProbedPart],
    versions: Mapping[str, str],
    properties: Sequence[PartProperties] = (),
) -> dict[str, Any]:
    """Return the results of probes as JSON-serializable data, with the facts of the host and of the guest, if any.

    `properties` are the properties of parts; empty unless the command was asked to find them."""
    tried = {"parts": parts(findings, versions), "matrix": cells(findings)}
    named = [asdict(missing_part) for missing_part in papers.absent()]
    more = {"properties": property_list(properties)} if properties else {}
    return {"host": host, **({"guest": guest} if guest else {}), **tried, **more, "named_by_papers": named}


def parts(findings: Sequence[ProbedPart], versions: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return a dictionary for every probe. `versions` is {platform: version}, in which platforms may be missing."""
    return [
        {"kind": finding.kind, "name": finding.name, "on": None if finding.kind == "platform" else finding.on}
        | ({"version": versions.get(finding.name)} if finding.kind == "platform" else {})
        | _plain(finding.availability)
        for finding in findings
    ]


def lines(findings: Sequence[ProbedPart], width: int) -> Iterator[str]:
    """Yield a table for each kind of part, with a row for each platform; below the tables, every reason once."""
    reasons = list(
        dict.fromkeys(
            (finding.availability.reason, finding.availability.remedy)
            for finding in findings
            if not finding.availability
        )
    )
    numbers = {reason: number for number, reason in enumerate(reasons, 1)}
    marks = {
        (finding.kind, finding.on, finding.name): WORKS
        if finding.availability
        else f"{FAILS}{numbers[finding.availability.reason, finding.availability.remedy]}"
        for finding in findings
    }
    platforms = [finding.name for finding in findings if finding.kind == "platform"]
    for kind in dict.fromkeys(finding.kind for finding in findings if finding.kind != "platform"):
        names = list(dict.fromkeys(finding.name for finding in findings if finding.kind == kind))
        columns = [(name, [marks.get((kind, platform, name), UNTRIED) for platform in platforms]) for name in names]
        yield from tables("platform", platforms, columns, width, kind)
    works = sum(bool(finding.availability) for finding in findings)
    yield f"{WORKS} works here  {FAILS} does not, see the number  {UNTRIED} not tried"
    yield f"{works} of {len(findings)} work."
    for (reason, remedy), number in numbers.items():
        yield ""
        yield from textwrap.wrap(str(reason), width, initial_indent=f"{FAILS}{number} ", subsequent_indent="   ")
        if remedy:
            yield from textwrap.wrap(f"remedy: {remedy}", width, initial_indent="   ", subsequent_indent="   ")


def absent_lines(width: int) -> Iterator[str]:
    """Yield lines about things that papers use and for which Lastro has no part: why, and which part is nearest."""
    yield "named by papers, and no part of Lastro:"
    for lacking in papers.absent():
        uses = f"{lacking.kind} {lacking.name} ({', '.join(lacking.papers)})"
        text = f"{uses}: {lacking.because}; nearest: {lacking.nearest}"
        yield from textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="    ")


_KINDS = ("attachment", "isolation", "function", "anomaly")


def summary(findings: Sequence[ProbedPart], width: int) -> Iterator[str]:
    """Yield a line for each platform with the number of parts that work on it, then the parts that work on none."""
    of = {kind: [finding for finding in findings if finding.kind == kind] for kind in ("platform", *_KINDS)}
    works = {finding.name for finding in of["platform"] if finding.availability}
    kinds = [kind for kind in _KINDS if of[kind]]
    first = max(len(name) for name in ("platform", *(finding.name for finding in of["platform"]))) + _GAP
    yield f"{'platform':<{first}}{''.join(f'{kind:<{len(kind) + _GAP}}' for kind in kinds)}".rstrip()
    for platform in of["platform"]:
        if platform.availability:
            tried = [
                [bool(finding.availability) for finding in of[kind] if finding.on == platform.name] for kind in kinds
            ]
            counts = [f"{sum(works_here)}/{len(works_here)}" for works_here in tried]
            cells = (f"{text:<{len(kind) + _GAP}}" for kind, text in zip(kinds, counts, strict=True))
            yield f"{platform.name:<{first}}{''.join(cells)}".rstrip()
        else:
            yield _short(f"{platform.name:<{first}}{FAILS} {platform.availability.reason}", width)
    nowhere = [
        (
            finding,
            len({other.on for other in of[finding.kind] if other.name == finding.name and not other.availability}),
        )
        for kind in kinds
        for finding in of[kind]
        if finding.on in works and not finding.availability
    ]
    shown = dict.fromkeys((finding.kind, finding.name) for finding, n in nowhere if n == len(of["platform"]))
    if shown:
        yield ""
        yield "unavailable on every platform:"
    for kind, name in shown:
        reason = next(
            finding.availability.reason for finding, _ in nowhere if (finding.kind, finding.name) == (kind, name)
        )
        yield _short(f"  {kind} {name}: {reason}", width)


def _short(line: str, width: int) -> str:
    return f"{line[: width - 2].rstrip()} …" if len(line) > width else line


Column = tuple[str, list[str]]


def tables(corner: str, labels: Sequence[str], columns: Sequence[Column], width: int, title: str = "") -> Iterator[str]:
    """Yield a table, or several tables below each other if the columns do not fit the width.

    A column is (name, cells), with one cell for each of `labels`. Names are broken at hyphens, and a cell may have
    several lines. `corner` is the heading of the column of labels."""
    from lastro.console import grid

    first = max(map(len, (corner, *labels))) + _GAP
    room = [_width(column) for column in columns]
    while columns:
        n = max(1, sum(total <= width - first + _GAP for total in itertools.accumulate(room)))
        heads = [_broken(name) for name, _ in columns[:n]]
        if title:
            yield f"{'':<{first}}{title}"
        height = max(map(len, heads))
        rows = [["\n".join([*[""] * (height - len(head)), *head]) for head in ([corner], *heads)]]
        rows += [[label, *(cells[at] for _, cells in columns[:n])] for at, label in enumerate(labels)]
        yield from (line.plain for line in grid(rows))
        yield ""
        columns, room = columns[n:], room[n:]


def _width(column: Column) -> int:
    name, cells = column
    return max(map(len, (*_broken(name), *(line for cell in cells for line in cell.splitlines())))) + _GAP


def _broken(name: str) -> list[str]:
    words = name.split("-")
    return [*(f"{word}-" for word in words[:-1]), words[-1]]
