"""The testbeds of a fleet as text for a terminal, and as JSON. Pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from lastro.analysis.host_facts import AskedTestbed, GroupedTestbeds
from lastro.cli._matrix import tables

_CELL_WIDTHS = (16, 26)  # characters of a line in a cell, at least and at most
_SUMMARY = {
    "distribution": "host.distribution", "kernel": "kernel", "CPUs": "CPUs", "CPU model": "CPU model",
    "memory": "host.memory_bytes", "cgroup version": "isolation.cgroup_version", "root filesystem": "root filesystem",
}  # fmt: skip


def lines(testbeds: Sequence[AskedTestbed], grouped: GroupedTestbeds, width: int) -> Iterator[str]:
    """Yield lines: groups of equal testbeds, facts in which groups differ, common facts, and unusable testbeds."""
    n, alike = sum(map(len, grouped.groups)), ", and they are alike"
    if len(grouped.groups) > 1:
        alike = f", in {len(grouped.groups)} groups that differ"
    yield from textwrap.wrap(f"{n} of {len(testbeds)} testbeds can be used{alike if n > 1 else ''}", width)
    if len(grouped.groups) > 1:
        heads = ["testbeds", *grouped.differing]
        least, most = _CELL_WIDTHS
        room = max(least, min(most, (width - max(map(len, heads))) // 2 - 2))  # for two groups side by side
        columns = [(str(at + 1), _cells(grouped, at, room)) for at in range(len(grouped.groups))]
        *rows, _blank = tables("group", heads, columns, width)
        yield ""
        yield from rows
    paragraphs = [
        f"{', '.join(names)} share a kernel, and so CPUs: trials on them at the same time disturb each other."
        for names in grouped.sharing
    ]
    if grouped.groups:
        shown = [f"{label} {value}" for label, name in _SUMMARY.items() if (value := grouped.same.get(name))]
        more = f"{len(grouped.same) - len(shown)} other facts (--json shows them)"
        paragraphs.insert(0, f"The same on all: {'; '.join([*shown, more])}.")
    for paragraph in paragraphs:
        yield ""
        yield from textwrap.wrap(paragraph, width)
    for testbed in testbeds:
        if testbed.reason:
            yield ""
            yield from textwrap.wrap(f"✗ {testbed.name}: {testbed.reason}", width, subsequent_indent="  ")
        if testbed.remedy:
            remedy = f"remedy: {testbed.remedy}"
            yield from textwrap.wrap(remedy, width, initial_indent="  ", subsequent_indent="  ")


def _cells(grouped: GroupedTestbeds, at: int, room: int) -> list[str]:
    """Return the cells of the group of index `at`, in lines of `room` characters: its testbeds, and what differs."""
    values = [", ".join(_names(grouped.groups[at]))]
    values += [values_by_group[at] or "—" for values_by_group in grouped.differing.values()]
    # A line can break after a comma only if a space follows.
    return ["\n".join(textwrap.wrap(re.sub(r",(?=\S)", ", ", value), room)) for value in values]


def _names(group: Sequence[AskedTestbed]) -> list[str]:
    return [testbed.name for testbed in group]


def document(testbeds: Sequence[AskedTestbed], grouped: GroupedTestbeds) -> dict[str, Any]:
    """Return the groups as JSON-serializable data, with all facts of each testbed."""
    number = {testbed.name: n for n, group in enumerate(grouped.groups, 1) for testbed in group}
    return {
        "testbeds": [
            {
                "name": testbed.name, "hosts": testbed.hosts, "available": testbed.provenance is not None,
                "reason": testbed.reason, "remedy": testbed.remedy, "group": number.get(testbed.name),
                "facts": testbed.provenance,
            }
            for testbed in testbeds
        ],
        "groups": [_names(group) for group in grouped.groups],
        "differs": grouped.differing,
        "same": grouped.same,
        "share_a_kernel": grouped.sharing,
    }  # fmt: skip
