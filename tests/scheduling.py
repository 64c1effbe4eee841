"""Which tests stay together on a worker, and which come first: those that would otherwise be waited for at the end."""

from __future__ import annotations

import pytest

# Longest first, as measured; the others follow in the order of their names.
DEAREST: tuple[str, ...] = ()


def scope(nodeid: str) -> str:
    """A module, whose fixtures are dear; of the contract of platforms, a platform."""
    file, _, rest = nodeid.partition("::")
    return f"{file}::{rest.partition('::')[0]}" if file == "tests/contract/test_platforms.py" else file


def by_cost(item: pytest.Item) -> int:
    """The rank of an item's scope."""
    found = scope(item.nodeid)
    return DEAREST.index(found) if found in DEAREST else len(DEAREST)
