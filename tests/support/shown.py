"""What a page of the documentation shows: commands in their order, and below them what they print.

What a command measured is not the same twice. So two outputs are compared in one of three ways: exactly; as `alike`,
where one was made of numbers that the other had rounded; or by `shape`, where only the numbers are another host's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

ROOT = Path(__file__).parents[2]

_PIECE = re.compile(r"^## (?P<section>[^\n]*)$|^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_RATIO = re.compile(r"[▲▼≈] ×# \[−?#, #\]|undecided \(n = #\)")


@dataclass(frozen=True, slots=True)
class Command:
    """A command line without its comment. `shown` are the outputs between it and the next command."""

    section: str
    line: str
    as_root: bool
    shown: tuple[str, ...] = ()


def commands(page: Path) -> list[Command]:
    """Those of the blocks of shell commands of an English page, from top to bottom."""
    found: list[Command] = []
    section = ""
    for piece in _PIECE.finditer(page.read_text(encoding="utf-8")):
        section, text = piece["section"] or section, piece["text"] or ""
        if piece["language"] == "sh":
            for line in text.splitlines():
                command, _, comment = line.partition("#")
                found.append(Command(section, command.strip(), comment.strip().startswith("as root")))
        elif piece["language"] == "text":
            last = found.pop()
            found.append(Command(last.section, last.line, last.as_root, (*last.shown, text)))
    return found


def alike(shown: str, printed: str) -> bool:
    """Whether both are equal, but for decimal fractions that differ by no more than one in their last place."""
    if _NUMBER.sub("#", shown) != _NUMBER.sub("#", printed):
        return False
    pairs = zip(_NUMBER.findall(shown), _NUMBER.findall(printed), strict=True)
    return all(one == other or ("." in one and _distance(one, other) <= 1) for one, other in pairs)


def _distance(one: str, other: str) -> Decimal:
    """In units of the last place of the first number."""
    return abs(Decimal(one) - Decimal(other)).scaleb(len(one.partition(".")[2]))


def shape(text: str) -> str:
    """An output without its numbers, without the widths of its columns, and without the verdicts of its ratios.

    An interval of a mean is written in one way or another, by its numbers."""
    without_ratios = _RATIO.sub("RATIO", _NUMBER.sub("#", text))
    lines = (re.sub(r" +", " ", line).strip() for line in without_ratios.replace("# [#, #]", "# ± #").splitlines())
    return "\n".join(re.sub("─+", "─", line) for line in lines)


def candidates(decided: str) -> tuple[list[str], str]:
    """What an answer of `lastro decide` has whatever was measured: the candidates, sorted, and the question."""
    question = re.search(r"^\d+ candidates.*\.$", decided, re.MULTILINE)
    return sorted(re.findall(r"^(\S+ · \S+)  ", decided, re.MULTILINE)), question[0] if question else ""
