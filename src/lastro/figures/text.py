"""The width of text before it is drawn, and wrapping by that width, so that labels do not overlap."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from lastro.plain import plain

if TYPE_CHECKING:
    from matplotlib.ft2font import FT2Font

_SIZE_PT = 100
CHAR_EM = 0.6  # the width of an average character of the font, rounded up
_BREAKS = re.compile(r"(?<=[-,:+/·_×])(?=[^\s\d])|(?<= )(?<!= )(?![%=])")  # a line may end after these


def safe(text: str, most: int = 90) -> str:
    """Return a name that can be drawn: without control characters, and cut with '…' after `most` characters."""
    shown = plain(text)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def wrapped(text: str, width: float, most: int = 60, *, bold: bool = False) -> str:
    """Break a label into lines of at most `width` average characters, inside a word where necessary.

    A label of more than `most` characters is cut first."""
    lines, line = [], ""
    for piece in _BREAKS.split(safe(text, most).strip()):
        if line and width_em(line + piece.rstrip(), bold=bold) > width * CHAR_EM:
            lines.append(line)
            line = ""
        line += piece
        while width_em(line.rstrip(), bold=bold) > width * CHAR_EM and len(line) > 1:
            room = width * CHAR_EM
            fits = next(at for at in range(len(line) - 1, 0, -1) if at == 1 or width_em(line[:at], bold=bold) <= room)
            fits = line.rfind("=", 0, fits) + 1 or fits
            lines.append(line[:fits])
            line = line[fits:]
    return "\n".join(part.rstrip() for part in (*lines, line))


def chars(width_in: float, size_pt: float) -> float:
    """Return how many average characters of `size_pt` points fit into `width_in` inches: a `width` for `wrapped`."""
    return 72 * width_in / (CHAR_EM * size_pt)


def width_em(text: str, *, bold: bool = False) -> float:
    """Return the width of a text of one line, in multiples of its font size."""
    return sum(_advance(char, bold) for char in text)


def lines_of(text: str) -> int:
    """Return the number of lines of a text."""
    return text.count("\n") + 1


@cache
def _advance(char: str, bold: bool) -> float:
    from matplotlib.ft2font import LoadFlags

    font = _font(bold)
    if not font.get_char_index(ord(char)):
        return 1.0  # its replacement is seldom wider
    return float(font.load_char(ord(char), flags=LoadFlags.NO_HINTING).linearHoriAdvance) / 65536 / _SIZE_PT


@cache
def _font(bold: bool) -> FT2Font:
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font

    face = font_manager.FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")
    font = FT2Font(font_manager.findfont(face))
    font.set_size(_SIZE_PT, 72)
    return font
