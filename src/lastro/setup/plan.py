"""Plan a setup: the missing requirements of the wanted parts, and the steps that install them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lastro.errors import HostError, NeedsRoot
from lastro.requirements import Requirements
from lastro.setup.machine import Machine
from lastro.setup.scripts import DEBIAN, RECIPES, SetupStep, apt_step, recipe_step
from lastro.setup.selection import SelectedPart

_GO_REMEDY = "install Go 1.22 or newer from go.dev/dl into /usr/local/go, then run `lastro setup {name}` again"


@dataclass(frozen=True, slots=True)
class UnmetRequirements:
    """The missing requirements of one part."""

    part: SelectedPart
    packages: frozenset[str] = frozenset()  # those that a setup can install; so can it `recipe`
    recipe: str | None = None
    reason: str | None = None  # why no step can provide the part
    remedy: str | None = None  # what the user can do about the reason

    @property
    def ready(self) -> bool:
        return not (self.packages or self.recipe or self.reason)


@dataclass(frozen=True, slots=True)
class SetupPlan:
    machine: Machine
    findings: tuple[UnmetRequirements, ...]
    packages: frozenset[str] = frozenset()
    steps: tuple[SetupStep, ...] = ()
    builds: bool = True

    @property
    def blocked(self) -> list[UnmetRequirements]:
        """The findings on parts that no step can provide."""
        return [finding for finding in self.findings if finding.reason]

    def require_feasible(self, command: str) -> None:
        """Check that this machine can run the steps. Raises: HostError without apt; NeedsRoot without root.

        `command` is the command line that the user should repeat as root; the message shows it."""
        if self.packages and not self.machine.has_apt:
            raise HostError(
                f"this host has no apt-get, so it is not Debian or Ubuntu; required: {' '.join(sorted(self.packages))}",
                "install them with the package manager of this host; `lastro doctor` then shows what works",
            )
        if self.steps and not self.machine.root:
            names = ", ".join(step.name for step in self.steps)
            raise NeedsRoot(
                f"only root can install what is missing: {names}",
                f"as root, run `{command}`; `{command} --dry-run` prints the commands",
            )


def make_plan(
    wanted: Sequence[SelectedPart], machine: Machine, sources: Mapping[str, str] | None = None, *, builds: bool = True
) -> SetupPlan:
    """Find the missing requirements, and plan one step for all packages and one step for each recipe.

    `sources` is {name of a recipe: directory of the user's source tree}.
    Without `builds`, only the step for packages is planned, which includes the packages that the recipes need."""
    findings = examine(wanted, machine)
    names = dict.fromkeys(f.recipe for f in findings if f.recipe)
    recipes = [replace(RECIPES[name], source=(sources or {}).get(name, "")) for name in names]
    for_builds = machine.missing(name for recipe in recipes for name in recipe.packages)
    optional = machine.missing(name for part in wanted for name in _optional(part.requirements, machine))
    packages = frozenset[str]().union(for_builds, optional, *(finding.packages for finding in findings))
    steps = [apt_step(packages)] if packages else []
    steps += [recipe_step(recipe, machine.prefix) for recipe in recipes if builds]
    return SetupPlan(machine, findings, packages, tuple(steps), builds)


def examine(wanted: Sequence[SelectedPart], machine: Machine) -> tuple[UnmetRequirements, ...]:
    """Return the missing requirements of each part on the machine now, in the order of `wanted`."""
    missing = machine.missing(name for part in wanted for name in part.requirements.packages)
    builds = [part.requirements for part in wanted if part.requirements.recipe and part.requirements.program]
    absent = [needs.recipe for needs in builds if not machine.has(str(needs.program))]
    go_obstacle = machine.go_obstacle() if any(RECIPES[str(name)].needs_go for name in absent) else None
    return tuple(_finding(part, machine, missing, go_obstacle) for part in wanted)


def _finding(
    part: SelectedPart, machine: Machine, missing: frozenset[str], go_obstacle: str | None
) -> UnmetRequirements:
    needs = part.requirements
    packages = missing & _needed(needs.packages, needs, machine)
    if part.broken:
        return UnmetRequirements(part, reason=f"its module cannot be imported: {part.broken}")
    if needs.program is None or machine.has(needs.program):
        return UnmetRequirements(part, packages)
    if needs.recipe is None:
        reason = f"this host has no program '{needs.program}', and Lastro does not download it"
        return UnmetRequirements(part, reason=reason, remedy=needs.remedy)
    if go_obstacle and RECIPES[needs.recipe].needs_go:
        reason = f"it is built with Go, but {go_obstacle}"
        return UnmetRequirements(part, reason=reason, remedy=_GO_REMEDY.format(name=part.name))
    return UnmetRequirements(part, packages, needs.recipe)


def _needed(packages: Iterable[str], requirements: Requirements, machine: Machine) -> frozenset[str]:
    instead = requirements.instead
    return frozenset(p for p in packages if not (p in instead and machine.has(instead[p])))


def _optional(requirements: Requirements, machine: Machine) -> frozenset[str]:
    """Return the useful optional packages: none for a part whose program Lastro can neither find nor build."""
    absent = requirements.program and not requirements.recipe and not machine.has(requirements.program)
    return frozenset() if absent else _needed(requirements.optional_packages, requirements, machine)


def missing_after_steps(
    plan: SetupPlan, wanted: Sequence[SelectedPart], failures: Mapping[str, str]
) -> tuple[UnmetRequirements, ...]:
    """Return the requirements of each part that are still missing after the steps have run, with the reasons.

    `failures` is {name of a step that failed: last line of its log}. A program that was not to be built by the plan has
    no reason."""

    findings = []
    for finding in examine(wanted, plan.machine):
        was_not_planned = finding.recipe and not finding.packages and not plan.builds
        if not (finding.ready or finding.reason or was_not_planned):
            finding = _with_reason(finding, failures)
        findings.append(finding)
    return tuple(findings)


def _with_reason(finding: UnmetRequirements, failures: Mapping[str, str]) -> UnmetRequirements:
    part, names = finding.part, " ".join(sorted(finding.packages))
    if finding.packages and DEBIAN in failures:
        return UnmetRequirements(part, reason=f"apt did not install {names}: {failures[DEBIAN]}")
    if finding.packages:
        reason = f"the package sources of this host do not have {names}"
        return UnmetRequirements(part, reason=reason, remedy="add a source that has it, or choose another part")
    reason = f"its build failed: {failures.get(str(finding.recipe), 'the build produced no program')}"
    return UnmetRequirements(part, reason=reason, remedy="fix that, and run `lastro setup` again")
