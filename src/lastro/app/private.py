"""Remove private words from a bundle: paths on this machine and, for anonymity, names of machines and users."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from lastro.analysis.host_facts import COMMAND_LINE, HOST, MACHINE_BELOW
from lastro.results.copied import Clean, cleaned
from lastro.results.members import NAMELESS
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
    provenance: dict[str, Any]
    testbeds: dict[str, TestbedRow] = field(default_factory=dict)


def private(
    provenance: Mapping[str, Any],
    places: Mapping[str, str],
    *,
    anonymous: bool,
    testbeds: Sequence[TestbedRow] = (),
    segments: Sequence[HostSegment] = (),
) -> Redaction:
    """Return the provenance and the testbeds of a campaign with private words replaced, for a bundle.

    `places` is {absolute path: its replacement}. If `anonymous`, names of hosts and users are replaced wherever they
    occur, testbeds are named by numbers, and the kernel's command line and the hashes of machine IDs are removed.
    `segments` are those of the campaign: the changed facts of its host may have private values, too."""
    words = {place: name for place, name in places.items() if place != "/"}
    copy = deepcopy(dict(provenance))
    rows = {row.name: replace(row, provenance=deepcopy(row.provenance)) for row in testbeds}
    if anonymous:
        for recorded in (provenance, *(row.provenance for row in testbeds)):
            words |= {name: NAMELESS for name in _names(recorded) if len(name) >= _LEAST}
        for chapter in (copy, *(row.provenance for row in rows.values())):
            _hide(chapter)
        words |= _words_of_changes(segments)
        rows = {name: replace(row, name=f"testbed-{n}") for n, (name, row) in enumerate(rows.items(), 1)}
        words |= {name: row.name for name, row in rows.items() if len(name) >= _LEAST}
    clean = _cleaner(words)
    return Redaction(clean, cleaned(copy, clean), {name: _cleaned_row(row, clean) for name, row in rows.items()})


def _cleaned_row(row: TestbedRow, clean: Clean) -> TestbedRow:
    gaps = {at: (clean(reason), remedy and clean(remedy)) for at, (reason, remedy) in row.unavailable.items()}
    return replace(row, provenance=cleaned(row.provenance, clean), unavailable=gaps)


def _cleaner(words: Mapping[str, str]) -> Clean:
    longest_first = sorted(words, key=len, reverse=True)
    pattern = re.compile("|".join(rf"(?<![\w.-]){re.escape(word)}(?![\w-])" for word in longest_first) or r"(?!)")
    return lambda text: _HOME.sub("~", pattern.sub(lambda match: words[match[0]], text))


def _names(provenance: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of machines and users in a campaign's provenance, and of the user who writes the bundle."""
    for machine in _machines(provenance):
        name = str(machine.get("hostname", ""))
        yield name
        yield name.partition(".")[0]
    for role in provenance.get("testbed", {}).get("roles", {}).values():
        user, _, target = str(role.get("reached", "")).rpartition("@")
        if target != "this machine":
            yield from (user, target, target.partition(":")[0])
    with suppress(KeyError):
        user = pwd.getpwuid(int(os.environ.get("SUDO_UID") or os.getuid())).pw_name
        if user != "root":
            yield user


def _words_of_changes(segments: Sequence[HostSegment]) -> dict[str, str]:
    """Return {private value of a fact that changed between segments: the word that replaces it}."""
    return {
        word: hidden
        for name, hidden in _PRIVATE_CHANGES.items()
        for segment in segments
        for word in segment.changes.get(name, ())
        if len(word) >= _LEAST
    }


def _machines(provenance: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield provenance.get("host", {})
    yield provenance.get("controller", {})
    for role in provenance.get("testbed", {}).get("roles", {}).values():
        yield role.get("machine", {})


def _hide(provenance: dict[str, Any]) -> None:
    """Replace or remove, in place, the facts of a provenance that identify a machine.

    This also covers names that are too short to be replaced in all texts."""
    for machine in _machines(provenance):
        if isinstance(machine, dict) and "hostname" in machine:
            machine["hostname"] = NAMELESS
    if "machine" in provenance.get("controller", {}):
        provenance["controller"]["machine"] = ""
    provenance.pop("machines", None)
    if "command_line" in provenance.get("kernel", {}):
        provenance["kernel"]["command_line"] = ""
    for role in provenance.get("testbed", {}).get("roles", {}).values():
        if role.get("reached", "this machine") != "this machine":
            role["reached"] = NAMELESS
