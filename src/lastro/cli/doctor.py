"""Tries each part for real, on a small scale: a container is started and pinged, a link carries a ping, a limit is read
back from the kernel. A part that fails is reported with the reason and a remedy. The exit code is 0 even then.

Platforms are started first, in about half a minute; how long the parts take is then said before they are tried.

Without options, it prints a line for each platform. --all shows every part on every platform, with each reason and its
remedy; --json also has every combination of platform, attachment and isolation: it is available when its attachment
and its isolation both work on its platform.

  lastro doctor --quick                     only platforms, in half a minute; nothing while a campaign holds the host
  lastro doctor --study edge.toml           only what a study needs
  lastro doctor --testbed guest             in a virtual machine: what AppArmor, cgroup v2 and its kernel add
  lastro doctor --fleet fleet.toml          which testbeds can be used, which are alike, and how the others differ
  lastro doctor --platform runc --all       only this platform; virtual machines take seconds for each attempt"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from lastro import registry
from lastro.app.rights import require_root
from lastro.app.studies import load_fleet, load_study, load_testbed
from lastro.cli._common import testbed_argument
from lastro.cli._matrix import ProbedPart, absent_lines, document, lines, summary
from lastro.errors import HostBusy, HostError, InputError, LastroError, did_you_mean
from lastro.host.base import Host
from lastro.plain import plain, unfiltered
from lastro.platforms.base import Availability
from lastro.scenarios.base import start_s
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.shared.chain_probes import ChainProbes
from lastro.scenarios.shared.pools import AttachmentPool, PlatformPool
from lastro.study.levels import NONE, split_options
from lastro.study.model import Study
from lastro.units import human_duration

_WIDTH = 80
_TRIED = ("attachment", "isolation", "function", "anomaly")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--platform", action="append", metavar="NAME", help="only this platform, with options if needed; repeatable"
    )
    parser.add_argument("--study", metavar="STUDY", help="only the parts that a study names")
    parser.add_argument("--quick", action="store_true", help="only test whether an instance of each platform starts")
    testbed_argument(parser)
    parser.add_argument(
        "--fleet", type=Path, metavar="FILE", help="compare the testbeds of a fleet file instead of trying parts"
    )
    parser.add_argument(
        "--all", action="store_true", help="show every part on every platform, with reasons and remedies"
    )
    parser.add_argument("--json", action="store_true", help="print it as JSON, with facts about this host")
    parser.add_argument("--wait", action="store_true", help="wait for a campaign on this host to end")


def run(args: argparse.Namespace) -> int:
    from lastro.app.hosts import testbed
    from lastro.cli._guest_adds import added
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
            progress = stack.enter_context(_Progress(wanted))
            host = facts.collect(bed.host)
            links = AttachmentPool(bed, stack)
            probes = ChainProbes(bed, PlatformPool(bed, stack), links)
            adds = added(bed, probes, links)
            findings = examine(probes, wanted, progress)
            versions = _versions(bed.host, findings) if args.json else {}
    except HostBusy as error:
        if not args.quick:
            raise
        reason = f"nothing was tried: {error.message}; use --wait to try once it is free"
        print(json.dumps({"busy": error.message}) if args.json else reason)
        return 0
    if args.json:
        guest = {**bed.guest, "adds": adds} if bed.guest else None
        print(json.dumps(document(host, guest, findings, versions), indent=2))
        return 0
    for role, other in bed.others.items():
        print(f"{role}: {other.host.name} is reachable and meets the requirements")
    machine = host["host"]
    print(f"{machine['hostname']}: {machine['distribution']}, kernel {machine['kernel']}")
    print(f"{machine['cpus']} CPUs ({machine['cpu_model']})")
    if bed.guest:
        why_not = f"; without KVM, because {bed.guest['why_not_kvm']}" if "why_not_kvm" in bed.guest else ""
        print(f"{bed.guest['title']}{why_not}")
        print(f"what this machine lacks and the guest has: {', '.join(adds) or 'nothing'}")
    print()
    everything = args.all and not args.quick
    print("\n".join(lines(findings, _width()) if everything else summary(findings, _width())))
    if everything:
        print("\n".join(["", *absent_lines(_width())]))
    else:
        print("\n`lastro doctor --all` shows every part, with reasons and remedies")
    return 0


def _versions(host: Host, findings: Sequence[ProbedPart]) -> dict[str, str]:
    """Return the versions of the platforms that work, as their own programs print them."""
    from lastro.host import facts

    found: dict[str, str] = {}
    for each in findings:
        if each.kind == "platform" and each.availability:
            argv = registry.get("platform", split_options(each.name)[0]).version_argv
            with suppress(LastroError):
                found |= {each.name: facts.version(host, argv)} if argv else {}
    return found


def _width() -> int:
    return min(_WIDTH, shutil.get_terminal_size((_WIDTH, 24)).columns)


def _run_fleet(args: argparse.Namespace) -> int:
    """Compare the testbeds of a fleet. Return 3 when none of them can be used."""
    from lastro.analysis.testbed_groups import grouped
    from lastro.app.fleet_check import ask
    from lastro.cli import _fleet_lines

    for option in ("platform", "study", "quick", "testbed", "all"):
        if getattr(args, option):
            hint = f"try parts on one testbed: lastro doctor --testbed FILE --{option} …"
            raise InputError(f"--fleet compares testbeds, and does not take --{option}", hint)
    fleet = load_fleet(args.fleet)
    if fleet.scheduler:
        message = f"{args.fleet}: `doctor` asks hosts that it reaches itself, and not the workers of a Dask scheduler"
        hint = "run `lastro doctor --json` on the host of each worker, and compare the facts: docs/reference-fleet.md"
        raise InputError(message, hint)
    require_root("doctor")
    testbeds = ask(fleet, wait=args.wait)
    found = grouped(testbeds)
    if args.json:
        print(json.dumps(_fleet_lines.document(testbeds, found), indent=2))
    else:
        print("\n".join(_fleet_lines.lines(testbeds, found, _width())))
    return 0 if found.groups else HostError.exit_code


@dataclass(frozen=True, slots=True)
class PartsToTry:
    """The parts to try: platforms, with their options, and the names of other parts by kind."""

    platforms: Sequence[str]
    names: Mapping[str, Sequence[str]]
    in_click: bool = False  # also try the functions' implementation in Click


def _wanted(args: argparse.Namespace) -> PartsToTry:
    """Return the parts to try. Raises: InputError when a name is not that of a platform; StudyError."""
    study = load_study(args.study) if args.study else None
    platforms = _platforms(args.platform) if args.platform or study is None else _levels(study, "platform")
    if args.quick:
        return PartsToTry(platforms, {})
    if study is None:
        return PartsToTry(platforms, {kind: sorted(ChainScenario.part_names(kind)) for kind in _TRIED}, in_click=True)
    split = {kind: [part for level in _levels(study, kind) for part in level.split("+")] for kind in _TRIED}
    return PartsToTry(
        platforms,
        {
            kind: sorted({part for part in parts if part in ChainScenario.part_names(kind)})
            for kind, parts in split.items()
        },
    )


def _levels(study: Study, kind: str) -> list[str]:
    """Return all levels of a factor, or the one setting that all treatments share."""
    levels = next((factor.levels for factor in study.factors if factor.name == kind), None)
    found = levels if levels is not None else filter(None, [study.settings.get(kind)])
    return list(map(str, found))


def _platforms(chosen: Sequence[str] | None) -> list[str]:
    """Return the platforms to try. Raises: InputError when a name is not that of a platform."""
    known = registry.names("platform")
    for level in chosen or ():
        name, _ = split_options(level)
        if name not in known:
            raise InputError(f"no platform is named '{name}'", did_you_mean(name, known))
    return list(dict.fromkeys(chosen)) if chosen else sorted(known)


def examine(probes: ChainProbes, wanted: PartsToTry, progress: _Progress) -> list[ProbedPart]:
    """Try every platform, then each wanted part on it. Where a platform does not start, its parts have its reason."""
    tries: dict[str, Callable[[str, str], Availability]] = {
        "attachment": probes.attachment,
        "isolation": probes.isolation,
        "function": probes.function,
        "anomaly": probes.anomaly,
    }
    findings = []
    for platform in wanted.platforms:
        progress.starts(platform)
        findings.append(ProbedPart("platform", platform, platform, probes.platform(platform)))
    works = [each.name for each in findings if each.availability]
    progress.goes_on(works)
    for platform in wanted.platforms:
        for kind, names in wanted.names.items():
            for name in names:
                if platform in works:
                    progress.tries(platform, f"{kind} {name}")
                findings.append(ProbedPart(kind, name, platform, tries[kind](name, platform)))
    for platform in works[:1] if wanted.in_click else ():
        progress.tries(platform, "functions in Click")
        findings.append(ProbedPart("function", "in Click", platform, probes.function(NONE, platform, "click")))
    return sorted(findings, key=lambda finding: list(registry.KINDS).index(finding.kind))


class _Progress:
    """Progress on stderr: one live line on a terminal, a line for each platform elsewhere.

    The time left is estimated from the usual start time of each platform that starts, and from the pace so far."""

    def __init__(self, wanted: PartsToTry) -> None:
        self._n_platforms, self._in_click = len(wanted.platforms), wanted.in_click
        self._n_each = sum(map(len, wanted.names.values()))
        self._each_s = {name: start_s({"platform": name}) for name in wanted.platforms}
        self._n = self._tried = 0
        self._expected_s = self._done_s = 0.0

    def __enter__(self) -> Self:
        self._live = sys.stderr.isatty()
        self._shown: set[str] = set()
        return self

    def starts(self, platform: str) -> None:
        self._tried += 1
        self._say(f"starting {platform}", f"starting {platform}", f"{self._tried}/{self._n_platforms}")

    def goes_on(self, works: Sequence[str]) -> None:
        """Say how many parts follow on the platforms that start, and how long they take."""
        self._n, self._tried = self._n_each * len(works) + self._in_click, 0
        self._expected_s = self._n_each * sum(self._each_s[name] for name in works)
        self._began_s = time.monotonic()
        if self._n_each and works:
            self._end_line()
            some = f"{len(works)} of {self._n_platforms} platforms start{'s' if len(works) == 1 else ''}"
            start = "the platform starts" if self._n_platforms == 1 else some
            parts = f"{self._n_each} parts are tried on {'it' if len(works) == 1 else 'each'}"
            print(f"{start}; {parts}, {self._time('in all')}; Ctrl-C ends it", file=sys.stderr, flush=True)

    def tries(self, platform: str, what: str) -> None:
        self._tried += 1
        self._say(f"trying {platform}: {what}", f"trying {platform}", f"{self._tried}/{self._n}, {self._time('left')}")
        self._done_s += self._each_s.get(platform, 0.0)

    def _say(self, now: str, once: str, progress: str) -> None:
        if self._live:
            line = f"{now} ({progress})"
            print(f"\r\x1b[K{plain(line)[: _WIDTH - 1]}", end="", file=unfiltered(sys.stderr), flush=True)
        elif once not in self._shown:
            print(f"{once} … ({progress})", file=sys.stderr, flush=True)
        self._shown.add(once)

    def _time(self, words: str) -> str:
        """Return the time left, at the pace so far once there is one."""
        pace = (time.monotonic() - self._began_s) / self._done_s if self._done_s else 1.0
        return f"about {human_duration(max(0.0, pace * (self._expected_s - self._done_s)))} {words}"

    def _end_line(self) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=unfiltered(sys.stderr), flush=True)

    def __exit__(self, *_: object) -> None:
        self._end_line()
