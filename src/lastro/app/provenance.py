"""Provenance: the hosts of a campaign's trials, and the facts that must be equal for trials to be comparable."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from lastro import registry
from lastro.analysis.host_facts import APPARATUS, MACHINE_BELOW, OF_GUEST, matches_any, named_facts, unnamed_facts
from lastro.app.messages import say
from lastro.app.own_parts import parts_at
from lastro.builders.data.encoder import pick
from lastro.guest import several_guests_chapter
from lastro.host import facts
from lastro.host.local import LocalHost
from lastro.host.processors import shared_cores
from lastro.host.shell import ONLY_ROOT_CAN_CHANGE
from lastro.image import functions
from lastro.scenarios.base import Config, Scenario, platform_levels
from lastro.scenarios.shared.pools import AttachmentPool, PlatformPool
from lastro.scenarios.shared.properties import probe_properties
from lastro.study import design
from lastro.study.levels import NONE, part_level
from lastro.study.model import Study
from lastro.study.root_change import RootChange

if TYPE_CHECKING:
    from lastro.host.testbed_file import TestbedFile
    from lastro.testbed import Testbed

_OF_EACH_GUEST = ("host", "kernel", "isolation", "tools")


def provenance(study: Study, scenario: Scenario, file: TestbedFile | None = None) -> dict[str, Any]:
    """Return the provenance of a campaign at its start: facts of all hosts, the root filesystem and the tools."""
    if not scenario.needs_root:
        without_tools = facts.collect(LocalHost(), {})  # without networks and instances, no tool is used
        return {**without_tools, **_revisions(scenario), "controller": facts.controller()}
    configs = design.configurations(study)
    commands = version_commands(configs)
    with scenario.testbed.attempt():
        host_facts = facts.collect(scenario.testbed.host, commands)
        for what, why in host_facts.get("not_read", {}).items():
            say(f"not recorded: {what} of the host, since it cannot be read: {why}")
        chapters = {**host_facts, **identity(scenario), **scenario.facts(configs)}
        if guest_chapters := _guest_chapters(scenario, commands):
            chapters["guests"] = guest_chapters
        with_neighbour = any(config.get("anomaly", NONE) != NONE for config in configs)
        cores = _cores(scenario.testbed, host_facts, with_neighbour=with_neighbour)
        for change, root_scenario in scenario.roots.items():
            with root_scenario.with_its_parts(), root_scenario.testbed.attempt():
                root_facts = root_scenario.facts([config for config in configs if RootChange.of(config) == change])
            tools = {"image_tools": root_facts["image_tools"]} if "image_tools" in root_facts else {}
            chapters["root_filesystem"]["variants"][str(change)] |= tools
        if file is not None or len(scenario.roles) > 1:
            shared = scenario.testbed.shared_cpus if len(scenario.roles) > 1 else []
            chapters["testbed"] = (_roles(scenario.testbed, file) if file else {}) | {"shared_cpus": shared}
        chapters |= {"cores": cores, "controller": facts.controller()}
        return {**chapters, "machines": machines(scenario.testbed)}


def part_properties(study: Study, bed: Testbed) -> dict[str, Any]:
    """Find the properties of a study's platforms and links on a testbed.

    Return {kind: {level: {property: its text, its value, and how it was found}}}."""
    configs = design.configurations(study)
    platforms, attachments = (
        sorted({part_level(config, kind) for config in configs if kind in config})
        for kind in ("platform", "attachment")
    )
    by_kind: dict[str, Any] = {}
    with bed.attempt(), ExitStack() as stack:
        pool, links = PlatformPool(bed, stack), AttachmentPool(bed, stack)
        probed = probe_properties(
            bed, pool, links, platforms, attachments, lambda part: say(f"finding properties of {part} …")
        )
        for part in probed:
            by_kind.setdefault(part.kind, {})[part.level] = {
                property_.name: {"text": property_.text, **pick(property_, "value at_least how")}
                for property_ in part.properties
            }
    return by_kind


def provenance_of(bed: Testbed, file: TestbedFile) -> dict[str, Any]:
    """Return the chapters of provenance that do not depend on a study: the facts of the hosts of a testbed."""
    host_facts = facts.collect(bed.host, version_commands())
    chapters = {**host_facts, **_identity_of(bed), "testbed": _roles(bed, file), "cores": _cores(bed, host_facts)}
    return {**chapters, "machines": machines(bed)}


def _cores(bed: Testbed, host_facts: Mapping[str, Any], *, with_neighbour: bool = True) -> dict[str, Any]:
    """Return which CPUs of the DUT share a core, as `host.processors.shared_cores` does.

    `host_facts` are the facts of the DUT's host. If its topology does not show shared cores, a calibration measures
    them, which takes most of a second; it runs only `with_neighbour`."""
    virtual = bool(host_facts["host"]["virtual_machine"])
    return shared_cores(bed.host, bed.usable_cpus, virtual=virtual, calibrate=with_neighbour)


def machines(bed: Testbed) -> list[str]:
    """Return the fingerprint of each host of a testbed; for a guest, that of the machine on which it runs."""
    hosts = [LocalHost()] if bed.guest is not None else [host_session.host for host_session in bed.sessions]
    return [facts.fingerprint(host) for host in hosts]


def version_commands(configs: Sequence[Config] | None = None) -> dict[str, tuple[str, ...]]:
    """Return {program: command that prints its version} of common tools and of the programs of platforms.

    The platforms are those in `configs`, or all platforms if it is None. An option of a platform may also choose the
    program of another platform, as Docker's `runtime` does, or a program by its path; these are included."""
    platforms = [config for config in configs or () if "platform" in config]
    levels = {level for config in platforms for level in platform_levels(config)}
    chosen = {word for level in levels for word in re.split("[:,=]", level)}
    commands: dict[str, tuple[str, ...]] = dict(facts.TOOLS)
    for part in registry.parts("platform").values():
        argv = part.cls.version_argv if part.cls else ()
        if argv and (configs is None or chosen & {part.name, facts.program(argv)}):
            commands[facts.program(argv)] = argv
    script = f'{ONLY_ROOT_CAN_CHANGE}exec "$0" --version'
    return commands | {path: ("sh", "-c", script, path) for path in sorted(chosen) if path.startswith("/")}


def _guest_chapters(scenario: Scenario, commands: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """Return {name of a guest: its chapters that may differ between guests}; all others describe the first guest."""
    guest_chapters: dict[str, Any] = {}
    for name, guest_scenario in scenario.guests.items():
        with guest_scenario.testbed.attempt():
            guest_facts = facts.collect(guest_scenario.testbed.host, commands)
        chapters = {chapter: guest_facts[chapter] for chapter in _OF_EACH_GUEST}
        guest_chapters[name] = chapters | {"guest": dict(guest_scenario.testbed.guest or {})}
    return guest_chapters


def _roles(testbed: Testbed, file: TestbedFile) -> dict[str, Any]:
    chapter: dict[str, Any] = {"file": file.place, "roles": file.provenance()}
    for role, bed in testbed.others.items():
        chapter["roles"][role] |= {"machine": facts.machine(bed.host)["host"]} if bed.host.remote else {}
    return chapter


def identity(scenario: Scenario) -> dict[str, Any]:
    """Collect only the facts that must be equal for trials to be comparable, which takes little time."""
    if not scenario.needs_root:
        return {**facts.machine(LocalHost()), **_revisions(scenario)}
    facts_by_chapter = {**_identity_of(scenario.testbed), **_revisions(scenario)}
    if beds := {name: guest_scenario.testbed for name, guest_scenario in scenario.guests.items()}:
        machines = {name: facts.machine(bed.host)["host"] for name, bed in beds.items()}
        cpus_differ = len({guest_machine["cpus"] for guest_machine in machines.values()}) > 1
        for key in ("kernel", "cpus") if cpus_differ else ("kernel",):
            facts_by_chapter["host"][key] = ", ".join(
                f"{of_guest[key]} ({name})" for name, of_guest in machines.items()
            )
        facts_by_chapter["guest"] = several_guests_chapter({name: bed.guest or {} for name, bed in beds.items()})
    if scenario.roots:
        facts_by_chapter["root_filesystem"]["variants"] = {
            str(change): _files(root_scenario.testbed) for change, root_scenario in scenario.roots.items()
        }
    return facts_by_chapter


def _revisions(scenario: Scenario) -> dict[str, Any]:
    """Return {"parts": {revision: {folder in its repository: commit}}} for the revisions that variants choose.

    {} if no variant chooses one."""
    revisions = dict.fromkeys(change.parts for change in scenario.roots if change.parts)
    return {"parts": {revision: dict(parts_at(revision).commits) for revision in revisions}} if revisions else {}


def _identity_of(bed: Testbed) -> dict[str, Any]:
    identity_facts = facts.machine(bed.host)
    if bed.guest is not None:
        identity_facts["guest"] = dict(bed.guest)
        identity_facts["controller"] = facts.controller()  # the machine below: all guests have the same name
    files = _files(bed)
    own_functions = files.pop("functions", None)
    return {**identity_facts, "root_filesystem": files, **({"functions": own_functions} if own_functions else {})}


def _files(bed: Testbed) -> dict[str, Any]:
    """Return the facts of the root filesystem of a testbed: its digest, and the user's functions in it."""
    functions_in_image = functions.function_descriptions(bed.original)
    snapshot = bed.image.snapshot
    return {
        "sha256": bed.image.digest,
        **({"debian_snapshot": snapshot} if snapshot else {}),
        **({"functions": functions_in_image} if functions_in_image else {}),
    }


def comparable_facts(provenance: Mapping[str, Any]) -> dict[str, str]:
    """Return the facts in a provenance that must be equal for trials of two sessions or campaigns to be comparable.

    Facts without a value are left out: earlier versions recorded fewer facts. The version of Lastro is not among the
    facts, since another version may continue a campaign."""
    facts_by_name = {**named_facts(provenance), **unnamed_facts(provenance)}
    if provenance.get("guest"):
        facts_by_name[MACHINE_BELOW] = provenance.get("controller", {}).get("machine")
    left_out = ("Lastro", *APPARATUS, *(() if provenance.get("guest") else OF_GUEST))
    return {
        name: value for name, value in facts_by_name.items() if value is not None and not matches_any(name, left_out)
    }


def changed_facts(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return {fact: (before, now)} of the differences between two provenances that make trials incomparable."""
    return differences(comparable_facts(before), comparable_facts(now))


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return {fact: (before, now)} where both sides have a fact and it differs.

    A fact that only one side has, such as a program that has been installed since, does not affect trials."""
    return {name: (before[name], now[name]) for name in before if name in now and before[name] != now[name]}
