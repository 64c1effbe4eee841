"""Tries each part for real, on a small scale: a container is started and pinged, a link carries a ping, a limit is read
back from the kernel. A part that fails is reported with the reason and a remedy. The exit code is 0 even then.

Platforms are started first, in about half a minute; how long the parts take is then said before they are tried.

Without options, it prints a line for each platform. --all shows every part on every platform, with each reason and its
remedy; --json also has every combination of platform, attachment and isolation: it is available when its attachment
and its isolation both work on its platform.

  lastro doctor --quick                     only platforms, in half a minute; nothing while a campaign holds the host
  lastro doctor --study edge.toml           only what a study needs
  lastro doctor --testbed guest             in a virtual machine: what AppArmor, cgroup v2 and its kernel add
  lastro doctor --properties                what links and platforms can do: their own kernel, interfaces, VLANs
  lastro doctor --fleet fleet.toml          which testbeds can be used, which are alike, and how the others differ
  lastro doctor --platform runc --all       only this platform; virtual machines take seconds for each attempt"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lastro import registry
from lastro.app.rights import require_root
from lastro.app.studies import load_fleet, load_study, load_testbed
from lastro.cli._common import testbed_argument
from lastro.cli._doctor_progress import PartsToTry, ProbeProgress
from lastro.cli._matrix import ProbedPart, absent_lines, document, lines, property_lines, summary
from lastro.errors import HostBusy, HostError, InputError, LastroError, did_you_mean
from lastro.host.base import Host
from lastro.platforms.base import Availability, Platform
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.shared.pools import AttachmentPool, PlatformPool
from lastro.scenarios.shared.probes import ChainProbes
from lastro.scenarios.shared.properties import probe_properties
from lastro.study.levels import FUNCTION, NONE, hops, split_options, split_platform, written_parts
from lastro.study.model import Study

if TYPE_CHECKING:
    from lastro.testbed import Testbed

_WIDTH = 80
_TRIED = ("attachment", "isolation", "function", "anomaly")


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--platform", action="append", metavar="NAME", help="only this platform, with options if needed; repeatable")
    add("--study", metavar="STUDY", help="only the parts that a study names")
    add("--quick", action="store_true", help="only test whether an instance of each platform starts")
    add("--properties", action="store_true", help="find properties of platforms and links, instead of trying parts")
    testbed_argument(parser)
    add("--fleet", type=Path, metavar="FILE", help="compare the testbeds of a fleet file instead of trying parts")
    add("--all", action="store_true", help="show every part on every platform, with reasons and remedies")
    add("--json", action="store_true", help="print it as JSON, with facts about this host")
    add("--wait", action="store_true", help="wait for a campaign on this host to end")


def run(args: argparse.Namespace) -> int:
    from lastro.app.hosts import testbed
    from lastro.cli._guest_adds import guest_additions
    from lastro.host import facts

    if args.fleet:
        return _run_fleet(args)
    wanted = _wanted(args)
    require_root("doctor")
    file = load_testbed(args.testbed)
    if file and file.guests:
        hint = "`lastro plan STUDY --testbed FILE` tries in each guest what a study needs there"
        raise InputError(f"{file.file} has several guests, and doctor tries one", hint)
    try:
        with testbed("lastro doctor", wait=args.wait, file=file) as bed, ExitStack() as stack:
            progress = stack.enter_context(ProbeProgress(wanted))
            host = facts.collect(bed.host)
            links = AttachmentPool(bed, stack)
            pool = PlatformPool(bed, stack)
            probes = ChainProbes(bed, pool, links)
            adds = guest_additions(bed, probes, links)
            findings = examine(probes, wanted, progress)
            works = [finding.name for finding in findings if finding.kind == "platform" and finding.availability]
            properties = []
            if args.properties:
                properties = probe_properties(bed, pool, links, works, wanted.linked, progress.show_properties)
            versions = _versions(bed.host, findings) if args.json else {}
    except HostBusy as error:
        if not args.quick:
            raise
        reason = f"nothing was tried: {error.message}; use --wait to try once it is free"
        print(json.dumps({"busy": error.message}) if args.json else reason)
        return 0
    if args.json:
        guest = {**bed.guest, "adds": adds} if bed.guest else None
        print(json.dumps(document(host, guest, findings, versions, properties), indent=2))
        return 0
    _print_host(host["host"], bed, adds)
    if args.properties:
        print("\n".join([*summary(findings, _width()), "", *property_lines(properties, _width())]))
    elif args.all and not args.quick:
        print("\n".join([*lines(findings, _width()), "", *absent_lines(_width())]))
    else:
        print("\n".join(summary(findings, _width())))
        print("\n`lastro doctor --all` shows every part, with reasons and remedies")
    return 0


def _print_host(machine: Mapping[str, Any], bed: Testbed, adds: Sequence[str]) -> None:
    """Print the other hosts of the testbed, then this machine and its guest, if any.

    `adds` is what the guest has and this machine lacks."""
    for role, other in bed.others.items():
        print(f"{role}: {other.host.name} is reachable and meets the requirements")
    print(f"{machine['hostname']}: {machine['distribution']}, kernel {machine['kernel']}")
    print(f"{machine['cpus']} CPUs ({machine['cpu_model']})")
    if bed.guest:
        why_not = f"; without KVM, because {bed.guest['why_not_kvm']}" if "why_not_kvm" in bed.guest else ""
        print(f"{bed.guest['title']}{why_not}")
        print(f"what this machine lacks and the guest has: {', '.join(adds) or 'nothing'}")
    print()


def _versions(host: Host, findings: Sequence[ProbedPart]) -> dict[str, str]:
    """Return {platform: version} of the platforms that work; the version is what the platform's program prints."""
    from lastro.host import facts

    versions: dict[str, str] = {}
    for finding in findings:
        if finding.kind == "platform" and finding.availability:
            argv = registry.get(Platform, split_options(finding.name)[0]).version_argv
            with suppress(LastroError):
                versions |= {finding.name: facts.version(host, argv)} if argv else {}
    return versions


def _width() -> int:
    return min(_WIDTH, shutil.get_terminal_size((_WIDTH, 24)).columns)


def _run_fleet(args: argparse.Namespace) -> int:
    """Print a comparison of the testbeds of a fleet, and return the exit code: 3 if none of them can be used."""
    from lastro.analysis.host_facts import group_testbeds
    from lastro.app.fleets import ask
    from lastro.cli import _fleet_lines

    for option in ("platform", "study", "quick", "properties", "testbed", "all"):
        if getattr(args, option):
            hint = f"try parts on one testbed: lastro doctor --testbed FILE --{option} …"
            raise InputError(f"--fleet compares testbeds, and does not take --{option}", hint)
    fleet = load_fleet(args.fleet)
    assert fleet is not None
    if fleet.scheduler:
        message = f"{args.fleet}: `doctor` asks hosts that it reaches itself, and not the workers of a Dask scheduler"
        hint = "run `lastro doctor --json` on the host of each worker, and compare the facts: docs/reference-fleet.md"
        raise InputError(message, hint)
    require_root("doctor")
    testbeds = ask(fleet, wait=args.wait)
    groups = group_testbeds(testbeds)
    if args.json:
        print(json.dumps(_fleet_lines.document(testbeds, groups), indent=2))
    else:
        print("\n".join(_fleet_lines.lines(testbeds, groups, _width())))
    return 0 if groups.groups else HostError.exit_code


def _wanted(args: argparse.Namespace) -> PartsToTry:
    """Return the parts to try. Raises: InputError for an unknown platform; StudyError for an invalid study."""
    study = load_study(args.study) if args.study else None
    known = registry.names("platform")
    for name in (split_options(level)[0] for level in args.platform or ()):
        if name not in known:
            raise InputError(f"no platform is named '{name}'", did_you_mean(name, known))
    platforms = args.platform or sorted(known)
    if study and not args.platform:
        of_hops = [split_platform(hop)[1] for level in _levels(study, FUNCTION) for hop in hops(level)]
        platforms = [*_levels(study, "platform"), *filter(None, of_hops)]
    platforms = list(dict.fromkeys(platforms))
    if args.properties:
        linked = sorted(registry.names("attachment")) if study is None else _levels(study, "attachment")
        return PartsToTry(platforms, {}, linked)
    if args.quick:
        return PartsToTry(platforms, {})
    if study is None:
        return PartsToTry(platforms, {kind: sorted(ChainScenario.part_names(kind)) for kind in _TRIED}, in_click=True)
    parts_by_kind = {}
    for kind in _TRIED:
        names = ChainScenario.part_names(kind)
        parts = {part for level in _levels(study, kind) for part in level.split("+")}
        parts_by_kind[kind] = sorted(
            part for part in parts if names.issuperset(name for name, _ in written_parts({kind: part}, kind))
        )
    return PartsToTry(platforms, parts_by_kind)


def _levels(study: Study, kind: str) -> list[str]:
    """Return the levels of the factor `kind` of a study, or else the value of the setting `kind`; empty if neither."""
    levels = next((factor.levels for factor in study.factors if factor.name == kind), None)
    chosen = levels if levels is not None else filter(None, [study.settings.get(kind)])
    return list(map(str, chosen))


def examine(probes: ChainProbes, wanted: PartsToTry, progress: ProbeProgress) -> list[ProbedPart]:
    """Try every platform, then each wanted part on it; return the results, sorted by kind of part.

    If a platform does not start, its parts are unavailable for the same reason."""
    tries: dict[str, Callable[[str, str], Availability]] = {
        "attachment": probes.attachment,
        "isolation": probes.isolation,
        "function": probes.function,
        "anomaly": probes.anomaly,
    }
    findings = []
    for platform in wanted.platforms:
        progress.show_start(platform)
        findings.append(ProbedPart("platform", platform, platform, probes.platform(platform)))
    working = [finding.name for finding in findings if finding.availability]
    progress.show_parts(working)
    for platform in wanted.platforms:
        for kind, names in wanted.names.items():
            for name in names:
                if platform in working:
                    progress.show_part(platform, f"{kind} {name}")
                findings.append(ProbedPart(kind, name, platform, tries[kind](name, platform)))
    for platform in working[:1] if wanted.in_click else ():
        progress.show_part(platform, "functions in Click")
        findings.append(ProbedPart("function", "in Click", platform, probes.function(NONE, platform, "click")))
    return sorted(findings, key=lambda finding: list(registry.KINDS).index(finding.kind))
