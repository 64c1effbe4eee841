"""Translation of a report into another language.

English is in the code. The catalogues of other languages are in `languages/CODE.toml`: English message = translated
message, both with the same {placeholders}. Text from outside is not translated: names of factors, levels and metrics,
units, and reasons given by tools."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from lastro.errors import InputError, did_you_mean
from lastro.stats.notes import Note, Numeral

LANGUAGES = ("en", "pt-BR")


def plural(noun: str) -> str:
    """Return the plural of an English noun: 'trials', 'studies'."""
    return f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"


@dataclass(frozen=True, slots=True)
class Language:
    """A language of reports: `say("{n} of {all} trials", n=3, all=5)` returns the sentence in this language.

    `decimal` and `thousands` are the separators in numbers; `catalogue` maps English messages to translations."""

    code: str
    decimal: str = "."
    thousands: str = ","
    catalogue: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __call__(self, message: str, /, **values: object) -> str:
        text = self.catalogue.get(message, message)
        return text.format(**values) if values else text

    def note(self, note: str) -> str:
        """Translate a note, and the notes among its values; numbers among them get the separators of this language.

        Text that is not a note is returned unchanged."""
        if not isinstance(note, Note):
            return note
        values = {name: self.note(value) if isinstance(value, Note) else value for name, value in note.values.items()}
        numbers = {
            name: self.number(str(value)) for name, value in values.items() if isinstance(value, float | Numeral)
        }
        return self(note.message, **values | numbers)

    def count(self, n: int, noun: str) -> str:
        """Return '1 trial' or '2,160 trials'; in Portuguese '1 ensaio', '2.160 ensaios'.

        `noun` is English and singular."""
        return f"{self.integer(n)} {self(noun if n == 1 else plural(noun))}"

    def integer(self, n: int) -> str:
        """Format an integer with thousands separators."""
        return f"{n:,}".replace(",", self.thousands)

    def number(self, text: str) -> str:
        """Convert the separators of a number, or of all numbers in a text that Lastro wrote, to those of this language.

        With a decimal comma, ', ' becomes '; ' to keep numbers apart: '[0.9, 1.1]' becomes '[0,9; 1,1]'."""
        if self.decimal == ".":
            return text
        return text.replace(", ", "; ").translate({ord("."): self.decimal, ord(","): self.thousands})


ENGLISH = Language("en")


@cache
def language(code: str) -> Language:
    """Return the language of a code such as 'pt-BR'.

    Raises: InputError when there is no catalogue for it."""
    if code not in LANGUAGES:
        raise InputError(f"reports are not available in language '{code}'", did_you_mean(code, LANGUAGES))
    if code == "en":
        return ENGLISH
    file = resources.files("lastro.words") / "languages" / f"{code}.toml"
    document: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    return Language(code, document["decimal"], document["thousands"], document["messages"])
