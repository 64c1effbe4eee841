"""Properties of parts, as text that fits a terminal and as data. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from lastro.scenarios.shared.properties import PartProperties


def property_list(found: Sequence[PartProperties]) -> list[dict[str, Any]]:
    """Return one object for each property of each part."""
    return [
        {"kind": part.kind, "part": part.level, **asdict(each), "text": each.text}
        for part in found
        for each in part.properties
    ]


def property_lines(found: Sequence[PartProperties], width: int) -> Iterator[str]:
    """Yield each part with its properties, and how each was found."""
    for part in found:
        yield f"{part.kind} {part.level}"
        for each in part.properties:
            text = f"{each.name}: {each.text}" + (f" ({each.how})" if each.how else "")
            yield from textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="    ")
