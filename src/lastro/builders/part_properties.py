"""Tables of the properties of platforms and links that the provenance of a campaign records. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from lastro.analysis.campaign import CampaignResults
from lastro.document import Table
from lastro.results.provenance import RecordedProperty
from lastro.stats.notes import N_
from lastro.words.language import Language

Properties = Mapping[str, RecordedProperty]  # by name
_TITLES = {"platform": N_("Properties of platforms"), "attachment": N_("Properties of links")}


def part_tables(report: CampaignResults, say: Language) -> list[Table]:
    """Return a table for each kind of part, with a row for each level and a column for each property.

    A table without recorded properties has no rows. How a property was found is in the provenance."""
    properties = report.provenance.properties
    return [
        Table(f"properties-{kind}", say(title), *_cells(kind, properties.get(kind, {})))
        for kind, title in _TITLES.items()
    ]


def _cells(kind: str, levels: Mapping[str, Properties]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return (columns, rows) of a table; a dash where a level lacks a property that another level has."""
    texts_by_level = {
        level: {name: recorded.text for name, recorded in properties.items() if recorded.text}
        for level, properties in levels.items()
    }
    names = tuple(dict.fromkeys(name for texts in texts_by_level.values() for name in texts))
    rows = ((level, *(texts.get(name, "—") for name in names)) for level, texts in texts_by_level.items())
    return (kind, *names), tuple(rows)
