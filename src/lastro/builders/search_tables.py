"""Tables of the ends of the searches for the largest load."""

from __future__ import annotations

from collections.abc import Sequence

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.searches import Search, SearchEnding, searches
from lastro.builders.tables import levels_of
from lastro.document import Table
from lastro.stats.notes import N_
from lastro.words.language import Language
from lastro.words.numbers import MINUS

LIMIT, BOUND = N_("limit found"), N_("lower bound")


def searches_table(report: CampaignResults, search: Search, say: Language) -> Table:
    """Return a table with a row for each way in which the search of a treatment ended."""
    factors = tuple(factor.name for factor in report.varying) or (say("treatment"),)
    columns = (*factors, search.metric.name, say("kind"), say("trials"), say("what ended the search"))
    rows = tuple(
        (
            *levels_of(report, row, say),
            values_text(each, say),
            say(LIMIT if each.limit else BOUND),
            say("{n} of {all}", n=len(each.values), all=row.n_valid),
            each.text,
        )
        for row, ended in search.rows
        for each in ended
    )
    title = say("What bounds the number: {metric}", metric=search.metric.name)
    at = len(factors)
    return Table(
        f"search-{search.metric.name}", title, columns, rows, frozenset({at}), frozenset({at + 3}), note=say(NOTE)
    )


NOTE = N_(
    "Limit found: one more instance did not start, did not answer, or had no memory left; or a rate lost more than its "
    "goal. Lower bound: the study, or the generator, ended the search. Trials that ended in the same way share a line, "
    "with the message of the first."
)


def values_text(ending: SearchEnding, say: Language) -> str:
    """Format the smallest and the largest value: '37', '36 to 38' or '≥ 64'."""
    low, high = (f"{end(ending.values):.6g}".replace("-", MINUS) for end in (min, max))
    text = say.number(low) if low == high else say("{low} to {high}", low=say.number(low), high=say.number(high))
    return text if ending.limit else f"≥ {text}"


def tables_of(report: CampaignResults, say: Language) -> Sequence[Table]:
    return [searches_table(report, search, say) for search in searches(report)]
