"""Check whether a treatment has a property that a user requires, by the properties that the campaign recorded. Pure."""

from __future__ import annotations

from lastro.analysis.campaign import CampaignResults, Row
from lastro.analysis.properties import column_of
from lastro.stats.notes import N_, Note, Numeral
from lastro.study.requirement import Requirement

_NOT_LOOKED_FOR = N_("{property} of {part} is not known: the campaign did not look for it")
_NOT_KNOWN = N_("{property} of {part} is not known: {how}")
_FOUND = N_("{property} of {part}: {found} ({how})")
_AT_LEAST, _YES_OR_NO = N_("at least {figure}"), ("yes", "no")


def check_requirement(report: CampaignResults, row: Row, required: Requirement) -> tuple[bool | None, Note]:
    """Return whether a treatment meets a requirement (None if not known), and the recorded property or the reason."""
    part = column_of(report.study, row.treatment.levels, required.kind)
    recorded = report.provenance.properties.get(required.kind, {}).get(part, {}).get(required.name)
    words = {"property": required.name, "part": part}
    if recorded is None:
        return None, Note(_NOT_LOOKED_FOR, **words)
    is_met = required.met_by(recorded.value, is_lower_bound=recorded.at_least)
    if is_met is None:
        return None, Note(_NOT_KNOWN, **words, how=recorded.how)
    found: str = Note(recorded.text) if recorded.text in _YES_OR_NO else Numeral(recorded.text)
    if (figure := recorded.text.removeprefix("at least ")) != recorded.text:
        found = Note(_AT_LEAST, figure=Numeral(figure))
    return is_met, Note(_FOUND, **words, found=found, how=recorded.how)
