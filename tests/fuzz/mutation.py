"""Other inputs made of real ones: bytes flipped, parts lost, doubled, exchanged or taken from another input."""

from __future__ import annotations

import re
from random import Random

_ODD = (
    b"-1", b"0", b"nan", b"-inf", b"1e999", b"9" * 400, b"9" * 5000, b"", b"0x10", b"0x" + b"f" * 5000, b"1,5", b"\x00",
    b"\xff\xfe", "٣".encode(), b"true", b"[]", b"{}", b'""', b"'''", b"[" * 2000, b"2026-01-01", b"../x", b"\x1b[2J",
    b"\r\n", "\u202e".encode(), b"a" * 3000,
)  # fmt: skip
_WORD = re.compile(rb"[A-Za-z_][\w.-]*|\d+(?:\.\d+)?|\"[^\"\n]*\"")
_LONGEST = 1 << 20  # bytes of an input
_FILLED = 0.02  # of all inputs, which take longer
_PARTS = (
    b"x.",
    b"[]",
    b"[],",
    b"{},",
    b"{a = ",
    b"[[x]]\n",
    b"[x]\n",
    b"x = 1\n",
    b'"x",',
    b"1,",
    b"\n",
    b" ",
    b"\\",
    b'"',
    b"#",
)


def mutated(data: bytes, other: bytes, chance: Random) -> bytes:
    """Change an input once or a few times; `other` is one to take parts from."""
    if chance.random() < _FILLED:
        return _fill(data, chance)
    for _ in range(chance.choice((1, 1, 2, 4))):
        data = chance.choice(_CHANGES)(data, other, chance)[:_LONGEST]
    return data


def _fill(data: bytes, chance: Random) -> bytes:
    """As large as a file may be, by one part again and again: alike, or with a number, as names that differ have."""
    begin, end = _span(data, chance, chance.choice((2, 16, 64)))
    part = (data[begin:end] or b"a,") if chance.random() < 0.5 else chance.choice(_PARTS)
    word = _WORD.search(part)
    at, n = word.end() if word and chance.random() < 0.5 else None, (_LONGEST - len(data)) // len(part) + 1
    more = part * n if at is None else b"".join(b"%s%d%s" % (part[:at], number, part[at:]) for number in range(n))
    return (data[:begin] + more)[: _LONGEST - len(data) + begin] + data[begin:]


def _span(data: bytes, chance: Random, most: int = 64) -> tuple[int, int]:
    begin = chance.randrange(len(data) + 1)
    return begin, min(len(data), begin + chance.randrange(1, most + 1))


def _bytes(data: bytes, other: bytes, chance: Random) -> bytes:
    found = bytearray(data)
    for _ in range(min(len(found), chance.randint(1, 4))):
        found[chance.randrange(len(found))] = chance.randrange(256)
    return bytes(found)


def _cut(data: bytes, other: bytes, chance: Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _lose(data: bytes, other: bytes, chance: Random) -> bytes:
    begin, end = _span(data, chance)
    return data[:begin] + data[end:]


def _double(data: bytes, other: bytes, chance: Random) -> bytes:
    begin, end = _span(data, chance, 256)
    return data[:end] + data[begin:end] * chance.choice((1, 1, 20)) + data[end:]


def _splice(data: bytes, other: bytes, chance: Random) -> bytes:
    (begin, end), (first, last) = _span(data, chance), _span(other, chance, 512)
    return data[:begin] + other[first:last] + data[end:]


def _lines(data: bytes, other: bytes, chance: Random) -> bytes:
    lines, more = data.splitlines(keepends=True), other.splitlines(keepends=True)
    if not lines or not more:
        return data
    at = chance.randrange(len(lines))
    match chance.randrange(3):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, chance.choice(more))
        case _:
            lines[at] = chance.choice(more)
    return b"".join(lines)


def _word(data: bytes, other: bytes, chance: Random) -> bytes:
    """Put something odd, or another word, in the place of a word or a number."""
    spans = [found.span() for found in _WORD.finditer(data)]
    if not spans:
        return chance.choice(_ODD) + data
    begin, end = chance.choice(spans)
    words = _WORD.findall(other) or [b"x"]
    return data[:begin] + (chance.choice(_ODD) if chance.random() < 0.5 else chance.choice(words)) + data[end:]


_CHANGES = (_bytes, _cut, _lose, _double, _splice, _lines, _word, _word, _word)
