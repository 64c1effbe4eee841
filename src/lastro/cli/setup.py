"""Installs what parts require on Debian or Ubuntu: packages by apt, gVisor and vegeta by Go, JMeter by Maven.

`lastro setup click --source DIR` builds the Click modular router, on which functions can run, from a source tree.

Without PART, it installs what a first study on native, runc and docker requires. Installed software is not changed.
Parts that cannot be installed here are listed with a reason and a remedy; those named on the command line, or needed by
every study, make the exit code 3. `lastro parts` lists the names; `lastro doctor` then tries each part for real."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lastro.builders.data.encoder import pick
from lastro.errors import HostError, InputError

if TYPE_CHECKING:
    from lastro.setup.plan import SetupPlan, UnmetRequirements
    from lastro.setup.scripts import EndedStep


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("part", nargs="*", metavar="PART", help="a part to install, such as docker, vegeta or platform/gvisor")
    add("--source", metavar="DIR", help="build `click` from this source tree, which is not changed")
    add("--all", action="store_true", help="install what all parts and the tests require")
    add("--packages", action="store_true", help="install Debian packages alone, and build no program")
    add("--dry-run", action="store_true", help="only print the commands, as a shell script; no root")
    add("--json", action="store_true", help="print the outcome as JSON, progress on standard error")


def run(args: argparse.Namespace) -> None:
    from lastro.setup.machine import Machine
    from lastro.setup.plan import make_plan, missing_after_steps
    from lastro.setup.scripts import CLICK, execute, shell_script
    from lastro.setup.selection import click_source, select

    if args.all and args.part:
        raise InputError("--all cannot be combined with names of parts", "give either --all or the names")
    if args.source is not None and CLICK not in args.part:
        raise InputError("--source is for `click` alone", "name it: lastro setup click --source DIR")
    sources = {} if args.source is None else {CLICK: click_source(args.source)}
    options = [option for option, given in (("--all", args.all), ("--packages", args.packages)) if given]
    options += [*args.part, *(f"--source={tree}" for tree in sources.values())]
    command = shlex.join(["lastro", "setup", *options])
    wanted = select(args.part, everything=args.all, click_tree=bool(sources))
    plan = make_plan(wanted, Machine.this(), sources, builds=not args.packages)
    if args.dry_run:
        script = shell_script(command, plan.machine.path, plan.steps, list(map(_unmet_text, plan.blocked)))
        print(_as_json(plan, plan.findings, []) if args.json else script, end="")
        return
    plan.require_feasible(command)
    ended = execute(plan.steps, plan.machine, lambda line: print(line, file=sys.stderr if args.json else None))
    failures = {step.step.name: step.last_line for step in ended if step.failed}
    findings = missing_after_steps(plan, wanted, failures)
    print(_as_json(plan, findings, ended) if args.json else _summary(plan, findings), end="")
    not_installed = _not_installed(findings)
    if len(not_installed) == 1:
        (only,) = not_installed
        raise HostError(f"{only.part.title} cannot be installed: {only.reason}", only.remedy)
    if not_installed:
        names = ", ".join(finding.part.title for finding in not_installed)
        raise HostError(f"these cannot be installed: {names}", "the list above has a reason and a remedy for each")


def _unmet_text(finding: UnmetRequirements) -> str:
    remedy = f"\n  remedy: {finding.remedy}" if finding.remedy else ""
    return f"{finding.part.title} cannot be installed: {finding.reason}{remedy}"


def _summary(plan: SetupPlan, findings: Sequence[UnmetRequirements]) -> str:
    ready = [finding.part for finding in findings if finding.ready and finding.part.kind]
    shown = ", ".join(part.name for part in ready) if len(ready) <= 8 else f"{len(ready)} parts"
    missing = [finding for finding in findings if finding.reason]
    unbuilt = sorted({finding.recipe for finding in findings if finding.recipe and not finding.reason})
    lines = [] if plan.steps or missing else ["nothing to install"]
    lines += [f"ready: {shown}"] if ready else []
    lines += [f"left to build: {', '.join(unbuilt)}"] if unbuilt else []
    if len(not_installed := _not_installed(findings)) == 1:
        missing.remove(not_installed[0])  # it becomes the error
    return "".join(f"{line}\n" for line in [*lines, *map(_unmet_text, missing)])


def _not_installed(findings: Sequence[UnmetRequirements]) -> list[UnmetRequirements]:
    return [finding for finding in findings if finding.reason and finding.part.required]


def _as_json(plan: SetupPlan, findings: Sequence[UnmetRequirements], ended: Sequence[EndedStep]) -> str:
    by_name = {step.step.name: step for step in ended}
    parts = []
    for finding in findings:
        status = "ready" if finding.ready else "missing"
        if finding.reason:
            status = "unavailable"
        part = {"kind": finding.part.kind or None, **pick(finding.part, "name required"), "status": status}
        parts.append(part | pick(finding, "reason remedy"))
    document: dict[str, Any] = {
        "parts": parts,
        "packages": sorted(plan.packages),
        "steps": [{**pick(step, "name script"), **_outcome(by_name.get(step.name))} for step in plan.steps],
    }
    return json.dumps(document, indent=2) + "\n"


def _outcome(ended: EndedStep | None) -> dict[str, Any]:
    if ended is None:
        return {"status": "not run", "duration_s": None, "last_line": None, "log": None}
    status = {"status": "failed" if ended.failed else "done", "duration_s": round(ended.duration_s, 1)}
    return status | {"last_line": ended.last_line or None, "log": ended.log or None}
