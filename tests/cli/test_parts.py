"""`lastro parts` as a user sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lastro import registry

from .conftest import lastro

WITH_OPTIONS = """
from lastro.platforms.native import Native
from lastro.study.model import Setting

class Chosen(Native):
    name = "chosen"
    summary = "has options"
    options = (
        Setting("nic", "virtio", "network card", choices=("virtio", "e1000")),
        Setting("vcpus", 1, "processors", 1, 64),
    )
"""


@pytest.mark.parametrize("kind", sorted(registry.KINDS))
def test_a_kind_by_its_singular_and_its_plural(kind: str) -> None:
    one, many = lastro("parts", kind), lastro("parts", registry.KINDS[kind])
    assert one.code == many.code == 0
    assert one.out == many.out and one.out.startswith(f"{kind}:\n")


def test_a_kind_that_is_none() -> None:
    done = lastro("parts", "platfroms")
    assert done.code == 2 and "invalid choice: 'platfroms'" in done.err


def test_options_stand_below_their_part(tmp_path: Path) -> None:
    folder = tmp_path / "platforms"
    folder.mkdir()
    (folder / "chosen.py").write_text(WITH_OPTIONS)
    env = {"LASTRO_PARTS": str(tmp_path)}
    text = lastro("parts", "platforms", env=env).out.splitlines()
    at = text.index("  chosen           has options")
    assert [line.strip() for line in text[at + 1 : at + 3]] == [
        ":nic=virtio  network card (virtio, e1000)", ":vcpus=1  processors (1 to 64)"
    ]  # fmt: skip
    assert all(line.startswith(" " * 18) for line in text[at + 1 : at + 3])
    listed = {part["name"]: part for part in lastro("parts", "--json", env=env).json}
    assert listed["openvz"]["options"] == []
    assert listed["chosen"]["options"] == [
        {
            "name": "nic", "default": "virtio", "summary": "network card", "choices": ["virtio", "e1000"],
            "minimum": None, "maximum": None,
        },
        {"name": "vcpus", "default": 1, "summary": "processors", "choices": None, "minimum": 1, "maximum": 64},
    ]  # fmt: skip
