"""The notes on treatments that cannot run here. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lastro.analysis.campaign import Gap
from lastro.document import Span, Text
from lastro.grouping import by_key
from lastro.words.language import Language


def gap_notes(gaps: Iterable[tuple[str, Gap]], say: Language) -> Iterator[tuple[str, tuple[Text, ...]]]:
    """Yield (anchor, lines) of a note on each reason: the levels that it affects, the reason, and the remedy.

    `gaps` are (name of a study of a suite, its gap); the name is empty in a report on one study. Cells of the grid of
    results link to the anchors."""
    gaps_by_reason = by_key(((gap.reason, gap.remedy), (study, gap)) for study, gap in gaps)
    for number, ((reason, remedy), affected) in enumerate(gaps_by_reason.items(), 1):
        first_line = [Span(f"[{number}]", "strong")]
        for at, (study, gap) in enumerate(affected):
            first_line.append(Span("; " if at else " "))
            for name in filter(None, (study, gap.where)):
                first_line += [Span(name, "strong"), Span(" · ", "dim")]
            treatments = say.count(len(gap.treatments), "treatment")
            first_line.append(Span(f"{treatments}, {say.count(gap.n_trials, 'trial')}"))
        lines: list[Text] = [tuple(first_line), reason]
        if remedy:
            lines.append((Span(say("Remedy: {remedy}", remedy=remedy), "dim"),))
        yield f"gap-{number}", tuple(lines)
