"""A setting has one declaration, by which its value is read, so that name, type and default are written once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import lastro
from lastro.study.model import Level, Setting

PACKAGES = ("scenarios", "instruments", "anomalies", "functions", "attachments", "isolation", "meters", "campaign")
CONFIGURATIONS = {"config", "_config", "settings"}
OPTIONS = {"chosen"}  # of a part


def read_by_name(file: Path, names: set[str]) -> Iterator[str]:
    """Yield what takes a value out of a configuration by a name in quotes: `config["tcp_s"]`, `config.get("tcp_s")`."""
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Subscript(value=where, slice=ast.Constant(value=str()), ctx=ast.Load()):
                pass
            case ast.Call(func=ast.Attribute(value=where, attr="get"), args=[ast.Constant(value=str()), *_]):
                pass
            case _:
                continue
        match where:
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in names:
                yield f"{file.name}:{node.lineno}: {ast.unparse(node)}"


def test_no_setting_is_read_by_its_name() -> None:
    source = Path(lastro.__file__).parent
    files = [file for package in PACKAGES for file in (source / package).rglob("*.py")]
    assert len(files) > 100
    assert [use for file in files for use in read_by_name(file, CONFIGURATIONS)] == []
    assert [use for file in source.rglob("*.py") for use in read_by_name(file, OPTIONS)] == []


@pytest.mark.parametrize(
    ("default", "level", "value"), [(1.0, 2, 2.0), (1, 2, 2), ("a", "b", "b"), (False, True, True), (0, 3.0, 3)]
)
def test_a_value_has_the_type_of_the_default(default: Level, level: Level, value: Level) -> None:
    found = Setting("name", default, "a setting").of({"name": level})  # type: ignore[type-var]
    assert found == value and type(found) is type(default)


def test_a_setting_that_the_scenario_lacks_is_no_silent_default() -> None:
    with pytest.raises(KeyError, match="name"):
        Setting("name", 1.0, "a setting").of({"other": 2.0})
