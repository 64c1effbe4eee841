"""Which testbeds of a fleet are alike, and in which facts the others differ. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lastro.analysis.compare import differing, facts
from lastro.units import human_bytes

Facts = Mapping[str, str | None]

_OF_HOST = {
    "distribution": "distribution", "microcode": "microcode", "governor": "CPU governor", "boost": "CPU boost",
    "smt": "SMT", "virtual_machine": "in a VM",
}  # fmt: skip
_OF_ISOLATION = {
    "cgroup_version": "cgroup version", "security_modules": "security modules", "apparmor": "AppArmor",
    "seccomp_actions": "seccomp actions",
}  # fmt: skip
_OF_ROLE = {"kernel": "kernel", "cpu_model": "CPU model", "cpus": "CPUs"}
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
    by_facts: dict[frozenset[tuple[str, str | None]], list[AskedTestbed]] = {}
    for testbed in testbeds:
        if testbed.provenance is not None:
            by_facts.setdefault(frozenset(comparable_facts(testbed.provenance).items()), []).append(testbed)
    groups = sorted(map(tuple, by_facts.values()), key=len, reverse=True)
    each = [comparable_facts(group[0].provenance or {}) for group in groups]
    apart = differing(each)
    same = {name: value for name, value in (each[0] if each else {}).items() if name not in apart}
    return GroupedTestbeds(tuple(groups), same, apart, tuple(_sharing(testbeds)))


def comparable_facts(provenance: Mapping[str, Any]) -> Facts:
    """Return the facts of a testbed that may change its results. Names of hosts and paths are not among them."""
    found = {name: value for name, value in facts(provenance).items() if name not in ("host", "Lastro")}
    found["root filesystem"] = (found["root filesystem"] or "")[:_DIGEST_CHARS] or None
    return found | {name: _shown(value) for name, value in _more_facts(provenance)}


def _shown(value: object) -> str | None:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return None if value in (None, "") else str(value)


def _more_facts(provenance: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    host = provenance["host"]
    yield from ((label, host.get(key)) for key, label in _OF_HOST.items())
    yield "memory", human_bytes(host["memory_bytes"])
    yield from ((label, provenance["isolation"].get(key)) for key, label in _OF_ISOLATION.items())
    yield "clock source", provenance["kernel"].get("clock_source")
    yield from provenance["kernel"]["mitigations"].items()
    yield from ((f"net.{name}", value) for name, value in provenance["network"].items())
    yield from ((name, tool["version"]) for name, tool in provenance["tools"].items())
    roles = provenance["testbed"]["roles"]
    for role, where in roles.items():
        yield f"CPUs of the {role}", where["cpu_set"]
        if where["reached"] != roles["dut"]["reached"] and "machine" in where:
            yield from ((f"{label} of the {role}’s host", where["machine"].get(key)) for key, label in _OF_ROLE.items())


def _sharing(testbeds: Sequence[AskedTestbed]) -> Iterator[tuple[str, ...]]:
    """Yield the testbeds that share a kernel."""
    kernels = dict.fromkeys(kernel for testbed in testbeds for kernel in sorted(testbed.kernels))
    groups = (tuple(each.name for each in testbeds if kernel in each.kernels) for kernel in kernels)
    yield from dict.fromkeys(names for names in groups if len(names) > 1)
