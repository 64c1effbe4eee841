"""The facts of a host that a campaign recorded, in a form in which they can be compared, and testbeds with equal facts.

The most important facts have names, such as "CPU model". All others are named by their dotted path in the provenance
that `lastro show DIR --json` prints, such as `kernel.mitigations.retbleed` or `tools.runc`. The patterns in
`MAY_DIFFER` match the facts that may differ between comparable hosts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from lastro.analysis.campaign import CampaignResults
from lastro.grouping import by_key
from lastro.results.members import campaigns_of_blocks
from lastro.stats.notes import N_
from lastro.study.design import Treatment

Facts = Mapping[str, str | None]

HOST = N_("host")
RANDOMIZATION = N_("address randomization")
OF_GUEST = {
    N_("release of the guest"): "guest.release",
    N_("userland of the guest"): "guest.userland_sha256",
    N_("kernel file of the guest"): "guest.kernel_sha256",
}
_NAMED = {
    HOST: "host.hostname",
    N_("kernel"): "host.kernel",
    N_("CPU model"): "host.cpu_model",
    N_("CPUs"): "host.cpus",
    N_("root filesystem"): "root_filesystem.sha256",
    "Lastro": "lastro.version",
    N_("guest"): "guest.title",
    RANDOMIZATION: "guest.address_randomization",
    **OF_GUEST,
}
USUAL = {"guest": "none", RANDOMIZATION: "on"}  # the values on a real host, for which these facts are not recorded
MACHINE = ("host", "CPU model", "CPUs", *USUAL)  # the facts by which hosts differ
# Facts that may differ without an effect on measurements.
MAY_DIFFER = (
    "controller.*",  # the machine that Lastro runs on
    "machines",  # hashes of names
    "fleet.*",
    "guest.*",  # the important facts have names
    "guests.*.guest.*",
    "testbed.file",
    "testbed.roles.*.reached",  # an address
    "testbed.roles.*.links.*",
    "testbed.roles.*.machine.hostname",
    "not_read.*",
    "*.not_told",  # the text of an error, in place of facts that are missing
    "not_told",
    "noise_floor_of",
    "properties.*",  # recorded only on request, and include times
    "cores.*",  # measured again each time if the CPU topology is not known
)
APPARATUS = ("lastro.*",)  # a campaign may continue with another version of Lastro
COMMAND_LINE = "kernel.command_line"
MACHINE_BELOW = "ID of the machine below the guest"
_BYTES = ("*.memory_bytes", "*.swap_bytes")
_OF_ONE_HOST = (HOST, "Lastro", COMMAND_LINE)  # the command line names the host's disk
_DIGEST_CHARS = 12  # the number that names of images have


def named_facts(provenance: Mapping[str, Any]) -> dict[str, str | None]:
    """Return {name: value} of the facts that have names; the value of a fact that was not recorded is None.

    All guests have the same host name, so the fact `HOST` of a guest is the name of the machine below it."""
    facts = {name: _text_at(provenance, place) or USUAL.get(name) for name, place in _NAMED.items()}
    if not provenance.get("guest"):
        return facts | dict.fromkeys(OF_GUEST, USUAL["guest"])
    below = _text_at(provenance, "controller.hostname")
    return facts | ({HOST: below} if below else {})


def unnamed_facts(provenance: Mapping[str, Any]) -> dict[str, str]:
    """Return {dotted path: text} of the facts that have no name, without those that may differ (`MAY_DIFFER`)."""
    roles = _value_at(provenance, "testbed.roles")
    addresses = {
        role: _text_at(provenance, f"testbed.roles.{role}.reached")
        for role in (roles if isinstance(roles, Mapping) else ())
    }
    # Facts of roles on the host of the device under test are also recorded as facts of that device.
    repeated = [f"testbed.roles.{role}.machine.*" for role, at in addresses.items() if at == addresses.get("dut")]
    without = (*MAY_DIFFER, *_NAMED.values(), *repeated)
    facts = {name: text for name, text in _flatten(provenance) if text and not matches_any(name, without)}
    for name, text in facts.items():
        if matches_any(name, _BYTES) and text.isdecimal() and len(text) < 20:
            facts[name] = f"{float(text) / 2**30:.2g} GiB"  # rounded, since the kernel's own part varies a little
    return facts


def differing_facts(hosts: Sequence[Facts]) -> dict[str, tuple[str | None, ...]]:
    """Return {name of a fact: its value on each host} of the facts that differ; None where a fact is missing."""
    names = dict.fromkeys(name for facts in hosts for name in facts)
    values = {name: tuple(facts.get(name) for facts in hosts) for name in names}
    return {name: of_hosts for name, of_hosts in values.items() if len(set(of_hosts)) > 1}


def changed_facts(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """Return {name of a fact: (value before, value now)} of the facts that differ; None where a fact is missing.

    Only facts whose chapter (the name up to the first dot) was recorded both times are compared."""
    chapters = {_chapter(name) for name in before} & {_chapter(name) for name in now}
    names = [name for name in {**before, **now} if _chapter(name) in chapters]
    return {name: (before.get(name), now.get(name)) for name in names if before.get(name) != now.get(name)}


def matches_any(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a name matches one of the patterns, in which `*` matches any text."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _text_at(provenance: Mapping[str, Any], place: str) -> str | None:
    value = _value_at(provenance, place)
    return None if value is None else str(value)


def _value_at(provenance: Mapping[str, Any], place: str) -> Any:
    """Return the value at a dotted path of the provenance; None if there is none."""
    value: Any = provenance
    for key in place.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _chapter(name: str) -> str:
    return name.partition(".")[0]


def _flatten(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield (dotted path, text) of every value in nested mappings."""
    if isinstance(value, Mapping):
        if "version" in value and "sha256" in value:  # a program; its path does not matter
            yield name, f"{value['version']} (SHA-256 {str(value['sha256'])[:12]})"
            return
        for key, item in value.items():
            yield from _flatten(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        yield name, ", ".join(map(str, value))
    elif value is not None:
        yield name, str(value)


# Several campaigns in one report


@dataclass(frozen=True, slots=True)
class MemberDifferences:
    """The facts in which the campaigns of a report differ, and the treatments that they have in common.

    `differing` is {fact: its value in each campaign} of the facts that have names (`named_facts`). `more`
    has the dotted paths of all other facts that differ. `links` are the treatments that several campaigns measured."""

    differing: Mapping[str, tuple[str | None, ...]]
    more: tuple[str, ...]
    links: tuple[Treatment, ...]

    @property
    def other_machine(self) -> bool:
        """True if the campaigns ran on different machines."""
        return any(fact in self.differing for fact in MACHINE)


def compare_members(report: CampaignResults) -> MemberDifferences | None:
    """Compare the campaigns of a report; None for a report of one campaign."""
    if not report.members:
        return None
    named = [named_facts(member.provenance.chapters) for member in report.members]
    if report.of_fleet:  # testbeds always have different host names
        named = [{name: value for name, value in facts.items() if name != "host"} for facts in named]
    campaign_of = campaigns_of_blocks(report.members) or {}
    measured_in: dict[int, set[int]] = {}
    for attempt in report.attempts:
        if attempt.valid:
            measured_in.setdefault(attempt.treatment, set()).add(campaign_of[attempt.block])
    links = [row.treatment for row in report.rows if len(measured_in.get(row.treatment.index, ())) > 1]
    more = differing_facts([unnamed_facts(member.provenance.chapters) for member in report.members])
    return MemberDifferences(differing_facts(named), tuple(more), tuple(links))


# The testbeds of a fleet


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
    kernels = dict.fromkeys(kernel for testbed in testbeds for kernel in sorted(testbed.kernels))
    sharing = (tuple(testbed.name for testbed in testbeds if kernel in testbed.kernels) for kernel in kernels)
    sharing_once = dict.fromkeys(names for names in sharing if len(names) > 1)
    return GroupedTestbeds(tuple(groups), same, different, tuple(sharing_once))


def comparable_facts(provenance: Mapping[str, Any]) -> Facts:
    """Return the facts of a testbed that may change its results. Names of hosts and paths are not among them."""
    facts = {**named_facts(provenance), **unnamed_facts(provenance)}
    facts["root filesystem"] = (facts["root filesystem"] or "")[:_DIGEST_CHARS] or None
    return {name: value for name, value in facts.items() if not matches_any(name, (*_OF_ONE_HOST, *APPARATUS))}
