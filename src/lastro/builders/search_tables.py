"""Tables that say how the searches for the largest load of each treatment ended."""

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
    """Return a table of a searched metric, with a row for each way in which searches of a treatment ended."""
    factors = tuple(factor.name for factor in report.varying) or (say("treatment"),)
    columns = (*factors, search.metric.name, say("kind"), say("trials"), say("what ended the search"))
    rows = tuple(
        (
            *levels_of(report, row, say),
            values_text(ending, say),
            say(LIMIT if ending.limit else BOUND),
            say("{n} of {all}", n=len(ending.values), all=row.n_valid),
            ending.text,
        )
        for row, ended in search.rows
        for ending in ended
    )
    title = say("What bounds the number: {metric}", metric=search.metric.name)
    value_column = len(factors)
    return Table(
        f"search-{search.metric.name}",
        title,
        columns,
        rows,
        frozenset({value_column}),
        frozenset({value_column + 3}),
        note=say(NOTE),
    )


NOTE = N_(
    "Limit found: one more instance did not start, did not answer, or had no memory left; or a rate lost more than its "
    "goal. Lower bound: the study, or the generator, ended the search. Trials that ended in the same way share a line, "
    "with the message of the first."
)


def values_text(ending: SearchEnding, say: Language) -> str:
    """Format the smallest and the largest value of the searches that ended so: '37', '36 to 38', or a bound: '≥ 64'."""
    low, high = (f"{end(ending.values):.6g}".replace("-", MINUS) for end in (min, max))
    text = say.number(low) if low == high else say("{low} to {high}", low=say.number(low), high=say.number(high))
    return text if ending.limit else f"≥ {text}"


def tables_of(report: CampaignResults, say: Language) -> Sequence[Table]:
    """Return a table for each metric that trials find by a search; empty if there is none."""
    return [searches_table(report, search, say) for search in searches(report)]
