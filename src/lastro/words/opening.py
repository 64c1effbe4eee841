"""The opening sentences of a document: warnings, the answer on service levels, and key findings.

In a terminal, they are at the end of the output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.model import Analysis
from lastro.results.rows import State
from lastro.words.campaign import when
from lastro.words.caveats import caveats
from lastro.words.key_findings import key_findings
from lastro.words.language import Language
from lastro.words.numbers import percent

MANY_INVALID = 0.10  # a larger fraction of the runnable trials is reported before anything else


def opening(
    report: CampaignResults, say: Language, analysis: Analysis | None = None, answer: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return warnings, the `answer` on service levels, key findings and caveats, in this order.

    If `analysis` is None, it is computed from the report."""
    return (*warnings(report, say), *answer, *key_findings(report, say, analysis), *caveats(report, say))


def warnings(report: CampaignResults, say: Language) -> tuple[str, ...]:
    """Return a warning if many trials are invalid, and one for each change of the host, with the changed facts."""
    many_invalid = many_invalid_warning(report.progress.counts, say)
    segments = (
        say(
            "The host changed after {attempts} ({at} UTC): {changes}. Trials before and after are not paired: the "
            "change is an effect of blocks.",
            attempts=say.count(segment.after, "attempt"),
            at=when(segment.at_utc),
            changes=(f"{segment.testbed}: " if segment.testbed else "") + segment.text,
        )
        for segment in report.segments
    )
    return (*filter(None, [many_invalid]), *segments)


def invalid_fraction(counts: Mapping[State, int] | Mapping[str, int]) -> float:
    """Return the fraction of invalid trials among those that can run on this host; `counts` is {state: trials}."""
    return counts.get("invalid", 0) / (_runnable(counts) or 1)


def many_invalid_warning(counts: Mapping[State, int] | Mapping[str, int], say: Language) -> str:
    """Return a warning if over 10 % of the trials that can run here are invalid; otherwise empty."""
    fraction = invalid_fraction(counts)
    if fraction <= MANY_INVALID:
        return ""
    return say(
        "{n} of {trials} that can run here are invalid ({percent}): the results are based on the others only. "
        "`lastro resume --invalid` tries them again.",
        n=say.integer(counts.get("invalid", 0)),
        trials=say.count(_runnable(counts), "trial"),
        percent=percent(fraction, say, decimals=0),
    )


def _runnable(counts: Mapping[State, int] | Mapping[str, int]) -> int:
    return sum(counts.values()) - counts.get("unavailable", 0)
