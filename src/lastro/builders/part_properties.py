"""Tables of the properties of platforms and links that the provenance of a campaign records. Pure.

Provenance is untrusted input: an entry that does not have the form in which Lastro writes it is left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lastro.analysis.campaign import CampaignResults
from lastro.document import Table
from lastro.stats.notes import N_
from lastro.words.language import Language

_TITLES = {"platform": N_("Properties of platforms"), "attachment": N_("Properties of links")}


def part_tables(report: CampaignResults, say: Language) -> list[Table]:
    """Return a table for each kind of part, with a row for each level and a column for each property.

    A table without recorded properties has no rows. How a property was found is in the provenance."""
    properties = _mapping(report.provenance.get("properties"))
    return [
        Table(f"properties-{kind}", say(title), *_cells(kind, properties.get(kind))) for kind, title in _TITLES.items()
    ]


def _cells(kind: str, levels: Any) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return (columns, rows) of a table; a dash where a level lacks a property that another level has."""
    texts_by_level = {level: dict(_texts(properties)) for level, properties in _mapping(levels).items()}
    names = tuple(dict.fromkeys(name for texts in texts_by_level.values() for name in texts))
    rows = ((str(level), *(texts.get(name, "—") for name in names)) for level, texts in texts_by_level.items())
    return (kind, *names), tuple(rows)


def _texts(properties: Any) -> Iterator[tuple[str, str]]:
    for name, property_ in _mapping(properties).items():
        if text := _mapping(property_).get("text"):
            yield str(name), str(text)


def _mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}
