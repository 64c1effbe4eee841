"""What a statistic has to say in words, kept so that a report can say it in another language."""

from __future__ import annotations

from types import MappingProxyType


class Note(str):
    """An English sentence made of a `message` with {placeholders} and the `values` that fill them.

    It is the sentence itself wherever a string is wanted. `values` are what is not translated: names and numbers."""

    def __new__(cls, message: str, /, **values: object) -> Note:
        note = super().__new__(cls, message.format(**values) if values else message)
        note.message = message
        note.values = MappingProxyType(values)
        return note

    message: str
    values: MappingProxyType[str, object]
