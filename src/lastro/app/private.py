"""Remove private words from a bundle: paths on this machine and, for anonymity, names of machines and users."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace

from lastro.analysis.host_facts import COMMAND_LINE, HOST, MACHINE_BELOW
from lastro.results.members import NAMELESS
from lastro.results.provenance import THIS_MACHINE, Provenance
from lastro.results.published_copy import Clean, with_clean_texts
from lastro.results.rows import TestbedRow
from lastro.results.segments import HostSegment

_LEAST = 3  # characters: a shorter name is not replaced everywhere, since it may occur inside other words
# {fact with private values, whose change a campaign records: the word that replaces them}.
_PRIVATE_CHANGES = {HOST: NAMELESS, MACHINE_BELOW: "hidden", COMMAND_LINE: "hidden"}
_HOME = re.compile(r"(?<![\w.-])/home/[^/\s:'\"]+")


@dataclass(frozen=True, slots=True)
class Redaction:
    """A campaign's provenance and testbeds with private words replaced; `clean` replaces these words in any text.

    `testbeds` is {name before the replacement: testbed}."""

    clean: Clean
    provenance: Provenance
    testbeds: dict[str, TestbedRow] = field(default_factory=dict)


def redact(
    provenance: Provenance,
    places: Mapping[str, str],
    *,
    anonymous: bool,
    testbeds: Sequence[TestbedRow] = (),
    segments: Sequence[HostSegment] = (),
) -> Redaction:
    """Return the provenance and the testbeds of a campaign with private words replaced, for a bundle.

    `places` is {absolute path: its replacement}. If `anonymous`, names of hosts and users are replaced wherever they
    occur, testbeds are named by numbers, and the kernel's command line and the hashes of machine IDs are removed.
    `segments` are the segments of the campaign: the changed facts of its host may have private values, too."""
    words = {place: name for place, name in places.items() if place != "/"}
    rows = {row.name: row for row in testbeds}
    if anonymous:
        for recorded in (provenance, *(row.provenance for row in testbeds)):
            words |= {name: NAMELESS for name in _names(recorded) if len(name) >= _LEAST}
        provenance = _without_identity(provenance)
        rows = {name: replace(row, provenance=_without_identity(row.provenance)) for name, row in rows.items()}
        for fact, hidden in _PRIVATE_CHANGES.items():
            for values in (segment.changes.get(fact, ()) for segment in segments):
                words |= {value: hidden for value in values if len(value) >= _LEAST}
        rows = {name: replace(row, name=f"testbed-{n}") for n, (name, row) in enumerate(rows.items(), 1)}
        words |= {name: row.name for name, row in rows.items() if len(name) >= _LEAST}
    longest_first = sorted(words, key=len, reverse=True)
    pattern = re.compile("|".join(rf"(?<![\w.-]){re.escape(word)}(?![\w-])" for word in longest_first) or r"(?!)")

    def clean(text: str) -> str:
        return _HOME.sub("~", pattern.sub(lambda match: words[match[0]], text))

    for name, row in rows.items():
        gaps = {at: (clean(reason), remedy and clean(remedy)) for at, (reason, remedy) in row.unavailable.items()}
        rows[name] = replace(row, provenance=cleaned_provenance(row.provenance, clean), unavailable=gaps)
    return Redaction(clean, cleaned_provenance(provenance, clean), rows)


def cleaned_provenance(provenance: Provenance, clean: Clean) -> Provenance:
    return Provenance.of(with_clean_texts(provenance.chapters, clean))


def _names(provenance: Provenance) -> Iterator[str]:
    """Yield the names of machines and users in a campaign's provenance, and of the user who writes the bundle."""
    roles = provenance.testbed.roles.values()
    for machine in (provenance.host, provenance.controller, *(role.machine for role in roles)):
        yield from (machine.hostname, machine.hostname.partition(".")[0])
    for role in roles:
        user, _, target = role.reached.rpartition("@")
        if target != THIS_MACHINE:
            yield from (user, target, target.partition(":")[0])
    with suppress(KeyError):
        user = pwd.getpwuid(int(os.environ.get("SUDO_UID") or os.getuid())).pw_name
        if user != "root":
            yield user


def _without_identity(provenance: Provenance) -> Provenance:
    """Return a provenance with the facts replaced or removed that identify a machine.

    This also covers names that are too short to be replaced in all texts."""
    chapters = deepcopy(dict(provenance.chapters))
    roles = chapters.get("testbed", {}).get("roles", {}).values()
    controller, kernel = chapters.get("controller", {}), chapters.get("kernel", {})
    for machine in (chapters.get("host", {}), controller, *(role.get("machine", {}) for role in roles)):
        if "hostname" in machine:
            machine["hostname"] = NAMELESS
    if "machine" in controller:
        controller["machine"] = ""
    chapters.pop("machines", None)
    if "command_line" in kernel:
        kernel["command_line"] = ""
    for role in roles:
        if role.get("reached", THIS_MACHINE) != THIS_MACHINE:
            role["reached"] = NAMELESS
    return Provenance.of(chapters)
