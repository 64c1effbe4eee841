"""The facts of a host that a campaign recorded, so that all of them can be compared. Pure.

The most important ones have a name, such as "CPU model". Any other has the name of its place in the provenance, such
as `kernel.mitigations.retbleed` or `tools.runc`, which `lastro show DIR --json` prints as well. What may differ is an
exception, by name."""

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
USUAL = {"guest": "none", RANDOMIZATION: "on"}  # the facts of a host itself, which records neither
# These change without any change of what is measured.
MAY_DIFFER = (
    "controller.*",  # the machine that Lastro runs on
    "machines",  # hashes of names
    "fleet.*",
    "guest.*",  # the important ones have names
    "guests.*.guest.*",
    "testbed.file",
    "testbed.roles.*.reached",  # an address
    "testbed.roles.*.links.*",
    "testbed.roles.*.machine.hostname",
    "not_read.*",
    "*.not_told",  # an error text, and what it left out is missing
    "not_told",
    "noise_floor_of",
    "properties.*",  # only recorded when asked for, and times among them
    "cores.*",  # measured anew where the topology does not say it
)
APPARATUS = ("lastro.*",)  # a campaign may continue with another version of Lastro
COMMAND_LINE = "kernel.command_line"
MACHINE_BELOW = "ID of the machine below the guest"
_BYTES = ("*.memory_bytes", "*.swap_bytes")


def named_facts(provenance: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the facts that have names, by which two campaigns may differ; None for those not recorded.

    All guests have the same name, and in software the same CPU model. So the host of one is the machine below it."""
    found = {name: _at(provenance, place) or USUAL.get(name) for name, place in _NAMED.items()}
    if not provenance.get("guest"):
        return found | dict.fromkeys(OF_GUEST, USUAL["guest"])
    below = _at(provenance, "controller.hostname")
    return found | ({HOST: below} if below else {})


def recorded(provenance: Mapping[str, Any]) -> dict[str, str]:
    """Return {place: text} of each other fact that counts and has a value."""
    without = (*MAY_DIFFER, *_NAMED.values(), *_said_of_the_dut(provenance))
    found = {name: text for name, text in _flat(provenance) if text and not any_of(name, without)}
    for name in [name for name, text in found.items() if any_of(name, _BYTES) and text.isdecimal() and len(text) < 20]:
        found[name] = f"{float(found[name]) / 2**30:.2g} GiB"  # the kernel reserves a little more or less of it
    return found


def _said_of_the_dut(provenance: Mapping[str, Any]) -> list[str]:
    """Return the places of facts that are also those of the DUT's host, on which these roles are, too."""
    roles = _value(provenance, "testbed.roles")
    reached = {
        role: _at(provenance, f"testbed.roles.{role}.reached") for role in (roles if isinstance(roles, Mapping) else ())
    }
    return [f"testbed.roles.{role}.machine.*" for role, place in reached.items() if place == reached.get("dut")]


def differing(found: Sequence[Mapping[str, str | None]]) -> dict[str, tuple[str | None, ...]]:
    """Return the facts that are not the same everywhere, each with its values in the given order."""
    names = dict.fromkeys(name for each in found for name in each)
    values = {name: tuple(each.get(name) for each in found) for name in names}
    return {name: several for name, several in values.items() if len(set(several)) > 1}


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """Return {name: values} of facts that differ; None for one that is missing from a chapter that both recorded."""
    chapters = {_chapter(name) for name in before} & {_chapter(name) for name in now}
    names = [name for name in {**before, **now} if _chapter(name) in chapters]
    values = {name: (before.get(name), now.get(name)) for name in names}
    return {name: (was, is_) for name, (was, is_) in values.items() if was != is_}


def any_of(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a name matches one of the patterns, in which `*` stands for any text."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _at(provenance: Mapping[str, Any], place: str) -> str | None:
    value = _value(provenance, place)
    return None if value is None else str(value)


def _value(provenance: Mapping[str, Any], place: str) -> Any:
    value: Any = provenance
    for key in place.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _chapter(name: str) -> str:
    return name.partition(".")[0]


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        if "version" in value and "sha256" in value:  # a program; its path does not matter
            yield name, f"{value['version']} (SHA-256 {str(value['sha256'])[:12]})"
            return
        for key, each in value.items():
            yield from _flat(each, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        yield name, ", ".join(map(str, value))
    elif value is not None:
        yield name, str(value)
