"""Group the testbeds of a fleet by their facts, and find those that share a kernel. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lastro.analysis.host_facts import (
    APPARATUS,
    COMMAND_LINE,
    HOST,
    differing_facts,
    matches_any,
    named_facts,
    unnamed_facts,
)
from lastro.grouping import by_key

Facts = Mapping[str, str | None]

_OF_ONE_HOST = (HOST, "Lastro", COMMAND_LINE)  # the command line names the host's disk
_DIGEST_CHARS = 12  # the number that names of images have


@dataclass(frozen=True, slots=True)
class AskedTestbed:
    """A testbed of a fleet that was asked for the facts of its hosts."""

    name: str
    hosts: tuple[str, ...]  # addresses of its hosts
    provenance: Mapping[str, Any] | None  # facts of the hosts; None if the testbed cannot be used
    kernels: frozenset[str] = frozenset()  # an identifier of each running kernel
    machines: frozenset[str] = frozenset()  # an identifier of each host
    reason: str | None = None  # why the testbed cannot be used
    remedy: str | None = None  # what to do about it


@dataclass(frozen=True, slots=True)
class GroupedTestbeds:
    """The usable testbeds of a fleet, in groups of testbeds with equal facts; the largest group is the first.

    `same` are the facts that are equal in all groups. `differing` is {other fact: its value in each group}. `sharing`
    has for each kernel that several testbeds share the names of these testbeds."""

    groups: tuple[tuple[AskedTestbed, ...], ...]
    same: Facts
    differing: Mapping[str, tuple[str | None, ...]]
    sharing: tuple[tuple[str, ...], ...]


def group_testbeds(testbeds: Sequence[AskedTestbed]) -> GroupedTestbeds:
    """Return the usable testbeds in groups with equal facts, and the names of testbeds that share a kernel."""
    usable = [testbed for testbed in testbeds if testbed.provenance is not None]
    by_facts = by_key((frozenset(comparable_facts(testbed.provenance or {}).items()), testbed) for testbed in usable)
    groups = sorted(map(tuple, by_facts.values()), key=len, reverse=True)
    facts = [comparable_facts(group[0].provenance or {}) for group in groups]
    different = differing_facts(facts)
    same = {name: value for name, value in (facts[0] if facts else {}).items() if name not in different}
    return GroupedTestbeds(tuple(groups), same, different, tuple(_sharing(testbeds)))


def comparable_facts(provenance: Mapping[str, Any]) -> Facts:
    """Return the facts of a testbed that may change its results. Names of hosts and paths are not among them."""
    facts = {**named_facts(provenance), **unnamed_facts(provenance)}
    facts["root filesystem"] = (facts["root filesystem"] or "")[:_DIGEST_CHARS] or None
    return {name: value for name, value in facts.items() if not matches_any(name, (*_OF_ONE_HOST, *APPARATUS))}


def _sharing(testbeds: Sequence[AskedTestbed]) -> Iterator[tuple[str, ...]]:
    """Yield the names of the testbeds that share a kernel, for each kernel of two testbeds or more."""
    kernels = dict.fromkeys(kernel for testbed in testbeds for kernel in sorted(testbed.kernels))
    groups = (tuple(testbed.name for testbed in testbeds if kernel in testbed.kernels) for kernel in kernels)
    yield from dict.fromkeys(names for names in groups if len(names) > 1)
