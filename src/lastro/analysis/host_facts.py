"""The facts of a host that a campaign recorded, in a form in which they can be compared. Pure.

The most important facts have names, such as "CPU model". All others are named by their dotted path in the provenance
that `lastro show DIR --json` prints, such as `kernel.mitigations.retbleed` or `tools.runc`. The patterns in
`MAY_DIFFER` match the facts that may differ between comparable hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from lastro.stats.notes import N_

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
    without = (*MAY_DIFFER, *_NAMED.values(), *_repeated_facts(provenance))
    facts = {name: text for name, text in _flatten(provenance) if text and not matches_any(name, without)}
    for name, text in facts.items():
        if matches_any(name, _BYTES) and text.isdecimal() and len(text) < 20:
            facts[name] = f"{float(text) / 2**30:.2g} GiB"  # rounded, since the kernel's own part varies a little
    return facts


def _repeated_facts(provenance: Mapping[str, Any]) -> list[str]:
    """Return patterns for the facts of roles on the DUT's host, which are also recorded as facts of the DUT."""
    roles = _value_at(provenance, "testbed.roles")
    names = roles if isinstance(roles, Mapping) else ()
    addresses = {role: _text_at(provenance, f"testbed.roles.{role}.reached") for role in names}
    return [f"testbed.roles.{role}.machine.*" for role, address in addresses.items() if address == addresses.get("dut")]


def differing_facts(hosts: Sequence[Mapping[str, str | None]]) -> dict[str, tuple[str | None, ...]]:
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
