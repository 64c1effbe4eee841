"""Results of probes, as tables that fit a terminal, and as data. Pure."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lastro import papers
from lastro.builders.data.encoder import pick
from lastro.grouping import by_key
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
    availability_of = {(finding.kind, finding.on, finding.name): finding.availability for finding in findings}
    platforms, attachments, isolations = (
        dict.fromkeys(finding.name for finding in findings if finding.kind == kind)
        for kind in ("platform", "attachment", "isolation")
    )
    rows = []
    for platform, attachment, isolation in itertools.product(platforms, attachments, isolations):
        works_with_link = availability_of["attachment", platform, attachment]
        availability = works_with_link and availability_of["isolation", platform, isolation]
        combination = {"platform": platform, "attachment": attachment, "isolation": isolation}
        rows.append(combination | _availability_document(availability))
    return rows


def _availability_document(availability: Availability) -> dict[str, Any]:
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
        | _availability_document(finding.availability)
        for finding in findings
    ]


def lines(findings: Sequence[ProbedPart], width: int) -> Iterator[str]:
    """Yield a table for each kind of part, with a row for each platform; below the tables, every reason once."""
    numbers: dict[tuple[str | None, str | None], int] = {}  # of each (reason, remedy)
    marks: dict[tuple[str, str, str], str] = {}
    for finding in findings:
        availability, mark = finding.availability, WORKS
        if not availability:
            number = numbers.setdefault((availability.reason, availability.remedy), len(numbers) + 1)
            mark = f"{FAILS}{number}"
        marks[finding.kind, finding.on, finding.name] = mark
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
    by_kind = {kind: [finding for finding in findings if finding.kind == kind] for kind in ("platform", *_KINDS)}
    platforms, kinds = by_kind["platform"], [kind for kind in _KINDS if by_kind[kind]]
    first = max(len(name) for name in ("platform", *(finding.name for finding in platforms))) + _GAP
    yield f"{'platform':<{first}}{''.join(f'{kind:<{len(kind) + _GAP}}' for kind in kinds)}".rstrip()
    for platform in platforms:
        if not platform.availability:
            yield _short(f"{platform.name:<{first}}{FAILS} {platform.availability.reason}", width)
            continue
        line = f"{platform.name:<{first}}"
        for kind in kinds:
            tried = [bool(finding.availability) for finding in by_kind[kind] if finding.on == platform.name]
            line += f"{f'{sum(tried)}/{len(tried)}':<{len(kind) + _GAP}}"
        yield line.rstrip()
    working = {platform.name for platform in platforms if platform.availability}
    absent: list[ProbedPart] = []  # as tried on the first platform that works
    for tries in by_key(((part.kind, part.name), part) for kind in kinds for part in by_kind[kind]).values():
        if len({part.on for part in tries}) == len(platforms) and not any(part.availability for part in tries):
            absent += [part for part in tries if part.on in working][:1]
    if absent:
        yield from ("", "unavailable on every platform:")
        yield from (_short(f"  {part.kind} {part.name}: {part.availability.reason}", width) for part in absent)


def _short(line: str, width: int) -> str:
    return f"{line[: width - 2].rstrip()} …" if len(line) > width else line


def property_list(parts: Sequence[PartProperties]) -> list[dict[str, Any]]:
    """Return one dictionary for each property of each part."""
    return [
        {"kind": part.kind, "part": part.level, **asdict(property_), "text": property_.text}
        for part in parts
        for property_ in part.properties
    ]


def property_lines(parts: Sequence[PartProperties], width: int) -> Iterator[str]:
    """Yield lines with each part, its properties, and how they were found; properties with equal text share a line."""
    for part in parts:
        yield f"{part.kind} {part.level}"
        for (text, how), alike in itertools.groupby(
            part.properties, key=lambda property_: (property_.text, property_.how)
        ):
            line = f"{', '.join(property_.name for property_ in alike)}: {text} ({how})"
            yield from textwrap.wrap(line, width, initial_indent="  ", subsequent_indent="    ")


Column = tuple[str, list[str]]


def tables(corner: str, labels: Sequence[str], columns: Sequence[Column], width: int, title: str = "") -> Iterator[str]:
    """Yield a table, or several tables below each other if the columns do not fit the width.

    A column is (name, cells), with one cell for each of `labels`. Names are broken at hyphens, and a cell may have
    several lines. `corner` is the heading of the column of labels."""
    from lastro.console import grid

    first = max(map(len, (corner, *labels))) + _GAP
    of_columns = [
        (*_name_lines(name), *(line for cell in cells for line in cell.splitlines())) for name, cells in columns
    ]
    room = [max(map(len, lines)) + _GAP for lines in of_columns]
    while columns:
        n = max(1, sum(total <= width - first + _GAP for total in itertools.accumulate(room)))
        heads = [_name_lines(name) for name, _ in columns[:n]]
        if title:
            yield f"{'':<{first}}{title}"
        height = max(map(len, heads))
        rows = [["\n".join([*[""] * (height - len(head)), *head]) for head in ([corner], *heads)]]
        rows += [[label, *(cells[at] for _, cells in columns[:n])] for at, label in enumerate(labels)]
        yield from (line.plain for line in grid(rows))
        yield ""
        columns, room = columns[n:], room[n:]


def _name_lines(name: str) -> list[str]:
    words = name.split("-")
    return [*(f"{word}-" for word in words[:-1]), words[-1]]
