"""The facts of a host that a campaign recorded, under flat names, so that all of them can be compared. Pure.

A fact has the name of its place in the provenance, such as `kernel.mitigations.retbleed` or `tools.runc`, which
`lastro show DIR --json` prints as well. What may differ is an exception, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

# These change without any change of what is measured, or are compared under names of their own.
MAY_DIFFER = (
    "controller.*",  # the machine that Lastro runs on
    "machines",  # hashes of names
    "fleet.*",
    "guest.*",  # compared under names of their own
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
# Of these, `lastro compare` has names of its own, and the host's name says which host it is.
NAMED = ("host.hostname", "host.kernel", "host.cpu_model", "host.cpus", "root_filesystem.sha256", "lastro.version")
APPARATUS = ("lastro.*",)  # a campaign may continue with another version of Lastro
_BYTES = ("*.memory_bytes", "*.swap_bytes")


def recorded(provenance: Mapping[str, Any]) -> dict[str, str]:
    """Return {name: text} of each fact that counts and has a value."""
    found = {name: text for name, text in _flat(provenance) if text and not any_of(name, MAY_DIFFER)}
    for name in [name for name, text in found.items() if any_of(name, _BYTES) and text.isdecimal() and len(text) < 20]:
        found[name] = f"{float(found[name]) / 2**30:.2g} GiB"  # the kernel reserves a little more or less of it
    return found


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """Return {name: values} of facts that differ; None for one that is missing from a chapter that both recorded."""
    chapters = {_chapter(name) for name in before} & {_chapter(name) for name in now}
    names = [name for name in {**before, **now} if _chapter(name) in chapters]
    values = {name: (before.get(name), now.get(name)) for name in names}
    return {name: (was, is_) for name, (was, is_) in values.items() if was != is_}


def any_of(name: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a name matches one of the patterns, in which `*` stands for any text."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


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
