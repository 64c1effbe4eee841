"""Tables of the properties of a campaign's platforms and links, where it looked for them. Pure.

Provenance is untrusted input: what is not as Lastro writes it is left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lastro.analysis.campaign import CampaignResults
from lastro.document import Table
from lastro.stats.notes import N_
from lastro.words.language import Language

_TITLES = {"platform": N_("Properties of platforms"), "attachment": N_("Properties of links")}


def part_tables(report: CampaignResults, say: Language) -> list[Table]:
    """Return a table for each kind of part, with a row for each level; how each was found is in the provenance."""
    properties = _mapping(report.provenance.get("properties"))
    return [
        Table(f"properties-{kind}", say(title), *_cells(kind, properties.get(kind))) for kind, title in _TITLES.items()
    ]


def _cells(kind: str, levels: Any) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    texts = {level: dict(_texts(properties)) for level, properties in _mapping(levels).items()}
    names = tuple(dict.fromkeys(name for own in texts.values() for name in own))
    return (kind, *names), tuple((str(level), *(own.get(name, "—") for name in names)) for level, own in texts.items())


def _texts(properties: Any) -> Iterator[tuple[str, str]]:
    for name, found in _mapping(properties).items():
        if text := _mapping(found).get("text"):
            yield str(name), str(text)


def _mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}
