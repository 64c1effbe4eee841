"""Every key of every kind of file that users write, with values of every type: its error is in our own words."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin

import pytest

from lastro.analysis.claims.load_printed import ClaimsFile
from lastro.errors import StudyError
from lastro.host.fleet_file import FleetShape, FleetTestbedShape
from lastro.host.testbed_file import GuestShape
from lastro.study.problems import Problems
from lastro.study.schema import StrictTable, StudyFile, read_shape

ODD: tuple[Any, ...] = (
    True, 0, -7, 1e300, "", "x", "\x1b[31m", "x" * 5000, [], [5], [[]], [{}], ["x", "x"], {}, {"x": {}}, {"": []},
    {"x": 5},
    datetime.date(2026, 1, 1),
)  # fmt: skip
# Of pydantic: its sentences, its names of validators in key paths, and its name of each member of a union.
THEIRS = re.compile(r"Input should|Field required|Value error|function-|validator|should have|\.(bool|str|int|list)\b")


def documents(model: type[StrictTable]) -> Iterator[Mapping[str, Any]]:
    """Yield for each key, and each key of the tables below it, a document with each odd value."""
    for key, field in model.model_fields.items():
        name = field.alias or key
        yield from ({name: value} for value in ODD)
        for table, wrapped in _tables(field.annotation):
            for inner in documents(table):
                yield {name: wrapped(inner)}


def _tables(annotation: Any) -> Iterator[tuple[type[StrictTable], Any]]:
    if isinstance(annotation, type) and issubclass(annotation, StrictTable):
        yield annotation, lambda inner: inner
        return
    wrap = {dict: lambda inner: {"x": inner}, list: lambda inner: [inner], tuple: lambda inner: [inner]}.get(
        get_origin(annotation) or object, lambda inner: inner
    )
    for each in get_args(annotation):
        for table, wrapped in _tables(each):
            yield table, lambda inner, wrapped=wrapped: wrap(wrapped(inner))


@pytest.mark.parametrize("model", [StudyFile, ClaimsFile, FleetShape, FleetTestbedShape, GuestShape])
def test_no_value_of_any_key_is_refused_in_the_words_of_a_library(model: type[StrictTable]) -> None:
    several = list(documents(model))
    assert len(several) >= 2 * len(ODD)
    for document in several:
        try:
            read_shape(dict(document), Problems("f.toml"), model)
        except StudyError as error:
            text = f"{error.message}\n{error.hint}"
            assert not THEIRS.search(text), (document, text)
