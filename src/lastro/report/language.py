"""The words of a report in another language. English is in the code; other languages are catalogues of the same

messages, in `languages/CODE.toml`: English message = translated message, both with the same {placeholders}.

What comes from outside stays as it is: names of factors, levels and metrics, units, reasons that tools gave."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from lastro.errors import InputError, did_you_mean
from lastro.stats.notes import Note

LANGUAGES = ("en", "pt-BR")


@dataclass(frozen=True, slots=True)
class Language:
    """Call it with an English message: `say("{n} of {all} trials", n=3, all=5)` gives the sentence in this language.

    `decimal` and `thousands` are the marks inside numbers; `catalogue` maps English messages to this language's."""

    code: str
    decimal: str = "."
    thousands: str = ","
    catalogue: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __call__(self, message: str, /, **values: object) -> str:
        text = self.catalogue.get(message, message)
        return text.format(**values) if values else text

    def note(self, note: Note) -> str:
        """What pure code had to say, in this language; floats among its values take this language's marks."""
        values = {name: self.number(str(v)) if isinstance(v, float) else v for name, v in note.values.items()}
        return self(note.message, **values)

    def count(self, n: int, noun: str) -> str:
        """'1 trial', '2,160 trials'; in Portuguese '1 ensaio', '2.160 ensaios'. `noun` is English and singular."""
        return f"{self.integer(n)} {self(noun if n == 1 else noun + 's')}"

    def integer(self, n: int) -> str:
        """With marks between the thousands."""
        return f"{n:,}".replace(",", self.thousands)

    def number(self, text: str) -> str:
        """A number, or text around numbers that we wrote ourselves, with this language's marks.

        Between two decimals that a comma would run together, ', ' becomes '; ': '[0.9, 1.1]' is '[0,9; 1,1]'."""
        if self.decimal == ".":
            return text
        return text.replace(", ", "; ").translate({ord("."): self.decimal, ord(","): self.thousands})


ENGLISH = Language("en")


def N_(message: str) -> str:  # noqa: N802 (gettext's own name for it)
    """Marks a message that is said later, by a variable, so that the catalogues are asked for it."""
    return message


@cache
def language(code: str) -> Language:
    """The language of a code such as 'pt-BR'.

    Raises: InputError when there is no catalogue of it."""
    if code not in LANGUAGES:
        raise InputError(f"no report is written in '{code}'", did_you_mean(code, LANGUAGES))
    if code == "en":
        return ENGLISH
    file = resources.files("lastro.report") / "languages" / f"{code}.toml"
    document: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    return Language(code, document["decimal"], document["thousands"], document["messages"])
