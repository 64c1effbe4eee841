"""Each part does its thing here, small and for real: a container is started and pinged, a link carries a ping, a limit
is read back from the kernel. What cannot is reported with the reason and a remedy. Exit code 0 even then.

The tables show each attachment, isolation, function and anomaly on each platform. --json holds platform by attachment
by isolation too: a combination is available when its attachment and its isolation both work on its platform.

  lastro doctor --platform runc --platform docker   only these; virtual machines take seconds for each attempt"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from lastro import registry
from lastro.cli._common import require_root
from lastro.cli._matrix import Finding, cells, lines, parts
from lastro.cli._study import load_testbed, testbed_argument
from lastro.errors import InputError, did_you_mean
from lastro.scenarios._probes import Probes
from lastro.scenarios.base import AttachmentPool, PlatformPool
from lastro.scenarios.chain import ChainScenario
from lastro.study.levels import split_options

_WIDTH = 80
Say = Callable[[str, str], None]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--platform", action="append", metavar="NAME", help="only this platform, with options if need be; repeatable"
    )
    testbed_argument(parser)
    parser.add_argument("--json", action="store_true", help="print it as JSON, with the facts of this host")
    parser.add_argument("--wait", action="store_true", help="wait for a campaign on this host to end")


def run(args: argparse.Namespace) -> int:
    from lastro.cli._host import testbed
    from lastro.host import facts

    platforms = _platforms(args.platform)
    require_root("doctor")
    file = load_testbed(args.testbed)
    with testbed("lastro doctor", wait=args.wait, file=file) as bed, ExitStack() as stack, _Progress() as say:
        host = facts.collect(bed.host)
        findings = examine(Probes(bed, PlatformPool(bed, stack), AttachmentPool(bed, stack)), platforms, say)
    if args.json:
        print(json.dumps({"host": host, "parts": parts(findings), "matrix": cells(findings)}, indent=2))
        return 0
    for role, other in bed.others.items():
        print(f"{role}: {other.host.name} is reached, and has what Lastro needs")
    machine = host["host"]
    print(f"{machine['hostname']}: {machine['distribution']}, kernel {machine['kernel']}")
    print(f"{machine['cpus']} CPUs ({machine['cpu_model']})\n")
    print("\n".join(lines(findings, min(_WIDTH, shutil.get_terminal_size((_WIDTH, 24)).columns))))
    return 0


def _platforms(chosen: Sequence[str] | None) -> list[str]:
    """Raises: InputError for a name that is no platform's."""
    known = registry.names("platform")
    for level in chosen or ():
        name, _ = split_options(level)
        if name not in known:
            raise InputError(f"no platform is named '{name}'", did_you_mean(name, known))
    return list(dict.fromkeys(chosen)) if chosen else sorted(known)


def examine(probes: Probes, platforms: Sequence[str], say: Say) -> list[Finding]:
    """Try every part on every platform; on one that is not available, its reason is everybody's."""
    tries = {
        "attachment": probes.attachment,
        "isolation": probes.isolation,
        "function": probes.function,
        "anomaly": probes.anomaly,
    }
    findings = []
    for platform in platforms:
        say(platform, "start")
        findings.append(Finding("platform", platform, platform, probes.platform(platform)))
        for kind, attempt in tries.items():
            for name in sorted(ChainScenario.part_names(kind)):
                say(platform, f"{kind} {name}")
                findings.append(Finding(kind, name, platform, attempt(name, platform)))
    for platform in [each.name for each in findings if each.kind == "platform" and each.availability][:1]:
        say(platform, "functions in Click")
        findings.append(Finding("function", "in Click", platform, probes.function("none", platform, "click")))
    return sorted(findings, key=lambda finding: list(registry.KINDS).index(finding.kind))


class _Progress:
    """What is being tried, on stderr: one live line on a terminal, a line for each platform elsewhere."""

    def __enter__(self) -> Say:
        self._live, self._began_s = sys.stderr.isatty(), time.monotonic()
        self._told: set[str] = set()
        return self._say

    def _say(self, platform: str, what: str) -> None:
        if self._live:
            line = f"trying {platform}: {what} ({time.monotonic() - self._began_s:.0f} s)"
            print(f"\r\x1b[K{line[: _WIDTH - 1]}", end="", file=sys.stderr, flush=True)
        elif platform not in self._told:
            print(f"trying {platform} …", file=sys.stderr, flush=True)
        self._told.add(platform)

    def __exit__(self, *_: object) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
