"""What each published study takes from its paper, and where it differs, as the comments of its file say it.

A note begins with one of the words below, at the start of a sentence or behind a value, and belongs to the key that
follows or stands before it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from lastro import papers

STATES = {  # in the order of the page: first what a reader of the paper may dispute
    "cannot": "cannot be had here",
    "deviation": "deviates",
    "open": "not published; chosen here",
    "ours": "added here",
    "paper": "as published",
}
_NOTE = re.compile(r'\b(Paper|Cannot|Deviation|Open|Ours)\b([^:."]{0,60}): ')
_BEHIND = re.compile(r"(paper|open|ours)\b[:,]? ?(.*)")
_KEY = re.compile(r'("[^"]+"|[\w.-]+) = (.*)')
_SHARED = re.compile(r"\b([\w-]+)\.toml\s+(?:#\s+)?describes\s+(?:#\s+)?what\s+(?:#\s+)?all\s+studies")
_OPENS = ("[", "{", '"""')
HEAD, CLAIMS = "the whole study", "its claims"


class Note(NamedTuple):
    """A note on an item of a study: the name of a key, of a table, HEAD or CLAIMS."""

    item: str
    value: str
    word: str
    text: str


def notes(source: str) -> list[Note]:
    """Return the notes of a study file, in their order."""
    found: list[Note] = []
    above: list[str] = []
    closing = ""
    for line in source.splitlines():
        if closing:  # inside of a value of several lines
            closing = "" if line.rstrip().endswith(closing) else closing
        elif line.startswith("#"):
            above.append(line.removeprefix("#").strip())
        elif not line.strip():
            found += _above(HEAD, "", above)
            above = []
        elif key := _KEY.fullmatch(line):
            value, _, behind = key[2].partition("  #")
            name, value = key[1].strip('"'), value.strip()
            found += _above(name, _short(value), above)
            if note := _BEHIND.fullmatch(behind.strip()):
                found.append(Note(name, _short(value), note[1], note[2].lstrip(" :;,.")))
            above, closing = [], _closing(value)
        else:  # a table
            found += _above(line.strip("[]"), "", above)
            above = []
    return found


def all_notes(name: str) -> list[Note]:
    """Return the notes of a published study, and those on its claims."""
    file = papers.claims(name.replace("/", "-"))
    on_claims = notes(file.read_text(encoding="utf-8")) if file else []
    own = notes(papers.find(name).read_text(encoding="utf-8"))
    return own + [note._replace(item=CLAIMS, value="") for note in on_claims]


def _above(item: str, value: str, lines: list[str]) -> Iterator[Note]:
    """Yield the notes of the comment above an item. A note ends with its paragraph."""
    for paragraph in "\n".join(lines).split("\n\n"):
        parts = _NOTE.split(" ".join(paragraph.split()))[1:]
        for word, where, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            place = where.strip(" ,")
            yield Note(item, value, word.lower(), f"{place}: {text.strip()}" if place else text.strip())


def _short(value: str) -> str:
    return "" if value in _OPENS or len(value) > 40 else value


def _closing(value: str) -> str:
    """Return how a value of several lines ends; empty if it is of one."""
    if value.startswith('"""') and value.count('"""') == 1:
        return '"""'
    if value.startswith("[") and value.count("[") > value.count("]"):
        return "]"
    return "}" if value.startswith("{") and value.count("{") > value.count("}") else ""


def page(table: Callable[[Iterable[str], Iterable[Iterable[object]]], str]) -> str:
    """Return the page of all published studies. `table` formats heads and rows as Markdown."""
    lines = [
        "# Papers, item by item\n",
        "What the published studies take from their papers, and where they differ. This page is made from the comments"
        " in the files of studies and claims; `lastro new --from NAME` writes such a file to read or to edit.\n",
        "- *cannot be had here*: no current system has what the paper used; the note says what replaces it.\n"
        "- *deviates*: the paper says otherwise.\n- *not published; chosen here*: the paper does not say.\n"
        "- *added here*: not in the paper.\n- *as published*: the paper says so.\n",
    ]
    for name in papers.names():
        source = papers.find(name).read_text(encoding="utf-8")
        ranked = sorted(all_notes(name), key=lambda note: [*STATES].index(note.word))
        rows = [(_item(note), STATES[note.word], note.text) for note in ranked]
        if rows:
            title = tomllib.loads(source)["study"]["title"]
            lines += [f"## {name}\n", f"{title}.\n", *_shared(name, source)]
            lines += [table(("item", "state", "note"), rows)]
    gone = [(each.name, each.kind, ", ".join(each.papers), each.because, each.nearest) for each in papers.absent()]
    lines += ["## What no part stands for\n", "`lastro doctor --all` lists it, too.\n"]
    lines += [table(("name", "kind", "papers", "because", "nearest"), gone)]
    return "\n".join(lines)


def _shared(name: str, source: str) -> Iterator[str]:
    """Yield a link to the study whose notes hold for this one, too, if its head names one."""
    if found := _SHARED.search(source):
        other = f"{name.partition('/')[0]}/{found[1]}"
        yield f"What is said of [{other}](#{re.sub('[:/]', '', other)}) as a whole holds here, too.\n"


def _item(note: Note) -> str:
    if note.item in (HEAD, CLAIMS):
        return note.item
    return f"`{note.item} = {note.value}`" if note.value else f"`{note.item}`"
