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
    """Return every combination of platform, attachment and isolation, and whether it is available.

    It is available when its attachment and its isolation both work on its platform. The combination itself is not
    probed."""
    of = {(each.kind, each.on, each.name): each.availability for each in findings}
    platforms = [each.name for each in findings if each.kind == "platform"]
    kinds = [dict.fromkeys(each.name for each in findings if each.kind == kind) for kind in ("attachment", "isolation")]
    return [
        {"platform": platform, "attachment": attachment, "isolation": isolation, **_plain(found)}
        for platform, attachment, isolation in itertools.product(platforms, *kinds)
        for found in [of["attachment", platform, attachment] and of["isolation", platform, isolation]]
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
    """Return everything as JSON-able data, with the facts of the host, and of the guest if it is one.

    `properties` are those of parts, if they were asked for."""
    tried = {"parts": parts(findings, versions), "matrix": cells(findings)}
    named = [asdict(each) for each in papers.absent()]
    more = {"properties": property_list(properties)} if properties else {}
    return {"host": host, **({"guest": guest} if guest else {}), **tried, **more, "named_by_papers": named}


def parts(findings: Sequence[ProbedPart], versions: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the result of every probe. `versions` are those of platforms, by name; a platform may have none."""
    return [
        {"kind": each.kind, "name": each.name, "on": None if each.kind == "platform" else each.on}
        | ({"version": versions.get(each.name)} if each.kind == "platform" else {})
        | _plain(each.availability)
        for each in findings
    ]


def lines(findings: Sequence[ProbedPart], width: int) -> Iterator[str]:
    """Yield a table for each kind of part, with a row for each platform, and below them every reason once."""
    reasons = list(
        dict.fromkeys((f.availability.reason, f.availability.remedy) for f in findings if not f.availability)
    )
    numbers = {reason: number for number, reason in enumerate(reasons, 1)}
    marks = {
        (f.kind, f.on, f.name): WORKS
        if f.availability
        else f"{FAILS}{numbers[f.availability.reason, f.availability.remedy]}"
        for f in findings
    }
    platforms = [f.name for f in findings if f.kind == "platform"]
    for kind in dict.fromkeys(f.kind for f in findings if f.kind != "platform"):
        names = list(dict.fromkeys(f.name for f in findings if f.kind == kind))
        columns = [(name, [marks.get((kind, platform, name), UNTRIED) for platform in platforms]) for name in names]
        yield from tables("platform", platforms, columns, width, kind)
    works = sum(bool(f.availability) for f in findings)
    yield f"{WORKS} works here  {FAILS} does not, see the number  {UNTRIED} not tried"
    yield f"{works} of {len(findings)} work."
    for (reason, remedy), number in numbers.items():
        yield ""
        yield from textwrap.wrap(str(reason), width, initial_indent=f"{FAILS}{number} ", subsequent_indent="   ")
        if remedy:
            yield from textwrap.wrap(f"remedy: {remedy}", width, initial_indent="   ", subsequent_indent="   ")


def absent_lines(width: int) -> Iterator[str]:
    """Yield what the papers name and Lastro has no part for, with reasons."""
    yield "named by papers, and no part of Lastro:"
    for each in papers.absent():
        text = f"{each.kind} {each.name} ({', '.join(each.papers)}): {each.because}; nearest: {each.nearest}"
        yield from textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="    ")


_KINDS = ("attachment", "isolation", "function", "anomaly")


def summary(findings: Sequence[ProbedPart], width: int) -> Iterator[str]:
    """Yield a line for each platform with the number of parts that work on it, then the parts that work on none."""
    of = {kind: [f for f in findings if f.kind == kind] for kind in ("platform", *_KINDS)}
    works = {f.name for f in of["platform"] if f.availability}
    kinds = [kind for kind in _KINDS if of[kind]]
    first = max(len(name) for name in ("platform", *(f.name for f in of["platform"]))) + _GAP
    yield f"{'platform':<{first}}{''.join(f'{kind:<{len(kind) + _GAP}}' for kind in kinds)}".rstrip()
    for each in of["platform"]:
        if each.availability:
            tried = [[bool(f.availability) for f in of[kind] if f.on == each.name] for kind in kinds]
            counts = [f"{sum(works_here)}/{len(works_here)}" for works_here in tried]
            cells = (f"{text:<{len(kind) + _GAP}}" for kind, text in zip(kinds, counts, strict=True))
            yield f"{each.name:<{first}}{''.join(cells)}".rstrip()
        else:
            yield _short(f"{each.name:<{first}}{FAILS} {each.availability.reason}", width)
    nowhere = [
        (f, len({other.on for other in of[f.kind] if other.name == f.name and not other.availability}))
        for kind in kinds
        for f in of[kind]
        if f.on in works and not f.availability
    ]
    shown = dict.fromkeys((f.kind, f.name) for f, n in nowhere if n == len(of["platform"]))
    if shown:
        yield ""
        yield "unavailable on every platform:"
    for kind, name in shown:
        reason = next(f.availability.reason for f, _ in nowhere if (f.kind, f.name) == (kind, name))
        yield _short(f"  {kind} {name}: {reason}", width)


def _short(line: str, width: int) -> str:
    return f"{line[: width - 2].rstrip()} …" if len(line) > width else line


Column = tuple[str, list[str]]


def tables(corner: str, labels: Sequence[str], columns: Sequence[Column], width: int, title: str = "") -> Iterator[str]:
    """Yield one table, or several where its columns do not fit the width. Names are broken at their hyphens.

    A column is its name and a cell for each label, which may have several lines."""
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
