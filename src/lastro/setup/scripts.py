"""The shell scripts of the steps of `lastro setup`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

HERE = Path(__file__).parent
DEBIAN = "Debian packages"
CLICK = "click"

# Maintainer scripts find invoke-rc.d and deb-systemd-invoke through PATH (Debian Policy, 9.3.3.2), which apt sets to
# DPkg::Path. So neither a policy-rc.d nor a temporary file is written, and a kill leaves nothing behind.
_APT = """\
# Services that come with the packages, such as a Docker daemon of the host, need not start: Lastro runs its own.
# For the scripts of the packages, the two programs that start services do nothing.
quiet={quiet}
set -f # apt knows the packages that a pattern stands for
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
apt-get update --quiet --quiet
packages=""
for package in {packages}; do
    case $(apt-cache policy "$package" | sed -n 's/^  Candidate: //p') in
    "" | "(none)") echo "not in the package sources of this host: $package" ;;
    *) packages="$packages $package" ;;
    esac
done
[ -z "$packages" ] || apt-get install --yes --quiet --quiet --no-install-recommends -o DPkg::Lock::Timeout=120 \\
    -o DPkg::Path="$quiet:/usr/sbin:/usr/bin:/sbin:/bin" $packages
"""


@dataclass(frozen=True, slots=True)
class BuildRecipe:
    """A directory of this package with a `recipe.sh`, which builds one program."""

    name: str
    packages: tuple[str, ...] = ()  # of Debian, for the build only. If there are any, the build waits for apt.
    needs_go: bool = False  # the user's Go toolchain builds it: that of Debian 12 is too old
    source: str = ""  # the user's source tree, for a program that is built from one

    def script(self, prefix: Path) -> str:
        values = {"data": HERE / self.name, "prefix": prefix, "python": sys.executable}
        values |= {"source": self.source} if self.source else {}
        given = "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in values.items())
        return given + (HERE / self.name / "recipe.sh").read_text(encoding="utf-8")


RECIPES = {
    recipe.name: recipe
    for recipe in (
        BuildRecipe("gvisor", needs_go=True),
        BuildRecipe("vegeta", needs_go=True),
        BuildRecipe("jmeter", packages=("default-jre-headless", "maven")),
        BuildRecipe(CLICK, packages=("g++", "make")),
    )
}


@dataclass(frozen=True, slots=True)
class SetupStep:
    """A script for `sh -eu`. Steps with `after_packages` wait for apt; others run at the same time as apt."""

    name: str
    script: str
    after_packages: bool = False


def apt_step(packages: Collection[str]) -> SetupStep:
    return SetupStep(DEBIAN, _APT.format(packages=shlex.join(sorted(packages)), quiet=shlex.quote(str(HERE / "quiet"))))


def recipe_step(recipe: BuildRecipe, prefix: Path) -> SetupStep:
    return SetupStep(recipe.name, recipe.script(prefix), after_packages=bool(recipe.packages))


def shell_script(command: str, path: str, steps: Sequence[SetupStep], remarks: Sequence[str]) -> str:
    """Return all steps as one script for a root shell; `remarks` become comments at its head."""
    head = dedent(
        f"""\
        #!/bin/sh
        # What `{command}` runs as root on this host. It runs the Go builds at the same time as apt.
        """
    )
    lines = [head, *(f"# {line}\n" for remark in remarks for line in remark.splitlines())]
    if not steps:
        return "".join([*lines, "# There is nothing to install.\n"])
    lines.append(f"set -eu\nexport PATH={shlex.quote(path)}\n")
    lines += [f"\n# {step.name}\n(\n{step.script})\n" for step in steps]
    return "".join(lines)
