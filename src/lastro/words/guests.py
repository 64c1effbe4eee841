"""The sentences on the guests of several studies, each said once. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lastro.analysis.campaign import MeasuredIn
from lastro.words.campaign import of_guest
from lastro.words.language import Language
from lastro.words.phrases import joined


def of_guests(places: Sequence[tuple[str, MeasuredIn | None]], say: Language) -> Iterator[str]:
    """Yield in which guests studies were measured, from their names and places; nothing for real hosts.

    A sentence that does not hold for all of them begins with the names of those for which it holds."""
    known: dict[str, list[str]] = {}
    for name, guest in places:
        for sentence in of_guest(guest, say):
            known.setdefault(sentence, []).append(name)
    for sentence, names in known.items():
        yield sentence if len(names) == len(places) else f"{joined(names, say)}: {sentence}"
