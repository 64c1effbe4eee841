"""Each key of JSON that programs read is on a page of the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lastro.analysis.host_facts import group_testbeds
from lastro.cli import _fleet_lines, _matrix
from lastro.platforms.base import AVAILABLE, Availability

from ...support.asked_testbeds import LOST, asked

DOCS = Path(__file__).parents[3] / "docs"
PROBED = [
    _matrix.ProbedPart("platform", "runc", "runc", AVAILABLE),
    _matrix.ProbedPart("attachment", "nat", "runc", AVAILABLE),
    _matrix.ProbedPart("isolation", "seccomp", "runc", Availability("why", "what to do")),
]
DOCTOR = _matrix.document({}, {"adds": ["AppArmor"]}, PROBED, {"runc": "runc version 1.1.5"})
TESTBEDS = [asked("a"), asked("b", host__kernel="6.6"), LOST]
FLEET = _fleet_lines.document(TESTBEDS, group_testbeds(TESTBEDS))


def keys(found: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of all keys, such as parts[].name; below facts, other pages describe them."""
    if isinstance(found, list):
        for each in found:
            yield from keys(each, f"{path}[]")
    elif isinstance(found, Mapping) and path not in ("testbeds[].facts", "differs", "same"):
        for key, value in found.items():
            yield (place := f"{path}.{key}".lstrip("."))
            yield from keys(value, place)


@pytest.mark.parametrize(("page", "found"), [("howto-platforms.md", DOCTOR), ("reference-fleet.md", FLEET)])
def test_every_key_of_doctor_is_documented(page: str, found: dict[str, Any]) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    there = set(keys(found))
    assert len(there) > 9 and {key for key in there if f"`{key}`" not in text} == set()
