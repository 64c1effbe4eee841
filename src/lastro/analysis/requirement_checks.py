"""Whether a treatment has a property that a user requires, by the properties in the provenance of the campaign. Pure.

Provenance is untrusted input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lastro.analysis.campaign import CampaignResults, Row
from lastro.analysis.properties import column_of
from lastro.stats.notes import N_, Note, Numeral
from lastro.study.requirement import Requirement

_NOT_LOOKED_FOR = N_("{property} of {part} is not known: the campaign did not look for it")
_NOT_KNOWN = N_("{property} of {part} is not known: {how}")
_FOUND = N_("{property} of {part}: {found} ({how})")
_AT_LEAST, _YES_OR_NO = N_("at least {figure}"), ("yes", "no")


def check(report: CampaignResults, row: Row, required: Requirement) -> tuple[bool | None, Note]:
    """Return whether a treatment meets a requirement, and the recorded property, or why it is not known.

    The first is None if it is not known."""
    part = column_of(report.study, row.treatment.levels, required.kind)
    table: Any = report.provenance
    for key in ("properties", required.kind, part, required.name):
        table = table.get(key) if isinstance(table, Mapping) else None
    words = {"property": required.name, "part": part}
    if not isinstance(table, Mapping):
        return None, Note(_NOT_LOOKED_FOR, **words)
    is_met, how = required.met_by(table), str(table.get("how"))
    if is_met is None:
        return None, Note(_NOT_KNOWN, **words, how=how)
    return is_met, Note(_FOUND, **words, found=_found(str(table.get("text"))), how=how)


def _found(text: str) -> str:
    """Return the text of a recorded property in a form that a document can translate."""
    if (figure := text.removeprefix("at least ")) != text:
        return Note(_AT_LEAST, figure=Numeral(figure))
    return Note(text) if text in _YES_OR_NO else Numeral(text)
