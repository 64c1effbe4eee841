"""Each part does its thing here, small and for real: a container is started and pinged, a link carries a ping, a limit
is read back from the kernel. What cannot is reported with the reason and a remedy. Exit code 0 even then."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass

from lastro import registry
from lastro.cli._common import require_root
from lastro.platforms.base import Availability
from lastro.scenarios.base import Config
from lastro.scenarios.chain import ChainScenario


@dataclass(frozen=True, slots=True)
class Finding:
    """What a probe said of a part; `on` is the platform on which it was tried, where that matters."""

    kind: str
    name: str
    on: str
    availability: Availability


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print it as JSON, with the facts of this host")
    parser.add_argument("--wait", action="store_true", help="wait for a campaign on this host to end")


def run(args: argparse.Namespace) -> int:
    from lastro.cli._host import testbed
    from lastro.host import facts

    require_root("doctor")
    with testbed("lastro doctor", wait=args.wait) as bed:
        host_facts = facts.collect(bed.host)
        scenario = ChainScenario(bed)
        try:
            findings = examine(scenario)
        finally:
            scenario.close()
    if args.json:
        print(json.dumps({"host": host_facts, "parts": [_plain(finding) for finding in findings]}, indent=2))
    else:
        _print(findings, host_facts["host"])
    return 0


def examine(scenario: ChainScenario) -> list[Finding]:
    """Try every part: platforms alone, and the rest on the platforms where it makes a difference."""
    default: Config = {setting.name: setting.default for setting in scenario.settings}
    neutral = {**default, "attachment": "veth-direct", "isolation": "none", "function": "none", "anomaly": "none"}
    findings = [Finding("platform", name, "", scenario.pool.availability(name)) for name in registry.names("platform")]
    working = sorted(finding.name for finding in findings if finding.availability)
    for kind in ("attachment", "isolation", "function", "anomaly"):
        for name in sorted(registry.names(kind)):
            for platform in working[:1] if kind == "attachment" else working:
                config = {**neutral, "platform": platform, kind: name}
                findings.append(Finding(kind, name, platform, scenario.availability(config)))
    if "native" in working:
        click = scenario.availability({**neutral, "platform": "native", "implementation": "click"})
        findings.append(Finding("function", "in Click", "native", click))
    return sorted(findings, key=lambda finding: list(registry.KINDS).index(finding.kind))


def _plain(finding: Finding) -> dict[str, str | bool | None]:
    found = finding.availability
    return {
        "kind": finding.kind,
        "name": finding.name,
        "on": finding.on or None,
        "available": bool(found),
        "reason": found.reason,
        "remedy": found.remedy,
    }


def _print(findings: list[Finding], host: dict[str, object]) -> None:
    machine = f"{host['cpus']} CPUs ({host['cpu_model']})"
    print(f"{host['hostname']}: {host['distribution']}, kernel {host['kernel']}, {machine}")
    for kind in dict.fromkeys(finding.kind for finding in findings):
        print(f"\n{kind}:")
        rows = [finding for finding in findings if finding.kind == kind]
        for name in dict.fromkeys(finding.name for finding in rows):
            _print_part(name, [finding for finding in rows if finding.name == name])
    missing = sum(not finding.availability for finding in findings)
    print(f"\n{len(findings) - missing} of {len(findings)} probes worked here.")


def _print_part(name: str, rows: list[Finding]) -> None:
    """One line where all platforms agree; else one for each reason."""
    works = [row.on for row in rows if row.availability]
    if len(works) == len(rows):
        print(f"  ✓ {name:<16}{'on ' + ', '.join(works) if works != [''] and len(rows) > 1 else ''}".rstrip())
        return
    if works:
        print(f"  ✓ {name:<16}on {', '.join(works)}")
    for reason, remedy in dict.fromkeys((row.availability.reason, row.availability.remedy) for row in rows):
        if reason is not None:
            where = [row.on for row in rows if row.availability.reason == reason and row.on]
            print(f"  ✗ {name:<16}{'on ' + ', '.join(where) + ': ' if where else ''}{reason}")
            if remedy:
                print(f"    {'':<16}remedy: {remedy}")
