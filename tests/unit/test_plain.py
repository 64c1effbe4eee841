"""Text without control characters: the same for short and for long texts, and nothing lost in JSON."""

from __future__ import annotations

import io
import json
import unicodedata

from lastro.plain import PlainStream, json_text, unfiltered, without_controls

EVERY = "".join(map(chr, range(0x110000)))


def test_what_controls_a_terminal_or_the_direction_is_a_space_in_short_and_long_texts() -> None:
    once = "".join(without_controls(EVERY[at : at + 9_000]) for at in range(0, len(EVERY), 9_000))
    assert once == without_controls(EVERY)
    gone = {char for char, left in zip(EVERY, once, strict=True) if char != left}
    assert {char for char in EVERY if unicodedata.category(char) == "Cc"} - gone == {"\n"}
    directed = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    assert {char for char in EVERY if unicodedata.bidirectional(char) in directed} <= gone
    assert not any(char.isprintable() for char in gone)
    assert "\u200c" not in gone, "letters of Persian stand apart by it"


def test_json_escapes_each_of_them() -> None:
    text = EVERY[:0xD800] + EVERY[0xE000:]
    shown = json_text([text])
    assert json.loads(shown) == [text] and without_controls(shown) == shown


def test_a_stream_hides_only_what_is_written_to_it() -> None:
    behind = io.StringIO()
    stream = PlainStream(behind)
    assert stream.write("a\x1b[31m\n") == 7
    stream.writelines(["b\x07", "c"])
    unfiltered(stream).write("\x1b[0m")  # type: ignore[arg-type]
    assert behind.getvalue() == "a [31m\nb c\x1b[0m" and not stream.isatty()
