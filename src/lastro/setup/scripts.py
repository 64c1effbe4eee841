"""The steps of `lastro setup`: their shell scripts, and their run in two lanes at the same time.

One lane has apt and the steps that wait for it, the other the Go builds."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from lastro.setup.machine import Machine
from lastro.units import human_duration

HERE = Path(__file__).parent
DEBIAN = "Debian packages"
CLICK = "click"
_GRACE_S = 10.0  # between SIGTERM and SIGKILL

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


@dataclass(frozen=True, slots=True)
class EndedStep:
    """A step that has ended."""

    step: SetupStep
    duration_s: float
    last_line: str = ""  # of its output, if it failed
    log: str = ""  # the path of its whole output, if it failed

    @property
    def failed(self) -> bool:
        return bool(self.log)


class _Lanes:
    """Lanes that run steps one after the other. The output of each step goes to a file below `logs`."""

    def __init__(self, machine: Machine, logs: Path, say: Callable[[str], None]) -> None:
        self._logs, self._say = logs, say
        self._environment = {**os.environ, "PATH": machine.path}
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock, self._stopping = threading.Lock(), False

    def lane(self, steps: Sequence[SetupStep]) -> list[EndedStep]:
        return [ended for step in steps if (ended := self._run(step)) is not None]

    def _run(self, step: SetupStep) -> EndedStep | None:
        log = self._logs / f"{step.name.replace(' ', '-').lower()}.log"
        began_s = time.monotonic()
        with log.open("wb") as output:
            with self._lock:
                if self._stopping:
                    return None
                process = subprocess.Popen(
                    ["sh", "-euc", step.script], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                    env=self._environment, start_new_session=True,
                )  # fmt: skip
                self._running.add(process)
            self._say(f"{step.name}: started")
            code = process.wait()
        with self._lock:
            self._running.discard(process)
        duration_s = time.monotonic() - began_s
        if code == 0:
            self._say(f"{step.name}: done in {human_duration(duration_s)}")
            return EndedStep(step, duration_s)
        last = last_line(log)
        if not self._stopping:
            self._say(f"{step.name}: failed after {human_duration(duration_s)}: {last}\n  the whole log: {log}")
        return EndedStep(step, duration_s, last, str(log))

    def stop(self) -> None:
        """End all running steps with their children, by SIGTERM and then SIGKILL, and start no further ones."""
        with self._lock:
            self._stopping = True
            running = list(self._running)
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in running:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
            for process in running:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_GRACE_S)


def execute(steps: Sequence[SetupStep], machine: Machine, say: Callable[[str], None]) -> list[EndedStep]:
    """Run all steps, even if one fails; return those that ran. `say` gets progress. Logs remain only of a failure."""
    logs = Path(tempfile.mkdtemp(prefix="lastro-setup-"))
    lanes = _Lanes(machine, logs, say)
    with_apt = [step for step in steps if step.name == DEBIAN or step.after_packages]
    without_apt = [step for step in steps if step not in with_apt]
    ended: list[EndedStep] = []
    try:
        with ThreadPoolExecutor(2) as pool:
            futures = [pool.submit(lanes.lane, lane) for lane in (with_apt, without_apt)]
            try:
                ended = [step for future in futures for step in future.result()]
            except BaseException:
                lanes.stop()
                raise
    finally:
        if not any(step.failed for step in ended):
            shutil.rmtree(logs, ignore_errors=True)
    return ended


def last_line(log: Path) -> str:
    """Return the last line of a log that is not blank, shortened to 300 characters."""
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")[:300]
