"""Which testbeds of a fleet are alike, and in which facts the others differ. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lastro.analysis.host_facts import APPARATUS, COMMAND_LINE, HOST, any_of, differing, named_facts, recorded
from lastro.grouping import by_key

Facts = Mapping[str, str | None]

_OF_ONE_HOST = (HOST, "Lastro", COMMAND_LINE)  # the command line names the host's disk
_DIGEST_CHARS = 12  # as in the name of an image


@dataclass(frozen=True, slots=True)
class AskedTestbed:
    """A testbed of a fleet: the provenance of its hosts, or the reason why it cannot be used, and a remedy.

    `hosts` are their addresses. `kernels` identify the running kernels of the hosts, and `machines` the hosts."""

    name: str
    hosts: tuple[str, ...]
    provenance: Mapping[str, Any] | None
    kernels: frozenset[str] = frozenset()
    machines: frozenset[str] = frozenset()
    reason: str | None = None
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class GroupedTestbeds:
    """The usable testbeds of a fleet, in groups of testbeds with the same facts; the largest group is the first.

    `differing` has the value of a fact in each group. `sharing` are testbeds whose hosts run on one kernel."""

    groups: tuple[tuple[AskedTestbed, ...], ...]
    same: Facts
    differing: Mapping[str, tuple[str | None, ...]]
    sharing: tuple[tuple[str, ...], ...]


def grouped(testbeds: Sequence[AskedTestbed]) -> GroupedTestbeds:
    """Compare the testbeds that can be used."""
    usable = ((comparable_facts(each.provenance), each) for each in testbeds if each.provenance is not None)
    by_facts = by_key((frozenset(facts.items()), testbed) for facts, testbed in usable)
    groups = sorted(map(tuple, by_facts.values()), key=len, reverse=True)
    each = [comparable_facts(group[0].provenance or {}) for group in groups]
    apart = differing(each)
    same = {name: value for name, value in (each[0] if each else {}).items() if name not in apart}
    return GroupedTestbeds(tuple(groups), same, apart, tuple(_sharing(testbeds)))


def comparable_facts(provenance: Mapping[str, Any]) -> Facts:
    """Return the facts of a testbed that may change its results. Names of hosts and paths are not among them."""
    found = {**named_facts(provenance), **recorded(provenance)}
    found["root filesystem"] = (found["root filesystem"] or "")[:_DIGEST_CHARS] or None
    return {name: value for name, value in found.items() if not any_of(name, (*_OF_ONE_HOST, *APPARATUS))}


def _sharing(testbeds: Sequence[AskedTestbed]) -> Iterator[tuple[str, ...]]:
    """Yield the testbeds that share a kernel."""
    kernels = dict.fromkeys(kernel for testbed in testbeds for kernel in sorted(testbed.kernels))
    groups = (tuple(each.name for each in testbeds if kernel in each.kernels) for kernel in kernels)
    yield from dict.fromkeys(names for names in groups if len(names) > 1)
