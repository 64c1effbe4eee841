"""The treatments that a user asks for: by levels, by recorded properties that are required, and in an order. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from lastro.analysis.campaign import CampaignResults, Row
from lastro.analysis.properties import column_of
from lastro.errors import InputError, did_you_mean
from lastro.stats.notes import N_, Note, Numeral
from lastro.study.levels import find_levels, is_quantity, is_same_quantity
from lastro.study.requirement import Requirement

_NOT_LOOKED_FOR = N_("{property} of {part} is not known: the campaign did not look for it")
_NOT_KNOWN = N_("{property} of {part} is not known: {how}")
_FOUND = N_("{property} of {part}: {found} ({how})")
_AT_LEAST, _YES_OR_NO = N_("at least {figure}"), ("yes", "no")


@dataclass(frozen=True, slots=True)
class TableChoice:
    """Which treatments a table shows: those with the levels `where` ({factor: levels}), at most `top` of them.

    The treatments are sorted by the mean of the metric `sort`, the best first, or the worst first if `worst_first`. If
    `sort` is None, they keep the order that they have. If `top` is None, all are shown."""

    where: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sort: str | None = None
    worst_first: bool = False
    top: int | None = None

    def of(self, rows: Iterable[Row], report: CampaignResults) -> list[Row]:
        """Return the chosen rows among `rows`, sorted; rows without a mean of the metric come last.

        Raises: InputError for a factor, a level or a metric that the campaign does not have."""
        rows = [row for row in rows if is_under(report, row, self.where)]
        if self.sort is not None:
            names = [metric.name for metric in report.metrics]
            if self.sort not in names:
                raise InputError(f"this campaign has no metric '{self.sort}'", did_you_mean(self.sort, names))
            at = names.index(self.sort)
            descending = (report.metrics[at].better == "higher") is not self.worst_first
            means = {row.treatment.index: cell.summary.mean for row in rows if (cell := row.cells[at]).summary}
            measured = [row for row in rows if row.treatment.index in means]
            measured.sort(key=lambda row: means[row.treatment.index], reverse=descending)
            rows = measured + [row for row in rows if row.treatment.index not in means]
        return rows[: self.top]


def is_under(report: CampaignResults, row: Row, under: Mapping[str, Sequence[str]]) -> bool:
    """Return whether a treatment has one of the given levels of every factor in `under`, {factor: levels}.

    Raises: InputError for a factor or a level that does not exist."""
    is_in_all = True
    for name, wanted in under.items():
        factor = next((factor for factor in report.study.factors if factor.name == name), None)
        if factor is None:
            known = [factor.name for factor in report.study.factors]
            raise InputError(f"this study has no factor '{name}'", did_you_mean(name, known))
        known = list(map(str, factor.levels))
        levels = list(find_levels(wanted, partial(known_level, name, known)))
        is_in_all = is_in_all and str(row.treatment.levels[name]) in levels
    return is_in_all


def known_level(factor: str, known: Sequence[str], text: str) -> str:
    """Return the known level of a factor that a text names; a number may be in another unit ('200 kpps' for 200000).

    Raises: InputError for any other text."""
    if text in known:
        return text
    if same := next((level for level in known if is_same_quantity(factor, level, text)), None):
        return same
    if is_quantity(factor, text) and any(is_quantity(factor, level) for level in known):
        raise InputError(
            f"the factor '{factor}' was not measured at {text}",
            f"it has {', '.join(known)}; nothing is known of values between them",
        )
    raise InputError(f"the factor '{factor}' has no level '{text}'", did_you_mean(text, known))


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
