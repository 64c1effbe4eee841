"""The topology that a study names: a grid by its size, or a file by its path."""

from __future__ import annotations

import difflib
import hashlib
from pathlib import Path

from lastro.errors import InputError, PlatformError
from lastro.files import read_regular
from lastro.study.topology import RouterTopology, grid, grid_size, parse

_MOST_BYTES = 1 << 20


def read_topology(text: str) -> RouterTopology:
    """Return a grid by its size, or the topology in a file. Raises: InputError when `text` names neither."""
    if size := grid_size(text):
        return grid(*size)
    data = _read(text)
    try:
        return parse(data.decode("utf-8-sig"), text)
    except UnicodeDecodeError:
        raise InputError(f"{text}: is not UTF-8", "save the file as UTF-8") from None
    except ValueError as error:
        raise InputError(f"{text}: is not a topology: {error}", "see `lastro schema routing`") from None


def digest(text: str) -> str | None:
    """Return the SHA-256 of the topology file `text`; None for a grid. Raises: InputError without such a file."""
    return None if grid_size(text) else hashlib.sha256(_read(text)).hexdigest()


def require_same(text: str, known: str | None) -> None:
    """Check that the topology file `text` still has the digest `known`; None is not checked.

    Raises: PlatformError if the file has changed."""
    if known is not None and digest(text) != known:
        why = f"the topology file '{text}' has changed since the campaign's first trial with it"
        raise PlatformError(why, "restore its text, or start another campaign")


def _read(text: str) -> bytes:
    path = Path(text)
    try:
        data = read_regular(path, _MOST_BYTES)
    except (OSError, ValueError) as error:
        words = error.strerror if isinstance(error, OSError) else error
        hint = f"a grid is written 3x3, a file by its path{_nearest_name(path)}"
        raise InputError(f"topology '{text}' is neither a grid nor a readable file: {words}", hint) from None
    if len(data) > _MOST_BYTES:
        raise InputError(f"{text}: exceeds the limit of {_MOST_BYTES >> 20} MiB for a topology", "use a part of it")
    return data


def _nearest_name(path: Path) -> str:
    try:
        matches = difflib.get_close_matches(path.name, [file.name for file in path.parent.iterdir()], n=1)
    except (OSError, ValueError):
        return ""
    return f"; did you mean '{path.with_name(matches[0])}'?" if matches else ""
