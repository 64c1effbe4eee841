"""What the documentation says is so: its commands parse, its studies load, its tables are those of the code."""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from benches import decision_promises

from lastro import __version__, cli, errors, papers, registry
from lastro.cli import compare, verify
from lastro.cli._common import MANY_INVALID_TRIALS
from lastro.interrupts import EXIT_CODES
from lastro.scenarios.base import schemas
from lastro.study.load import load, parse

ROOT = Path(__file__).parents[2]
READMES = (ROOT / "README.md", ROOT / "README.pt-BR.md")
OTHERS = tuple(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"))
PAGES = (*READMES, *OTHERS, *sorted((ROOT / "docs").glob("*.md")))
TWINS = [(page.with_name(page.name.replace(".pt-BR", "")), page) for page in PAGES if ".pt-BR" in page.name]
PART = ROOT / "examples" / "parts" / "functions" / "shaper.py"
COMMANDS = {name for group in cli.COMMANDS.values() for name in group}

sys.path.insert(0, str(ROOT / "tools"))
import doc_tables  # noqa: E402
import docs_hooks as hooks  # noqa: E402
import paper_notes  # noqa: E402
import reliability_diagram  # noqa: E402
from doc_tables import own_parts  # noqa: E402

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def test_a_note_on_a_paper_belongs_to_the_key_that_follows_or_stands_before_it() -> None:
    source = """
# "Paper" below means the article.
#
# Deviation: all of it.
# On two lines.
#
# A remark.

[factors]
# Paper, table 2: four. Ours: one more.
link = [
  "a", # paper: not a note on a key
]
rate = 5  # open: its default
other = 6  # paper
"""
    assert paper_notes.notes(source) == [
        (paper_notes.HEAD, "", "deviation", "all of it. On two lines."),
        ("link", "", "paper", "table 2: four."),
        ("link", "", "ours", "one more."),
        ("rate", "5", "open", "its default"),
        ("other", "6", "paper", ""),
    ]


@pytest.mark.parametrize("name", papers.names())
def test_every_note_of_a_study_is_on_the_page_of_papers(name: str) -> None:
    claims = papers.claims(name.replace("/", "-"))
    source = "".join(file.read_text(encoding="utf-8") for file in (papers.find(name), claims) if file)
    found = paper_notes.all_notes(name)
    section = paper_notes.page(hooks.table).partition(f"## {name}\n")[2].partition("\n## ")[0]
    for word, state in paper_notes.STATES.items():
        own = [note for note in found if note.word == word]
        assert len(own) >= len(re.findall(rf'\b{word.capitalize()}\b[^:."\n]{{0,60}}: ', source)), word
        assert section.count(f" | {state} | ") == len(own), word


def blocks(page: Path) -> list[tuple[str, str]]:
    """(language, text) of each code block of a page."""
    return _BLOCK.findall(page.read_text(encoding="utf-8"))


def prose(page: Path) -> str:
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_no_page_has_a_merge_that_nobody_finished(page: Path) -> None:
    assert re.findall(r"^(?:<{7}|>{7}) .*|^={7}$", page.read_text(encoding="utf-8"), re.MULTILINE) == []


# Commands


def command_lines(page: Path) -> list[list[str]]:
    """The words after `lastro` of every command line that a page shows, in a block or within a sentence."""
    lines = [line for language, text in blocks(page) if language == "sh" for line in text.splitlines()]
    lines += [code for code in re.findall(r"`([^`\n]+)`", prose(page)) if re.match(r"(\w+=\S+ )*lastro ", code)]
    found = []
    for line in lines:
        plain = re.sub(r'"[^"]*"', lambda quoted: quoted[0].replace(">", "≥"), line)  # not where the output goes
        words = shlex.split(re.split(r"[|>;&]", plain)[0], comments=True)
        while words and re.fullmatch(r"\w+=.*", words[0]):
            del words[0]
        if words and words[0] == "lastro":
            found.append(words[1:])
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_line_is_one_that_lastro_takes(page: Path) -> None:
    for words in command_lines(page):
        assert words[0] in COMMANDS | {"COMMAND"}, words
        if len(words) == 1 or words[0] == "COMMAND":  # the name of a command in a sentence
            continue
        module = importlib.import_module(f"lastro.cli.{cli.module_name(words[0])}")
        parser = argparse.ArgumentParser(allow_abbrev=False)
        module.configure(parser)
        try:
            parser.parse_args(words[1:])
        except SystemExit:
            pytest.fail(f"{page.name}: lastro {shlex.join(words)}")


def test_the_search_for_command_lines_finds_them() -> None:
    found = [words for page in PAGES for words in command_lines(page)]
    assert len(found) > 40
    assert {words[0] for words in found} >= COMMANDS


def in_both_languages(name: str) -> list[str]:
    """The text of a page of docs/, and of its translation."""
    return [(ROOT / "docs" / f"{name}{language}.md").read_text(encoding="utf-8") for language in ("", ".pt-BR")]


def test_the_page_of_commands_lists_every_command_and_exit_code() -> None:
    of_commands = {
        0,
        compare.REGRESSION,
        compare.UNDECIDED,
        MANY_INVALID_TRIALS,
        verify.NOT_VERIFIED,
        *EXIT_CODES.values(),
    }
    for text in in_both_languages("reference-commands"):
        rows = re.findall(r"^\| `lastro ([\w-]+)` \|", text, re.MULTILINE)
        assert rows == [name for group in cli.COMMANDS.values() for name in group]
        codes = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
        assert codes == of_commands | {error.exit_code for error in all_errors(errors.LastroError)}


def test_the_page_of_parts_lists_every_part() -> None:
    for text in in_both_languages("reference-parts"):
        for kind in registry.KINDS:
            assert [info.name for info in own_parts(kind) if f"`{info.name}`" not in text] == []


def test_the_page_of_papers_lists_every_study() -> None:
    for text in in_both_languages("reference-papers"):
        assert [name for name in papers.names() if f"`{name}`" not in text] == []


@pytest.mark.parametrize("page", READMES, ids=lambda page: page.name)
def test_a_readme_is_read_in_minutes(page: Path) -> None:
    assert page.stat().st_size <= 12_000


def all_errors(kind: type[errors.LastroError]) -> Iterator[type[errors.LastroError]]:
    yield kind
    for sub in kind.__subclasses__():
        yield from all_errors(sub)


# Studies and the example part


@pytest.fixture
def example_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("LASTRO_PARTS", str(ROOT / "examples" / "parts"))
    registry.scan.cache_clear()
    yield
    registry.scan.cache_clear()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_study_in_a_block_loads(page: Path, example_parts: None) -> None:
    for language, text in blocks(page):
        if language == "toml" and "study" in tomllib.loads(text):
            assert parse(text, page.name, schemas()).factors


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.toml")), ids=lambda file: file.name)
def test_every_example_loads(file: Path, example_parts: None) -> None:
    assert load(file, schemas()).factors


def test_the_example_part_is_the_one_that_is_shown() -> None:
    shown = [text for page in PAGES for language, text in blocks(page) if language == "python" and "Shaper" in text]
    assert len(shown) == 5  # README and tutorial in both languages, CONTRIBUTING
    assert set(shown) == {PART.read_text(encoding="utf-8")}


def test_what_a_page_imports_is_there() -> None:
    lines = [
        line for page in PAGES for language, text in blocks(page) if language == "python" for line in text.split("\n")
    ]
    for line in filter(lambda line: line.startswith("from lastro"), lines):
        exec(compile(line, "a page", "exec"), {})


def defined_names() -> Iterator[str]:
    """Every module of Lastro and what it defines: `host.ledger`, `host.ledger.session`, `Store`, `Store.finish`."""
    source = ROOT / "src" / "lastro"
    for file in source.rglob("*.py"):
        module = ".".join(file.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        yield module
        for node in ast.parse(file.read_text()).body:
            names = [node.name] if isinstance(node, ast.ClassDef | ast.FunctionDef) else []
            yield from (f"{module}.{name}" for name in names)
            if isinstance(node, ast.ClassDef):
                yield node.name
                yield from (f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef))


def test_the_map_of_the_code_names_what_is_there() -> None:
    """Only `ExitStack` is a name of Python."""
    names = {*defined_names(), "ExitStack"}
    packages = {name.partition(".")[0] for name in names if name.islower()}
    spans = re.findall(r"(?<!`)`([^`\s]+)`", (ROOT / "docs" / "development.md").read_text())
    words = [span for span in spans if re.fullmatch(r"[A-Za-z]\w*(\.\w+)*", span) and not (ROOT / span).exists()]
    code = [word for word in words if word.partition(".")[0] in packages or re.match("[A-Z][a-z]", word)]
    assert len(code) > 50 and [word for word in code if word not in names] == []
    files = [span for span in spans if span.startswith(("tests/", "tools/")) and "TARGET" not in span]
    assert len(files) > 10 and [file for file in files if not (ROOT / file).exists()] == []


def test_the_example_part_is_found_without_an_edit(example_parts: None) -> None:
    info = registry.parts("function")["shaper"]
    assert info.cls is not None and Path(info.origin) == PART


def test_the_tutorials_study_is_the_file() -> None:
    study = (ROOT / "examples" / "shaper.toml").read_text(encoding="utf-8")
    assert ("toml", study[study.index("[study]") :]) in blocks(ROOT / "docs" / "tutorial.md")


# Links, images, the two languages


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for target in _LINK.findall(prose(page)):
        if re.match(r"\w+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_page_and_image_of_docs_is_linked() -> None:
    linked = {
        (page.parent / target.partition("#")[0]).resolve() for page in PAGES for target in _LINK.findall(prose(page))
    }
    files = [file for file in (ROOT / "docs").rglob("*") if file.is_file()]
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [file for file in files if file.resolve() not in linked and file.name not in site] == []


# The repository and its site


def test_every_page_has_its_place_in_the_site() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    placed = re.findall(r"(\S+\.md)$", nav, re.MULTILINE)
    pages = {hooks.MOVED.get(f"docs/{page.name}", page.name) for page in (ROOT / "docs").glob("*.md")}
    parts = {f"parts/{package}.md" for package in registry.KINDS.values()}
    assert sorted(placed) == sorted(pages | set(hooks.MOVED.values()) | parts | {"papers.md"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_belongs_to_an_item_of_a_list_is_indented_by_four(page: Path) -> None:
    """GitHub takes two or three spaces as well; the site would end the list there, without a warning."""
    assert re.findall(r"(?:^ {1,3}(?:[-*]|\d+\.) .*|(?<=\n\n) {1,3}\S.*)$", prose(page), re.MULTILINE) == []


def test_links_of_the_repository_become_links_of_the_site() -> None:
    text = "[a](../README.md#start) [b](../examples/x.toml) [c](howto.md) [d](https://e.org)\n```sh\n[e](../f)\n```\n"
    turned = "[a](index.md#start) [b](files/examples/x.toml) [c](howto.md) [d](https://e.org)\n```sh\n[e](../f)\n```\n"
    assert hooks.with_site_links(text, "page.md") == turned
    assert hooks.linked_files(text, "docs/page.md") == ["examples/x.toml"]


@pytest.mark.parametrize("kind", registry.KINDS)
def test_the_page_of_a_kind_has_every_part_with_its_options(kind: str) -> None:
    text = hooks.kind_page(kind)
    for info in own_parts(kind):
        section = text.partition(f"\n## {info.name}\n")[2].partition("\n## ")[0]
        assert info.summary[1:] in section
        for each in (*getattr(info.cls, "options", ()), *getattr(info.cls, "metrics", ())):
            assert f"| `{each.name}` |" in section


def test_what_names_a_version_or_a_licence_names_the_same() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    cited = dict(re.findall(r"^([\w-]+): *(.*)$", citation, re.MULTILINE))
    assert cited["version"] == __version__
    assert cited["license"] == project["license"] == "Apache-2.0"
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    licence = (ROOT / "LICENSE").read_bytes()
    assert hashlib.sha256(licence).hexdigest() == "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
    versions = re.findall(r"^## (Unreleased|\[?\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions[0] == "Unreleased" or versions[0].strip("[") == __version__


@pytest.mark.parametrize("pages", TWINS, ids=lambda pages: pages[0].name)
def test_a_translation_has_the_shape_of_its_original(pages: tuple[Path, Path]) -> None:
    shapes = [re.findall(r"^(#+) ", prose(page), re.MULTILINE) for page in pages]
    assert shapes[0] == shapes[1]
    english, portuguese = ([_without_comments(block) for block in blocks(page)] for page in pages)
    assert english == portuguese
    rows = [len(re.findall(r"^\|", prose(page), re.MULTILINE)) for page in pages]
    assert rows[0] == rows[1]
    links = [{_without_language(target) for target in _LINK.findall(prose(page))} for page in pages]
    assert links[0] == links[1]
    sections = [re.split(r"^#+ ", prose(page), flags=re.MULTILINE) for page in pages]
    for section, translated in zip(*sections, strict=True):
        assert _figures(section) == _figures(translated), section


def _figures(text: str) -> list[str]:
    """The numbers of a text, without what separates their thousands and decimals."""
    return sorted(re.sub(r"\D", "", number) for number in re.findall(r"\d+(?:[.,]\d+)*", _LINK.sub("", text)))


def _without_language(target: str) -> str:
    return target.partition("#")[0].replace(".pt-BR", "")


def _without_comments(block: tuple[str, str]) -> tuple[str, str]:
    language, text = block
    if language in ("sh", "toml"):
        text = re.sub(r"\s*#.*", "", text)
    return language, text


# Tables made from the code


@pytest.mark.parametrize("page", doc_tables.pages(), ids=lambda page: page.name)
def test_generated_tables_are_those_of_the_code(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == doc_tables.with_tables(page), "run `python tools/doc_tables.py`"


def test_every_generated_table_has_its_place() -> None:
    names = [match[1] for page in PAGES for match in doc_tables.GENERATED.findall(page.read_text(encoding="utf-8"))]
    assert sorted(names) == sorted(doc_tables.TABLES)


def test_the_reliability_diagram_is_that_of_the_table_beside_it() -> None:
    page = reliability_diagram.PAGE.read_text(encoding="utf-8")
    rows = reliability_diagram.promises(page)
    assert tuple(rows) == decision_promises.KINDS and all(list(own) == ["2", "3", "5", "10"] for own in rows.values())
    drawn = reliability_diagram.diagram(page).svg()
    assert reliability_diagram.PICTURE.read_text(encoding="utf-8") == drawn, "run `python tools/reliability_diagram.py`"
