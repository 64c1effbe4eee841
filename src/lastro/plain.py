"""Make text from other users, such as names in a campaign, safe to show on a terminal.

An escape sequence in the name of a level could rewrite the screen or set the clipboard; a directional mark could change
the visible order of text. Pure, and imported before `lastro --help` is printed, so it imports only built-in modules."""

from __future__ import annotations

import codecs
from itertools import chain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

# C0 except the newline, DEL and C1; then Unicode's directional marks, embeddings, overrides and isolates, its line and
# paragraph separators, annotations, and tags, which are invisible (UAX #9 and UTR #36).
_RANGES = (
    (0x00, 0x09), (0x0B, 0x1F), (0x7F, 0x9F), (0x061C, 0x061C), (0x200E, 0x200F), (0x2028, 0x202E), (0x2066, 0x206F),
    (0xFFF9, 0xFFFB), (0xE0000, 0xE007F),
)  # fmt: skip
_CONTROLS = "[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in _RANGES) + "]"
_TO_SPACES = dict.fromkeys(chain.from_iterable(range(first, last + 1) for first, last in _RANGES), " ")
_SHORT = 10_000


def without_controls(text: str) -> str:
    """Replace each character that controls a terminal or the direction of text by a space, except newlines."""
    if text.isascii() or len(text) < _SHORT:
        return text.translate(_TO_SPACES)
    import re  # ten times as fast; imported here, since `lastro --help` does without it

    return re.sub(_CONTROLS, " ", text)


def plain(text: str) -> str:
    """Replace each unprintable character, including newlines, by a space."""
    return text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)


def json_text(value: Any) -> str:
    """Format `value` as indented JSON with control characters escaped. Raises: ValueError for a non-finite number."""
    import json
    import re

    def escape(match: re.Match[str]) -> str:
        return "\\u007f" if match[0] == "\x7f" else json.dumps(match[0])[1:-1]

    return re.sub(_CONTROLS, escape, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


SUBSTITUTING = "lastro-substitutes"  # a handler of characters that an encoding lacks
# What a terminal without a character shows instead. A legend contains the same character, and so explains the other.
SUBSTITUTES = {
    "▲": "+", "▼": "-", "≈": "~", "⊕": "*", "↑": "^", "↓": "v", "✕": "X", "✓": "ok", "−": "-", "×": "x", "±": "+-",
    "–": "-", "—": "-", "─": "-", "…": "...", "·": "/", "≤": "<=", "≥": ">=", "≠": "!=", "≫": ">>", "µ": "u", "→": "->",
    "†": "[l]", "‡": "[c]", "§": "[w]", "¶": "[n]", "°": "[s]", "↻": "[o]", "‖": "[p]", "⁺": "[a]", "⊘": "[d]",
    "⊖": "[f]", "∞": "[i]", "⊗": "[g]", "⊙": "[b]", "∩": "[k]", "∅": "[m]", "⁑": "**", "’": "'", "“": '"', "”": '"',
    "\xa0": " ", "α": "alpha", "√": "sqrt", "²": "^2", "█": "#", "│": "|", "≡": "[=]",
}  # fmt: skip


def _substituted(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    substitutes = "".join(SUBSTITUTES.get(char, "?") for char in lacking)
    return "".join(char if char.isascii() else "?" for char in substitutes), error.end


codecs.register_error(SUBSTITUTING, _substituted)


class UnwritableOutput(OSError):
    """A standard stream cannot be written, for example because it is redirected to a full disk."""


class PlainStream:
    """A text stream that removes control characters, except newlines, and writes to another stream.

    `unfiltered` is that other stream, for output in which Lastro needs control characters: colours, cursor movements,
    files for programs."""

    def __init__(self, unfiltered: TextIO) -> None:
        self.unfiltered = unfiltered

    def write(self, text: str) -> int:
        try:
            self.unfiltered.write(without_controls(text))
        except OSError as error:
            raise _output_error(error) from error
        return len(text)

    def flush(self) -> None:
        try:
            self.unfiltered.flush()
        except OSError as error:
            raise _output_error(error) from error

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unfiltered, name)


def _output_error(error: OSError) -> OSError:
    """Convert an error of a standard stream to UnwritableOutput, except BrokenPipeError: the reader wants no more."""
    return error if isinstance(error, BrokenPipeError) else UnwritableOutput(error.errno, error.strerror)


def unfiltered(stream: TextIO) -> TextIO:
    """Return the stream to which a `PlainStream` writes; return any other stream unchanged."""
    return stream.unfiltered if isinstance(stream, PlainStream) else stream
