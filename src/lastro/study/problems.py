"""Problems of a study file or a claims file: collected one by one, reported as one error."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from lastro.errors import InputError, StudyError
from lastro.plain import plain

_LARGEST_IN_DECIMAL = 10**60  # larger integers are shown in hexadecimal, as Python limits the digits that it writes
_MOST_LINES = 20  # problems to list; further ones are only counted
Key = str | int
Hint = str | Callable[[], str]  # a function, such as a search for the nearest name, runs only if the hint is shown

_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "true or false"),
    (int, "a whole number"),
    (float, "a number"),
    (str, "a string"),
    (list, "a list"),
    (dict, "a table"),
    ((datetime.date, datetime.time), "a date or a time"),
)


class FieldError(Exception):
    """One problem of a file, in one line. `Problems.at` catches it, and adds the place in the file."""

    def __init__(self, message: str, hint: Hint = "") -> None:
        self.message, self.hint = plain(message), hint
        super().__init__(self.message)

    @property
    def hint_text(self) -> str:
        return self.hint if isinstance(self.hint, str) else self.hint()


class Problems:
    """The problems of one file, collected so that its author sees all of them together, and notes on the file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._problems: list[tuple[Sequence[Key], FieldError]] = []
        self._above: tuple[Key, ...] = ()
        self.notes: list[str] = []

    def below(self, *keys: Key) -> Problems:
        """Return a view of these problems for one table of the file, whose key paths are relative to that table."""
        inner = Problems(self.file)
        inner._problems, inner._above, inner.notes = self._problems, (*self._above, *keys), self.notes
        return inner

    @contextmanager
    def at(self, *keys: Key) -> Iterator[None]:
        """Record an error that the body raises as a problem at this key path, and continue after the body.

        An `InputError` counts like a `FieldError`, unless it already names a place in a file (`StudyError`)."""
        try:
            yield
        except FieldError as wrong:
            self.add(keys, wrong)
        except StudyError:
            raise
        except InputError as error:
            self.add(keys, FieldError(error.message, error.hint or ""))

    def add(self, keys: Sequence[Key], wrong: FieldError) -> None:
        """Record a problem at this key path."""
        self._problems.append(((*self._above, *keys), wrong))

    def note(self, keys: Sequence[Key], text: str) -> None:
        """Record a note at this key path, which is not an error."""
        self.notes.append(f"{self.file}: {key_path((*self._above, *keys))}: {text}")

    def raise_if_any(self) -> None:
        """Raise StudyError if there are problems: its message is the first problem, and its hint lists the others."""
        if not self._problems:
            return
        (keys, wrong), *others = self._problems
        lines = [wrong.hint_text, *(f"{self.file}: {_line(*other)}" for other in others[: _MOST_LINES - 1])]
        if more := len(others) - (_MOST_LINES - 1):
            lines += [f"and {more} more problem{'s' if more > 1 else ''} in this file"] if more > 0 else []
        raise StudyError(
            wrong.message, file=self.file, where=key_path(keys), hint="\n".join(filter(None, lines)) or None
        )


def _line(keys: Sequence[Key], wrong: FieldError) -> str:
    """Return a problem in one line, with its hint."""
    place, hint = key_path(keys), wrong.hint_text
    text = f"{place}: {wrong.message}" if place else wrong.message
    return f"{text} ({hint})" if hint else text


def key_path(keys: Sequence[Key]) -> str:
    """Return a key path as text: ('factors', 'platform', 1) is 'factors.platform[1]'. Unusual keys are quoted."""
    path = ""
    for key in keys:
        if isinstance(key, int):
            path += f"[{key}]"
        else:
            path += ("." if path else "") + (key if re.fullmatch(r"[A-Za-z0-9_-]{1,60}", key) else shown(key))
    return path


def kind_of(value: object) -> str:
    """Return the name of the type of a TOML value for a message, such as 'a whole number'."""
    return next((name for types, name in _KINDS if isinstance(value, types)), "something else")


def shown(value: object) -> str:
    """Return a value as text for a message: one short line without control characters; of a list or table, its type."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return repr(_short(value))
    if isinstance(value, int):
        return _short(f"{value:#x}" if abs(value) > _LARGEST_IN_DECIMAL else str(value))
    if isinstance(value, float):
        return str(value)
    return kind_of(value)


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
