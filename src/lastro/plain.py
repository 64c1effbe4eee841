"""Text that was written by others, such as a campaign's, made safe to show on a terminal.

An escape sequence in the name of a level could rewrite what a terminal shows, or set its clipboard; a mark of direction
could show a text in another order than it is stored. Pure, and imported before `lastro --help` is printed: no imports
but of the interpreter's own."""

from __future__ import annotations

from itertools import chain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

# C0 but the newline, DEL and C1; then Unicode's marks, embeddings, overrides and isolates of direction, its separators
# of lines and paragraphs, annotations, and tags, which are invisible (UAX #9 and UTR #36).
_RANGES = (
    (0x00, 0x09), (0x0B, 0x1F), (0x7F, 0x9F), (0x061C, 0x061C), (0x200E, 0x200F), (0x2028, 0x202E), (0x2066, 0x206F),
    (0xFFF9, 0xFFFB), (0xE0000, 0xE007F),
)  # fmt: skip
_CONTROLS = "[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in _RANGES) + "]"
_TO_SPACES = dict.fromkeys(chain.from_iterable(range(first, last + 1) for first, last in _RANGES), " ")
_SHORT = 10_000


def without_controls(text: str) -> str:
    """A text of several lines, with a space for each character that controls a terminal or the direction of text."""
    if text.isascii() or len(text) < _SHORT:
        return text.translate(_TO_SPACES)
    import re  # ten times as fast, and no part of the start of `lastro --help`

    return re.sub(_CONTROLS, " ", text)


def plain(text: str) -> str:
    """A text on one line, with a space for each character that is not printable."""
    return text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)


def json_text(value: Any) -> str:
    """A JSON document to read, with an escape for each of these. Raises: ValueError of what is not finite."""
    import json
    import re

    def escape(found: re.Match[str]) -> str:
        return "\\u007f" if found[0] == "\x7f" else json.dumps(found[0])[1:-1]

    return re.sub(_CONTROLS, escape, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


class UnwritableOutput(OSError):
    """A standard stream cannot be written, for example because the disk is full that it is redirected to."""


class PlainStream:
    """A text stream in front of another, to which no control character passes but the newline.

    `unfiltered` is the stream behind it, for what is ours: colours, cursor movements, files for programs."""

    def __init__(self, unfiltered: TextIO) -> None:
        self.unfiltered = unfiltered

    def write(self, text: str) -> int:
        try:
            self.unfiltered.write(without_controls(text))
        except OSError as error:
            raise _of_output(error) from error
        return len(text)

    def flush(self) -> None:
        try:
            self.unfiltered.flush()
        except OSError as error:
            raise _of_output(error) from error

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unfiltered, name)


def _of_output(error: OSError) -> OSError:
    """The error as one of the output; a reader that has gone is none."""
    return error if isinstance(error, BrokenPipeError) else UnwritableOutput(error.errno, error.strerror)


def unfiltered(stream: TextIO) -> TextIO:
    """The stream behind a `PlainStream`; any other stream itself."""
    return stream.unfiltered if isinstance(stream, PlainStream) else stream
