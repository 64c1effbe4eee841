"""Read TOML files into text and tables, before `schema` and `resolve` check what they mean."""

from __future__ import annotations

import math
import re
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

from lastro.errors import StudyError, did_you_mean
from lastro.files import read_regular
from lastro.shapes import MOST
from lastro.study.problems import FieldError, Key, Problems, shown

MAX_BYTES = 2**20
_MOST_VALUES = 50_000  # a parsed value takes a hundred times as much memory as its text
_MOST_DOTS = 500  # in a line: the time in which tomllib reads a key grows with the square of the key's parts
MAX_DEPTH = 8  # the deepest value of a valid file is profiles.quick.exclude[i].when.factor[j]
MAX_INTEGER = 2**63 - 1  # TOML's integers have 64 bits, and so have SQLite's


def read_text(path: Path, kind: str, hint: str, *, own: bool = False, base: Path | None = None) -> str:
    """Return the text of a file. `kind` names the kind of file in messages, and `hint` tells users where to get one.

    If `own`, the file must belong to the user who runs Lastro. Below the directory `base`, no symbolic link is
    followed.

    Raises: StudyError if the file cannot be read, is not a regular file, is too large, or is not UTF-8."""
    file = str(path)
    try:
        data = read_regular(path, MAX_BYTES, own=own, base=base)
    except FileNotFoundError:
        raise StudyError("there is no such file", file=file, hint=_near(path, hint)) from None
    except IsADirectoryError:
        raise StudyError(f"is a directory, not a {kind} file", file=file, hint=_near(path / "?", hint)) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise StudyError(f"cannot be read: {reason}", file=file, hint=hint if own else None) from error
    if len(data) > MAX_BYTES:
        raise StudyError(f"exceeds the limit of {MAX_BYTES // 2**20} MiB for a {kind} file", file=file)
    try:
        return data.decode("utf-8-sig")  # some editors begin a file with a byte order mark
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"is not UTF-8: unexpected byte 0x{data[error.start]:02x}"
        raise StudyError(message, file=file, where=f"line {line}", hint="save the file as UTF-8") from error


def read_document(text: str, problems: Problems) -> dict[str, Any]:
    """Return the TOML tables of a text, after a check of the values.

    Raises: StudyError if the text is not TOML, or contains values that a study cannot use."""
    try:
        document = parse_toml(text)
    except tomllib.TOMLDecodeError as error:
        match = re.fullmatch(r"(.*) \(at (.*)\)", str(error), re.DOTALL)
        message, where = (match[1], match[2]) if match else (str(error), "")
        hint = 'strings need quotes, lists need brackets: name = "x", factor = ["a", "b"]'
        hint_here = hint if message == "Invalid value" else None
        raise StudyError(f"is not TOML: {message}", file=problems.file, where=where, hint=hint_here) from None
    except ValueError as error:
        raise StudyError(str(error), file=problems.file) from None
    _check_values(document, problems)
    problems.raise_if_any()
    return document


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text, which is untrusted.

    Raises: TOMLDecodeError; another ValueError for a text whose tables would take too much memory or time."""
    if sum(map(text.count, ",=[")) > _MOST_VALUES:
        raise ValueError(f"has more than {_MOST_VALUES} values")
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > _MOST_DOTS:
            raise ValueError(f"has more than {_MOST_DOTS} dots in line {number}")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # from `int`, which refuses to read thousands of digits
        raise ValueError("contains a number that is too large") from None


def _check_values(document: dict[str, Any], problems: Problems) -> None:
    """Add a problem for each value that TOML allows but studies cannot use.

    These are tables nested too deeply, not-a-number, numbers that are too large, and integers beyond 64 bits."""
    todo: list[tuple[tuple[Key, ...], Any]] = [((), document)]
    while todo:
        keys, value = todo.pop()
        if isinstance(value, dict | list) and len(keys) >= MAX_DEPTH:
            problems.add(keys, FieldError("is nested too deeply"))
        elif isinstance(value, dict | list):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            todo += reversed([((*keys, key), item) for key, item in items])
        elif isinstance(value, float) and not abs(value) <= MOST:
            kind = f"number up to {MOST:g}" if math.isfinite(value) else "finite number"
            problems.add(keys, FieldError(f"must be a {kind}, but is {shown(value)}"))
        elif isinstance(value, int) and abs(value) > MAX_INTEGER:
            problems.add(keys, FieldError("is too large: an integer has at most 64 bits"))


def _near(path: Path, hint: str) -> str:
    """Return the hint, preceded by the most similar name of a TOML file in the directory of `path`, if there is one."""
    names = list[str]()
    with suppress(OSError):
        names = [file.name for file in path.parent.glob("*.toml")]
    return f"{did_you_mean(path.name, names)} {hint}" if names else hint
