"""Every message of a report has its words in every language, with the same placeholders, and none is left over."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import jinja2.nodes
import pytest

import lastro.analysis
import lastro.builders
import lastro.figures
import lastro.render
import lastro.results.additions
import lastro.scenarios
import lastro.stats
import lastro.words
from lastro.errors import InputError
from lastro.render.html import html_environment
from lastro.render.latex import latex_environment
from lastro.words.language import ENGLISH, LANGUAGES, language, plural

WORDS, FIGURES = (Path(package.__path__[0]) for package in (lastro.words, lastro.figures))
BUILDERS, RENDER = (Path(package.__path__[0]) for package in (lastro.builders, lastro.render))
ANALYSIS, SCENARIOS = (Path(package.__path__[0]) for package in (lastro.analysis, lastro.scenarios))
ADDITIONS = Path(lastro.results.additions.__file__)
PAGES, DOCUMENTS = (sorted((RENDER / "templates").glob(f"*.{kind}.j2")) for kind in ("html", "tex"))
OTHERS = [code for code in LANGUAGES if code != "en"]


def spoken() -> set[str]:
    """Literal messages given to `say(...)`, or `say.count(n, ...)`, and those marked by `N_`, and notes of `stats`."""
    found: set[str] = set()
    folders = (WORDS, FIGURES, BUILDERS, RENDER, ANALYSIS, SCENARIOS)
    for file in (ADDITIONS, *(file for folder in folders for file in folder.rglob("*.py"))):
        found.update(_in_code(ast.parse(file.read_text())))
    for file in Path(lastro.stats.__file__).parent.glob("*.py"):
        found.update(*(messages(ast.parse(file.read_text())) for messages in (_in_notes, _in_code)))
    for environment, templates in ((html_environment(), PAGES), (latex_environment(), DOCUMENTS)):
        for template in templates:
            found.update(_in_template(environment.parse(template.read_text())))
    return found


def _in_template(tree: jinja2.nodes.Template) -> Iterator[str]:
    for call in tree.find_all(jinja2.nodes.Call):
        texts = [a.value for a in call.args if isinstance(a, jinja2.nodes.Const) and isinstance(a.value, str)]
        match call.node:
            case jinja2.nodes.Name(name="say"):
                yield from texts
            case jinja2.nodes.Getattr(node=jinja2.nodes.Name(name="say"), attr="count"):
                yield from (form for text in texts for form in (text, plural(text)))


def test_a_template_says_nothing_but_by_say() -> None:
    """Letters between tags that are no call of `say` would stay English in every language."""
    for template in PAGES:
        text = re.sub(
            r"(?s)<style>.*?</style>|{%.*?%}|{{.*?}}|{#.*?#}|<(title|code|pre)\b.*?</\1>", "", template.read_text()
        )
        left = set(re.findall(r"[^\W\d_]{2,}", re.sub(r"(?s)<[^>]*>", " ", text)))
        assert left <= {"Lastro", "UTC", "doctype"}, template.name


def _in_code(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function, literals = ast.unparse(node.func), [a.value for a in node.args if isinstance(a, ast.Constant)]
        texts = [text for text in literals if isinstance(text, str)]
        if function in ("say", "self.say", "N_"):
            yield from texts
        elif function in ("say.count", "self.say.count"):
            yield from (form for text in texts for form in (text, plural(text)))


def _in_notes(tree: ast.Module) -> Iterator[str]:
    """The constants of a module of `stats` that its notes are made of."""
    constants = {ast.unparse(s.targets[0]): ast.literal_eval(s.value) for s in tree.body if _is_text(s)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Note":
            names = {inner.id for inner in ast.walk(node.args[0]) if isinstance(inner, ast.Name)}
            yield from (constants[name] for name in names if name in constants)


def _is_text(statement: ast.stmt) -> TypeGuard[ast.Assign]:
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Constant):
        return False
    return isinstance(statement.value.value, str)


def placeholders(message: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(message) if name is not None}


@pytest.mark.parametrize("code", OTHERS)
def test_every_message_is_translated_and_no_translation_is_left_over(code: str) -> None:
    catalogue = language(code).catalogue
    assert spoken() - set(catalogue) == set(), "messages without a translation"
    assert set(catalogue) - spoken() == set(), "translations that nothing says"


@pytest.mark.parametrize("code", OTHERS)
def test_placeholders_survive_translation(code: str) -> None:
    for message, translated in language(code).catalogue.items():
        assert placeholders(message) == placeholders(translated), message


def test_numbers_take_the_marks_of_the_language() -> None:
    portuguese = language("pt-BR")
    assert portuguese.number("×0.992 [0.941, 1.046]") == "×0,992 [0,941; 1,046]"
    assert portuguese.integer(2160) == "2.160"
    assert ENGLISH.count(1, "trial") == "1 trial"
    assert ENGLISH.number("1.5") == "1.5"


def test_an_unknown_language_is_named() -> None:
    with pytest.raises(InputError, match="'pt'"):
        language("pt")
