"""Properties of parts, as text that fits a terminal and as data. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from lastro.scenarios.shared.properties import PartProperties


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
        for (text, how), alike in groupby(part.properties, key=lambda property_: (property_.text, property_.how)):
            line = f"{', '.join(property_.name for property_ in alike)}: {text} ({how})"
            yield from textwrap.wrap(line, width, initial_indent="  ", subsequent_indent="    ")
