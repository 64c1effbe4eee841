"""Properties of parts as texts, in a terminal, as JSON, and as tables of a report."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lastro.analysis.host_facts import unnamed_facts
from lastro.builders.conditions import part_tables
from lastro.cli._matrix import property_lines, property_list
from lastro.results.provenance import Provenance
from lastro.scenarios.shared.properties import PartProperties
from lastro.scenarios.shared.property import Property, unknown
from lastro.words.language import language

FOUND = [
    PartProperties("platform", "runc", (Property("own_kernel", False, "the boot id inside is the host's"),)),
    PartProperties(
        "attachment", "ovs", (Property("members", 32, "a ping", at_least=True), *unknown(["tunnel", "x"], "no vxlan"))
    ),
]


@pytest.mark.parametrize(
    ("value", "at_least", "text"),
    [
        (None, False, "not known"), (True, False, "yes"), (False, False, "no"), (16, True, "at least 16"),
        (2, False, "2"), (0, False, "0"), (12.345, False, "12 ms"), (0.04567, False, "0.046 ms"),
    ],
)  # fmt: skip
def test_a_property_is_a_text(value: Any, at_least: bool, text: str) -> None:
    assert Property("p", value, "", at_least).text == text


def test_each_property_is_printed_with_how_it_was_found() -> None:
    assert list(property_lines(FOUND, 40)) == [
        "platform runc",
        "  own_kernel: no (the boot id inside is",
        "    the host's)",
        "attachment ovs",
        "  members: at least 32 (a ping)",
        "  tunnel, x: not known (no vxlan)",
    ]


def test_as_json_a_property_has_its_value() -> None:
    kernel, members, tunnel, _ = property_list(FOUND)
    assert kernel == {
        "kind": "platform", "part": "runc", "name": "own_kernel", "value": False,
        "how": "the boot id inside is the host's", "at_least": False, "text": "no",
    }  # fmt: skip
    assert (members["value"], members["at_least"], tunnel["value"]) == (32, True, None)


def report(properties: Any) -> Any:
    return SimpleNamespace(provenance=Provenance.of({"properties": properties}))


def test_a_report_has_a_table_for_each_kind() -> None:
    stored = {
        part.kind: {part.level: {each.name: {"text": each.text, "how": each.how} for each in part.properties}}
        for part in FOUND
    }
    platforms, links = part_tables(report(stored), language("en"))
    assert (platforms.columns, platforms.rows) == (("platform", "own_kernel"), (("runc", "no"),))
    assert (links.columns, links.rows) == (
        ("attachment", "members", "tunnel", "x"),
        (("ovs", "at least 32", "not known", "not known"),),
    )
    assert links.title == "Properties of links"
    assert unnamed_facts({"properties": stored}) == {}, "times are among them: they are no condition"
